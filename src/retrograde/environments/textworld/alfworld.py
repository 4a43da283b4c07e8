"""ALFWorld's games: household tasks in rooms of AI2-THOR, as PDDL that TextWorld plays.

Source: ALFWorld 0.4.2 (MIT), `AlfredTWEnv.collect_game_files` and `Demangler`.
Differs from the source: games come in the order of their paths, and the list is not shuffled.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from retrograde.environments.extras import MissingExtraError
from retrograde.environments.protocol import Split

Unseen = Literal["valid_seen", "valid_unseen"]
VARIABLE = "ALFWORLD_DATA"
FOLDER = "json_2.1.1"
GAME = "game.tw-pddl"
HOW_TO_GET_IT = (
    "get it by: pip install alfworld && alfworld-download && export ALFWORLD_DATA=~/.cache/alfworld"
)
_UNPLAYABLE = ("movable", "Sliced")
"""Parts of the paths of games that ALFWorld leaves out."""


def data_folder() -> Path:
    """Where the games are.

    Raises:
        ValueError: they are not; how to get them is in the message.
        MissingExtraError: the planner that plays them is not installed.
    """
    place = os.environ.get(VARIABLE)
    if not place:
        raise ValueError(f"textworld: kind alfworld: ${VARIABLE} is not set; {HOW_TO_GET_IT}")
    folder = Path(place).expanduser() / FOLDER
    if not folder.is_dir():
        raise ValueError(
            f"textworld: kind alfworld: ${VARIABLE} is {place}, and there is no {FOLDER} in it; "
            f"{HOW_TO_GET_IT}"
        )
    if find_spec("fast_downward") is None:
        raise MissingExtraError(
            "fast_downward is needed and not installed: pip install 'textworld[pddl]'"
        )
    return folder


def game_files(split: Split, test: Unseen) -> tuple[Path, ...]:
    """The games of a split that can be played and are known to be solvable.

    Raises:
        ValueError: there is none.
    """
    folder = data_folder() / ("train" if split == "train" else test)
    files = _solvable(folder)
    if not files:
        raise ValueError(f"textworld: no solvable {GAME} is in {folder}; {HOW_TO_GET_IT}")
    return files


@lru_cache
def _solvable(folder: Path) -> tuple[Path, ...]:
    return tuple(
        path
        for path in sorted(folder.rglob(GAME))
        if not any(part in str(path.relative_to(folder)) for part in _UNPLAYABLE)
        and json.loads(path.read_text(encoding="utf-8")).get("solvable")
    )


def names_of(entities: Iterable[str]) -> dict[str, str]:
    """What things are called: `cabinet 2` for `Cabinet_bar__minus_00_dot_58...`.

    Of one sort, the first by id gets the highest number, as in ALFWorld.
    """
    ids = sorted(entities)
    sorts = {one: _sort(one) for one in ids}
    left = Counter(sort for one, sort in sorts.items() if sort != one)
    names: dict[str, str] = {}
    for one, sort in sorts.items():
        names[one] = sort if sort == one else f"{sort} {left[sort]}"
        left[sort] -= 1
    return names


def _sort(entity: str) -> str:
    sort, placed, _ = entity.partition("_bar_")
    return f"{sort}basin" if placed and "basin" in entity else sort


def give_names(env: Any) -> None:
    """Call the things of a loaded game by their names."""
    infos = env._entity_infos  # noqa: SLF001 - ALFWorld does the same; there is no other way
    names = names_of(info.id for info in infos.values())
    for info in infos.values():
        info.name = names[info.id]
