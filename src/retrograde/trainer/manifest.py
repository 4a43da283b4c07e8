"""What a run was started with: `manifest.json`, which a resumed run is held to."""

import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from retrograde.algorithms.algorithm import Algorithm
from retrograde.trainer.checkpoint import synced
from retrograde.trainer.failure import Writing
from retrograde.trainer.run import BUDGETS, Run, State

PACKAGES = ("retrograde", "torch", "transformers", "tokenizers", "gymnasium")
MAY_CHANGE = (
    *(f"run.{name}" for name in BUDGETS),
    *("run.save_every", "run.keep_checkpoints"),
)
"""Settings that a resumed run may be given anew: how long it goes on, and what is kept of it."""


def settings_of(
    names: Mapping[str, str],
    algorithm: Algorithm,
    environment: Mapping[str, object],
    run: Run,
    model: Mapping[str, object],
    rewards: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Every resolved setting of a run, as plain JSON data."""
    settings = {
        **names,
        "algorithm_settings": asdict(algorithm),
        "environment_settings": dict(environment),
        "model_settings": dict(model),
        "run": asdict(run),
        "rewards": dict(rewards or {}),
    }
    return json.loads(json.dumps(settings))


def write_manifest(folder: Path, settings: Mapping[str, Any], arguments: Sequence[str]) -> None:
    """Write what the run is, with the versions of what it stands on."""
    record = {
        "settings": settings,
        "arguments": list(arguments),
        "packages": {name: version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "machine": platform.platform(),
        "commit": commit(),
    }
    unfinished = folder / ".manifest.unfinished"
    with Writing(folder / "manifest.json"):
        unfinished.write_text(json.dumps(record, indent=1) + "\n")
        synced(unfinished)
        unfinished.rename(folder / "manifest.json")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read a run's manifest.

    Raises:
        ValueError: there is none, so the directory is not a run's; or it is damaged.
    """
    path = folder / "manifest.json"
    if not path.exists():
        raise ValueError(f"{folder} holds no manifest.json: there is no run to resume in it")
    try:
        record = json.loads(path.read_text())
    except ValueError as cause:
        raise ValueError(f"{path} is damaged: {cause}") from cause
    if not (isinstance(record, dict) and {"settings", "arguments"} <= record.keys()):
        raise ValueError(f"{path} is damaged: it names no settings and arguments of a run")
    return cast("dict[str, Any]", record)


def check_same(
    stored: Mapping[str, Any], wanted: Mapping[str, Any], *, anyway: bool = False
) -> str | None:
    """Refuse a resumption with other settings.

    Args:
        stored: what the run was started with.
        wanted: what it is to go on with.
        anyway: whether the user means it.

    Returns:
        What to say of the difference, if there is one and it is meant.

    Raises:
        ValueError: the differing settings, with both values.
    """
    differ = differing(stored, wanted, "the run", MAY_CHANGE)
    if not differ:
        return None
    listed = "\n  ".join(differ)
    if anyway:
        return (
            "the run goes on with other settings than it was started with, from the weights of "
            f"its last checkpoint:\n  {listed}"
        )
    raise ValueError(
        "a run is resumed with the settings it was started with (only "
        f"{', '.join(MAY_CHANGE)} may change):\n  {listed}\n"
        "if that is what you want: --resume-anyway"
    )


def check_started(out: Path, run: Run, state: State, stored: Mapping[str, Any]) -> str | None:
    """Refuse to resume a run with a budget smaller than what it has used.

    The run's own last iteration may have used more than its budget; then it is finished.

    Args:
        out: the run's directory.
        run: how long it is to be.
        state: what it has used.
        stored: the settings of `run` that it was started or last resumed with.

    Returns:
        What to say if the run is finished, and nothing else was asked for.

    Raises:
        ValueError: a smaller budget is asked for; what is used is said.
    """
    overdrawn = run.overdrawn(state)
    if run.is_over(state) and all(stored.get(name) == getattr(run, name) for name in BUDGETS):
        longer = " ".join(f"--{name.replace('_', '-')} N" for name in run.used_up(state))
        return (
            f"the run is finished, at step {state.step} after {state.env_steps} turns; "
            f"`retrograde train --resume --out {out} {longer}` goes on, to a larger N"
        )
    if overdrawn:
        raise ValueError(
            f"the run is at step {state.step} already, beyond what is asked for: "
            f"{'; '.join(overdrawn)}. Ask for as much or more, or start another run"
        )
    return None


def differing(
    stored: Mapping[str, Any], wanted: Mapping[str, Any], holder: str, ignored: Sequence[str] = ()
) -> list[str]:
    """Settings that differ, each with both values, in words."""
    before, after = dict(_leaves(stored)), dict(_leaves(wanted))
    return [
        f"{name}: {holder} has {before.get(name)!r}, asked for is {after.get(name)!r}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name) and name not in ignored
    ]


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in tree.items():
        if isinstance(value, dict):
            found += _leaves(cast("dict[str, Any]", value), f"{prefix}{name}.")
        else:
            found.append((prefix + name, value))
    return found


def commit() -> str | None:
    """The commit of the checkout that this package runs from, if it runs from one."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=10)  # noqa: S603
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
