"""A chat template, spoken to in the form it understands.

A template is a program, so nothing is assumed of it: what it takes is found out once, by
trying, and what it does not take is said in another way.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from retrograde.data.message import Message

Entry = dict[str, str]
"""A message as templates take it: role, content, and a tool's name."""
Said = Message | str
"""A message of the environment, or an answer's text."""
Spell = Callable[[str], str]
"""How a text of the environment is written into a chat."""

COMPLAINTS = (TemplateError, TypeError, ValueError, KeyError, AttributeError, IndexError)
"""What templates raise on chats that they do not take, on purpose or not."""
PROBE = "retrogradeprobe"
"""Begins words that stand in for what is said; plain, so that no template rewrites them."""
PARAGRAPH = "\n\n"

HERMES = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For each function call, return a json object with function name and arguments within \
<tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""
"""How a model is told of its tools where its template has no words for them."""


@dataclass(frozen=True, slots=True)
class Accepts:
    """What a template takes as it is. Each that it does not take has a fallback."""

    system: bool
    several_systems: bool
    late_system: bool
    tools: bool
    tool_messages: bool
    early_tool_messages: bool
    lone_tool_messages: bool
    system_alone: bool
    users_in_a_row: bool


FALLBACKS = {
    "system": "a system message: its text is put in front of the first user message",
    "several_systems": "several system messages: they are joined",
    "late_system": "a system message in the course of a chat: it becomes a user message",
    "tools": "tools: they are written into the system text, in Hermes form",
    "tool_messages": "tool messages, several of them, or a user message behind them: each becomes "
    "<tool_response> in a user message",
    "early_tool_messages": "a tool message with no answer before it, as context markov has them: "
    "it becomes <tool_response> in a user message",
    "lone_tool_messages": "a tool message in a chat where no user has spoken: it becomes "
    "<tool_response> in a user message",
    "system_alone": "a system message with no other: it becomes a user message",
    "users_in_a_row": "user messages in a row: they are joined",
}
"""What a template may not take, and what is done instead."""


class ChatTemplate:
    """A tokenizer's chat template."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Find out what the template takes."""
        self.tokenizer = tokenizer
        self.name = tokenizer.name_or_path
        self.accepts = self._tried()

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """What this template does not take, and what is done instead, in words."""
        return tuple(
            FALLBACKS[field.name]
            for field in fields(self.accepts)
            if not getattr(self.accepts, field.name)
        )

    def text(self, chat: Sequence[Said], *, prompted: bool, spell: Spell = str) -> str:
        """The template's text of a chat.

        Args:
            chat: messages and answers, in order.
            prompted: whether a generation prompt is put behind.
            spell: how each text of the environment is written.

        Raises:
            ValueError: the template does not take the chat, whatever it is told.
        """
        entries, tools = self.adapted(chat, spell)
        try:
            return self._rendered(entries, tools, prompted=prompted)
        except COMPLAINTS as cause:
            roles = ", ".join(entry["role"] for entry in entries)
            raise ValueError(
                f"{self.name}: the chat template takes no chat of {roles}: {cause}"
            ) from cause

    def adapted(
        self, chat: Sequence[Said], spell: Spell = str
    ) -> tuple[list[Entry], list[dict[str, Any]]]:
        """A chat and its tools as the template takes them."""
        entries = [_entry(said, spell) for said in chat]
        tools = [
            cast("dict[str, Any]", _spelled(_schema(tool), spell))
            for said in chat
            if isinstance(said, Message)
            for tool in said.tools
        ]
        if tools and not self.accepts.tools:
            entries = _told_of(tools, entries)
            tools = []
        entries = self._with_fitting_tool_messages(entries)
        entries = self._with_fitting_systems(entries)
        if not self.accepts.users_in_a_row:
            entries = _joined(entries, "user", PARAGRAPH)
        return entries, tools

    def _with_fitting_tool_messages(self, entries: list[Entry]) -> list[Entry]:
        fitting: list[Entry] = []
        takes = self.accepts.lone_tool_messages
        for entry in entries:
            if entry["role"] == "assistant":
                takes = self.accepts.tool_messages
            elif entry["role"] == "user" and not any(e["role"] == "assistant" for e in fitting):
                takes = self.accepts.early_tool_messages
            if entry["role"] != "tool" or takes:
                fitting.append(entry)
                continue
            response = f"<tool_response>\n{entry['content']}\n</tool_response>"
            if fitting and "response" in fitting[-1]:
                fitting[-1]["content"] += f"\n{response}"
            else:
                fitting.append({"role": "user", "content": response, "response": ""})
        return [{key: entry[key] for key in entry if key != "response"} for entry in fitting]

    def _with_fitting_systems(self, entries: list[Entry]) -> list[Entry]:
        first = next((i for i, e in enumerate(entries) if e["role"] != "system"), len(entries))
        systems, later = entries[:first], entries[first:]
        if not self.accepts.late_system:
            later = [e | {"role": "user"} if e["role"] == "system" else e for e in later]
        if not self.accepts.several_systems:
            systems = _joined(systems, "system", PARAGRAPH)
        takes = self.accepts.system and (later or self.accepts.system_alone)
        if takes or not systems:
            return [*systems, *later]
        front = {"role": "user", "content": PARAGRAPH.join(e["content"] for e in systems)}
        if later and later[0]["role"] == "user":
            return [*_joined([front, later[0]], "user", PARAGRAPH), *later[1:]]
        return [front, *later]

    def _rendered(
        self, entries: list[Entry], tools: list[dict[str, Any]], *, prompted: bool
    ) -> str:
        text = self.tokenizer.apply_chat_template(
            cast("list[dict[str, str]]", entries),
            tools=cast("Any", tools or None),
            tokenize=False,
            add_generation_prompt=prompted,
        )
        return cast("str", text)

    def _tried(self) -> Accepts:
        system = self._takes("system", "user")
        after = self._takes("user", "assistant", "tool")
        return Accepts(
            system=system,
            several_systems=system and self._takes("system", "system", "user"),
            late_system=self._takes("user", "assistant", "system"),
            tools=self._takes_tools(["system", "user"] if system else ["user"]),
            tool_messages=after
            and self._takes("user", "assistant", "tool", "tool")
            and self._takes("user", "assistant", "tool", "tool", "user"),
            early_tool_messages=after and self._takes("user", "tool"),
            lone_tool_messages=after and self._takes("tool"),
            system_alone=self._takes("system"),
            users_in_a_row=self._takes("user", "user")
            and self._takes("user", "assistant", "user", "user"),
        )

    def _takes(self, *roles: str) -> bool:
        """Whether all that such a chat says is shown, in order."""
        words = [f"{PROBE}{i}end" for i in range(len(roles))]
        entries = [
            {"role": role, "content": word} | ({"name": PROBE} if role == "tool" else {})
            for role, word in zip(roles, words, strict=True)
        ]
        try:
            text = self._rendered(entries, [], prompted=True)
        except COMPLAINTS:
            return False
        places = [text.find(word) for word in words]
        return min(places) >= 0 and places == sorted(places)

    def _takes_tools(self, roles: Sequence[str]) -> bool:
        parameters = {"type": "object", "properties": {}}
        function = {"name": f"{PROBE}tool", "description": PROBE, "parameters": parameters}
        chat = [{"role": role, "content": PROBE} for role in roles]
        tool = {"type": "function", "function": function}
        try:
            return f"{PROBE}tool" in self._rendered(chat, [tool], prompted=True)
        except COMPLAINTS:
            return False


def _entry(said: Said, spell: Spell) -> Entry:
    if isinstance(said, str):
        return {"role": "assistant", "content": said}
    entry: Entry = {"role": said.role, "content": spell(said.content)}
    return entry if said.name is None else entry | {"name": spell(said.name)}


def _schema(text: str) -> dict[str, Any]:
    try:
        schema: object = json.loads(text)
    except ValueError as cause:
        raise ValueError(f"Message.tools: JSON is needed, got {text[:80]!r}: {cause}") from cause
    if not isinstance(schema, dict):
        raise ValueError(  # noqa: TRY004 - its value is wrong, not its type
            f"Message.tools: a JSON object is needed, got {text[:80]!r}"
        )
    return cast("dict[str, Any]", schema)


def _spelled(value: object, spell: Spell) -> object:
    """JSON data with every text in it written so."""
    if isinstance(value, str):
        return spell(value)
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return {spell(key): _spelled(inner, spell) for key, inner in pairs}
    if isinstance(value, list):
        return [_spelled(inner, spell) for inner in cast("list[object]", value)]
    return value


def _told_of(tools: list[dict[str, Any]], entries: list[Entry]) -> list[Entry]:
    told = HERMES.format(tools="\n".join(json.dumps(t, ensure_ascii=False) for t in tools))
    if not entries or entries[0]["role"] != "system":
        return [{"role": "system", "content": told}, *entries]
    content = entries[0]["content"]
    return [entries[0] | {"content": content + PARAGRAPH + told if content else told}, *entries[1:]]


def _joined(entries: list[Entry], role: str, between: str) -> list[Entry]:
    """The chat with neighbouring messages of a role made one."""
    joined: list[Entry] = []
    for entry in entries:
        if joined and entry["role"] == joined[-1]["role"] == role:
            joined[-1] = joined[-1] | {
                "content": joined[-1]["content"] + between + entry["content"]
            }
        else:
            joined.append(entry)
    return joined
