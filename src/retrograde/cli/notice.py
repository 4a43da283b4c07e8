"""What is said on stderr because nobody may miss it."""

import sys


def notice(text: str | None) -> None:
    """Say something that nobody may miss, above a panel or among plain lines."""
    if text is not None:
        print(f"notice: {text}", file=sys.stderr, flush=True)
