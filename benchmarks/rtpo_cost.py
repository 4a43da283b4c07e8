"""What RTPO costs over GRPO, beyond the tokens it generates and trains.

Both train the embedded policy on hop for as many turns. Time is the process's, evaluations left
out; tokens are those sampled and those trained.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Figure, main, ratio
from retrograde.cli.train import carried_out, ready, settings_from

TURNS = 6000
TARGET = 1.1


def run(algorithm: str, seed: int) -> tuple[float, float]:
    """CPU seconds and tokens of one run."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        words = ["--algorithm", algorithm, "--environment", "hop", "--max-env-steps", str(TURNS)]
        words += ["--eval-every", "0", "--eval-episodes", "1", "--seed", str(seed), "--quiet"]
        training = ready(settings_from([*words, "--out", str(out)]))
        begun = time.process_time()
        carried_out(training, lambda *_: None)
        seconds = time.process_time() - begun
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    trained = sum(
        line["tokens/trained"] * line["update/steps"] for line in lines if "update/steps" in line
    )
    return seconds, lines[-1]["tokens/generated"] + trained


def measured(asked: argparse.Namespace) -> list[Figure]:
    """One pair of runs for each repetition."""
    names = ("rtpo", "grpo")
    run(names[0], 0)
    runs = {name: [] for name in names}
    for seed in range(asked.repetitions):
        for name in names:
            runs[name].append(run(name, seed))
    per_token = {name: [s / tokens for s, tokens in found] for name, found in runs.items()}
    whole = ratio(*([s for s, _ in runs[name]] for name in names))
    tokens = ratio(*([t for _, t in runs[name]] for name in names))
    note = f"seconds {whole[0]:.2f} times GRPO's, tokens {tokens[0]:.2f} times"
    middle, lowest, highest = ratio(per_token["rtpo"], per_token["grpo"])
    return [
        Figure(
            "rtpo_cost", "embedded, hop", "seconds per token, RTPO / GRPO", middle, lowest,
            highest, TARGET, at_least=False, note=note,
        )
    ]  # fmt: skip


if __name__ == "__main__":
    main(__doc__, measured)
