"""Actors in this process: a grower and the policy it asks."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from torch import Tensor

from retrograde.data.tree import Group
from retrograde.policies.protocol import Policy
from retrograde.rollouts.grow import Grower
from retrograde.rollouts.plans import Fork


class LoadablePolicy(Policy, Protocol):
    """A policy that takes published weights."""

    def load(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Copy weights."""
        ...

    def forget(self) -> None:
        """Drop what is kept of contexts to answer them faster."""
        ...


class LocalActors:
    """Grow rollouts with one policy in this process."""

    def __init__(self, grower: Grower, policy: LoadablePolicy) -> None:
        """Bind a grower and the policy that it samples from."""
        self.grower = grower
        self.policy = policy

    async def grow(
        self, groups: Sequence[Group], forks: Sequence[Sequence[Fork]], grown_in: int, seed: int
    ) -> list[Group]:
        """The groups with a round more in them.

        An iteration begins with nothing kept: what is kept shows in the last digit of a
        log-probability, and a resumed run has nothing.
        """
        if grown_in == 0:
            self.policy.forget()
        return await self.grower.grow(groups, forks, grown_in, seed)

    async def load(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Take published weights."""
        self.policy.load(weights, version)

    async def close(self) -> None:
        """Close the episodes that are kept to be forked."""
        await self.grower.forget()

    def drain(self) -> Mapping[str, int]:
        """Counts since the last call."""
        counts = dict(self.grower.counts)
        self.grower.counts.clear()
        return counts

    def figures(self) -> Sequence[tuple[str, float]]:
        """What is to be averaged by name, since the last call."""
        found = [(figure.name, figure.value) for figure in self.grower.figures]
        self.grower.figures.clear()
        return found
