"""A run most of whose answers are cut off says so, aloud and once."""

import pytest

from retrograde.cli.panel import Panel
from retrograde.trainer.cut_off import CutOff
from retrograde.trainer.run import Run, State

NAME = "completions/clipped_ratio"


def said(shares):
    watch = CutOff()
    return [watch.warning({} if share is None else {NAME: share}) for share in shares]


def test_it_is_said_after_three_iterations_in_a_row_and_once():
    heard = said([0.9, 0.6, 0.97, 0.9, 0.9, 0.1, 0.9, 0.9, 0.9])
    assert [text is not None for text in heard] == [False, False, True] + [False] * 6
    assert heard[2].startswith("97% of the answers ran out of tokens")
    assert "--model.max-new-tokens" in heard[2]


@pytest.mark.parametrize(
    "shares",
    [[0.5, 0.5, 0.5, 0.5], [0.9, 0.9, 0.2, 0.9, 0.9], [None] * 5],
    ids=["half is not most", "not in a row", "nothing generated"],
)
def test_it_is_not_said_without_need(shares):
    assert not any(said(shares))


def test_lines_without_answers_do_not_count():
    """Such a line is that of the evaluation before the first iteration."""
    assert said([None, 0.9, 0.9, None, 0.9])[-1] is not None


@pytest.mark.parametrize("quiet", [False, True])
def test_the_panel_says_it_also_where_it_is_to_be_quiet(quiet, capsys):
    with Panel("x", Run(steps=9), quiet=quiet) as panel:
        for step in range(1, 6):
            panel.show(State(step=step), "done", {NAME: 0.8})
    assert capsys.readouterr().err.count("warning: 80% of the answers ran out of tokens") == 1
