"""The last moment at which a run could be saved: where it stood between two iterations.

An iteration that is dropped half-way is made again from its start, with the same seeds, so nothing
of it is worth keeping. As long as it has only sampled, weights and optimizer are those of its
start, and a checkpoint of that can still be written. Once it has learned, round by round as RTPO
does or at its end, they are not, and the checkpoint on the disk is what there is.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import replace

from retrograde.trainer.run import State

LEARNING = "learning"
"""What the loop calls taking optimizer steps."""


class Foothold:
    """Told what a journal shows, and knows what can still be saved."""

    def __init__(self, state: State) -> None:
        """The run stands at this state, which goes on changing."""
        self._start: State | None = _copied(state)

    def show(self, state: State, doing: str, line: Mapping[str, float] | None) -> None:
        """What a journal's `Show` is told."""
        if line is not None:
            self._start = _copied(state)
        elif doing == LEARNING:
            self._start = None

    @property
    def state(self) -> State | None:
        """What the weights of now are the weights of; None if they belong to no such state."""
        return self._start


def _copied(state: State) -> State:
    return replace(state, recent=deque(state.recent))
