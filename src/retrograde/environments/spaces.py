"""Gymnasium's spaces in words: how an observation reads, and what a policy says for an action."""

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any, Protocol, cast

MOST_NUMBERS = 64
"""A box with more is no text."""
NUMBER = r"-?\d+"


class ActionWords(Protocol):
    """What the policy has to say."""

    @property
    def rule(self) -> str:
        """Told to the policy."""
        ...

    @property
    def words(self) -> tuple[str, ...]:
        """Every word of an action."""
        ...

    def read(self, spoken: str) -> Any:
        """The action in words spoken aloud; None if they mean nothing."""
        ...

    def example(self, chance: random.Random) -> str:
        """Words for some action."""
        ...


@dataclass(frozen=True, slots=True)
class Choices:
    """One of several actions, by name or number."""

    names: tuple[str, ...]
    start: int = 0
    """Number of the first."""

    @property
    def rule(self) -> str:
        """Told to the policy."""
        listed = [
            name if name == str(number) else f"{name} ({number})"
            for number, name in enumerate(self.names, self.start)
        ]
        return f"Each turn, say exactly one line with one of: {', '.join(listed)}."

    @property
    def words(self) -> tuple[str, ...]:
        """Names and numbers."""
        numbers = range(self.start, self.start + len(self.names))
        return (*self.names, *map(str, numbers))

    def read(self, spoken: str) -> int | None:
        """The number of the action in the first line that holds one and nothing else."""
        numbers = {name.lower(): i for i, name in enumerate(self.names, self.start)}
        for line in spoken.splitlines():
            said = re.sub(r"^[^\w-]+|\W+$", "", line).lower()
            if said in numbers:
                return numbers[said]
            if re.fullmatch(NUMBER, said):
                number = int(said)
                return number if self.start <= number < self.start + len(self.names) else None
        return None

    def example(self, chance: random.Random) -> str:
        """A name."""
        return chance.choice(self.names)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Several numbers at once, one for each part of the action."""

    starts: tuple[int, ...]
    counts: tuple[int, ...]
    """Of the values of each."""

    @property
    def rule(self) -> str:
        """Told to the policy."""
        ranges = [
            f"{start} to {start + count - 1}"
            for start, count in zip(self.starts, self.counts, strict=True)
        ]
        return (
            f"Each turn, say exactly one line with {len(self.counts)} numbers: {', '.join(ranges)}."
        )

    @property
    def words(self) -> tuple[str, ...]:
        """All the numbers."""
        lowest = min(self.starts)
        highest = max(s + c for s, c in zip(self.starts, self.counts, strict=True))
        return tuple(map(str, range(lowest, highest)))

    def read(self, spoken: str) -> Any:
        """The numbers of the first line that holds as many of them and nothing else."""
        import numpy as np

        for line in spoken.splitlines():
            if not re.fullmatch(rf"\W*(?:{NUMBER}[\s,;]*)+\W*", line):
                continue
            said = [int(number) for number in re.findall(NUMBER, line)]
            if len(said) == len(self.counts) and all(
                start <= number < start + count
                for number, start, count in zip(said, self.starts, self.counts, strict=True)
            ):
                return np.array(said)
        return None

    def example(self, chance: random.Random) -> str:
        """Some numbers."""
        pairs = zip(self.starts, self.counts, strict=True)
        return " ".join(str(start + chance.randrange(count)) for start, count in pairs)


@dataclass(frozen=True, slots=True)
class FreeText:
    """Anything that a text space takes."""

    space: Any

    @property
    def rule(self) -> str:
        """Told to the policy."""
        return f"Each turn, say at most {self.space.max_length} characters."

    @property
    def words(self) -> tuple[str, ...]:
        """They are the user's to name."""
        return ()

    def read(self, spoken: str) -> str | None:
        """The words themselves, if the space takes them."""
        return spoken if self.space.contains(spoken) else None

    def example(self, chance: random.Random) -> str:
        """Some characters."""
        letters = sorted(self.space.character_set)
        length = max(self.space.min_length, 1)
        return "".join(chance.choice(letters) for _ in range(length))


def action_words(space: Any, names: Sequence[str]) -> ActionWords:
    """How actions of a space are said.

    Args:
        space: the environment's action space.
        names: of the actions of a discrete space, in order; empty for numbers.

    Raises:
        ValueError: there are no words for it, or not as many names as actions.
    """
    from gymnasium import spaces

    untyped: Any = space  # Gymnasium's own types are unknown to some degree
    if isinstance(space, spaces.Discrete):
        count, start = int(untyped.n), int(untyped.start)
        if names and len(names) != count:
            raise ValueError(f"actions: {count} names are needed, got {', '.join(names)}")
        return Choices(tuple(names) or tuple(str(start + i) for i in range(count)), start)
    if names:
        raise ValueError(f"actions: only a Discrete space has names, and this one is {space}")
    if isinstance(space, spaces.MultiDiscrete) and len(space.shape) == 1:
        return Numbers(tuple(map(int, untyped.start)), tuple(map(int, untyped.nvec)))
    if isinstance(space, spaces.MultiBinary) and len(space.shape) == 1:
        return Numbers((0,) * space.shape[0], (2,) * space.shape[0])
    if isinstance(space, spaces.Text):
        return FreeText(space)
    about = "is continuous" if isinstance(space, spaces.Box) else "has no words"
    raise ValueError(
        f"the action space {space} {about}; Discrete, MultiDiscrete and MultiBinary with one "
        f"dimension, and Text can be played. Wrap the environment in one that has such actions"
    )


def check_sight(space: Any) -> None:
    """See that observations of a space can be put into words.

    Raises:
        ValueError: they cannot; a renderer is needed.
    """
    from gymnasium import spaces

    untyped: Any = space
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary | spaces.Text):
        return
    if isinstance(space, spaces.Tuple):
        for part in cast("Iterable[Any]", untyped.spaces):
            check_sight(part)
    elif isinstance(space, spaces.Dict):
        for part in cast("Iterable[Any]", untyped.spaces.values()):
            check_sight(part)
    elif not isinstance(space, spaces.Box) or reduce(mul, space.shape, 1) > MOST_NUMBERS:
        raise ValueError(
            f"the observation space {space} has no words: give a renderer, a function of an "
            f"observation and the environment (--environment.renderer FILE.py:NAME)"
        )


def sight(space: Any, seen: Any) -> str:
    """An observation in words, by the space that it is from."""
    from gymnasium import spaces

    untyped: Any = space
    if isinstance(space, spaces.Tuple):
        parts = zip(cast("Iterable[Any]", untyped.spaces), seen, strict=True)
        return "\n".join(f"{i}: {sight(part, each)}" for i, (part, each) in enumerate(parts))
    if isinstance(space, spaces.Dict):
        items = cast("Iterable[tuple[str, Any]]", untyped.spaces.items())
        return "\n".join(f"{name}: {sight(part, seen[name])}" for name, part in items)
    if isinstance(space, spaces.Box):
        return numbers(seen, whole=untyped.dtype.kind in "iub")
    if isinstance(space, spaces.Text):
        return str(seen)
    return numbers(seen, whole=True)


def numbers(seen: Any, *, whole: bool) -> str:
    """Numbers with spaces between them, a line for each row; two decimals unless whole."""
    import numpy as np

    rows = np.atleast_1d(np.asarray(seen))
    rows = rows.reshape(-1, rows.shape[-1])
    lines = [" ".join(f"{n:.0f}" if whole else f"{n:.2f}" for n in row) for row in rows.tolist()]
    return "\n".join(lines)
