"""An update on a trie against the same update flat, and against the ceiling: the tokens saved.

(a) 8 siblings of 64 tokens on a 512-token context; (b) AT2PO trees, 10 chains and 2 rounds of 6
branches; (c) RTPO's phases, 8 siblings at each of 4 turns; (d) each turn of a 12-turn history.
On SmolLM2 (b) to (d) are a quarter as long as one would train, so that a run takes minutes; the
ceiling is of just these rows.

Flat is row by row, padded, through the model as transformers runs it, with logits at the
answers alone. The ceiling is flat tokens over distinct tokens.
"""

import argparse
import random
from collections.abc import Callable, Sequence
from functools import partial

from transformers import PreTrainedModel

from benchmarks.measure import Figure, interleaved, main, ratio
from benchmarks.models import chosen
from retrograde.backends.learner import TransformersLearner
from retrograde.backends.route import Flat
from retrograde.data.rows import Row
from retrograde.data.trie import Trie
from retrograde.losses.policy import PolicyLoss
from retrograde.schedules.update import Update

SHARE = 0.9
"""Of the ceiling that should be reached where it is at least `WORTH`."""
WORTH = 2.0
SMALL = 0.25
"""Length of (b) to (d) on a model that takes minutes."""

Ids = tuple[int, ...]
Case = list[tuple[Ids, Ids]]


def words(chance: random.Random, count: int, vocabulary: int) -> Ids:
    """Random tokens."""
    return tuple(chance.randrange(vocabulary) for _ in range(count))


def siblings(vocabulary: int, context: int = 512, answer: int = 64, count: int = 8) -> Case:
    """(a) Answers to one context."""
    chance = random.Random(0)
    shown = words(chance, context, vocabulary)
    return [(shown, words(chance, answer, vocabulary)) for _ in range(count)]


def at2po(vocabulary: int, scale: float) -> Case:
    """(b) Ten chains of four turns; twice, six turns are branched and continued to the end."""
    chance = random.Random(1)
    turn, turns = max(4, int(32 * scale)), 4
    prompt = words(chance, int(256 * scale), vocabulary)
    chains = [[words(chance, 2 * turn, vocabulary) for _ in range(turns)] for _ in range(10)]
    for _ in range(2):
        for _ in range(6):
            kept = chance.choice(chains)[: chance.randrange(turns)]
            new = [words(chance, 2 * turn, vocabulary) for _ in range(turns - len(kept))]
            chains.append(kept + new)
    rows: dict[tuple[Ids, Ids], None] = {}
    for chain in chains:
        shown = prompt
        for said in chain:  # what is said, and what is heard then
            rows[shown, said[:turn]] = None
            shown = shown + said
    return list(rows)


def phases(vocabulary: int, scale: float) -> list[Case]:
    """(c) Eight siblings at each turn, last turn first: four updates of their own."""
    chance = random.Random(2)
    step, answer = int(128 * scale), max(4, int(64 * scale))
    trunk = words(chance, 5 * step, vocabulary)
    return [
        [(trunk[: step * (t + 1)], words(chance, answer, vocabulary)) for _ in range(8)]
        for t in reversed(range(4))
    ]


def history(vocabulary: int, scale: float) -> Case:
    """(d) One growing history, each turn of it a row."""
    chance = random.Random(3)
    heard, said = int(128 * scale), max(4, int(32 * scale))
    shown = words(chance, int(256 * scale), vocabulary)
    rows: Case = []
    for _ in range(12):
        answer = words(chance, said, vocabulary)
        rows.append((shown, answer))
        shown = shown + answer + words(chance, heard, vocabulary)
    return rows


def as_rows(case: Case) -> list[Row]:
    """Rows with something to learn."""
    return [
        Row(context, action, (-1.0,) * len(action), 1.0 if i % 2 else -1.0, 0, 0, (0, 0, i, i))
        for i, (context, action) in enumerate(case)
    ]


def learner(model: PreTrainedModel, *, flat: bool) -> TransformersLearner:
    """One that moves the weights as good as not, so that every repetition is the same."""
    update = Update(learning_rate=1e-12, warmup_steps=0)
    made = TransformersLearner(model, update, pad=0, max_tokens_per_microbatch=8192)
    if flat:
        made.route = Flat(model, 0)
    return made


def taken(owner: TransformersLearner, cases: Sequence[Case]) -> None:
    """Update after update."""
    for case in cases:
        owner.step(as_rows(case), PolicyLoss())


def ceiling(cases: Sequence[Case]) -> float:
    """Flat tokens over distinct ones, those that are fed."""
    tries = [Trie.of([context + action[:-1] for context, action in case]) for case in cases]
    return sum(t.flat_tokens for t in tries) / sum(len(t.ids_N) for t in tries)


def measured(asked: argparse.Namespace) -> list[Figure]:
    """Every case on every model."""
    found: list[Figure] = []
    for name, model in chosen(quick=asked.quick).items():
        vocabulary = model.config.vocab_size
        scale = 1.0 if name == "embedded" else SMALL
        every = {
            "a siblings": [siblings(vocabulary)],
            "b at2po": [at2po(vocabulary, scale)],
            "c rtpo phases": phases(vocabulary, scale),
            "d history": [history(vocabulary, scale)],
        }
        owners = {kind: learner(model, flat=kind == "flat") for kind in ("trie", "flat")}
        for case, cases in every.items():
            calls: dict[str, Callable[[], None]] = {
                kind: partial(taken, owner, cases) for kind, owner in owners.items()
            }
            seconds = interleaved(calls, asked.repetitions)
            most = ceiling(cases)
            middle, lowest, highest = ratio(seconds["flat"], seconds["trie"])
            asked_for = name != "embedded" and most >= WORTH
            target = SHARE * most if asked_for else None
            found.append(
                Figure(
                    "tree_training", f"{name}, {case}", "flat / trie", middle, lowest, highest,
                    target, note=f"ceiling {most:.2f}: {middle / most:.0%} of it",
                )
            )  # fmt: skip
        chance = random.Random(4)
        alone = [[(words(chance, 96, vocabulary), words(chance, 16, vocabulary)) for _ in range(8)]]
        seconds = interleaved(
            {kind: partial(taken, owner, alone) for kind, owner in owners.items()},
            asked.repetitions,
        )
        found.append(
            Figure(
                "tree_training", f"{name}, nothing shared", "flat / trie",
                *ratio(seconds["flat"], seconds["trie"]), 1.0, note="ceiling 1.00",
            )
        )  # fmt: skip
    return found


if __name__ == "__main__":
    main(__doc__, measured)
