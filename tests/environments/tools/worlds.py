"""Tools and tasks that tests act with."""

import json
import shlex
import sys
from pathlib import Path

from retrograde.environments.tools.environment import ToolEnvironment

ODD_SERVER = shlex.join([sys.executable, str(Path(__file__).with_name("odd_server.py"))])
TASKS = [{"prompt": f"What is {i} + 1?", "answer": i + 1} for i in range(20)]


def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: the first
            of them.
        b: the second.
    """
    return a + b


def call(name: str, **arguments) -> str:
    """A call as Hermes writes it."""
    said = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>{said}</tool_call>"


def adding(**options) -> ToolEnvironment:
    """Sums, with a tool for them."""
    return ToolEnvironment(**({"tasks": TASKS, "functions": [add]} | options))


async def said(environment, *answers: str, task: str = "train-0", seed: int = 0) -> list:
    """What comes of each answer."""
    episode = await environment.open(task, seed)
    try:
        return [await episode.act(answer) for answer in answers]
    finally:
        await episode.close()


def texts(observation) -> list[str]:
    """What its messages say."""
    return [message.content for message in observation.messages]
