"""The page about contexts shows what the doctor says."""

import re
from pathlib import Path

import pytest
from tests.rendering.tokenizers_by_hand import chat

from retrograde.backends.models import load_chat
from retrograde.backends.proof import proof
from retrograde.cli.doctor import written
from retrograde.data.report import Report

PAGE = (Path(__file__).parents[2] / "docs" / "contexts.md").read_text(encoding="utf-8")


def check_shown(name: str, report: Report) -> None:
    """Every line of the page is a line of the report, in that order."""
    (block,) = re.findall(rf"```doctor {name}\n(.*?)\n```", PAGE, flags=re.DOTALL)
    lines = iter(written(report).plain.splitlines())
    for line in block.splitlines():
        assert line in lines, line


def test_what_a_rewriting_template_shows():
    check_shown("qwen3", proof(chat("qwen3"), "qwen3"))


@pytest.mark.slow
def test_what_a_real_model_shows():
    def progress(what, share):
        del what, share

    report = proof(load_chat("smollm2-135m", progress), "model smollm2-135m")
    assert report.is_proven
    check_shown("smollm2-135m", report)
