"""One rollout of an environment of the library verifiers.

Such an environment runs a rollout itself and asks a client for each answer. Here the client is a
desk at which the question is left and the answer is waited for; the rollout goes on beside it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from retrograde.data.message import Message
from retrograde.data.tree import End
from retrograde.environments.calls.call import Call, Malformed, Said
from retrograde.environments.calls.registry import FORMATS, read_calls
from retrograde.environments.plain import PlainEpisode
from retrograde.environments.protocol import Observation
from retrograde.environments.tools.schema import checker
from retrograde.environments.tools.tool import Tool, checked, never_run
from retrograde.environments.verifiers.desk import MODEL, desk, message, response

if TYPE_CHECKING:
    from retrograde.environments.verifiers.environment import Verifiers

NOT_RUN = "Error: not run, because another call of the same answer cannot be"


class VerifiersEpisode(PlainEpisode):
    """A rollout of the library's own that waits for our answers."""

    def __init__(self, environment: "Verifiers", task: str, desk: Any, rollout: Any) -> None:
        """Begun already; see `started`."""
        self.environment = environment
        self.task = task
        self.desk = desk
        self.rollout: asyncio.Task[Any] = rollout
        self.asked: list[Any] = []
        """All messages of the last question."""
        self.tools: dict[str, Tool] = {}
        self.used = 0
        self.over = False

    @classmethod
    async def started(
        cls, environment: "Verifiers", task: str, row: dict[str, Any]
    ) -> "VerifiersEpisode":
        """Begin a rollout, and wait for its first question."""
        counter = desk()
        world = environment.world
        rollout = asyncio.create_task(world.rollout(dict(row), counter, MODEL, {}))
        episode = cls(environment, task, counter, rollout)
        is_asked = False
        try:
            is_asked = await episode._is_asked()
        finally:
            if not is_asked:
                await episode.close()
        if not is_asked:
            raise RuntimeError(f"{task}: it ended before its first question: {_error(rollout)!r}")
        return episode

    def opening(self) -> tuple[Message, ...]:
        """Its prompt, behind what there is to call."""
        messages = [message(one, {}) for one in self.asked]
        if not self.tools:
            return tuple(messages)
        form = FORMATS[self.environment.calls]
        first = messages.pop(0).content if messages[0].role == "system" else ""
        if form.listed_in == "text":
            listed = "\n".join(f"- {tool.line}" for tool in self.tools.values())
            first = "\n\n".join(part for part in (first, listed, form.manual) if part)
            return Message("system", first, lasting=True), *messages
        schemas = tuple(tool.schema for tool in self.tools.values())
        return Message("system", first, lasting=True, tools=schemas), *messages

    async def act(self, text: str) -> Observation:
        """Answer the question, and wait for the next one or the end."""
        if self.over:
            raise RuntimeError(f"the episode of {self.task!r} is over: open the task again")
        self.used += 1
        said = read_calls(text, self.environment.calls) if self.tools else Said()
        calls = [checked(call, self.tools) for call in said.calls]
        wrong = [call for call in calls if isinstance(call, Malformed)]
        messages: tuple[Message, ...] = ()
        if wrong:
            messages = tuple(_refusal(call) for call in calls)
        else:
            good = [call for call in calls if isinstance(call, Call)]
            answer = response(said.words if good else text, good, self.used)
            before, names = len(self.asked), [call.name for call in good]
            self.desk.answers.put_nowait(answer)
            if not await self._is_asked():
                return await self._ended(await self.rollout, End.FINISHED)
            messages = self._news(before, names)
        events = tuple(call.event for call in wrong)
        if self.used < self.environment.turn_limit:
            return Observation(messages, events=events)
        await _cancelled(self.rollout)
        return await self._ended(self.desk.state, End.TRUNCATED, events)

    def _news(self, before: int, names: Sequence[str]) -> tuple[Message, ...]:
        """What the question holds that the last one did not, behind our own answer."""
        if len(self.asked) <= before or self.asked[before].role != "assistant":
            raise ValueError(
                f"{self.task}: the environment rewrites what was said before, which an episode of "
                "messages cannot follow"
            )
        called = {f"call-{self.used}-{i}": name for i, name in enumerate(names)}
        return tuple(message(one, called) for one in self.asked[before + 1 :])

    async def _is_asked(self) -> bool:
        """Whether there is another question; False if the rollout is over."""
        asking = asyncio.create_task(self.desk.questions.get())
        try:
            await asyncio.wait({asking, self.rollout}, return_when="FIRST_COMPLETED")
        finally:
            if not asking.done():
                asking.cancel()
                await asyncio.wait({asking})
        if asking.cancelled():
            return False
        self.asked, tools = asking.result()
        self.tools = {one.name: _tool(one) for one in tools or ()}
        return True

    async def _ended(
        self, state: Mapping[str, Any], end: End, events: tuple[str, ...] = ()
    ) -> Observation:
        """What the rubric says of it.

        Raises:
            RuntimeError: the environment failed; no fault of the policy's.
        """
        self.over = True
        if state.get("error") is not None:
            raise RuntimeError(f"{self.task}: the environment failed: {state['error']!r}")
        rubric = self.environment.world.rubric
        await rubric.score_rollout(state)
        await rubric.cleanup(state)
        if state.get("stop_condition") in ("max_turns_reached", "timeout_reached"):
            end = End.TRUNCATED
        metrics: Mapping[str, Any] = state.get("metrics") or {}
        measures = tuple((name, float(value)) for name, value in metrics.items())
        return Observation((), float(state["reward"]), end, events=events, measures=measures)

    async def close(self) -> None:
        """End the rollout, if it is not over, and let the environment clean up."""
        await _cancelled(self.rollout)


async def _cancelled(rollout: "asyncio.Task[Any]") -> None:
    if not rollout.done():
        rollout.cancel()
        await asyncio.wait({rollout})
    if not rollout.cancelled():
        rollout.exception()  # looked at, so that nobody is told that it was not


def _error(rollout: "asyncio.Task[Any]") -> Any:
    if rollout.cancelled():
        return None
    return rollout.exception() or rollout.result().get("error")


def _refusal(call: Call | Malformed) -> Message:
    if isinstance(call, Malformed):
        return Message("tool", f"Error: {call.why}", name=None)
    return Message("tool", NOT_RUN, name=call.name)


def _tool(found: Any) -> Tool:
    wrong = checker(found.parameters)
    return Tool(found.name, found.description or "", found.parameters, wrong, never_run)
