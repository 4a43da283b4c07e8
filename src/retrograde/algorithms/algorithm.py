"""What an algorithm is: where to grow, who gets credit, which loss, how many steps."""

from dataclasses import dataclass

from retrograde.credit.protocol import Credit
from retrograde.data.rows import View
from retrograde.losses.policy import PolicyLoss
from retrograde.rollouts.plans import Plan
from retrograde.schedules.update import Update


@dataclass(frozen=True, slots=True)
class Algorithm:
    """Plain data: two calls with the same arguments give equal values."""

    grow: Plan
    credit: Credit
    loss: PolicyLoss
    update: Update
    view: View = View.EXACT
    """Which context the rows carry; anything but EXACT is a control, not a method."""
