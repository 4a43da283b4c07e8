"""What a run warns of, and what it measures, is on the page about troubleshooting by its name."""

import re
from pathlib import Path

from retrograde.trainer.symptoms import SYMPTOMS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
METRICS = (DOCS / "metrics.md").read_text(encoding="utf-8")


def test_every_warning_has_its_row():
    for symptom in SYMPTOMS:
        assert f"| {symptom.name} |" in PAGE


def test_every_figure_on_the_page_is_one_of_metrics():
    named = set(re.findall(r"`([a-z_]+/[a-zA-Z_/]+|kl|entropy|clip_ratio|grad_norm)`", PAGE))
    assert len(named) > 10
    known = re.sub(r"/(TYPE|WHERE|END|NAME|N)\b", "/", METRICS)
    # Names of calls' events are the environments'; those of rollouts begin a family.
    missing = [
        name
        for name in named
        if not name.startswith(("call/", "runs/"))
        and re.sub(r"/(TYPE|WHERE|truncated|contexts)$", "/", name) not in known
    ]
    assert not missing
