"""A tool: what a policy may call, what it takes, and what it answers."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from retrograde.environments.calls.call import SOLE, Call, Malformed

ToolEvent = Literal["tool/error", "tool/timeout", "tool/part_left_out"]
SHOWN = 20
"""Names of tools that an error message names."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool answered, as the policy is told it."""

    text: str
    event: ToolEvent | None = None


@dataclass(frozen=True)
class Tool:
    """Something with a name that takes arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """The JSON schema of its arguments, of type object."""
    wrong: Callable[[Mapping[str, Any]], str | None]
    """What is wrong with arguments, in words; None if nothing is."""
    run: Callable[[Mapping[str, Any]], Awaitable[Result]]
    """Does it, with arguments that are right. What the tool raises becomes a result; what is
    raised all the same means that the world is broken, and costs the rollout."""

    @property
    def schema(self) -> str:
        """What chat templates are given, as JSON text."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }
        return json.dumps({"type": "function", "function": function}, ensure_ascii=False)

    @property
    def line(self) -> str:
        """What people, and policies without a template for tools, are told."""
        names = self.parameters.get("properties", {})
        takes = ", ".join(
            f"{name}: {' or '.join(sorted(_kinds(_property(self.parameters, name)))) or 'any'}"
            for name in names
        )
        about = " ".join(self.description.split())
        return f"{self.name}({takes}): {about}" if about else f"{self.name}({takes})"


async def never_run(arguments: Mapping[str, Any]) -> Result:  # noqa: ARG001
    """What a tool runs that is only named here."""
    raise RuntimeError("this tool is named here, and run elsewhere")


def checked(call: Call | Malformed, tools: Mapping[str, Tool]) -> Call | Malformed:
    """The call with arguments of the types its tool asks for; malformed if it cannot be run."""
    if isinstance(call, Malformed):
        return call
    if call.name not in tools:
        known = ", ".join(list(tools)[:SHOWN]) + (", ..." if len(tools) > SHOWN else "")
        return Malformed(
            f"there is no tool {call.name[:80]!r}; there are: {known or 'none'}",
            "call/unknown_tool",
            call.name,
        )
    tool = tools[call.name]
    arguments = call.arguments
    if call.verbatim:
        arguments = {
            name: _typed(value, _property(tool.parameters, name))
            for name, value in _named(arguments, tool.parameters).items()
        }
    problem = tool.wrong(arguments)
    if problem is not None:
        return Malformed(f"{tool.name}: {problem}", "call/bad_arguments", tool.name)
    return Call(call.name, arguments)


def _named(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Arguments with the only one, if it came without a name, under its name."""
    if SOLE not in arguments:
        return arguments
    taken = list(schema.get("required", ())) or list(schema.get("properties", {}))
    if not taken and not arguments[SOLE]:
        return {}
    return {taken[0] if len(taken) == 1 else SOLE: arguments[SOLE]}


def _property(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The schema of one argument; nothing if there is none."""
    found: Any = schema.get("properties", {}).get(name)
    if not isinstance(found, dict):
        return {}
    held = cast("dict[str, Any]", found)
    reference: Any = held.get("$ref")
    if not isinstance(reference, str):
        return held
    return schema.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {})


def _typed(text: str, schema: Mapping[str, Any]) -> Any:
    """A text as what its schema says it is; the text itself if it cannot be."""
    kinds = _kinds(schema)
    if "string" in kinds or not kinds:
        return None if text == "null" and "null" in kinds else text
    if "boolean" in kinds and text in ("True", "False"):
        return text == "True"
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    kind = schema.get("type", ())
    found = {kind} if isinstance(kind, str) else set(cast("Sequence[str]", kind))
    for branch in ("anyOf", "oneOf"):
        for one in schema.get(branch, ()):
            found |= _kinds(one)
    return found
