"""Making a game; run as a program, because what is made depends on how Python hashes.

`PYTHONHASHSEED=0 python -m retrograde.environments.textworld.generation KIND LEVEL SPLIT SEED PATH`
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

COOKING: tuple[Mapping[str, Any], ...] = (
    {"recipe": 1, "take": 1, "go": 1},
    {"recipe": 1, "take": 1, "go": 1, "open": True, "cook": True},
    {"recipe": 2, "take": 2, "go": 6, "open": True, "cook": True, "cut": True},
    {"recipe": 3, "take": 3, "go": 9, "open": True, "cook": True, "cut": True, "drop": True},
    {"recipe": 5, "take": 5, "go": 12, "open": True, "cook": True, "cut": True, "drop": True},
)
"""By level: ingredients, how many of them are to be found, rooms, and what is to be done."""
GOALS = ("detailed", "brief", "none")
"""By level of a house: how much is said about what to do."""
LEVELS: Mapping[str, int] = {
    "cooking": len(COOKING),
    "treasure": 30,
    "coin": 100,
    "house": len(GOALS),
}
"""The highest level of each kind; the lowest is 1. TextWorld has more levels of coins, but cannot
make most of them: no game has more than 100 rooms."""


def _cooking(level: int, split: str, seed: int) -> Mapping[str, Any]:
    return {**COOKING[level - 1], "split": split, "recipe_seed": seed}


def _house(level: int, split: str, seed: int) -> Mapping[str, Any]:  # noqa: ARG001
    return {"rewards": "dense", "goal": GOALS[level - 1], "test": split == "test"}


def _levelled(level: int, split: str, seed: int) -> Mapping[str, Any]:  # noqa: ARG001
    return {"level": level}


_KINDS: Mapping[str, tuple[str, Callable[[int, str, int], Mapping[str, Any]]]] = {
    "cooking": ("tw_cooking.cooking", _cooking),
    "treasure": ("tw_treasure_hunter.treasure_hunter", _levelled),
    "coin": ("tw_coin_collector.coin_collector", _levelled),
    "house": ("tw_simple.simple", _house),
}


def generate(kind: str, level: int, split: str, seed: int, path: str) -> None:
    """Make a game and write it, with what TextWorld has to know of it beside it."""
    generator: Any = import_module("textworld.generator")
    module, settings = _KINDS[kind]
    challenge: Any = import_module(f"textworld.challenges.{module}")
    options = generator.GameOptions()
    options.seeds = seed
    options.path = path
    generator.compile_game(challenge.make(settings(level, split, seed), options), options)


if __name__ == "__main__":
    _, kind_, level_, split_, seed_, path_ = sys.argv
    generate(kind_, int(level_), split_, int(seed_), path_)
