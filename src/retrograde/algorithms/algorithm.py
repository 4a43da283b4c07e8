"""What an algorithm is: where to grow, who gets credit, which loss, how many steps.

What nearly every algorithm is made of can be imported from here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from retrograde.credit.protocol import Credit
from retrograde.data.offer import Offer
from retrograde.data.rows import Row, View
from retrograde.losses.policy import Level, Mean, PolicyLoss, Surrogate
from retrograde.losses.value import ValueLoss
from retrograde.rollouts.plans import Chains, Plan
from retrograde.schedules.update import Pace, Steps, Update

__all__ = [
    "Algorithm",
    "Chains",
    "Level",
    "Mean",
    "Normalise",
    "Pace",
    "PolicyLoss",
    "Steps",
    "Surrogate",
    "Update",
    "View",
]


class Normalise(Protocol):
    """Looks at all rows of an update at once; plain data."""

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """The rows, in order, with other advantages."""
        ...


@dataclass(frozen=True, slots=True)
class Algorithm:
    """Plain data: two calls with the same arguments give equal values."""

    grow: Plan
    credit: Credit
    loss: PolicyLoss
    update: Update
    view: View = View.EXACT
    """Which context the rows carry; anything but EXACT is a control, not a method."""
    normalise: Normalise | None = None
    """What is done to advantages over the whole update, after credit within groups."""
    critic: ValueLoss | None = None
    """What a critic learns, if the credit asks one."""
    needs: tuple[Offer, ...] = ()
    """What an environment must offer besides an outcome."""
