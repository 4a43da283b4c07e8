"""Maths problems with a Python interpreter at hand, and an answer that is checked by its value.

The problems are reasoning-gym's. Code runs in a sandbox, in a process of its own for each call;
`sandbox` and `confinement` say what holds it.
"""

import asyncio
import copy
import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal, Self

from retrograde.data.message import THOUGHT_CLOSES, THOUGHT_OPENS, ContextPolicy, Message, spoken
from retrograde.data.offer import Offer
from retrograde.data.seeds import derived
from retrograde.data.tree import End
from retrograde.environments.confined.confinement import EVERY_WALL, NO_WALL, Limits
from retrograde.environments.confined.judge import JudgeError, UnansweredError
from retrograde.environments.confined.sandbox import Ending, Execution, Sandbox, check_walls
from retrograde.environments.extras import check_extra
from retrograde.environments.protocol import Forking, Observation, Split
from retrograde.environments.reasoning.puzzles import Puzzle, check_dataset, puzzle_of
from retrograde.environments.tasks import numbered_task, parts_of_task

DATASETS = "gsm_symbolic,chain_sum,basic_arithmetic,simple_equations,polynomial_multiplication"
RULES = (
    f"Solve the problem. You may first think inside {THOUGHT_OPENS} {THOUGHT_CLOSES}. Then do one "
    "of two things. Run Python: <python>print(6 * 7)</python>; what it prints comes back inside "
    "<output> </output>, and each run starts anew. Or give the final answer: <answer>42</answer>. "
    "You have {turns} turns."
)
MALFORMED = "Neither <python>code</python> nor <answer>answer</answer> was found in that."
CHECKING_SECONDS = 10.0
"""Wall clock that checking an answer may take."""
MOST_TURNS = 32
_TAGGED = re.compile(r"<(python|answer)>(.*?)</\1>", re.DOTALL)
_FENCE = re.compile(r"\s*```(?:python|py)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL)
_STOPPED = {
    Ending.TIME: "[stopped: it took too long]",
    Ending.OUTPUT: "[stopped: it printed too much]",
    Ending.KILLED: "[stopped by the system]",
}


@dataclass(frozen=True, slots=True)
class Said:
    """What the policy's words ask for; nothing, if they mean nothing."""

    code: str | None = None
    answer: str | None = None

    @classmethod
    def of(cls, text: str) -> Self:
        """Read the first tag outside thought that is closed; without one, a boxed answer."""
        said = spoken(text)
        tagged = _TAGGED.search(said)
        if tagged is None:
            return cls(answer=said) if r"\boxed{" in said else cls()
        kind, inside = tagged.groups()
        if not inside.strip():
            return cls()
        if kind == "answer":
            return cls(answer=inside)
        fenced = _FENCE.fullmatch(inside)
        return cls(code=(fenced[1] if fenced else inside).strip("\n"))


class MathPythonEpisode:
    """One problem. Its state is text alone: nothing of a call to Python is left for the next."""

    def __init__(self, task: str, puzzle: Puzzle, environment: "MathPython", seed: int) -> None:
        """Before the first turn."""
        self.task = task
        self.puzzle = puzzle
        self.environment = environment
        self.seed = seed
        """Of the chance in the policy's own code."""
        self.used = 0
        self.calls = 0
        self.over = False

    def opening(self) -> tuple[Message, ...]:
        """Rules and problem."""
        rules = RULES.format(turns=self.environment.turns)
        return (
            Message("system", rules, lasting=True),
            Message("user", self.puzzle.question, lasting=True),
        )

    async def act(self, text: str) -> Observation:
        """Run code, or check an answer. Code in the last turn is not run: nobody would read it."""
        if self.over:
            raise RuntimeError(f"the episode of {self.task!r} is over: open the task again")
        said = Said.of(text)
        self.used += 1
        if said.answer is not None:
            right, events = await asyncio.to_thread(self._checked, said.answer)
            return self._ended(End.FINISHED, events, right=right)
        is_malformed = said.code is None
        if self.used == self.environment.turns:
            return self._ended(End.TRUNCATED, ("call/malformed",) if is_malformed else ())
        if said.code is None:
            return Observation((Message("user", MALFORMED),), events=("call/malformed",))
        self.calls += 1
        ran = await self.environment.sandbox.run(said.code, derived(self.seed, self.used))
        shown = f"<output>\n{shown_of(ran, self.environment.output_characters)}\n</output>"
        return Observation((Message("user", shown),), events=(f"python/{ran.ending}",))

    def _ended(self, end: End, events: tuple[str, ...], *, right: bool = False) -> Observation:
        self.over = True
        measures = (("correct", float(right)), ("python_calls", float(self.calls)))
        return Observation((), float(right), end, events=events, measures=measures)

    def _checked(self, answer: str) -> tuple[bool, tuple[str, ...]]:
        try:
            return self.puzzle.is_right(answer, CHECKING_SECONDS), ()
        except UnansweredError:
            return False, ("answer/timeout",)
        except JudgeError:
            return False, ("answer/unreadable",)

    def fork(self, seed: int) -> Self:
        """An independent copy, with chance of its own for code that draws numbers."""
        twin = copy.copy(self)
        twin.seed = seed
        return twin

    def state_key(self) -> Hashable | None:
        """Not to be compared: what was printed is in the policy's context alone."""
        return None

    def demonstrate(self, seed: int) -> str:  # noqa: ARG002
        """There is no teacher."""
        raise LookupError("math_python has no teacher")

    async def close(self) -> None:
        """Nothing is held between calls."""


@dataclass(frozen=True)
class MathPython:
    """Maths problems with a sandboxed Python tool; answers are checked by value."""

    name = "math_python"
    forking = Forking.FORK
    success_return = 1.0
    offers = frozenset({Offer.GOLD})
    vocabulary = None

    datasets: str = DATASETS
    """Data sets of reasoning-gym whose answers are numbers or formulas, with commas between
    them; tasks take turns."""
    turns: int = 4
    """Turns of an episode, 1 to 32, the answer's included."""
    seconds: int = 5
    """CPU seconds of a call; it may take three times that by the clock."""
    memory_megabytes: int = 1024
    """Address space of a call."""
    output_characters: int = 2000
    """What is shown of a call's output; of a longer one, the middle is cut out."""
    isolation: Literal["kernel", "limits"] = "kernel"
    """kernel: no network, no files, no processes, kept by the kernel, or nothing is run. limits:
    as much of it as this machine can do, and limits on time, memory and output."""
    max_new_tokens: int = 512
    """Tokens an answer may take."""
    context: ContextPolicy = "full"
    """What the policy is shown of the past."""

    def __post_init__(self) -> None:
        if not 1 <= self.turns <= MOST_TURNS:
            raise ValueError(f"turns: got {self.turns}, needed 1 to {MOST_TURNS}")
        least = {"seconds": 1, "memory_megabytes": 64, "output_characters": 40, "max_new_tokens": 1}
        for name, lowest in least.items():
            if getattr(self, name) < lowest:
                raise ValueError(f"{name}: got {getattr(self, name)}, needed {lowest} or more")
        check_extra("math_verify", "math")
        check_walls(self.sandbox.needed)
        for dataset in self.named:
            check_dataset(dataset, {})
            puzzle = puzzle_of(dataset, "{}", "train-0")
            if puzzle.answer is None or not puzzle.is_right(puzzle.answer, CHECKING_SECONDS):
                raise ValueError(f"datasets: answers of {dataset} are neither numbers nor formulas")

    @property
    def named(self) -> tuple[str, ...]:
        """The data sets."""
        return tuple(name.strip() for name in self.datasets.split(","))

    @property
    def sandbox(self) -> Sandbox:
        """Where code runs."""
        return Sandbox(
            Limits(self.seconds, self.memory_megabytes << 20),
            seconds=3.0 * self.seconds,
            needed=EVERY_WALL if self.isolation == "kernel" else NO_WALL,
        )

    @property
    def turn_limit(self) -> int:
        """As many turns as were asked for."""
        return self.turns

    def size(self, split: Split) -> None:
        """Without end."""

    def task(self, split: Split, index: int) -> str:
        """The task with this index, from 0 on."""
        return numbered_task(split, index)

    def gold(self, task: str) -> str:
        """The right answer."""
        answer = self._puzzle(task).answer
        if answer is None:
            raise LookupError(f"math_python does not know the right answer of task {task!r}")
        return f"<answer>{answer}</answer>"

    def _puzzle(self, task: str) -> Puzzle:
        split, number = parts_of_task(task, self.name)
        index, kind = divmod(int(number), len(self.named))
        return puzzle_of(self.named[kind], "{}", f"{split}-{index}")

    async def open(self, task: str, seed: int) -> MathPythonEpisode:
        """Start an episode."""
        puzzle = await asyncio.to_thread(self._puzzle, task)
        return MathPythonEpisode(task, puzzle, self, seed)


def shown_of(ran: Execution, most: int) -> str:
    """A call's output as the policy reads it, the middle of a long one cut out."""
    output = ran.output.rstrip("\n")
    if len(output) > most:
        cut = len(output) - most
        head, tail = output[: most // 2], output[len(output) - (most - most // 2) :]
        output = f"{head}\n[{cut} characters left out]\n{tail}"
    stopped = _STOPPED.get(ran.ending, "")
    return "\n".join(part for part in (output, stopped) if part) or "[no output]"
