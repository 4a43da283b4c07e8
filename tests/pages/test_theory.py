"""The page about the theory is what its script writes today."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_number_on_the_page_is_computed_again():
    page = runpy.run_path(str(ROOT / "scripts" / "theory_tables.py"))["page"]()
    written = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    assert page == written, "run `python scripts/theory_tables.py` and look at what changed"
