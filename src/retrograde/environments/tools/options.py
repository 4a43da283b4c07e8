"""The environment `tools` as the command line names it: files, names in them, numbers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from retrograde.environments.tools.environment import ToolEnvironment


@dataclass(frozen=True, kw_only=True)
class Tools(ToolEnvironment):
    """Your own tasks, done with your own functions or an MCP server's tools."""

    tasks: Path
    """A .jsonl or .parquet file: `prompt` or `messages`, and other columns."""
    test: Path | None = None
    """Held-out tasks; left out, a share of the others is held out, by their hashes."""
    functions: str = ""
    """Tools: plain typed functions, as FILE.py:NAME,NAME or package.module:NAME,NAME."""
    toolbox: str = ""
    """FILE.py:CLASS. Each episode gets an object whose public methods are tools."""
    reward: str = ""
    """FILE.py:NAME, from the record of an episode to what it is worth. Left out: what the
    toolbox's `get_reward` says, or else 1 if the answer matches the task's."""
    teacher: str = ""
    """FILE.py:NAME. Says what to call; the embedded policy is warm-started on it."""
    calls: Literal["hermes", "llama3", "pythonic", "qwen3_coder", "react"] = "hermes"
    """How the policy writes calls."""
    listed_in: Literal["", "template", "text"] = ""
    """Who lists the tools: the chat template, or the text of the system message. Left out, the
    format of calls decides."""
    words: tuple[str, ...] = ()
    """Words the embedded policy has to know besides those that are heard in its tasks."""
