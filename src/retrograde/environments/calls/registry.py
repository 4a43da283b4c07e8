"""Every format of calls, by name. To add one, add a line."""

from collections.abc import Mapping
from types import MappingProxyType

from retrograde.data.names import named
from retrograde.environments.calls.call import Format, Said
from retrograde.environments.calls.hermes import HERMES
from retrograde.environments.calls.llama3 import LLAMA3
from retrograde.environments.calls.pythonic import PYTHONIC
from retrograde.environments.calls.qwen3_coder import QWEN3_CODER
from retrograde.environments.calls.react import REACT
from retrograde.environments.calls.thought import outside_thought

FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "hermes": HERMES,
        "llama3": LLAMA3,
        "pythonic": PYTHONIC,
        "qwen3_coder": QWEN3_CODER,
        "react": REACT,
    }
)


def read_calls(text: str, name: str, *, thought_opened: bool = False) -> Said:
    """What an answer calls, and the words around it. Takes any text; what is thought is not read.

    Args:
        text: an answer of the policy.
        name: of the format.
        thought_opened: whether the chat template opens a thought in front of every answer.

    Raises:
        ValueError: there is no such format.
    """
    return named(FORMATS, name, "format of calls").read(
        outside_thought(text, opened=thought_opened)
    )
