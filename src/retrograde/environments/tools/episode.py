"""One attempt at a task with tools."""

import copy
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from retrograde.data.message import Message
from retrograde.data.tree import End
from retrograde.environments.calls.call import Call, Malformed
from retrograde.environments.calls.registry import FORMATS, read_calls
from retrograde.environments.plain import PlainEpisode
from retrograde.environments.protocol import Observation
from retrograde.environments.rows import Row
from retrograde.environments.tools.limit import within
from retrograde.environments.tools.reward import Made, Record, gold_of, matches
from retrograde.environments.tools.tool import checked
from retrograde.environments.tools.toolbox import forked
from retrograde.environments.tools.toolset import Kit

if TYPE_CHECKING:
    from retrograde.environments.tools.environment import ToolEnvironment

MOST_CALLS = 16
"""Calls of one answer that are run."""
SKIPPED = "Error: not run, because a call before it in the same answer took too long"


class ToolEpisode(PlainEpisode):
    """Calls and results, until an answer calls nothing."""

    def __init__(
        self,
        environment: "ToolEnvironment",
        task: str,
        row: Row,
        kit: Kit,
        opening: tuple[Message, ...],
    ) -> None:
        """Start at the first turn."""
        self.environment = environment
        self.task = task
        self.kit = kit
        self.record = Record(row.columns, toolbox=kit.toolbox)
        self.over = False
        self._opening = opening

    def opening(self) -> tuple[Message, ...]:
        """The task, behind what there is to call."""
        return self._opening

    async def act(self, text: str) -> Observation:
        """Run what is called; an answer that calls nothing is the final one."""
        if self.over:
            raise RuntimeError(f"the episode of {self.task!r} is over: open the task again")
        said = read_calls(
            text, self.environment.calls, thought_opened=self.environment.thought_opened
        )
        self.record = replace(self.record, answers=(*self.record.answers, text))
        if not said.calls:
            final = said.words if said.answer is None else said.answer
            self.record = replace(self.record, said=final)
            return await self._ended(End.FINISHED)
        before = len(self.record.events)
        messages = await self._answered(said.calls)
        events = self.record.events[before:]
        if len(self.record.answers) >= self.environment.turn_limit:
            return replace(await self._ended(End.TRUNCATED), messages=messages, events=events)
        return Observation(messages, events=events)

    async def _answered(self, calls: Sequence[Call | Malformed]) -> tuple[Message, ...]:
        """One message for each call, in order; they are run one after the other."""
        messages: list[Message] = []
        made, events = list(self.record.calls), list(self.record.events)
        is_late = False
        for number, written in enumerate(calls):
            call = checked(written, self.kit.tools)
            if number >= MOST_CALLS:
                call = Malformed(f"more than {MOST_CALLS} calls in one answer", "call/too_many")
            if isinstance(call, Malformed):
                events.append(call.event)
                messages.append(self._message(f"Error: {call.why}", call.name))
                continue
            if is_late:
                messages.append(self._message(SKIPPED, call.name))
                continue
            result = await self.kit.tools[call.name].run(call.arguments)
            is_late = result.event == "tool/timeout"
            events += [] if result.event is None else [result.event]
            made.append(Made(call.name, call.arguments, result.text, result.event))
            messages.append(self._message(result.text, call.name))
        self.record = replace(self.record, calls=tuple(made), events=tuple(events))
        return tuple(messages)

    def _message(self, text: str, name: str | None) -> Message:
        role = FORMATS[self.environment.calls].tells
        known = name if name in self.kit.tools and role == "tool" else None
        return Message(role, text, name=known)

    async def _ended(self, end: End) -> Observation:
        self.over = True
        reward = await self._reward()
        return Observation((), reward, end, measures=(("calls", float(len(self.record.calls))),))

    async def _reward(self) -> float:
        """What the episode is worth.

        Raises:
            ValueError: a reward that is no finite number; the rollout has failed, not its policy.
        """
        judge: Any = self.environment.judge
        own: Any = getattr(self.kit.toolbox, "get_reward", None)
        if judge is not None:
            judge = partial(judge, self.record)
        elif own is not None:
            judge = own
        else:
            said, gold = self.record.said, gold_of(self.record.row, self.environment.answer)
            return float(said is not None and matches(said, gold))
        reward = await within(self.environment.tool_seconds, judge)
        if not isinstance(reward, int | float) or not math.isfinite(reward):
            raise ValueError(f"{self.task}: a reward is a finite number, got {reward!r}")
        return float(reward)

    def fork(self, seed: int) -> Self:
        """An independent copy: of the toolbox by its own `fork`, or a deep one."""
        twin = copy.copy(self)
        toolbox = forked(self.kit.toolbox, seed)
        twin.kit = self.environment.toolset.kit(toolbox, None)
        twin.record = replace(self.record, toolbox=toolbox)
        return twin

    def demonstrate(self, seed: int) -> str:
        """What the environment's teacher says."""
        tutor = self.environment.tutor
        if tutor is None:
            raise LookupError("it was given none")
        return spoken_by(tutor(self.record, random.Random(seed)), self.environment.calls)

    async def close(self) -> None:
        """Close the toolbox, if it can be, and give the server back."""
        pool, server = self.environment.toolset.pool, self.kit.server
        try:
            close: Any = getattr(self.kit.toolbox, "close", None)
            if close is not None:
                await within(self.environment.tool_seconds, close)
        finally:
            if pool is not None and server is not None:
                await pool.give_back(server)


def spoken_by(said: str | Call | Sequence[Call], calls: str) -> str:
    """A teacher's calls, or its final answer, as a policy would say them."""
    written = FORMATS[calls]
    if isinstance(said, str):
        return written.answered(said)
    return written.write("", [said] if isinstance(said, Call) else said)
