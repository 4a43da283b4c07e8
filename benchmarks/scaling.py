"""Seconds and peak memory of an update as turns, siblings and trees grow.

Embedded policy; a turn is 24 tokens heard and 8 said, 8 siblings fork at every turn of a trunk of
4 turns unless that is what grows. Seconds are held against distinct tokens: a slope of 1 is
linear. Memory is held against itself at few trees.
"""

import argparse
import math
import random
import statistics

from benchmarks.measure import Figure, interleaved, main
from benchmarks.memory import peak
from benchmarks.models import embedded
from benchmarks.tree_training import Case, learner, taken, words
from retrograde.data.trie import Trie

HEARD, SAID = 24, 8
STEEPEST = 1.1
FLATTEST = 1.1
AXES: dict[str, tuple[int, ...]] = {
    "turns": (2, 4, 8, 16, 32),
    "siblings": (2, 4, 8, 16, 32),
    "trees": (1, 4, 16, 64),
}
USUAL = {"turns": 4, "siblings": 8, "trees": 1}


def case_of(vocabulary: int, *, turns: int, siblings: int, trees: int) -> Case:
    """Siblings at every turn of some trunks."""
    chance = random.Random(0)
    rows: Case = []
    for _ in range(trees):
        shown = words(chance, HEARD, vocabulary)
        for _ in range(turns):
            rows += [(shown, words(chance, SAID, vocabulary)) for _ in range(siblings)]
            shown = shown + rows[-1][1] + words(chance, HEARD, vocabulary)
    return rows


def slope(xs: list[float], ys: list[float]) -> float:
    """Of the straight line through the logarithms."""
    logs = [math.log(x) for x in xs], [math.log(y) for y in ys]
    return statistics.linear_regression(*logs).slope


def measured(asked: argparse.Namespace) -> list[Figure]:
    """Each axis on its own."""
    model = embedded()
    owner = learner(model, flat=False)
    found: list[Figure] = []
    for axis, values in AXES.items():
        cases = {v: case_of(model.config.vocab_size, **(USUAL | {axis: v})) for v in values}
        calls = {str(v): (lambda case=case: taken(owner, [case])) for v, case in cases.items()}
        seconds = interleaved(calls, asked.repetitions)
        tokens = [
            float(len(Trie.of([c + a[:-1] for c, a in case]).ids_N)) for case in cases.values()
        ]
        slopes = [
            slope(tokens, [seconds[str(v)][r] for v in values]) for r in range(asked.repetitions)
        ]
        middle = statistics.median(slopes)
        note = ", ".join(
            f"{v}: {t:.0f} tokens {statistics.median(seconds[str(v)]) * 1e3:.0f} ms"
            for v, t in zip(values, tokens, strict=True)
        )
        found.append(
            Figure(
                "scaling", f"seconds, {axis}", "slope over distinct tokens", middle, min(slopes),
                max(slopes), STEEPEST, at_least=False, note=note,
            )
        )  # fmt: skip
    shape = {"layers": 2, "vocabulary": 4096, "context": 256, "action": 16, "siblings": 8}
    few, many = (peak("trie", **shape, trees=trees, most=1024) for trees in (4, 64))
    found.append(
        Figure(
            "scaling", "peak memory, trees", "64 trees / 4 trees", many / few, many / few,
            many / few, FLATTEST, at_least=False,
            note=f"{few / 2**20:.0f} and {many / 2**20:.0f} MiB, microbatches of 1,024 tokens",
        )
    )  # fmt: skip
    return found


if __name__ == "__main__":
    main(__doc__, measured)
