"""Copies of a Gymnasium environment whose chance is their own."""

import copy
import random
from collections.abc import Iterator
from typing import Any, cast

from retrograde.data.seeds import derived
from retrograde.environments.toy_text import known_of

DEEPEST, LONGEST = 6, 256
"""How far inside an environment generators are looked for, and in how long containers."""


def copied(world: Any) -> Any:
    """A deep copy, but for what is known to be large and never written to."""
    known = known_of(world)
    kept = [getattr(world.unwrapped, name) for name in known.shared] if known else []
    return copy.deepcopy(world, {id(each): each for each in kept})


def reseed(world: Any, seed: int) -> None:
    """Seed anew, in place, every generator of random numbers that the environment holds.

    A generator that several of its parts share stays shared. Chance that is drawn elsewhere (by
    a program outside, or from the generators that `random` and NumPy share) is out of reach.
    """
    import numpy as np

    for place, held in _generators(world):
        own = derived(seed, place)
        if isinstance(held, np.random.Generator):
            held.bit_generator.state = type(held.bit_generator)(own).state
        elif isinstance(held, np.random.RandomState):
            held.seed(own % 2**32)
        else:
            held.seed(own)


def _generators(world: Any) -> Iterator[tuple[str, Any]]:
    """Each generator once, with the place where it was found."""
    import numpy as np

    kinds = (np.random.Generator, np.random.RandomState, random.Random)
    seen: set[int] = set()
    waiting = [("", world, 0)]
    while waiting:
        place, thing, depth = waiting.pop()
        if id(thing) in seen or depth > DEEPEST:
            continue
        seen.add(id(thing))
        if isinstance(thing, kinds):
            yield place, thing
        else:
            inside = _parts(thing)
            waiting += [(f"{place}/{name}", part, depth + 1) for name, part in inside]


def _parts(thing: Any) -> list[tuple[str, Any]]:
    """What a container or an object of a class holds, by name."""
    held: Any = thing
    if isinstance(thing, list | tuple | dict):
        if len(held) > LONGEST:
            return []
        items = held.items() if isinstance(thing, dict) else enumerate(held)
    elif isinstance(thing, type) or not hasattr(thing, "__dict__"):
        return []
    else:
        items = held.__dict__.items()
    pairs = cast("list[tuple[object, Any]]", list(items))
    return [(str(name), part) for name, part in pairs if not callable(part)]
