"""Tasks from reasoning-gym: named puzzles in two splits that share none."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from retrograde.data.names import named
from retrograde.data.seeds import derived
from retrograde.environments.confined.judge import JUDGE, JudgeError, UnansweredError
from retrograde.environments.extras import check_extra
from retrograde.environments.tasks import parts_of_task

BLOCK = 500
"""Puzzles of one seed; a few data sets make all of them at once."""
MOST_DRAWS = 200
"""Puzzles drawn for a task until one is of its split."""
SOME = ("countdown", "n_queens", "mini_sudoku", "gsm_symbolic", "chain_sum", "zebra_puzzles")
OURS = ("seed", "size")
"""Options of every data set that are set here."""


@dataclass(frozen=True, slots=True)
class Puzzle:
    """A question, and what is known of its answer."""

    question: str
    answer: str | None
    """One that is right; None if the package gives none."""
    about: Mapping[str, Any]
    """Some metadata, for teachers."""
    place: Mapping[str, Any] = field(repr=False)
    """What the judge knows it by."""

    def score(self, text: str, seconds: float) -> float:
        """How right an answer is, in [0, 1].

        Raises:
            UnansweredError: to say so took longer than it may.
            JudgeError: the scorer cannot read the answer.
        """
        score = JUDGE.ask("score", seconds, text=text, **self.place)
        if not 0 <= score <= 1:
            raise JudgeError(f"{self.place['dataset']} scored an answer {score}, needed 0 to 1")
        return float(score)

    def is_right(self, text: str, seconds: float) -> bool:
        """Whether an answer is the same number or formula as the right one.

        Raises:
            UnansweredError: to say so took longer than it may.
            JudgeError: the answer cannot be read.
        """
        return bool(JUDGE.ask("same", seconds, gold=self.answer, text=text))


def check_dataset(dataset: str, config: Mapping[str, Any]) -> None:
    """See that reasoning-gym has a data set, and that it takes these options.

    Raises:
        MissingExtraError: it is not installed.
        ValueError: there is none of that name, or it does not take an option or its value.
    """
    check_extra("reasoning_gym", "reasoning")
    names = JUDGE.ask("names")
    if not dataset:
        raise ValueError(
            f"reasoning: the name of a data set is needed, as in reasoning:{SOME[0]}; some of the "
            f"{len(names)} are {', '.join(SOME)}"
        )
    named(dict.fromkeys(names), dataset, "reasoning-gym data set")
    for option in config:
        known = [name for name in JUDGE.ask("options", dataset=dataset) if name not in OURS]
        if option not in known:
            raise ValueError(f"config: {dataset} takes {', '.join(known)}; got {option!r}")
    try:
        puzzle_of(dataset, json.dumps(dict(config), sort_keys=True), "train-0")
    except JudgeError as cause:
        raise ValueError(f"config: {dataset} with {dict(config)}: {cause}") from cause


@lru_cache(maxsize=1 << 14)
def puzzle_of(dataset: str, config: str, task: str) -> Puzzle:
    """The puzzle of a task; which split a puzzle belongs to is a hash of it, so none is in both.

    Args:
        dataset: its name in reasoning-gym.
        config: its options, as JSON text.
        task: train-N or test-N.

    Raises:
        JudgeError: the package makes no puzzle, or none of that split, with these options.
        ValueError: there is no such task.
    """
    split, number = parts_of_task(task, f"reasoning:{dataset}")
    failure = JudgeError(f"among {MOST_DRAWS} puzzles none belongs to {split}")
    for draw in range(MOST_DRAWS):
        block, index = divmod(int(number), BLOCK)
        seed = derived("reasoning", dataset, split, block, draw) % (1 << 31)
        place: dict[str, Any] = {"dataset": dataset, "config": json.loads(config)}
        place |= {"seed": seed, "size": BLOCK, "index": index}
        try:
            made = JUDGE.ask("puzzle", **place)
        except UnansweredError:
            raise
        except JudgeError as cause:
            failure = cause
            continue
        puzzle = Puzzle(made["question"].strip(), made["answer"], made["about"], place)
        if split == ("test" if derived(_identity(puzzle)) % 2 else "train"):
            return puzzle
    raise failure


def _identity(puzzle: Puzzle) -> str:
    """What is the same in puzzles that are the same in other words."""
    if "numbers" in puzzle.about and "target" in puzzle.about:
        return json.dumps([sorted(puzzle.about["numbers"]), puzzle.about["target"]])
    return puzzle.question
