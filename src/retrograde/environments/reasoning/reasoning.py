"""Puzzles of reasoning-gym, to be answered and answered again until the answer is right.

Any of its hundred data sets; each turn is a try at the whole task, and between tries the policy
is told nothing, whether it was right, or how right it was.
"""

import asyncio
import copy
import json
import random
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, Self

from retrograde.data.message import THOUGHT_CLOSES, THOUGHT_OPENS, Message, spoken
from retrograde.data.offer import Offer
from retrograde.data.tree import End
from retrograde.data.vocabulary import Vocabulary
from retrograde.environments.confined.judge import JudgeError, UnansweredError
from retrograde.environments.protocol import Forking, Observation, Split
from retrograde.environments.reasoning import countdown
from retrograde.environments.reasoning.puzzles import Puzzle, check_dataset, puzzle_of
from retrograde.environments.tasks import numbered_task

PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "countdown": {
            "min_numbers": 3,
            "max_numbers": 3,
            "max_value": 9,
            "min_target": 1,
            "max_target": 30,
            "operators": ("+", "-"),
            "shuffle": False,
        },
        "mini_sudoku": {"min_empty": 6, "max_empty": 12},
        "n_queens": {"n": 6, "min_remove": 1, "max_remove": 3},
    }
)
"""Options of data sets that are not the package's. n_queens and mini_sudoku as in REVES; countdown
small enough for the embedded policy (REVES takes the package's)."""

OPENS, CLOSES = "<answer>", "</answer>"
RULES = (
    f"Solve the task. You may first think inside {THOUGHT_OPENS} {THOUGHT_CLOSES}; then give your "
    f"answer inside {OPENS} {CLOSES}. You have {{attempts}} attempts."
)
AGAIN = "Answer again."
WRONG = f"That is not right. {AGAIN}"
SCORED = f"That scores {{score:.2f}} of 1. {AGAIN}"
MALFORMED = f"There is no answer in that. Give one inside {OPENS} {CLOSES}."
SCORES = (0.0, 0.01, 0.05)
"""Those of wrong answers in countdown."""
SCORING_SECONDS = 10.0
"""Wall clock that an answer may take to be scored."""
MOST_ATTEMPTS = 16
_ANSWER = re.compile(rf"{OPENS}(.*?){CLOSES}", re.DOTALL)


def answer_in(text: str) -> str:
    """The last answer in its tags, outside thought; without tags, all that is spoken."""
    said = spoken(text)
    tagged = _ANSWER.findall(said)
    return str(tagged[-1] if tagged else said).strip()


class ReasoningEpisode:
    """Attempts at one puzzle. There is no chance in it, so a fork needs no seed."""

    def __init__(self, task: str, puzzle: Puzzle, environment: "Reasoning") -> None:
        """Before the first attempt."""
        self.task = task
        self.puzzle = puzzle
        self.environment = environment
        self.answers: tuple[str, ...] = ()
        """Those given so far."""
        self.over = False

    def opening(self) -> tuple[Message, ...]:
        """Rules and question."""
        return (
            Message("system", self.environment.rules, lasting=True),
            Message("user", self.puzzle.question, lasting=True),
        )

    async def act(self, text: str) -> Observation:
        """Score an answer."""
        if self.over:
            raise RuntimeError(f"the episode of {self.task!r} is over: open the task again")
        answer = answer_in(text)
        self.answers = (*self.answers, answer)
        score, event = await asyncio.to_thread(self._scored, answer)
        events = (event,) if event else ()
        used, right = len(self.answers), score == 1.0
        if right or used == self.environment.attempts:
            self.over = True
            measures = (("right_first", float(right and used == 1)), ("final_score", score))
            end = End.FINISHED if right else End.TRUNCATED
            return Observation((), float(right), end, score, events, measures)
        told = self._feedback(score) if answer else MALFORMED
        return Observation((Message("user", told),), score=score, events=events)

    def _scored(self, answer: str) -> tuple[float, str]:
        """How right an answer is, and what is to be counted about it."""
        if not answer:
            return 0.0, "answer/malformed"
        try:
            return self.puzzle.score(answer, SCORING_SECONDS), ""
        except UnansweredError:
            return 0.0, "answer/timeout"
        except JudgeError:
            return 0.0, "answer/unreadable"

    def _feedback(self, score: float) -> str:
        match self.environment.feedback:
            case "none":
                return AGAIN
            case "binary":
                return WRONG
            case "score":
                return SCORED.format(score=score)

    def fork(self, seed: int) -> Self:  # noqa: ARG002 - there is no chance to draw
        """An independent copy."""
        return copy.copy(self)

    def state_key(self) -> Hashable:
        """The answers so far: what a policy that sees them does next depends on them."""
        return self.task, self.answers

    def demonstrate(self, seed: int) -> str:
        """What a teacher says who is often wrong; only countdown has one."""
        if self.environment.dataset != "countdown":
            raise LookupError(f"{self.environment.name} has no teacher")
        operators = tuple(self.environment.options.get("operators", countdown.OPERATORS))
        said = countdown.taught(self.puzzle.about, operators, random.Random(seed))
        return f"{OPENS} {said} {CLOSES}"

    async def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True)
class Reasoning:
    """Puzzles of a reasoning-gym data set; wrong answers may be revised."""

    forking = Forking.FORK
    success_return = 1.0

    dataset: str = ""
    """Name of the data set."""
    feedback: Literal["none", "binary", "score"] = "binary"
    """What is said about a wrong answer: nothing, that it is wrong, or its score. (That there is
    another turn says that it was wrong.)"""
    attempts: int = 3
    """Answers that may be given, 1 to 16."""
    config: str = ""
    """Options of the data set: `name=value,name=value`, or JSON text."""
    setting: Literal["preset", "package"] = "preset"
    """What `config` changes: this library's options for the data set, where it has any, or the
    package's own."""
    answer_tokens: int | None = None
    """Tokens an answer may take; None for what suits the data set."""
    context: Literal["full", "drop_thinking", "window", "markov"] = "full"
    """What the policy is shown of the past."""

    def __post_init__(self) -> None:
        if not 1 <= self.attempts <= MOST_ATTEMPTS:
            raise ValueError(f"attempts: got {self.attempts}, needed 1 to {MOST_ATTEMPTS}")
        if self.answer_tokens is not None and self.answer_tokens < 1:
            raise ValueError(f"answer_tokens: got {self.answer_tokens}, needed 1 or more")
        check_dataset(self.dataset, self.options)

    @property
    def name(self) -> str:
        """With the data set's."""
        return f"reasoning:{self.dataset}"

    @property
    def options(self) -> dict[str, Any]:
        """Those of the data set that are not the package's."""
        has_preset = self.setting == "preset" and self.dataset in PRESETS
        preset = dict(PRESETS[self.dataset]) if has_preset else {}
        return preset | parsed_config(self.config)

    @property
    def rules(self) -> str:
        """What the policy is told first."""
        return RULES.format(attempts=self.attempts)

    @property
    def turn_limit(self) -> int:
        """A turn for each attempt."""
        return self.attempts

    @property
    def offers(self) -> frozenset[Offer]:
        """Attempts and their scores; a right answer, if the package knows one."""
        known = frozenset({Offer.SCORES, Offer.ATTEMPTS})
        return known | {Offer.GOLD} if _knows_gold(self) else known

    @property
    def max_new_tokens(self) -> int:
        """Enough for twice the right answer, or for some thought."""
        small = self.dataset == "countdown" and self.setting == "preset"
        return self.answer_tokens or (16 if small else 512)

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The words of countdown; of no other data set."""
        if self.dataset != "countdown":
            return None
        feedback = (AGAIN, WRONG, *(SCORED.format(score=score) for score in SCORES))
        phrases = (self.rules, MALFORMED, OPENS, CLOSES, *feedback, *countdown.PHRASES)
        return Vocabulary(phrases, countdown.words(self.options))

    def size(self, split: Split) -> None:
        """Without end, though small data sets repeat themselves."""

    def task(self, split: Split, index: int) -> str:
        """The task with this index, from 0 on."""
        return numbered_task(split, index)

    def gold(self, task: str) -> str:
        """The package's own answer."""
        puzzle = self._puzzle(task)
        if puzzle.answer is None or puzzle.score(puzzle.answer.strip(), SCORING_SECONDS) < 1:
            raise LookupError(f"{self.name} does not know the right answer of task {task!r}")
        said = countdown.spaced(puzzle.answer) if self.dataset == "countdown" else puzzle.answer
        around = "\n" if "\n" in said else " "
        return f"{OPENS}{around}{said}{around}{CLOSES}"

    def _puzzle(self, task: str) -> Puzzle:
        return puzzle_of(self.dataset, json.dumps(self.options, sort_keys=True), task)

    async def open(self, task: str, seed: int) -> ReasoningEpisode:  # noqa: ARG002 - no chance
        """Start an episode."""
        return ReasoningEpisode(task, await asyncio.to_thread(self._puzzle, task), self)


@lru_cache(maxsize=256)
def _knows_gold(environment: Reasoning) -> bool:
    try:
        environment.gold(environment.task("train", 0))
    except LookupError:
        return False
    return True


def parsed_config(text: str) -> dict[str, Any]:
    """Options of a data set from `name=value,name=value` or JSON text.

    Raises:
        ValueError: it is neither.
    """
    if not text:
        return {}
    if not text.startswith("{"):
        pairs = [pair.partition("=") for pair in text.split(",")]
        if not all(name.strip() and equals for name, equals, _ in pairs):
            raise ValueError(f"config: name=value,name=value or JSON text is needed, got {text!r}")
        return {name.strip(): _value(written.strip()) for name, _, written in pairs}
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError) as cause:
        raise ValueError(f"config: {text!r} is no JSON object: {cause}") from cause


def _value(written: str) -> Any:
    try:
        return json.loads(written)
    except json.JSONDecodeError:
        return written
