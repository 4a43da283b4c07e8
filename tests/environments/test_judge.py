"""The judge's process: what it reads, and what becomes of answers that it cannot bear."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from retrograde.environments.confined.judge import Judge, JudgeError, UnansweredError
from retrograde.environments.confined.judging import is_plain

pytest.importorskip("reasoning_gym")
COUNTDOWN = {"dataset": "countdown", "config": {}, "seed": 1, "size": 5, "index": 0}
QUEENS = {
    "dataset": "n_queens",
    "config": {"n": 6, "max_remove": 3},
    "seed": 1,
    "size": 5,
    "index": 0,
}


@pytest.fixture(scope="module")
def judge():
    one = Judge()
    yield one
    one.close()


def test_it_makes_puzzles_and_scores_answers(judge):
    puzzle = judge.ask("puzzle", **COUNTDOWN)
    assert puzzle["about"]["expression"] == puzzle["answer"]
    assert judge.ask("score", text=puzzle["answer"], **COUNTDOWN) == 1.0
    assert judge.ask("score", text="1 + 1", **COUNTDOWN) == 0.05
    assert "countdown" in judge.ask("names")


def test_what_a_package_raises_is_told_and_the_process_goes_on(judge):
    before = judge._worker
    with pytest.raises(JudgeError, match="no_such"):
        judge.ask("puzzle", **COUNTDOWN | {"dataset": "no_such"})
    factors = COUNTDOWN | {"dataset": "prime_factorization"}
    with pytest.raises(JudgeError, match=r"ValueError.*'no idea'"):
        judge.ask("score", text="no idea", **factors)
    assert judge._worker is before is not None


def test_an_answer_that_takes_for_ever_ends_the_process_and_another_is_started(judge):
    judge.ask("score", text="1", **COUNTDOWN)
    before = judge._worker
    with pytest.raises(UnansweredError, match=r"no answer within 0\.5 seconds"):
        judge.ask("score", seconds=0.5, text="9**9**9**9", **COUNTDOWN)
    assert judge.ask("score", text="1 + 1", **COUNTDOWN) == 0.05
    assert judge._worker is not before
    assert not Path(f"/proc/{before._process.pid}").exists()


@pytest.mark.parametrize("puzzle", [COUNTDOWN, QUEENS], ids=["parse_expr", "eval"])
def test_an_answer_is_not_run(judge, puzzle, tmp_path):
    # Unguarded, both scorers would make the folder: they give answers to Python to evaluate.
    path = str(tmp_path / "made")
    judge.ask("score", text=f"__import__('os').mkdir({path!r})", **puzzle)
    judge.ask("score", text="exec(chr(49))", **puzzle)
    assert not list(tmp_path.iterdir())


def test_unguarded_scorers_do_run_answers(tmp_path):
    hostile = f"__import__('os').mkdir({str(tmp_path / 'made')!r})"
    code = (
        "import reasoning_gym; q = reasoning_gym.create_dataset('n_queens', size=1, seed=1)\n"
        f"q.score_answer({hostile!r}, q[0])"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_a_board_may_still_be_written_as_a_list(judge):
    board = judge.ask("puzzle", **QUEENS)["answer"]
    listed = str([row.split() for row in board.splitlines()])
    assert judge.ask("score", text=listed, **QUEENS) == 0.5  # the package's, for its other form


@pytest.mark.parametrize(
    ("formula", "plain"),
    [
        ("( 3 + 4 ) * 7 / 2.5", True),
        ("x**2 + sin(x) - Abs(y_1)", True),
        ("max(1, 2)", True),
        ("__import__", False),
        ("(1).real", False),
        ("open(3)", False),
        ("'a'", False),
        ("[1][0]", True),
        ("lambda: 1", False),
        ("exec(chr(49))", False),
        ("x = 1; y", False),
    ],
)
def test_formulas_hold_neither_strings_nor_attributes_nor_harmful_functions(formula, plain):
    assert is_plain(formula) is plain


def test_closing_ends_the_process():
    one = Judge()
    pid = one._running()._process.pid
    one.close()
    one.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
