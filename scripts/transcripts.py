"""Play the documentation's transcripts again and write down what is said now.

    python scripts/transcripts.py

The answers in a transcript are kept; what the environments say between them is renewed.
"""

import asyncio
import re
from pathlib import Path

from retrograde.environments.registry import environment_named
from retrograde.environments.transcript import answers_in, transcript

PAGES = Path(__file__).parents[1] / "docs" / "environments"
BLOCK = re.compile(r"(```transcript (\S+) (\S+) (\d+)((?: \S+=\S+)*)\n)(.*?)```", re.DOTALL)
"""Head, environment, task, seed, options of the environment, text."""


def renewed(block: re.Match[str]) -> str:
    """One block of a page with what its environment says today."""
    head, name, task, seed, options, text = block.groups()
    chosen = dict(option.split("=", 1) for option in options.split())
    environment = environment_named(name)(**chosen)
    return head + asyncio.run(transcript(environment, task, int(seed), answers_in(text))) + "```"


for page in sorted(PAGES.glob("*.md")):
    before = page.read_text()
    after = BLOCK.sub(renewed, before)
    if after != before:
        page.write_text(after)
        print(f"{page}: renewed")
