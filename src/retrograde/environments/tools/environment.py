"""Tasks that are done with tools: the user's functions, an object's methods, an MCP server's."""

import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from random import Random
from typing import Any, cast

from retrograde.data.message import ContextPolicy, Message
from retrograde.data.names import named
from retrograde.data.offer import Offer
from retrograde.data.places import found_at
from retrograde.data.vocabulary import Vocabulary
from retrograde.environments.calls.call import Call
from retrograde.environments.calls.registry import FORMATS
from retrograde.environments.protocol import Forking, Split
from retrograde.environments.rows import Row, check_apart, read_rows, rows_of, split_rows
from retrograde.environments.tasks import numbered_task, parts_of_task
from retrograde.environments.tools.episode import ToolEpisode, spoken_by
from retrograde.environments.tools.limit import aside
from retrograde.environments.tools.reward import Record, gold_of
from retrograde.environments.tools.server import Pool
from retrograde.environments.tools.tool import Tool
from retrograde.environments.tools.toolbox import Factory
from retrograde.environments.tools.toolset import Toolset
from retrograde.environments.tools.vocabulary import heard

Tasks = str | Path | Sequence[Mapping[str, Any]]
Reward = Callable[[Record], float | Awaitable[float]]
Teacher = Callable[[Record, Random], str | Call | Sequence[Call]]

USUAL_SYSTEM = "Do the task with the tools you have. When you know the answer, say it alone."
"""Said where neither the task nor the environment says anything."""


@dataclass(frozen=True, kw_only=True)
class ToolEnvironment:
    """Tasks of one's own, done by calling tools of one's own.

    ```python
    def price(item: str) -> int:
        '''The price of an item.'''
        return PRICES[item]

    ToolEnvironment(tasks=[{"prompt": "What is tea?", "answer": 3}, ...], functions=[price])
    ```
    """

    name = "tools"

    tasks: Tasks
    """Rows, or a `.jsonl` or `.parquet` file of them: `prompt` or `messages`, and other columns."""
    test: Tasks | None = None
    """Held-out rows; None holds out a share of `tasks`, by their hashes."""
    test_share: float = 0.1
    """How large that share is."""
    functions: str | Sequence[Callable[..., Any]] = ()
    """Tools: plain typed functions, synchronous or not; or their names, FILE.py:NAME,NAME."""
    toolbox: str | Factory | Mapping[str, Factory] | None = None
    """Makes an object for each episode whose public methods are tools, or FILE.py:CLASS; or
    several of them by name, of which the column `environment` of a task names one."""
    mcp: str = ""
    """An MCP server whose tools are used: a command with its arguments, or a URL."""
    mcp_shared: bool = False
    """One server for all episodes, for tools that keep nothing between calls."""
    mcp_seconds: float = 30.0
    """How long a server may take to start."""
    calls: str = "hermes"
    """How the policy writes calls: hermes, llama3, pythonic, qwen3_coder or react."""
    listed_in: str = ""
    """Who lists the tools: the chat `template`, or the `text` of the system message. Left out, the
    format of calls decides."""
    thought_opened: bool = False
    """Whether the chat template opens a thought in front of every answer."""
    reward: str | Reward | None = None
    """What an episode is worth, from the record of it, or FILE.py:NAME. Left out: what the
    toolbox's `get_reward` says, or else 1 if the answer matches the task's."""
    answer: str = "answer"
    """The column of the right answer; without it, verl's `reward_model.ground_truth` is taken."""
    prompt: str = ""
    """The column an episode begins with; `messages` or `prompt` if left out."""
    system: str = ""
    """Put into the system message, behind the task's own."""
    max_turns: int = 8
    """Answers in an episode; it ends, truncated, after so many."""
    tool_seconds: float = 30.0
    """How long a call may take."""
    deterministic: bool = False
    """Whether the same calls always have the same results. Only then, or with a toolbox that has a
    `fork`, can episodes be continued twice from one point."""
    success_return: float = 1.0
    """An episode that earns this is a success."""
    max_new_tokens: int = 256
    """Tokens of an answer."""
    context: ContextPolicy = "full"
    """What the policy is shown of the past."""
    teacher: str | Teacher | None = None
    """Says what to call, or the final answer as text, and errs at times, or FILE.py:NAME; the
    embedded policy is warm-started on it."""
    words: Sequence[str] = ()
    """Words the embedded policy has to know besides those that are heard in its tasks."""
    rows: Mapping[Split, Sequence[Row]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        named(FORMATS, self.calls, "format of calls")
        if self.listed_in not in ("", "template", "text"):
            raise ValueError(f"listed_in: needed is template or text, got {self.listed_in!r}")
        for option in ("max_turns", "max_new_tokens", "tool_seconds", "mcp_seconds"):
            if not getattr(self, option) > 0:
                raise ValueError(f"{option}: more than 0 is needed, got {getattr(self, option)}")
        if not 0 <= self.test_share < 1:
            raise ValueError(f"test_share: 0 or more and below 1 is needed, got {self.test_share}")
        object.__setattr__(self, "rows", self._read())
        everything = [*self.rows["train"], *self.rows["test"]]
        self.toolset.check(everything)
        for row in everything:
            self._check_end(row)

    def _read(self) -> Mapping[Split, Sequence[Row]]:
        def read(tasks: Tasks) -> list[Row]:
            optional = bool(self.toolbox)
            if isinstance(tasks, str | Path):
                return read_rows(Path(tasks), self.prompt, optional=optional)
            return rows_of(tasks, self.prompt, optional=optional)

        if self.test is None:
            train, test = split_rows(read(self.tasks), self.test_share)
        else:
            train, test = read(self.tasks), read(self.test)
            check_apart(train, test)
        return {"train": train, "test": test}

    def _check_end(self, row: Row) -> None:
        """Refuse a task whose end could not be judged."""
        if self.judge is not None or hasattr(self.toolset.example(row), "get_reward"):
            return
        try:
            gold_of(row.columns, self.answer)
        except LookupError as cause:
            raise ValueError(
                f"{row.where}: nothing says what its end is worth ({cause}); give every task its "
                "answer, or the environment a reward"
            ) from cause

    @property
    def forking(self) -> Forking:
        """By the toolbox's own fork; else only what is deterministic can be continued twice."""
        return self.toolset.forking

    @property
    def turn_limit(self) -> int:
        """An episode ends after this many answers at the latest."""
        return self.max_turns

    @property
    def offers(self) -> frozenset[Offer]:
        """A right answer, if every task has one."""
        return frozenset({Offer.GOLD} if self._has_gold else ())

    @property
    def vocabulary(self) -> Vocabulary | None:
        """What is heard when the teacher does the tasks; None if there is no teacher."""
        return self._heard

    @cached_property
    def toolset(self) -> Toolset:
        """Everything there is to call."""
        functions: Any = self.functions
        if isinstance(self.functions, str):
            place, _, names = self.functions.rpartition(":")
            each = names.split(",") if names else []
            functions = [found_at(f"{place}:{name.strip()}", "functions") for name in each]
        pool = Pool(self.mcp, self.mcp_shared, self.mcp_seconds) if self.mcp else None
        toolbox = _found(self.toolbox, "toolbox")
        return Toolset(functions, toolbox, pool, self.tool_seconds, self.deterministic)

    @cached_property
    def judge(self) -> Reward | None:
        """The reward, looked up if it was named."""
        return _found(self.reward, "reward")

    @cached_property
    def tutor(self) -> Teacher | None:
        """The teacher, looked up if it was named."""
        return _found(self.teacher, "teacher")

    @cached_property
    def _heard(self) -> Vocabulary | None:
        return None if self.tutor is None else aside(heard(self))

    @cached_property
    def _has_gold(self) -> bool:
        try:
            for row in (*self.rows["train"], *self.rows["test"]):
                gold_of(row.columns, self.answer)
        except LookupError:
            return False
        return True

    def size(self, split: Split) -> int:
        """As many as there are rows."""
        return len(self.rows[split])

    def task(self, split: Split, index: int) -> str:
        """The task with this index, from 0 on."""
        if index >= self.size(split):
            raise ValueError(
                f"{self.name} has {self.size(split)} {split} tasks: no {split}-{index}"
            )
        return numbered_task(split, index)

    def columns(self, task: str) -> Mapping[str, object]:
        """What else is known of a task, for reward functions."""
        return self.row(task).columns

    def row(self, task: str) -> Row:
        """The row of a task.

        Raises:
            ValueError: there is no such task.
        """
        split, index = parts_of_task(task, self.name)
        rows = self.rows["train" if split == "train" else "test"]
        if int(index) >= len(rows):
            raise ValueError(f"{self.name} has {len(rows)} {split} tasks: no {task}")
        return rows[int(index)]

    def gold(self, task: str) -> str:
        """The right answer, as the policy would say it."""
        answer: Any = gold_of(self.row(task).columns, self.answer)
        first = cast("list[Any]", answer)[0] if isinstance(answer, list) else answer
        return spoken_by(str(first), self.calls)

    async def open(self, task: str, seed: int) -> ToolEpisode:
        """Start an episode, its toolbox and its server."""
        row = self.row(task)
        kit, told = await self.toolset.opened(row, seed)
        return ToolEpisode(self, task, row, kit, self._opening(row, told, kit.tools))

    def _opening(self, row: Row, told: str, tools: Mapping[str, Tool]) -> tuple[Message, ...]:
        messages = list(row.messages) or [Message("user", "", lasting=True)]
        first = messages.pop(0).content if messages[0].role == "system" else ""
        if told:
            messages[-1] = replace(messages[-1], content=messages[-1].content + told)
        return self._system(first, tools), *messages

    def _system(self, first: str, tools: Mapping[str, Tool]) -> Message:
        form = FORMATS[self.calls]
        parts = [part for part in (first, self.system) if part]
        if (self.listed_in or form.listed_in) == "text":
            listed = "\n".join(f"- {tool.line}" for tool in tools.values())
            parts += [f"You have these tools:\n{listed}", form.manual]
            return Message("system", "\n\n".join(parts), lasting=True)
        schemas = tuple(tool.schema for tool in tools.values())
        return Message("system", "\n\n".join(parts) or USUAL_SYSTEM, lasting=True, tools=schemas)

    def described(self) -> dict[str, Any]:
        """What makes it what it is, as plain data: its options, and hashes of what is no option."""
        examples = self.toolset.examples.values() or [None]
        kits = [self.toolset.kit(example, None) for example in examples]
        code = [*self.toolset.functions, *self.toolset.factories.values(), self.judge, self.tutor]
        options = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.init}
        plain = {name: v for name, v in options.items() if isinstance(v, str | int | float)}
        files = {name: str(value) for name, value in options.items() if isinstance(value, Path)}
        return {
            **plain,
            **files,
            "contents": {
                "words": list(self.words),
                "rows": _digest(row.identity for rows in self.rows.values() for row in rows),
                "code": _digest(_source(one) for one in code),
                "tools": _digest(tool.schema for kit in kits for tool in kit.tools.values()),
            },
        }


def _found(code: Any, what: str) -> Any:
    """Code, looked up if it was named; nothing if it was left out."""
    if not isinstance(code, str):
        return code
    return found_at(code, what) if code else None


def _digest(parts: Iterable[object]) -> str:
    text = json.dumps([str(part) for part in parts])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _source(code: Any) -> str:
    """The text of a function or class; its name where there is none."""
    if isinstance(code, partial):
        code = cast("partial[Any]", code).func
    try:
        return inspect.getsource(code)
    except (OSError, TypeError):
        return getattr(code, "__qualname__", type(code).__qualname__)
