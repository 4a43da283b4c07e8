"""The page about planted faults; `make mutants` writes it, which takes too long for a test."""

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_nine_of_ten_planted_faults_are_found_and_the_others_explained():
    page = (ROOT / "docs" / "quality.md").read_text(encoding="utf-8")
    (share,) = re.findall(r"are killed: ([\d.]+)%", page)
    assert float(share) >= 90
    said = {
        why for _, why in runpy.run_path(str(ROOT / "scripts" / "quality_page.py"))["reasons"]()
    }
    listed = set(re.findall(r"^## (.*) \(\d+\)$", page, flags=re.MULTILINE))
    assert listed <= said
