"""`retrograde doctor --model M`: whether chats are rendered as the model's template does it."""

from collections.abc import Callable
from functools import partial

from retrograde.backends.models import load_chat
from retrograde.backends.proof import proof
from retrograde.cli.panel import Panel
from retrograde.data.report import Report
from retrograde.trainer.run import Run


def check(name: str) -> Callable[[], Report]:
    """Load the tokenizer, and return its examination.

    Raises:
        ValueError: there is no such model, or it has no chat template that can be used.
    """
    with Panel("doctor", Run(), quiet=True) as panel:
        chat = load_chat(name, panel.progress)
    return partial(proof, chat, f"model {name}")
