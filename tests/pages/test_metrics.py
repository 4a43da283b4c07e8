"""Every figure that a run writes is explained in docs/metrics.md."""

import re
from pathlib import Path

import pytest
from tests.cli.conftest import retrograde, walker  # noqa: F401 - fixtures

from retrograde.trainer.lines import read_lines

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
SMALL = ("--prompts", "3", "--steps", "2", "--eval-episodes", "2", "--quiet")
RUNS = {
    "rtpo": ("--algorithm.siblings", "3", "--algorithm.min-signal", "1"),
    "ppo": ("--algorithm.rollouts", "3", "--algorithm.critic", "own"),
    "turn_ppo": ("--algorithm.rollouts", "3", "--algorithm.critic", "shared"),
    "dapo": ("--algorithm.rollouts", "3"),
}  # fmt: skip
PLACE = re.compile(r"(?<![A-Za-z])(NAME|N|PHASE|END|WHAT|KIND|WHERE)(?![A-Za-z])")


def explained() -> list[str]:
    """The names in the first columns of the page's tables."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])]


def pattern(name: str) -> re.Pattern[str]:
    return re.compile(r"[\w.]+".join(re.escape(part) for part in PLACE.split(name)[::2]))


def unexplained(names) -> set[str]:
    known = [pattern(name) for name in explained()]
    return {name for name in names if not any(each.fullmatch(name) for each in known)}


@pytest.mark.parametrize(
    "method",
    [name if name == "rtpo" else pytest.param(name, marks=pytest.mark.slow) for name in RUNS],
)
def test_every_name_of_a_real_run_is_explained(method, walker, tmp_path, retrograde):  # noqa: F811
    run = tmp_path / "run"
    said = retrograde(
        "train", "--environment", "lake", "--model", walker, "--algorithm", method,
        *RUNS[method], *SMALL, "--out", run,
    )  # fmt: skip
    assert said.code == 0, said
    names = {name for line in read_lines(run / "metrics.jsonl") for name in line}
    assert len(names) > 30
    assert unexplained(names) == set()


def test_what_is_not_on_the_page_is_found():
    names = (
        "entropy",
        "drift/turn_3",
        "reward/f1",
        "drift/turn",
        "entropies",
        "seconds/",
        "rows/x",
    )
    assert unexplained(names) == {"drift/turn", "entropies", "seconds/", "rows/x"}


def test_every_name_is_explained_once():
    names = explained()
    assert len(names) == len(set(names))
    assert {"reward/mean", "kl", "clip_ratio", "completions/mean_length", "entropy"} < set(names)
