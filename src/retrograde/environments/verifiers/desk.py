"""Where an environment of the library verifiers leaves its questions and gets its answers."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from retrograde.data.message import Message
from retrograde.environments.calls.call import Call
from retrograde.environments.extras import extra

MODEL = "policy"


def desk() -> Any:
    """The client that an environment asks: it leaves the question, and waits for an answer."""
    library = extra("verifiers", "verifiers")

    class Desk(library.Client):
        def __init__(self) -> None:
            super().__init__(None)  # pyright: ignore[reportUnknownMemberType]
            self.questions: asyncio.Queue[Any] = asyncio.Queue()
            self.answers: asyncio.Queue[Any] = asyncio.Queue()
            self.state: Any = {}

        def setup_client(self, config: Any) -> None:
            """There is nothing to set up."""

        async def to_native_tool(self, tool: Any) -> Any:
            return tool

        async def to_native_prompt(self, messages: Any) -> Any:
            return messages, {}

        async def get_native_response(
            self,
            prompt: Any,
            model: str,  # noqa: ARG002 - there is but one
            sampling_args: Any,  # noqa: ARG002 - the sampling is ours
            tools: Any = None,
            **more: Any,
        ) -> Any:
            self.state = more.get("state", self.state)
            self.questions.put_nowait((list(prompt), tools))
            return await self.answers.get()

        async def raise_from_native_response(self, response: Any) -> None:
            """An answer is never an error."""

        async def from_native_response(self, response: Any) -> Any:
            return response

        async def close(self) -> None:
            """Nothing is held."""

    return Desk()


def response(text: str, calls: Sequence[Call], number: int) -> Any:
    """An answer as the library takes it."""
    types = extra("verifiers.types", "verifiers")
    written = [
        types.ToolCall(
            id=f"call-{number}-{i}", name=call.name, arguments=json.dumps(dict(call.arguments))
        )
        for i, call in enumerate(calls)
    ]
    message = types.ResponseMessage(
        content=text,
        tool_calls=written or None,
        finish_reason="tool_calls" if written else "stop",
        is_truncated=False,
    )
    return types.Response(id=f"answer-{number}", created=0, model=MODEL, message=message)


def message(found: Any, called: Mapping[str, str]) -> Message:
    """One of the library's messages as ours; only parts of text can be shown.

    Args:
        found: the library's.
        called: the tool that each call was of, by the call's id.
    """
    content: Any = found.content
    if isinstance(content, list):
        parts: list[dict[str, Any]] = [dict(part) for part in cast("list[Any]", content)]
        content = "".join(part.get("text") or f"[{part.get('type')} left out]" for part in parts)
    name = called.get(getattr(found, "tool_call_id", ""))
    role: Any = "user" if found.role == "text" else found.role
    return Message(role, content or "", lasting=True, name=name)
