"""The transcripts in the documentation are what the environments really say.

`python scripts/transcripts.py` writes them down again.
"""

import re
from pathlib import Path

import pytest

from retrograde.environments.registry import environment_named
from retrograde.environments.transcript import answers_in, transcript

PAGES = Path(__file__).parents[2] / "docs" / "environments"
BLOCK = re.compile(r"```transcript (\S+) (\S+) (\d+)((?: \S+=\S+)*)\n(.*?)```", re.DOTALL)
"""Environment, task, seed, options of the environment, text."""
FOUND = [
    pytest.param(*block, id=f"{page.stem}-{i}")
    for page in sorted(PAGES.glob("*.md"))
    for i, block in enumerate(BLOCK.findall(page.read_text()))
]


@pytest.mark.parametrize(("name", "task", "seed", "options", "text"), FOUND)
async def test_a_transcript_is_what_is_said(name, task, seed, options, text):
    chosen = dict(option.split("=", 1) for option in options.split())
    environment = environment_named(name)(**chosen)
    assert await transcript(environment, task, int(seed), answers_in(text)) == text
