"""Other libraries' own words and progress bars, kept off a screen that shows ours."""

import os


def quiet_libraries() -> None:
    """Ask for quiet; to be called before they are imported. What the user has set stays."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
