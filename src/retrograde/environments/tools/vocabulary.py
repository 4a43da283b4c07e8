"""The words of tasks and tools, for the embedded policy, which knows no others."""

import random
import re
from typing import TYPE_CHECKING

from retrograde.data.message import Message
from retrograde.data.vocabulary import Vocabulary
from retrograde.environments.calls.registry import FORMATS
from retrograde.environments.tools.server import is_address

if TYPE_CHECKING:
    from retrograde.environments.tools.environment import ToolEnvironment
    from retrograde.environments.tools.episode import ToolEpisode

PLAYED = 500
"""Episodes of each split that the teacher plays to find words out, few tasks several times."""
SPACED = ("pythonic", "react")
"""Formats that mean the same with a space between any two words."""
_WORD = re.compile(r"\w+|[^\w\s]+")


async def heard(environment: "ToolEnvironment") -> Vocabulary:
    """Everything that is said when the teacher does the first tasks.

    Raises:
        ValueError: calls are written in a way that a tokenizer of whole words would garble, or
            each episode would start a server.
    """
    if environment.calls not in SPACED:
        raise ValueError(
            f"calls: the embedded policy can say {' or '.join(SPACED)}, got {environment.calls}"
        )
    if environment.mcp and not environment.mcp_shared and not is_address(environment.mcp):
        raise ValueError(
            "mcp_shared: the embedded policy is taught by thousands of demonstrations, each of "
            "which would start a server of its own; share one, or give another --model"
        )
    phrases: dict[str, None] = {}
    words = dict.fromkeys(environment.words)
    for split in ("train", "test"):
        size = environment.size(split)
        for i in range(PLAYED):
            episode = await environment.open(f"{split}-{i % size}", i)
            try:
                for text in await _played(episode, i):
                    words |= dict.fromkeys(_WORD.findall(text))
                phrases |= dict.fromkeys(_fixed(episode))
            finally:
                await episode.close()
    return Vocabulary(tuple(phrases), tuple(words))


def _fixed(episode: "ToolEpisode") -> list[str]:
    system, *_ = episode.opening()
    marks = [*FORMATS[episode.environment.calls].phrases]
    if episode.environment.calls == "react":
        marks += [tag for name in episode.kit.tools for tag in (f"<{name}>", f"</{name}>")]
    return [system.content, *marks]


async def _played(episode: "ToolEpisode", seed: int) -> list[str]:
    chance = random.Random(seed)
    _, *messages = episode.opening()
    texts = _contents(messages)
    end = None
    while end is None:
        said = episode.demonstrate(chance.getrandbits(32))
        observation = await episode.act(said)
        texts += [said, *_contents(observation.messages)]
        end = observation.end
    return texts


def _contents(messages: "tuple[Message, ...] | list[Message]") -> list[str]:
    return [message.content for message in messages]
