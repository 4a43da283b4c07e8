"""What environments and episodes are unless they say otherwise; to be inherited from.

Nothing here is needed: whatever has the members of the protocol is an environment.
"""

from collections.abc import Hashable
from typing import Self

from retrograde.data.message import ContextPolicy
from retrograde.data.offer import Offer
from retrograde.data.vocabulary import Vocabulary
from retrograde.environments.protocol import Forking, Split
from retrograde.environments.tasks import numbered_task


class PlainEpisode:
    """An episode that cannot be copied, has no teacher and holds nothing."""

    def fork(self, seed: int) -> Self:  # noqa: ARG002
        """It cannot."""
        raise TypeError(f"a {type(self).__name__} cannot be forked")

    def state_key(self) -> Hashable | None:
        """Not to be compared."""
        return None

    def demonstrate(self, seed: int) -> str:  # noqa: ARG002
        """Nobody knows."""
        raise LookupError(f"{type(self).__name__} has no teacher")

    async def close(self) -> None:
        """Nothing is held."""


class PlainTasks:
    """Numbered tasks without end or answer: for environments that say all else themselves."""

    name: str = "plain"

    def size(self, split: Split) -> int | None:  # noqa: ARG002
        """Without end."""
        return None

    def task(self, split: Split, index: int) -> str:
        """The task with this index, from 0 on."""
        size = self.size(split)
        if size is not None and index >= size:
            raise ValueError(f"{self.name} has {size} {split} tasks: no {split}-{index}")
        return numbered_task(split, index)

    def gold(self, task: str) -> str:
        """Nobody knows."""
        raise LookupError(f"{self.name} does not know the right answer of task {task!r}")


class PlainEnvironment(PlainTasks):
    """An environment without end or teacher, whose rollouts cannot branch."""

    forking: Forking = Forking.NONE
    success_return: float = 1.0
    max_new_tokens: int = 64
    offers: frozenset[Offer] = frozenset()
    vocabulary: Vocabulary | None = None
    context: ContextPolicy = "full"
