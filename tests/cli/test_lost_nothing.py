"""What stands in a run's way is said without a traceback, and what it had stays."""

import contextlib
import json
import resource
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from retrograde.backends.learner import TransformersLearner
from retrograde.cli.main import main
from retrograde.trainer import learning
from retrograde.trainer.checkpoint import checkpoints, fault
from retrograde.trainer.lines import read_lines
from retrograde.trainer.not_finite import looked_at

from .resumed import STEPS, same, words

METHOD = "rtpo"


@pytest.fixture(scope="module")
def whole(tmp_path_factory, walker):
    """A run that nobody disturbed."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert main(words(METHOD, walker, out)) == 0
    return out


def shorter(walker, out, steps):
    asked = words(METHOD, walker, out)
    asked[asked.index("--steps") + 1] = str(steps)
    return asked


def test_the_best_checkpoint_is_kept_and_where_it_was_is_remembered(whole):
    """The highest evaluation, worked out again from the lines; of equals the first."""
    lines = read_lines(whole / "metrics.jsonl")
    for number, line in enumerate(lines):
        so_far = [each["eval/success"] for each in lines[: number + 1]]
        assert line["eval/best"] == max(so_far)
        assert line["eval/best_step"] == so_far.index(max(so_far))
    best = whole / "checkpoints" / f"step-{line['eval/best_step']:06d}"
    assert fault(best) is None
    assert len(checkpoints(whole / "checkpoints")) <= 3


def test_a_budget_that_is_used_already_is_refused(walker, tmp_path, retrograde):
    run = tmp_path / "run"
    assert retrograde(*shorter(walker, run, 2)).code == 0
    before = (run / "metrics.jsonl").read_bytes()
    said = retrograde("train", "--resume", "--out", run, "--steps", "1")
    assert said.code == 2
    assert "the run is at step 2 already, beyond what is asked for: steps 1: 2 are used" in said.err
    assert retrograde("train", "--resume", "--out", run, "--steps", "2", "--quiet").code == 0
    assert (run / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("other", "named"),
    [
        pytest.param(
            ["--algorithm.clip", "0.3"],
            "clip_high: the run has 0.2, asked for is 0.3",
            marks=pytest.mark.slow,
        ),
        (["--algorithm", "rtpo_plus"], "algorithm: the run has 'rtpo', asked for is 'rtpo_plus'"),
        pytest.param(
            ["--environment.turns", "12"],
            "environment_settings.turns: the run has",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_another_run_is_refused_with_the_difference_shown_unless_it_is_meant(
    other, named, walker, tmp_path, retrograde
):
    run = tmp_path / "run"
    assert retrograde(*shorter(walker, run, 1)).code == 0
    asked = ["train", "--resume", "--out", run, *other, "--steps", "2", "--quiet"]
    said = retrograde(*asked)
    assert said.code == 2
    assert named in said.err
    assert "--resume-anyway" in said.err
    asked[1] = "--resume-anyway"
    said = retrograde(*asked)
    assert said.code == 0, said
    assert "notice: the run goes on with other settings" in said.err
    assert named in said.err
    assert [line["step"] for line in read_lines(run / "metrics.jsonl")] == [0, 1, 2]
    manifest = json.loads((run / "manifest.json").read_text())["settings"]
    assert retrograde("train", "--resume", "--out", run, "--quiet").code == 0  # the same again
    assert json.loads((run / "manifest.json").read_text())["settings"] == manifest


def test_a_checkpoint_of_another_kind_of_run_is_refused_in_words(walker, tmp_path, retrograde):
    run = tmp_path / "run"
    assert retrograde(*shorter(walker, run, 1)).code == 0
    said = retrograde(
        "train", "--resume-anyway", "--out", run, "--algorithm", "grpo", "--algorithm.kl", "0.1",
        "--steps", "2",
    )  # fmt: skip
    assert said.code == 2
    assert "unrecognized" in said.err.lower() or "trained something else" in said.err


@contextlib.contextmanager
def small_disk(most):
    """No file may grow beyond so many bytes, which is how a full disk feels."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    heeded = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, heeded)


@pytest.mark.parametrize(
    ("most", "named"),
    [
        pytest.param(3_000_000, None, marks=pytest.mark.slow),  # room for everything
        (500_000, "optimizer.safetensors|step-000001"),  # the weights fit, the moments do not
        pytest.param(100_000, "step-000000", marks=pytest.mark.slow),
        (10, "manifest.json"),
    ],
)
def test_a_full_disk_is_said_and_made_room_on_the_run_goes_on(
    most, named, whole, walker, tmp_path, retrograde
):
    run = tmp_path / "run"
    with small_disk(most):
        said = retrograde(*words(METHOD, walker, run))
    assert said.code == (0 if named is None else 1)
    if named is None:
        return
    assert any(f"{name} cannot be written: " in said.err for name in named.split("|"))
    assert "File too large" in said.err
    assert "Traceback" not in said.err
    assert not list(run.rglob("*.unfinished*")) or named == "manifest.json"
    if named.endswith("step-000001"):
        assert [path.name for path in checkpoints(run / "checkpoints")] == ["step-000000"]
        assert retrograde("train", "--resume", "--out", run, "--quiet").code == 0
        same(run, whole)


def test_a_directory_that_cannot_be_written_is_refused(walker, retrograde):
    said = retrograde(*words(METHOD, walker, "/proc/run"))
    assert said.code == 2
    assert "--out /proc/run: it cannot be made" in said.err or "cannot be written" in said.err


def poisoned_weight(patch):
    """A weight that is no number, from the second update on."""
    step, calls = TransformersLearner.step, []

    def poisoning(self, rows, loss):
        calls.append(rows)
        if len(calls) == 2:
            with torch.no_grad():
                next(iter(self.trained.values()))[:] = torch.nan
        return step(self, rows, loss)

    patch.setattr(TransformersLearner, "step", poisoning)


def poisoned_advantage(patch):
    """A row that is worth infinitely much, in the second update."""
    rows_of, calls = learning.rows_of, []

    def poisoning(*asked):
        rows = rows_of(*asked)
        calls.extend(rows[:1])
        if rows and len(calls) == 2:
            rows[0] = replace(rows[0], advantage=float("inf"))
        return rows

    patch.setattr(learning, "rows_of", poisoning)


@pytest.mark.parametrize(
    ("poison", "why"),
    [
        (poisoned_weight, "logp_now is not finite"),
        pytest.param(poisoned_advantage, "advantage is not finite", marks=pytest.mark.slow),
    ],
)
def test_what_is_not_finite_is_kept_and_can_be_looked_at(
    poison, why, whole, walker, tmp_path, retrograde
):
    run = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        poison(patch)
        said = retrograde(*words(METHOD, walker, run))
    assert said.code == 1
    assert "Traceback" not in said.err
    assert "The step was not taken" in said.err
    kept = run / "not_finite" / "step-000000"
    told = looked_at(kept)
    assert f": {why}" in told
    assert told.startswith("what: the ")
    for line in (kept / "rows.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)  # others than Python can read it
    assert (kept / "weights" / "model.safetensors").exists()
    # The two lines that are printed are what a user types.
    code = next(line for line in said.err.splitlines() if "python -c" in line).split('"')[1]
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == told
    # Nothing of it went into the checkpoints: the cause gone, the run is the undisturbed one.
    assert retrograde("train", "--resume", "--out", run, "--quiet").code == 0
    same(run, whole, STEPS)


def test_without_poison_nothing_is_kept(whole):
    assert not (whole / "not_finite").exists()


def test_weights_that_an_update_ruined_are_neither_published_nor_saved(
    walker, tmp_path, retrograde
):
    run = tmp_path / "run"
    ruinous = ("--algorithm.learning-rate", "1e30", "--algorithm.warmup-steps", "0")
    said = retrograde(*words(METHOD, walker, run), *ruinous)
    assert said.code == 1
    assert "Traceback" not in said.err
    assert "lower the learning rate" in said.err
    assert "The step was not taken" not in said.err or "gradient of optimizer step" in said.err
    (kept,) = (run / "not_finite").iterdir()
    assert "logp_now is not finite" in looked_at(kept)
    assert [path.name for path in checkpoints(run / "checkpoints")] == ["step-000000"]
