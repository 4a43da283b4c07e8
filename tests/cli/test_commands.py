"""What the commands promise to those who script them."""

import contextlib
import io
import json
import re
import shutil
from dataclasses import dataclass
from typing import ClassVar

import pytest
from tests.rollouts.worlds import Book, Watched
from transformers import AutoModelForCausalLM, AutoTokenizer

from retrograde import __version__
from retrograde.algorithms.registry import ALGORITHMS
from retrograde.environments import registry
from retrograde.environments.lake import Lake
from retrograde.environments.registry import ENVIRONMENTS, TAKES
from retrograde.rewards.registry import REWARDS

from .conftest import Said, once

LAKE = ["--environment", "lake", "--algorithm.siblings", "3", "--algorithm.min-signal", "1"]
SMALL = ["--prompts", "2", "--steps", "2", "--eval-episodes", "6", "--eval-every", "1"]


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("algorithms", list(ALGORITHMS)),
        (
            "environments",
            [n + (f":{TAKES[n].upper()}" if n in TAKES else "") for n in ENVIRONMENTS],
        ),
        ("models", ["embedded", "smollm2-135m", "gemma3-270m"]),
        ("rewards", list(REWARDS)),
    ],
)
def test_list_prints_one_json_object_and_nothing_else(retrograde, what, names):
    said = retrograde("list", what, "--json")
    assert said.code == 0
    assert list(json.loads(said.out)) == [what]
    assert list(json.loads(said.out)[what]) == names
    assert all(json.loads(said.out)[what].values())
    assert said.err == ""
    for name in names:
        assert name in retrograde("list", what).out


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ([], ["train", "evaluate", "list"]),
        (["train"], ["--algorithm NAME", "--reward NAME", "--environment.hops", "--steps"]),
        (["train", "--algorithm", "grpo"], ["--algorithm.rollouts", "--algorithm.clip"]),
        (["train", "--environment", "lake"], ["--environment.turns", "--environment.slip"]),
        (["train", "--resume"], ["--resume"]),
        (["evaluate"], ["checkpoint", "--environment", "--episodes", "--json"]),
        (["list"], ["algorithms", "environments", "models", "rewards", "--json"]),
    ],
)
def test_every_command_explains_itself(retrograde, place, words, shown):
    said = retrograde(*words, "--help")
    assert said.code == 0
    for expected in shown:
        assert expected in said.out
    assert not list(place.iterdir())


def test_help_says_what_an_option_means_and_is_by_default(retrograde):
    text = " ".join(retrograde("train", "--help-all").out.replace("│", " ").split())
    assert re.search(r"--algorithm.siblings INT.*fresh answers at each boundary.*default: 8", text)
    assert re.search(r"--model.lora.rank {None}\|INT.*Rank of the adapter; .*default: None", text)


def test_the_version_is_printed(retrograde):
    assert retrograde("--version") == (0, f"{__version__}\n", "")


@pytest.fixture(scope="module")
def run_once(tmp_path_factory, walker):
    place = tmp_path_factory.mktemp("run")
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        once(["--model", walker, *LAKE, *SMALL], place)
    return place, Said(0, out.getvalue(), err.getvalue())


@pytest.fixture
def run(run_once, place):
    made, said = run_once
    shutil.copytree(made, place, dirs_exist_ok=True)
    return said


def metrics(place):
    return [json.loads(line) for line in (place / "run" / "metrics.jsonl").read_text().splitlines()]


def test_a_run_leaves_what_it_promises(run, place):
    assert {path.name for path in (place / "run").iterdir()} == {
        "manifest.json", "metrics.jsonl", "evaluations.jsonl", "rollouts", "checkpoints",
    }  # fmt: skip
    lines = metrics(place)
    assert [line["step"] for line in lines] == [0, 1, 2]
    for line in lines:
        promised = {"policy_version", "tokens/generated", "env/steps", "wall_seconds"}
        assert promised < line.keys()
        assert 0 <= line["eval/success"] <= 1
        assert all(isinstance(value, int | float) for value in line.values())
    assert lines[-1]["env/steps"] > lines[1]["env/steps"] > lines[0]["env/steps"] == 0
    assert [path.name for path in sorted((place / "run" / "rollouts").iterdir())] == [
        "evaluation-000000.jsonl.zst", "evaluation-000001.jsonl.zst", "evaluation-000002.jsonl.zst",
        "step-000001.jsonl.zst", "step-000002.jsonl.zst",
    ]  # fmt: skip


def test_it_says_what_it_did_and_what_to_do_next(run, place):
    start, end = metrics(place)[0], metrics(place)[-1]
    assert f"{start['eval/success']:.3f}" in run.out
    assert f"{end['eval/success']:.3f}" in run.out
    checkpoint = "run/checkpoints/step-000002"
    assert f"checkpoint: {checkpoint}\n" in run.out
    assert f"next: retrograde evaluate {checkpoint} --environment lake\n" in run.out
    assert "step   1" in run.err  # progress is not for scripts


def test_quiet_leaves_the_summary_alone(retrograde, walker):
    said = retrograde(
        "train", "--model", walker, *LAKE, "--steps", "0", "--eval-episodes", "1", "--quiet"
    )
    assert said.code == 0
    assert "step" not in said.err
    assert "checkpoint: runs/lake-rtpo-0/checkpoints/step-000000" in said.out


def test_json_is_an_object_a_line_and_nothing_else_on_stdout(retrograde, place, walker):
    said = retrograde("train", "--model", walker, *LAKE, *SMALL, "--json", "--out", "run")
    assert said.code == 0
    lines = [json.loads(line) for line in said.out.splitlines()]
    begin, *steps, end = [line for line in lines if line["event"] != "warning"]
    assert begin["event"] == "begin"
    assert (begin["out"], begin["environment"]) == ("run", "lake")
    assert [{"event": "step", **line} for line in metrics(place)] == steps
    assert end["event"] == "end"
    assert (place / end["checkpoint"]).is_dir()
    assert "step" not in said.err
    again = retrograde("train", "--resume", "--out", "run", "--steps", "3")
    assert again.code == 0
    assert "held-out success" in again.out  # how it was shown is not repeated


def test_a_second_run_of_the_same_name_gets_a_directory_of_its_own(retrograde, place, walker):
    words = ["--model", walker, *LAKE, "--steps", "0", "--eval-episodes", "1", "--quiet"]
    for _ in range(2):
        assert retrograde("train", *words).code == 0
    assert {path.name for path in (place / "runs").iterdir()} == {"lake-rtpo-0", "lake-rtpo-0-2"}


def test_a_checkpoint_is_read_by_plain_transformers(run, place):
    path = place / "run" / "checkpoints" / "step-000002"
    model = AutoModelForCausalLM.from_pretrained(path)
    tokenizer = AutoTokenizer.from_pretrained(path)
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": "North: ice"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    written = model.generate(
        **asked, max_new_tokens=4, do_sample=False, pad_token_id=tokenizer.pad_token_id
    )
    assert written.shape[1] > asked["input_ids"].shape[1]


def test_evaluate_gives_what_the_run_itself_saw(retrograde, place, walker):
    split = ["--max-tokens-per-microbatch", "120"]  # so that batches are divided
    assert retrograde("train", "--model", walker, *LAKE, *SMALL, *split, "--out", "run").code == 0
    said = retrograde("evaluate", "run/checkpoints/step-000002", "--environment", "lake", "--json")
    assert said.code == 0
    found, last = json.loads(said.out), metrics(place)[-1]
    assert {name: last[name] for name in found} == found
    assert {"eval/success", "eval/success_greedy", "eval/turns"} < found.keys()


def test_evaluate_takes_the_worlds_options_from_the_run(retrograde, place, walker):
    slow = ["--environment.turns", "12", "--environment.slip", "--algorithm", "grpo"]
    words = ["--environment", "lake", *slow, "--steps", "0", "--eval-episodes", "6"]
    assert retrograde("train", "--model", walker, *words, "--out", "run").code == 0
    words = ["run/checkpoints/step-000000", "--environment", "lake", "--json"]
    found = json.loads(retrograde("evaluate", *words).out)
    assert found["eval/turns"] == metrics(place)[-1]["eval/turns"]
    dry = json.loads(retrograde("evaluate", *words, "--environment.no-slip").out)
    assert dry["eval/turns"] != found["eval/turns"]


def test_evaluate_shows_how_far_it_is(retrograde, walker):
    words = ("evaluate", walker, "--environment", "lake", "--episodes", "2")
    told = [line for line in retrograde(*words).err.splitlines() if line.startswith("playing")]
    assert told == [
        "playing held-out tasks at temperature 1: 0%",
        "playing held-out tasks greedily: 50%",
        "playing held-out tasks greedily: 100%",
    ]
    assert "playing" not in retrograde(*words, "--json").err


def test_evaluate_can_be_read_by_people(retrograde, walker):
    said = retrograde("evaluate", walker, "--environment", "lake", "--episodes", "2")
    assert said.code == 0
    assert "eval/success" in said.out


@dataclass(frozen=True)
class BookedLake(Lake):
    """lake, with every episode booked."""

    book: ClassVar[Book] = Book()

    async def open(self, task, seed):
        return await Watched(Lake(self.turns), book=self.book).open(task, seed)


@pytest.mark.parametrize("fails", [False, True])
def test_every_episode_of_a_run_is_closed(retrograde, walker, monkeypatch, fails):
    monkeypatch.setattr(BookedLake, "book", Book())
    monkeypatch.setattr(registry, "ENVIRONMENTS", {"lake": BookedLake})

    async def stop(*_parts, **_named):
        raise KeyboardInterrupt

    if fails:
        monkeypatch.setattr("retrograde.trainer.loop.learn", stop)
    said = retrograde("train", "--model", walker, *LAKE, *SMALL, "--out", "run")
    assert said.code == (130 if fails else 0)
    assert BookedLake.book.begun > 10
    BookedLake.book.check()


def test_a_run_that_is_stopped_says_how_to_go_on(retrograde, place, walker, monkeypatch):
    async def stop(*_parts, **_named):
        raise KeyboardInterrupt

    monkeypatch.setattr("retrograde.trainer.loop.learn", stop)
    said = retrograde("train", "--model", walker, *LAKE, *SMALL, "--out", "run")
    assert said.code == 130
    assert "--resume" in said.err
