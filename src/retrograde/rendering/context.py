"""Context policies as they are written, `window(3)`, and as a renderer carries them out."""

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from retrograde.data.message import ContextPolicy
from retrograde.data.places import found_at

Summary = Callable[[Sequence[tuple[str, str]]], str]
"""What stands for the past that is left out, given as (role, text) in order; an answer has the
role `assistant` and its thought. It must say the same of the same past, since siblings share a
context. An empty text adds nothing."""

_WRITTEN = re.compile(r"(\w+)(?:\((.*)\))?")
FORMS = ("full", "drop_thinking", "window", "window(N)", "summarise(FILE.py:NAME)", "markov")


@dataclass(frozen=True, slots=True)
class Shown:
    """What of the past the policy is shown."""

    exchanges: int | None = None
    """How many of the last answers and what came of them; None for all."""
    thoughts: bool = True
    """Whether earlier answers keep their thoughts."""
    summary: Summary | None = None
    """Writes what stands for the exchanges that are left out; None leaves them out."""
    opening: bool = True
    """Whether the opening is shown. If not: its lasting messages and the last observation."""


WINDOW = Shown(exchanges=1, thoughts=False)


def shown_under(policy: ContextPolicy | Shown) -> Shown:
    """Read a context policy; one that need not be read is returned as it is.

    Raises:
        ValueError: there is none of that name, or what its brackets hold means nothing.
    """
    if isinstance(policy, Shown):
        return policy
    written = _WRITTEN.fullmatch(policy)
    name, inside = (written[1], cast("str | None", written[2])) if written else (policy, None)
    if name == "window":
        return WINDOW if inside is None else Shown(exchanges=_count(policy, inside), thoughts=False)
    if name == "summarise":
        return Shown(exchanges=1, thoughts=False, summary=_function(policy, inside))
    plain = {
        "full": Shown(),
        "drop_thinking": Shown(thoughts=False),
        "markov": Shown(exchanges=0, opening=False),
    }
    if name not in plain:
        names = ("window", "summarise", *plain)
        near = difflib.get_close_matches(name, names, n=2, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise ValueError(f"no context policy {policy!r}; {hint}known: {', '.join(FORMS)}")
    if inside is not None:
        raise ValueError(f"context {policy!r}: {name} takes nothing in brackets")
    return plain[name]


def _count(policy: str, inside: str) -> int:
    if not (inside.isdecimal() and int(inside) > 0):
        raise ValueError(
            f"context {policy!r}: a whole number of exchanges, at least 1, is needed in the "
            f"brackets, got {inside!r}"
        )
    return int(inside)


def _function(policy: str, inside: str | None) -> Summary:
    if not inside or ":" not in inside:
        raise ValueError(
            f"context {policy!r}: summarise needs the function that writes the summary, as in "
            f"summarise(FILE.py:NAME) or summarise(package.module:NAME)"
        )
    found = found_at(inside, "summary")
    if not callable(found):
        raise ValueError(  # noqa: TRY004 - what is wrong is the text
            f"context {policy!r}: {inside} is no function, but {found!r}"
        )
    return cast("Summary", found)
