"""Gymnasium's FrozenLake in words: find the goal, and keep out of the holes.

Each task is a small map of its own. The policy is told what lies around it and which way the
goal is, so that walking straight there works often and looking out for holes works better.
"""

import copy
import itertools
import random
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, Self, cast

import numpy as np

from retrograde.data.message import ContextPolicy, Message, spoken
from retrograde.data.offer import Offer
from retrograde.data.seeds import derived
from retrograde.data.tree import End
from retrograde.environments.protocol import Forking, Observation, Split
from retrograde.environments.tasks import numbered_task, parts_of_task

SIZE = 4
HOLES = 0.25
NEAREST, FARTHEST = 2, 6
"""Steps from start to goal."""
FEWEST_TURNS, MOST_TURNS = 8, 16
WANDERING = 0.45
"""How often the teacher moves at random."""

DIRECTIONS: Mapping[str, tuple[int, int]] = {
    "north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1),
}  # fmt: skip
"""Rows and columns that a move in each direction adds."""
GYMNASIUM_ACTIONS: Mapping[str, int] = {"west": 0, "south": 1, "east": 2, "north": 3}

GO = "go"
RULES = (
    "You are on a frozen lake. Reach the goal. Ice is safe, a hole ends the game, and a wall "
    "lets nobody through. Each turn, say exactly one line: go north, go east, go south or "
    "go west."
)
SLIPPERY_RULES = f"{RULES} The ice is slippery: a move may take you to its left or right."
MISUNDERSTOOD = "Not understood. Say go north, go east, go south or go west."
GOAL, LAST_MOVE, NONE = "Goal:", "Last move:", "none"
SIDES: Mapping[str, str] = {direction: f"{direction.title()}:" for direction in DIRECTIONS}
PLACES: Mapping[str, str] = {"S": "ice", "F": "ice", "H": "hole", "G": "goal"}
WALL = "wall"

SIGHTS = tuple(f"{SIDES[d]} {p}" for d in DIRECTIONS for p in ("goal", "hole", "ice", WALL))
HEADINGS = (*DIRECTIONS, "north east", "north west", "south east", "south west")

PHRASES = (
    *(RULES, SLIPPERY_RULES, MISUNDERSTOOD, *SIGHTS),
    *(f"{GOAL} {heading}" for heading in HEADINGS),
    *(f"{LAST_MOVE} {move}" for move in (*DIRECTIONS, NONE)),
)
"""Everything the environment says: short, and with what lies where in one token, which a very
small model needs in order to see that a hole lies ahead."""
WORDS = (GO, *DIRECTIONS)
"""Every word of the policy."""

_GO_LINE = re.compile(rf"[\W_]*go[\W_]+({'|'.join(DIRECTIONS)})[\W_]*", re.IGNORECASE)

Cell = tuple[int, int]
"""Row, from the north, and column, from the west."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A map of a lake, in Gymnasium's letters: S start, F ice, H hole, G goal."""

    rows: tuple[str, ...]

    @classmethod
    def of(cls, task: str) -> Self:
        """The map of a task; which split a map belongs to is a hash of it, so none is in both.

        Raises:
            ValueError: there is no such task.
        """
        split, index = parts_of_task(task, "lake")
        charts = (cls._drawn(derived("lake", split, index, i)) for i in itertools.count())
        return next(chart for chart in charts if chart.split == split and chart.is_fair)

    @classmethod
    def _drawn(cls, seed: int) -> Self:
        chance = random.Random(seed)
        letters = ["H" if chance.random() < HOLES else "F" for _ in range(SIZE * SIZE)]
        start, goal = chance.sample(range(SIZE * SIZE), 2)
        letters[start], letters[goal] = "S", "G"
        return cls(tuple("".join(letters[i : i + SIZE]) for i in range(0, SIZE * SIZE, SIZE)))

    @property
    def split(self) -> Split:
        """Where the map belongs, whichever task it came from."""
        return "test" if derived(*self.rows) % 2 else "train"

    @property
    def is_fair(self) -> bool:
        """Whether the goal can be reached, and is neither too near nor too far."""
        steps = self.steps_to_goal(self.find("S"))
        return steps is not None and NEAREST <= steps <= FARTHEST

    def at(self, cell: Cell) -> str:
        """What lies there: ice, hole, goal or wall."""
        row, column = cell
        inside = 0 <= row < SIZE and 0 <= column < SIZE
        return PLACES[self.rows[row][column]] if inside else WALL

    def find(self, letter: str) -> Cell:
        """Where the start or the goal is."""
        return divmod("".join(self.rows).index(letter), SIZE)

    def steps_to_goal(self, cell: Cell) -> int | None:
        """Fewest steps from there to the goal, around the holes; None if there is no way."""
        reached = shore = {cell}
        for steps in range(SIZE * SIZE):
            if self.find("G") in reached:
                return steps
            near = {towards(here, direction) for here in shore for direction in DIRECTIONS}
            shore = {there for there in near - reached if self.at(there) in ("ice", "goal")}
            reached = reached | shore
        return None


def towards(cell: Cell, direction: str) -> Cell:
    """The neighbouring cell, inside the map or not."""
    rows, columns = DIRECTIONS[direction]
    return cell[0] + rows, cell[1] + columns


class World(Protocol):
    """What is used of Gymnasium's FrozenLake, which leaves most of its types unsaid."""

    s: int
    """Number of the cell the agent is on, row by row."""
    np_random: np.random.Generator

    def reset(self) -> object:
        """Go to the start."""
        ...

    def step(self, a: int) -> tuple[int, float, bool, bool, object]:
        """Move; cell, reward, whether it ended, whether it was cut off, and more."""
        ...


@lru_cache(maxsize=512)
def _untouched(chart: Chart, *, slip: bool) -> World:
    """A lake nobody has been on; episodes are copies of it."""
    import gymnasium

    made = gymnasium.make(
        "FrozenLake-v1", desc=list(chart.rows), is_slippery=slip, disable_env_checker=True
    )
    return cast("World", made.unwrapped)


def _copied(world: World, seed: int) -> World:
    """The same place, with chance of its own. All else that is shared is never written to."""
    twin = copy.copy(world)
    twin.np_random = np.random.default_rng(seed)
    return twin


class LakeEpisode:
    """One walk over a lake."""

    def __init__(self, task: str, environment: "Lake", seed: int) -> None:
        """Start where the map says."""
        self.task = task
        self.chart = Chart.of(task)
        self.turns = environment.turns
        self.rules = SLIPPERY_RULES if environment.slip else RULES
        self.world = _copied(_untouched(self.chart, slip=environment.slip), seed)
        self.world.reset()
        self.used = 0
        """Turns so far."""
        self.last_move = NONE
        self.over = False

    @property
    def cell(self) -> Cell:
        """Where the agent is."""
        return divmod(int(self.world.s), SIZE)

    @property
    def directions_to_goal(self) -> tuple[str, ...]:
        """The one or two directions that lie towards the goal, holes or not."""
        (row, column), (goal_row, goal_column) = self.cell, self.chart.find("G")
        ways = (
            ("north", goal_row < row),
            ("south", goal_row > row),
            ("east", goal_column > column),
            ("west", goal_column < column),
        )
        return tuple(direction for direction, leads_there in ways if leads_there)

    @property
    def score(self) -> float:
        """How near the goal is, around the holes; 0 in one, since there is no way out."""
        steps = self.chart.steps_to_goal(self.cell)
        if steps is None or self.chart.at(self.cell) == PLACES["H"]:
            return 0.0
        return 1 - steps / (SIZE * SIZE)

    def opening(self) -> tuple[Message, ...]:
        """Rules and surroundings."""
        return Message("system", self.rules, lasting=True), Message("user", self._surroundings())

    def _surroundings(self) -> str:
        sides = [f"{SIDES[d]} {self.chart.at(towards(self.cell, d))}" for d in DIRECTIONS]
        goal = f"{GOAL} {' '.join(self.directions_to_goal)}"
        return "\n".join((*sides, goal, f"{LAST_MOVE} {self.last_move}"))

    async def act(self, text: str) -> Observation:
        """Move, or stay put if nothing was understood."""
        if self.over:
            raise RuntimeError(f"the episode of {self.task!r} is over: open the task again")
        self.used += 1
        moves = (_GO_LINE.fullmatch(line) for line in spoken(text).splitlines())
        direction = next((move[1].lower() for move in moves if move), None)
        self.last_move = direction or NONE
        reward, terminated = 0.0, False
        if direction is not None:
            _, reward, terminated, _, _ = self.world.step(GYMNASIUM_ACTIONS[direction])
        self.over = terminated or self.used == self.turns
        if self.over:
            end = End.FINISHED if terminated else End.TRUNCATED
            return Observation((), reward=float(reward), end=end, score=self.score)
        heard = "" if direction else f"{MISUNDERSTOOD}\n"
        return Observation((Message("user", heard + self._surroundings()),), score=self.score)

    def fork(self, seed: int) -> Self:
        """An independent copy at the same place; where the ice is slippery, `seed` decides."""
        twin = copy.copy(self)
        twin.world = _copied(self.world, seed)
        return twin

    def state_key(self) -> Hashable:
        """Place and time. The last move is shown, but nothing that follows depends on it."""
        return self.task, self.cell, self.used

    def demonstrate(self, seed: int) -> str:
        """What a teacher says who walks to the goal as if there were no holes, or wanders."""
        chance = random.Random(seed)
        wanders = chance.random() < WANDERING
        return f"{GO} {chance.choice(tuple(DIRECTIONS) if wanders else self.directions_to_goal)}"

    async def close(self) -> None:
        """Nothing is held: the lake is never drawn."""


@dataclass(frozen=True)
class Lake:
    """Cross a frozen lake to the goal without falling into a hole."""

    name = "lake"
    forking = Forking.FORK
    success_return = 1.0
    max_new_tokens = 12
    offers = frozenset({Offer.SCORES})
    vocabulary = None

    turns: int = 8
    """Moves until an episode is cut off, 8 to 16."""
    slip: bool = False
    """Whether the ice is slippery: a move then goes astray two times out of three."""
    context: ContextPolicy = "markov"
    """What the policy is shown of the past: full, drop_thinking, window, window(N), markov or
    summarise(FILE.py:NAME)."""

    def __post_init__(self) -> None:
        if not FEWEST_TURNS <= self.turns <= MOST_TURNS:
            raise ValueError(f"turns: got {self.turns}, needed {FEWEST_TURNS} to {MOST_TURNS}")

    @property
    def turn_limit(self) -> int:
        """Moves until an episode is cut off."""
        return self.turns

    def size(self, split: Split) -> None:
        """Without end."""

    def task(self, split: Split, index: int) -> str:
        """The task with this index, from 0 on."""
        return numbered_task(split, index)

    def gold(self, task: str) -> str:
        """There is none: only walking there ends a task rightly."""
        raise LookupError(f"lake has no answer that ends {task} rightly: the goal is walked to")

    async def open(self, task: str, seed: int) -> LakeEpisode:
        """Start an episode."""
        return LakeEpisode(task, self, seed)
