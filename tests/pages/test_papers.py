"""The page about papers is what its script writes today."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_method_has_its_row():
    page = runpy.run_path(str(ROOT / "scripts" / "papers_page.py"))["page"]()
    written = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    assert page == written, "run `python scripts/papers_page.py`"
