"""Each logger has what metrics.jsonl has, under the same names; what is resumed is one run."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from retrograde.loggers import registry, told
from retrograde.loggers.logger import About
from retrograde.loggers.registry import LOGGERS, loggers_named
from retrograde.loggers.told import Told

SETTINGS = {"algorithm": "rtpo", "run": {"seed": 3, "steps": None}}
LINES = [
    {"step": 0, "eval/success": 0.125},
    {"step": 1, "reward/mean": 0.25, "rows": 64.0, "rows/zero_advantage": 0.5, "kl": 1e-3},
    {"step": 2, "reward/mean": 0.5, "rows": 32.0, "rows/zero_advantage": 0.25, "kl": 2e-3},
]
CAUSED = """
import sys
from pathlib import Path
from retrograde.loggers.logger import About
from retrograde.loggers.told import Told

LINES, SETTINGS = {lines!r}, {settings!r}


def warn(text):
    sys.exit(text)


# A run that was killed once its second iteration had been logged and before it was saved.
out = Path({out!r})
about = About(out, "hop-rtpo-3", SETTINGS, 0)
one = Told([{name!r}], about, warn)
for line in LINES[:3]:
    one.log(line["step"], line)
{end}
two = Told([{name!r}], About(out, "hop-rtpo-3", SETTINGS, 1), warn)
for line in LINES[2:]:
    two.log(line["step"], line)
two.close()
"""


def logged(name, out, *, end="one.close()", **environment) -> None:
    """Log in a process of its own: these packages start threads, and see to their own ends."""
    out.mkdir(exist_ok=True)
    program = textwrap.dedent(CAUSED).format(
        lines=LINES, settings=SETTINGS, out=str(out), name=name, end=end
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, cwd=out,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def figures(line):
    return {name: value for name, value in line.items() if name != "step"}


def test_tensorboard_has_every_figure_once(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logged("tensorboard", tmp_path)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    found = {
        (event.step, tag): event.value
        for tag in events.Tags()["scalars"]
        for event in events.Scalars(tag)
    }
    wanted = {(line["step"], name): value for line in LINES for name, value in line.items()}
    assert found == pytest.approx(wanted)
    for tag in events.Tags()["scalars"]:  # that of the killed run is hidden
        steps = [event.step for event in events.Scalars(tag)]
        assert steps == sorted(set(steps))


@pytest.mark.slow
def test_trackio_has_every_figure_in_one_run(tmp_path):
    pytest.importorskip("trackio")
    logged("trackio", tmp_path, TRACKIO_DIR=str(tmp_path / "trackio"))
    program = (
        "import trackio, json\n"
        "from trackio.sqlite_storage import SQLiteStorage\n"
        "runs = list(trackio.Api().runs('retrograde'))\n"
        "print(json.dumps([[run.name, SQLiteStorage.get_logs('retrograde', run.name)]"
        " for run in runs], default=str))\n"
    )
    read = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env=os.environ | {"TRACKIO_DIR": str(tmp_path / "trackio")},
    )  # fmt: skip
    assert read.returncode == 0, read.stderr
    ((name, history),) = json.loads(read.stdout.splitlines()[-1])
    assert name == json.loads((tmp_path / told.KEPT).read_text())["trackio"]
    assert name.startswith("hop-rtpo-3-")
    for line in LINES:
        (*_, row) = [row for row in history if row["step"] == line["step"]]
        assert {key: row[key] for key in figures(line)} == figures(line)


@pytest.mark.slow
def test_wandb_offline_has_every_figure_in_one_run(tmp_path):
    pytest.importorskip("wandb")
    logged("wandb", tmp_path, WANDB_MODE="offline", WANDB_SILENT="true")
    kept = json.loads((tmp_path / told.KEPT).read_text())["wandb"]
    records = sorted((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))
    assert records
    assert {path.name for path in records} == {f"run-{kept}.wandb"}  # both parts are one run
    whole = b"".join(path.read_bytes() for path in records)
    for name in figures(LINES[1]):
        assert name.encode() in whole
    assert b"hop-rtpo-3" in whole


@pytest.mark.slow
def test_mlflow_has_every_figure_in_one_run(tmp_path):
    pytest.importorskip("mlflow")
    logged("mlflow", tmp_path)
    program = (
        "import json, sys\n"
        "from mlflow import MlflowClient\n"
        "client = MlflowClient(sys.argv[1])\n"
        "(experiment,) = [e for e in client.search_experiments() if e.name == 'retrograde']\n"
        "(run,) = client.search_runs([experiment.experiment_id])\n"
        "history = {name: [[m.step, m.value] for m in client.get_metric_history(run.info.run_id,"
        " name)] for name in run.data.metrics}\n"
        "print(json.dumps([run.info.run_name, run.info.status, run.data.params, history]))\n"
    )
    read = subprocess.run(
        [sys.executable, "-c", program, (tmp_path / "mlruns").as_uri()],
        capture_output=True, text=True, check=False,
        env=os.environ | {"MLFLOW_ALLOW_FILE_STORE": "true"},
    )  # fmt: skip
    assert read.returncode == 0, read.stderr
    name, status, params, history = json.loads(read.stdout.splitlines()[-1])
    assert (name, status) == ("hop-rtpo-3", "FINISHED")
    assert params == {"algorithm": "rtpo", "run.seed": "3", "run.steps": "None"}
    for line in LINES:
        for key, value in figures(line).items():
            at = dict(history["rows/all" if key == "rows" else key])
            assert at[line["step"]] == value


class Failing:
    """A logger that breaks at some point."""

    when = "log"
    run_id = "x"

    def __init__(self, about: About) -> None:
        self.broke("open")

    def broke(self, now):
        if now == self.when:
            raise ConnectionError(f"no network to {now}")

    def log(self, step, line):
        self.broke("log")

    def close(self):
        self.broke("close")


class Deaf(Failing):
    when = "never"
    heard: list[int]

    def __init__(self, about):
        Deaf.heard = []

    def log(self, step, line):
        self.heard.append(step)


@pytest.mark.parametrize("when", ["open", "log", "close"])
def test_a_logger_that_fails_is_warned_of_once_and_costs_the_others_nothing(
    when, tmp_path, monkeypatch
):
    monkeypatch.setattr(Failing, "when", when)
    monkeypatch.setattr(
        told, "opened", lambda name, about: {"wandb": Failing, "mlflow": Deaf}[name](about)
    )
    warnings: list[str] = []
    loggers = Told(["wandb", "mlflow"], About(tmp_path, "x", {}, 0), warnings.append)
    for step in range(3):
        loggers.log(step, {"step": step})
    loggers.close()
    (warning,) = warnings
    assert warning.startswith("--log wandb failed and is told no more in this run")
    assert f"ConnectionError: no network to {when}" in warning
    assert Deaf.heard == [0, 1, 2]


def test_what_is_to_stop_the_program_goes_through(tmp_path, monkeypatch):
    class Stopping(Deaf):
        def log(self, step, line):
            raise KeyboardInterrupt

    monkeypatch.setattr(told, "opened", lambda _name, about: Stopping(about))
    loggers = Told(["wandb"], About(tmp_path, "x", {}, 0), pytest.fail)
    with pytest.raises(KeyboardInterrupt):
        loggers.log(0, {"step": 0})


def test_names_are_checked_before_any_work(monkeypatch):
    assert loggers_named(" tensorboard, tensorboard,") == ("tensorboard",)
    assert loggers_named("") == ()
    with pytest.raises(ValueError, match="--log tensorbord: no such logger; known: tensorboard, t"):
        loggers_named("tensorbord")
    entry = registry.Entry("wandb", "WeightsAndBiases", "no_such_package")
    monkeypatch.setitem(LOGGERS, "wandb", entry)
    with pytest.raises(ValueError, match=r"pip install 'retrograde\[wandb\]'"):
        loggers_named("wandb")


def test_each_logger_has_an_extra_of_its_name():
    import tomllib

    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert LOGGERS.keys() <= tomllib.loads(text)["project"]["optional-dependencies"].keys()


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_damaged_note_of_names_costs_no_run(tmp_path, monkeypatch, text):
    monkeypatch.setattr(told, "opened", lambda _name, about: Deaf(about))
    (tmp_path / told.KEPT).write_text(text)
    Told(["wandb"], About(tmp_path, "x", {}, 0), pytest.fail).close()
    assert json.loads((tmp_path / told.KEPT).read_text()) == {"wandb": "x"}
