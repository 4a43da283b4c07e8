"""Whether what was done about a user's message is right: state and responses.

Source: BFCL v3, `multi_turn_checker` of bfcl-eval 2026.3.23 (Apache-2.0).
Differs from the source: each message is judged, where BFCL stops at the first that is wrong;
the simulators of the truth share nothing with the policy's, where BFCL's share some tables; what
is not documented (yet) cannot be called, where BFCL would run it.
"""

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from retrograde.environments.bfcl.case import Case, Category
from retrograde.environments.bfcl.simulation import Simulation

Unanswerable = Literal["no_calls", "state", "free"]

State = Mapping[str, Mapping[str, Any]]
"""Public attributes of the simulators, by class."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What the right calls about one message say and leave behind."""

    results: tuple[str, ...]
    state: State


@dataclass(frozen=True, slots=True)
class Verdict:
    """On what was done about one message."""

    state: bool
    """The simulators are as the right calls leave them."""
    response: bool
    """Something was called, and all that the right calls say has been said by now."""

    @property
    def right(self) -> bool:
        """Both."""
        return self.state and self.response


def judged(
    truth: Truth, simulation: Simulation, results: Sequence[str], called: int, rule: Unanswerable
) -> Verdict:
    """Judge what was done about a message.

    Args:
        truth: what should have been.
        simulation: as the policy left it.
        results: of all the policy's calls so far, those about earlier messages included.
        called: how many of them are about this message.
        rule: for a message about which nothing can be done. `no_calls`: it is right to call
            nothing. `state`: it is right to change nothing. `free`: anything is.
    """
    if truth.results:
        missing = Counter(truth.results) - Counter(results)
        return Verdict(_same(truth.state, simulation.state()), called > 0 and not missing)
    if rule == "free":
        return Verdict(state=True, response=True)
    still = _same(truth.state, simulation.state())
    return Verdict(still, rule == "state" or called == 0)


@lru_cache(maxsize=64)
def _truths(category: Category, story: int) -> tuple[Truth, ...]:
    case = Case.told(category, story)
    simulation = Simulation(case)
    truths: list[Truth] = []
    for request in case.requests:
        results = tuple(simulation.call(call).text for call in request.truth)
        truths.append(Truth(results, copy.deepcopy(simulation.state())))
    return tuple(truths)


def truths_of(case: Case) -> tuple[Truth, ...]:
    """What should be said and left behind, message by message."""
    return _truths(case.category, case.story)


def _same(truth: State, state: State) -> bool:
    try:
        return all(
            truth[name][key] == state[name].get(key) for name in truth for key in truth[name]
        )
    except RecursionError:  # a folder was copied into itself: no truth has that
        return False
