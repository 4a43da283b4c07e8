"""A rollout in words: all that a reward function gets to see."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from retrograde.data.message import Message
from retrograde.data.offer import Offer
from retrograde.data.tree import End
from retrograde.environments.protocol import Columned, Environment, Observation


@dataclass(frozen=True, slots=True)
class Said:
    """One turn in words."""

    shown: tuple[Message, ...]
    """What the environment has said since the last answer; its opening, for a first turn."""
    answer: str
    """The policy's words, thoughts included."""
    tokens: int
    """How many tokens they took."""
    stopped: bool
    """Whether the answer ended of itself; False means it ran out of tokens."""
    observation: Observation
    """What came of it: the environment's words, its own reward, score, end, events, measures."""


@dataclass(frozen=True, slots=True)
class Record:
    """A rollout from its opening to the turn that was just taken."""

    task: str
    turns: tuple[Said, ...]
    """First to last; never empty."""
    max_new_tokens: int
    """Tokens that an answer may take."""
    gold: str | None = None
    """The words that end the task rightly, as a whole answer; None if nobody knows."""
    columns: Mapping[str, object] = field(default_factory=dict[str, object])
    """What else the environment knows of the task, by name; empty for most."""

    @property
    def last(self) -> Said:
        """The turn that was just taken."""
        return self.turns[-1]

    @property
    def answer(self) -> str:
        """The last answer."""
        return self.last.answer

    @property
    def tokens(self) -> int:
        """Of all answers."""
        return sum(turn.tokens for turn in self.turns)

    @property
    def reward(self) -> float:
        """What the environment itself gave, in all."""
        return sum(turn.observation.reward for turn in self.turns)

    @property
    def score(self) -> float | None:
        """The environment's last; None if it gives none."""
        return self.last.observation.score

    @property
    def end(self) -> End | None:
        """Why the environment says it is over; None if it was cut off, or goes on."""
        return self.last.observation.end

    @property
    def events(self) -> tuple[str, ...]:
        """Of all turns."""
        return tuple(event for turn in self.turns for event in turn.observation.events)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a task besides what happens in it."""

    gold: str | None
    columns: Mapping[str, object]

    @classmethod
    def of(cls, environment: Environment, task: str) -> "Known":
        """What an environment tells of a task."""
        gold = environment.gold(task) if Offer.GOLD in environment.offers else None
        return cls(gold, environment.columns(task) if isinstance(environment, Columned) else {})
