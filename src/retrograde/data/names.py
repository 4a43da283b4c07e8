"""Looking things up by name."""

import difflib
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def named(table: Mapping[str, T], name: str, kind: str) -> T:
    """What has that name.

    Args:
        table: everything there is, by name.
        name: what is asked for.
        kind: what the table holds one of, for the message.

    Raises:
        ValueError: nothing has that name; the nearest names are given.
    """
    if name not in table:
        near = difflib.get_close_matches(name, table, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise ValueError(f"no {kind} is named {name!r}; {hint}known: {', '.join(table)}")
    return table[name]
