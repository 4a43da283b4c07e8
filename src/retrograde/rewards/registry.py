"""Every reward function this library ships, by name, and those that users bring.

`NAME`, `NAME=WEIGHT`, `NAME(option=value)=WEIGHT`. Anything with a colon is the user's own:
`FILE.py:NAME` or `package.module:NAME`; with options it is called with them first.
"""

import ast
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

from retrograde.data.names import named
from retrograde.data.places import found_at
from retrograde.rewards.form import Format, InvalidAction, Length, Overlong
from retrograde.rewards.gold import F1, ExactMatch
from retrograde.rewards.judge import Judge
from retrograde.rewards.weighted import (
    ENVIRONMENT,
    EachTurn,
    Reward,
    Rewards,
    Weighted,
    environments_own,
)


@dataclass(frozen=True)
class Shipped:
    """A reward function as the registry holds it."""

    make: Callable[..., Reward]
    is_for_turns: bool = False
    is_penalty: bool = False
    """Whether it counts what is bad; its weight is then negative, -1 unless given."""

    @property
    def about(self) -> str:
        """What it is."""
        return (self.make.__doc__ or "").strip().splitlines()[0]


def _environments_own() -> Reward:
    """What the environment itself gives; counts beside others only where it is named."""
    return environments_own


REWARDS: Mapping[str, Shipped] = MappingProxyType(
    {
        ENVIRONMENT: Shipped(_environments_own, is_for_turns=True),
        "exact_match": Shipped(ExactMatch),
        "f1": Shipped(F1),
        "format": Shipped(Format),
        "invalid_action": Shipped(InvalidAction, is_for_turns=True, is_penalty=True),
        "judge": Shipped(Judge),
        "length": Shipped(Length),
        "overlong": Shipped(Overlong, is_for_turns=True, is_penalty=True),
    }
)

_ASKED = re.compile(r"(?P<name>[^(=]+?)(?P<options>\(.*\))?(?:=(?P<weight>[^()=]+))?", re.DOTALL)


def rewards_named(asked: Sequence[str | Reward | Weighted]) -> Rewards | None:
    """Read what is asked for, by name or as functions; None if nothing is.

    Raises:
        ValueError: one is unknown, its options or its weight are wrong, or it is named twice.
    """
    return Rewards(tuple(map(_part, asked))) if asked else None


def _part(asked: str | Reward | Weighted) -> Weighted:
    if isinstance(asked, Weighted):
        return asked
    if isinstance(asked, str):
        return weighted(asked)
    function = asked.function if isinstance(asked, EachTurn) else asked
    return Weighted(getattr(function, "__name__", type(function).__name__), asked)


def weighted(asked: str) -> Weighted:
    """Read one.

    Raises:
        ValueError: it is unknown, or its options or its weight are wrong.
    """
    parts = _ASKED.fullmatch(asked.strip())
    if parts is None:
        raise ValueError(
            f"reward {asked!r}: NAME, NAME=WEIGHT or NAME(option=value)=WEIGHT is needed"
        )
    name, options = parts["name"].strip(), _options(asked, parts["options"])
    label = name + (parts["options"] or "")
    weight = None if parts["weight"] is None else _weight(asked, parts["weight"])
    if ":" in name:
        function = _own(asked, name, options)
        return Weighted(name.rpartition(":")[2], function, 1.0 if weight is None else weight, label)
    kind = named(REWARDS, name, "reward")
    if weight is not None and kind.is_penalty and weight >= 0:
        raise ValueError(
            f"reward {asked!r}: {name} counts what is bad, so a weight below 0 is needed"
        )
    function = _made(asked, kind.make, options)
    usual = -1.0 if kind.is_penalty else 1.0
    made = EachTurn(function) if kind.is_for_turns else function
    return Weighted(name, made, usual if weight is None else weight, label)


def _own(asked: str, name: str, options: Mapping[str, object]) -> Reward:
    found: Any = found_at(name, "reward", ", ".join(REWARDS))
    is_made_first = bool(options) or inspect.isclass(cast("object", found))
    return cast("Reward", _made(asked, found, options) if is_made_first else found)


def _made(asked: str, make: Callable[..., Reward], options: Mapping[str, object]) -> Reward:
    known = ", ".join(inspect.signature(make).parameters)
    try:
        inspect.signature(make).bind(**options)
        return make(**options)
    except TypeError as cause:
        raise ValueError(f"reward {asked!r}: {cause}; its options: {known}") from cause


def _options(asked: str, words: str | None) -> dict[str, object]:
    try:
        call = cast("ast.Call", ast.parse(f"f{words or '()'}", mode="eval").body)
        names = [option.arg for option in call.keywords if option.arg is not None]
        values = [ast.literal_eval(option.value) for option in call.keywords]
        found = dict(zip(names, values, strict=True))
    except (SyntaxError, ValueError) as cause:
        found, problem = None, cause
    else:
        problem = "an option has no name" if call.args else None
    if found is None or problem is not None:
        raise ValueError(
            f"reward {asked!r}: options are written (name=value, ...), and values as in Python, "
            f"text in quotes: {problem}"
        )
    return found


def _weight(asked: str, words: str) -> float:
    try:
        return float(words)
    except ValueError as cause:
        raise ValueError(f"reward {asked!r}: the weight is a number, got {words!r}") from cause
