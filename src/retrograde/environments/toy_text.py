"""Words for environments that come with Gymnasium: names of actions, sights, rules and states."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

Sight = Callable[[Any, Any], str]
"""From an observation and the environment, unwrapped, to words."""


@dataclass(frozen=True, slots=True)
class Known:
    """An environment that more is known of than its spaces say."""

    actions: tuple[str, ...]
    about: Callable[[Any], str]
    """Rules, from the environment, unwrapped."""
    sight: Sight
    state: Callable[[Any], Hashable]
    """The whole state, chance excluded, of the environment, unwrapped."""
    success_return: float
    shared: tuple[str, ...] = ()
    """Attributes that are large and never written to; copies of the environment share them."""


LOCATIONS = ("red", "green", "yellow", "blue", "in the taxi")
CLIFF_COLUMNS = 12


def _lake(world: Any) -> str:
    rows = "\n".join("".join(letter.decode() for letter in row) for row in world.desc)
    return (
        "Cross the lake from S to G. F is ice, H is a hole, which ends the game. "
        f"The map, north up:\n{rows}"
    )


def _lake_sight(seen: Any, world: Any) -> str:
    row, column = divmod(int(seen), world.ncol)
    return f"You are in row {row}, column {column}."


def _cliff(world: Any) -> str:  # noqa: ARG001 - it is always the same
    return (
        "Walk from row 3, column 0 to row 3, column 11. Between them lies a cliff: whoever falls "
        "loses 100 and is back at the start. Each step costs 1. Row 0 is at the top."
    )


def _cliff_sight(seen: Any, world: Any) -> str:  # noqa: ARG001 - the number says it all
    row, column = divmod(int(seen), CLIFF_COLUMNS)
    return f"You are in row {row}, column {column}."


def _taxi(world: Any) -> str:
    rows = "\n".join("".join(letter.decode() for letter in row) for row in world.desc)
    return (
        "Drive the taxi to the passenger, pick up, drive to the destination and drop off. A step "
        "costs 1, a wrong pickup or dropoff 10, the right dropoff earns 20. Taxi stands are R, G, "
        f"Y and B; | is a wall. The map, north up, rows and columns from 0:\n{rows}"
    )


def _taxi_sight(seen: Any, world: Any) -> str:
    row, column, passenger, destination = world.decode(int(seen))
    return (
        f"Taxi: row {row}, column {column}.\nPassenger: {LOCATIONS[passenger]}.\n"
        f"Destination: {LOCATIONS[destination]}."
    )


def _blackjack(world: Any) -> str:  # noqa: ARG001 - it is always the same
    return "Get nearer to 21 than the dealer without going over it."


def _blackjack_sight(seen: Any, world: Any) -> str:  # noqa: ARG001 - the rest is hidden
    total, dealer, ace = (int(part) for part in seen)
    usable = "with" if ace else "without"
    return f"You have {total}, {usable} an ace that counts 11. The dealer shows {dealer}."


def _cart(world: Any) -> str:  # noqa: ARG001 - it is always the same
    return "Push a cart left or right so that the pole on it stays up."


def _cart_sight(seen: Any, world: Any) -> str:  # noqa: ARG001 - four numbers say it all
    names = ("Position", "Velocity", "Angle", "Angular velocity")
    return "\n".join(f"{name}: {float(n):.2f}" for name, n in zip(names, seen, strict=True))


KNOWN: Mapping[str, Known] = MappingProxyType(
    {
        "Blackjack": Known(
            ("stick", "hit"),
            _blackjack,
            _blackjack_sight,
            lambda world: (tuple(map(int, world.player)), tuple(map(int, world.dealer))),
            success_return=1.0,
        ),
        "CartPole": Known(
            ("left", "right"),
            _cart,
            _cart_sight,
            lambda world: tuple(float(n) for n in world.state),
            success_return=475.0,
        ),
        "CliffWalking": Known(
            ("up", "right", "down", "left"),
            _cliff,
            _cliff_sight,
            lambda world: int(world.s),
            success_return=-99.0,
            shared=("P",),
        ),
        "FrozenLake": Known(
            ("left", "down", "right", "up"),
            _lake,
            _lake_sight,
            lambda world: int(world.s),
            success_return=1.0,
            shared=("P",),
        ),
        "Taxi": Known(
            ("south", "north", "east", "west", "pickup", "dropoff"),
            _taxi,
            _taxi_sight,
            lambda world: (int(world.s), bool(world.fickle_step)),
            success_return=1.0,
            shared=("P",),
        ),
    }
)
"""By the name in the id, without its version."""


def known_of(world: Any) -> Known | None:
    """What is known of an environment by its name; None if nothing is."""
    return KNOWN.get(world.spec.name) if world.spec is not None else None
