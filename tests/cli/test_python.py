"""`retrograde.train`: what the command does, from Python."""

import dataclasses
import json

import pytest

import retrograde as package
from retrograde.cli.python import RunSettings, Trained
from retrograde.environments.lake import Lake
from retrograde.trainer.run import Run

SHORT = {"steps": 1, "prompts": 2, "eval_episodes": 2, "quiet": True}


def test_it_does_what_the_command_does(walker, retrograde, place):
    words = ["--steps", "1", "--prompts", "2", "--eval-episodes", "2", "--out", "command"]
    told = retrograde("train", "--environment", "lake", "--model", walker, *words)
    assert told.code == 0, told.err
    done = train(Lake(), model=walker, out="function", **SHORT)
    assert (done.checkpoint / "config.json").exists()
    # One code path: the same numbers but for the clock.
    command = [
        json.loads(line) for line in (place / "command/metrics.jsonl").read_text().splitlines()
    ]
    assert [_timeless(line) for line in done.metrics] == [_timeless(line) for line in command]
    assert done.success == command[-1]["eval/success"]
    assert json.loads((done.out / "manifest.json").read_text())["settings"]["environment"] == "lake"


def _timeless(line):
    return {name: value for name, value in line.items() if "second" not in name}


def train(*arguments, **options) -> Trained:
    return package.train(*arguments, **options)


def test_a_run_goes_on_from_python(walker):
    train("lake", model=walker, out="run", **SHORT)
    more = train("lake", model=walker, out="run", resume=True, **{**SHORT, "steps": 2})
    assert [line["step"] for line in more.metrics] == [0, 1, 2]


async def test_it_can_be_called_where_a_loop_is_running(walker):
    assert (
        train("lake", model=walker, algorithm="grpo", out="run", **SHORT).metrics[-1]["step"] == 1
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"environment": "lakke"}, "did you mean lake"),
        ({"algorithm": "grppo"}, "did you mean grpo"),
        ({"prompts": 0}, "prompts: at least 1 is needed"),
        ({"algorithm": "a2tgpo"}, "a2tgpo cannot run on the environment lake"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(walker, place, options, problem):
    with pytest.raises(ValueError, match=problem):
        train(**{"environment": "lake", "model": walker, **SHORT, **options})
    assert list(place.iterdir()) == []


def test_it_takes_every_setting_of_a_run():
    assert set(RunSettings.__annotations__) == {entry.name for entry in dataclasses.fields(Run)}


def test_more_held_out_tasks_than_there_are_are_refused(walker, place):
    tasks = [{"prompt": str(i), "answer": i} for i in range(20)]

    def add(a: int) -> int:
        """Add one."""
        return a + 1

    world = package.ToolEnvironment(tasks=tasks, functions=[add])
    with pytest.raises(ValueError, match=r"tools has .* held-out tasks, and 99 would be needed"):
        train(world, algorithm="grpo", model=walker, **{**SHORT, "eval_episodes": 99})
