"""`retrograde export`: stored rollouts as SFT or preference data, in TRL's formats."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from pathlib import Path

from retrograde.cli.notice import notice
from retrograde.cli.place import check_place
from retrograde.data.examples import Exporter, Wanted
from retrograde.data.stored import stored_groups
from retrograde.trainer.checkpoint import synced
from retrograde.trainer.failure import Writing
from retrograde.trainer.manifest import read_manifest

EPILOG = """\
sft           messages, and tools where there were any: for trl's SFTTrainer
preference    prompt, chosen, rejected: answers to the very same context, the best and the worst of
              each fork by the mean return of what came of them; for trl's DPOTrainer

examples:
  retrograde export runs/hop-rtpo-0 --to sft --only-success --out good.jsonl
  retrograde export runs/hop-rtpo-0 --to preference --min-reward 0.5 --out pairs.jsonl

  from datasets import load_dataset
  dataset = load_dataset("json", data_files="good.jsonl", split="train")

A run stores the first groups of each iteration; `retrograde train --keep-rollouts -1` stores all.
"""


def main(arguments: Sequence[str]) -> Callable[[], int]:
    """Check what is asked for, and return the export.

    Raises:
        ValueError: the directory holds no rollouts, or the file is there already.
    """
    asked = parser().parse_args(list(arguments))
    if asked.out.exists():
        raise ValueError(f"--out {asked.out} is there already; give another name")
    check_place(asked.out, asked.out.absolute().parent)
    damages: list[str] = []
    first = next(stored_groups(asked.run, told=damages.append), None)
    if first is None:
        why = "; ".join(damages) or "the rollouts that are stored in it are of no group"
        raise ValueError(f"{asked.run}: {why}")
    return partial(_exported, asked, _context(asked.run))


def _exported(asked: argparse.Namespace, context: str) -> int:
    exporter = Exporter(Wanted(asked.min_reward, asked.only_success, asked.min_margin))
    make = exporter.sft if asked.to == "sft" else exporter.preference
    groups, steps = 0, set[int]()
    unfinished = asked.out.with_name(f".{asked.out.name}.unfinished")
    with Writing(asked.out, "export again"):
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("w") as out:
            for stored in stored_groups(asked.run, told=notice):
                groups += 1
                steps.add(stored.step)
                for example in make(stored):
                    out.write(json.dumps(example, ensure_ascii=False) + "\n")
        synced(unfinished)
        os.replace(unfinished, asked.out)  # noqa: PTH105 - whole or not at all
    kind = "examples" if asked.to == "sft" else "pairs"
    print(f"{exporter.number} {kind} from {groups} groups of {len(steps)} iterations: {asked.out}")
    for why, number in exporter.left_out.most_common():
        if number:
            print(f"left out: {number} x {why}")
    if context != "full":
        print(
            f"note: the run's context policy is {context}: when it answered, the policy was shown "
            f"less of a conversation than is exported"
        )
    if not exporter.number:
        print("nothing was good enough; ask for less, or train longer", file=sys.stderr)
    return 0 if exporter.number else 1


def _context(run: Path) -> str:
    """What the policy was shown of what is exported, as far as that is known."""
    if not (run / "manifest.json").exists():
        return "full"
    settings = read_manifest(run)["settings"].get("environment_settings", {})
    return settings.get("context", "full")


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = argparse.ArgumentParser(
        prog="retrograde export",
        description="Turn the rollouts that a run stored into training data for other libraries.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("run", type=Path, help="a run's directory, or a file of its rollouts/")
    made.add_argument("--to", choices=("sft", "preference"), required=True, help="which format")
    made.add_argument("--out", type=Path, required=True, help="a new file, .jsonl")
    made.add_argument(
        "--min-reward", type=float, default=-inf, metavar="X",
        help="least return; for preference, of what is chosen (default: any)",
    )  # fmt: skip
    made.add_argument(
        "--min-margin", type=float, default=0.0, metavar="X",
        help="for preference, least difference to what is rejected (default: any)",
    )  # fmt: skip
    made.add_argument("--only-success", action="store_true", help="only what did its task")
    return made
