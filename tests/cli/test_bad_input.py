"""Bad input: a clear error before any work, exit code 2, and nothing written or overwritten."""

import fcntl
import json
import os
import shutil
from pathlib import Path

import pytest

from retrograde.algorithms.registry import ALGORITHMS
from retrograde.backends.embedded import embedded_tokenizer, new_model
from retrograde.cli import settings
from retrograde.environments import registry
from retrograde.environments.hop import Hop
from retrograde.environments.protocol import Forking
from retrograde.environments.registry import ENVIRONMENTS

from .conftest import once

MADE = {name: method() for name, method in ALGORITHMS.items()}
UNBRANCHED = [
    name
    for name, made in MADE.items()
    if not made.grow.forks and set(made.needs) <= set(Hop().offers)
]


class Unforkable(Hop):
    """hop, if it could not be forked."""

    name = "unforkable"
    forking = Forking.NONE


@pytest.fixture
def unforkable(monkeypatch):
    worlds = {**registry.ENVIRONMENTS, "unforkable": Unforkable}
    monkeypatch.setattr(registry, "ENVIRONMENTS", worlds)
    monkeypatch.setattr(settings, "ENVIRONMENTS", worlds)


def everything(place: Path) -> dict[str, bytes]:
    """Every file near the command, and what is in it."""
    files = {}
    for root, folders, names in os.walk(place.parent):
        files |= {str(Path(root, name)): Path(root, name).read_bytes() for name in names}
        files |= {str(Path(root, name)): b"" for name in folders}
    return files


@pytest.fixture
def refused(retrograde, place):
    def check(*words, saying):
        before = everything(place)
        said = retrograde(*words)
        assert said.code == 2, said
        assert said.out == ""
        assert "Traceback" not in said.err
        plain = " ".join(said.err.replace("│", " ").split())
        for expected in [saying] if isinstance(saying, str) else saying:
            assert expected in plain
        assert everything(place) == before
        return plain

    return check


@pytest.mark.parametrize(
    ("words", "saying"),
    [
        ("--algorithm rtop", ["no algorithm is named 'rtop'", "did you mean rtpo"]),
        ("--algorithm grpo_flt", ["did you mean grpo_flat"]),
        ("--algorithm xyz", ["known: " + ", ".join(ALGORITHMS)]),
        ("--environment hpo", ["no environment is named 'hpo'", "did you mean hop"]),
        ("--environment xyz", ["known: " + ", ".join(ENVIRONMENTS)]),
        ("--reward exact", ["no reward is named 'exact'", "did you mean exact_match"]),
        ("--reward overlong=1", ["overlong counts what is bad", "a weight below 0 is needed"]),
        ("--reward f1 --reward f1=2", ["f1 is named 2 times"]),
        (
            "--algorithm memopilot --reward exact_match",
            ["memopilot cannot run on the environment hop", "a reward with every Observation"],
        ),
        ("--max-context-tokens 1", ["max_context_tokens: at least 2"]),
        ("--model embeded", ["no model 'embeded'", "did you mean embedded"]),
        ("--model ./nowhere", ["no model './nowhere'"]),
        ("--model.lora.rank 0", ["model.lora.rank: at least 1 is needed, got 0"]),
        ("--model.lora.rank 4 --model.lora.alpha 0", ["model.lora.alpha: a number above 0"]),
        ("--model.lora.rank 4 --model.lora.targets q_proj,", ["model.lora.targets: all-linear or"]),
        ("--model.lora.alpha 8", ["alpha and targets need a rank"]),
        ("--model.max-new-tokens 0", ["model.max_new_tokens: at least 1 is needed, got 0"]),
        ("--model.dtype float16", ["--model.dtype", "float16", "bfloat16"]),
        ("--algorithm.siblings 1", ["siblings: at least 2 are needed", "got 1"]),
        ("--algorithm.siblings 0", ["siblings: at least 2 are needed", "got 0"]),
        ("--environment.hops 0", ["hops", "got 0", "needed 1 to"]),
        ("--environment lake --environment.turns 0", ["turns", "got 0"]),
        ("--steps -1", ["steps: at least 0 is needed, got -1"]),
        ("--prompts 0", ["prompts: at least 1 is needed, got 0"]),
        ("--eval-episodes 0", ["eval_episodes: at least 1"]),
        ("--temperature 0", ["temperature: a number above 0"]),
        ("--algorithm.clip 0", ["clip bounds: low in (0, 1]", "low=0.0"]),
        ("--algorithm.clip -0.2", ["clip bounds"]),
        ("--algorithm.kl -1", ["kl: a coefficient of at least 0 is needed, got -1"]),
        ("--algorithm.learning-rate 0", ["learning_rate: above 0 is needed, got 0"]),
        ("--algorithm.learning-rate nan", ["learning_rate: above 0 is needed, got nan"]),
        ("--algorithm grpo --algorithm.rollouts 0", ["rollouts: at least 2 are compared"]),
        (
            "--algorithm.max-rollouts 1 --algorithm.trunks 2",
            ["max_rollouts: at least the 2 trunks"],
        ),
        ("--steps many", ["steps", "many"]),
        ("--algorithm.sibling 3", ["--algorithm.sibling", "--algorithm.siblings"]),
        ("--algorithm grpo --algorithm.siblings 3", ["--algorithm.siblings"]),
        ("--environment.turns 3", ["--environment.turns"]),
        ("--no-such-thing", ["--no-such-thing"]),
        ("surplus", ["surplus"]),
        ("--resume", ["runs/hop-rtpo-0 holds no manifest.json", "to resume: --out DIR"]),
        ("--resume --out nowhere", ["nowhere holds no manifest.json"]),
    ],
)
def test_what_train_cannot_do_is_refused(refused, words, saying):
    refused("train", *words.split(), saying=saying)


def test_a_method_that_forks_refuses_a_world_that_does_not(refused, unforkable, stranger):
    for method in ("rtpo", "rtpo_plus"):
        refused(
            "train", "--environment", "unforkable", "--algorithm", method, "--model", stranger,
            saying=["unforkable", "neither fork nor replay", "can: " + ", ".join(UNBRANCHED)],
        )  # fmt: skip


def test_a_method_that_does_not_fork_takes_it(retrograde, unforkable, stranger):
    said = retrograde(
        "train", "--environment", "unforkable", "--algorithm", "grpo", "--model", stranger,
        "--steps", "0", "--eval-episodes", "1", "--out", "run",
    )  # fmt: skip
    assert said.code == 0


def test_a_model_without_tokenizer_is_refused(refused, place):
    new_model(100, 0).save_pretrained(place / "bare")
    refused("train", "--model", "bare", "--out", "run", saying=["bare", "tokenizer"])
    refused("evaluate", "bare", "--environment", "hop", saying=["bare", "tokenizer"])


def test_a_model_of_another_vocabulary_is_refused(refused, place):
    new_model(40, 0).save_pretrained(place / "other")
    embedded_tokenizer().save_pretrained(place / "other")
    saying = ["other: the tokenizer has", "the model embeds 40"]
    refused("train", "--model", "other", "--out", "run", saying=saying)


def test_a_directory_without_a_model_is_refused(refused, place):
    (place / "empty").mkdir()
    refused("train", "--model", "empty", saying=["empty", "no config.json"])
    (place / "empty" / "config.json").write_text("{")
    refused("train", "--model", "empty", saying="empty")


def test_an_output_directory_in_use_is_refused(refused, place, stranger):
    (place / "used").mkdir()
    (place / "used" / "thesis.txt").write_text("years of work")
    saying = ["--out used is not empty", "--resume"]
    refused("train", "--model", stranger, "--out", "used", saying=saying)


def test_an_output_directory_that_cannot_be_is_refused(refused, place, stranger):
    (place / "file").write_text("")
    for out in ("file", "file/run", "file/a/b"):
        saying = [f"--out {out}", "a directory is needed", "is a file"]
        refused("train", "--model", stranger, "--out", out, saying=saying)


def test_an_output_directory_that_cannot_be_written_is_refused(
    refused, place, stranger, monkeypatch
):
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != place)
    refused("train", "--model", stranger, "--out", "run", saying=["--out run", "cannot be written"])


def test_a_damaged_manifest_is_refused_by_name(refused, place):
    (place / "run").mkdir()
    (place / "run" / "manifest.json").write_text('{"settings": {"algo')
    saying = "run/manifest.json is damaged"
    refused("train", "--resume", "--out", "run", saying=saying)


def test_a_run_without_checkpoint_is_refused(finished, refused, place):
    for path in (place / "run" / "checkpoints").iterdir():
        path.rename(place / "run" / "checkpoints" / f".{path.name}.unfinished")
    refused(
        "train", "--resume", "--out", "run", saying="run holds no sound checkpoint to resume from"
    )


@pytest.fixture(scope="module")
def finished_once(tmp_path_factory, stranger):
    words = ["--model", stranger, "--prompts", "1", "--eval-episodes", "1", "--steps", "1"]
    words += ["--algorithm", "grpo", "--algorithm.rollouts", "2", "--quiet"]
    place = tmp_path_factory.mktemp("finished")
    once(words, place)
    return place


@pytest.fixture
def finished(finished_once, place):
    shutil.copytree(finished_once, place, dirs_exist_ok=True)


@pytest.mark.parametrize(
    ("words", "saying"),
    [
        ("--seed 1", "run.seed: the run has 0, asked for is 1"),
        ("--prompts 2", "run.prompts: the run has 1, asked for is 2"),
        ("--algorithm.clip 0.3", "algorithm_settings.loss.clip_high: the run has 0.2"),
        ("--algorithm.rollouts 4", "algorithm_settings.grow.rollouts: the run has 2"),
        ("--environment.hops 2", "environment_settings.hops: the run has 3, asked for is 2"),
        ("--environment lake", "environment: the run has 'hop', asked for is 'lake'"),
        ("--model.dtype bfloat16", "model_settings.dtype: the run has 'float32', asked for is"),
        ("--model embedded", "model: the run has"),
    ],
)
def test_a_resumption_with_other_settings_is_refused(finished, refused, words, saying):
    refused("train", "--resume", "--out", "run", *words.split(), saying=[saying, "may change"])


def test_a_resumption_with_another_method_is_refused(finished, refused):
    refused("train", "--resume", "--out", "run", "--algorithm", "grpo_flat", saying="grpo_flat")


def test_a_finished_run_can_be_made_longer_and_nothing_else(finished, retrograde, place):
    metrics = place / "run" / "metrics.jsonl"
    before = metrics.read_text()
    assert retrograde("train", "--resume", "--out", "run", "--quiet").code == 0
    assert metrics.read_text() == before
    assert retrograde("train", "--resume", "--out", "run", "--steps", "3", "--quiet").code == 0
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 1, 2, 3]
    assert metrics.read_text().startswith(before)


@pytest.mark.parametrize(
    ("words", "saying"),
    [
        ("", "usage: retrograde COMMAND"),
        ("trian", "no command 'trian'; known: train, evaluate"),
        ("evaluate", "checkpoint"),
        ("evaluate embedded", "--environment"),
        ("evaluate embeded --environment hop", "did you mean embedded"),
        ("evaluate nowhere --environment hop", "no model 'nowhere'"),
        ("evaluate embedded --environment hpo", "did you mean hop"),
        ("evaluate embedded --environment hop --episodes 0", "--episodes: at least 1"),
        ("evaluate embedded --environment hop --environment.hops 9", "hops: got 9"),
        ("list", "what"),
        ("list everything", "everything"),
    ],
)
def test_what_other_commands_cannot_do_is_refused(retrograde, place, words, saying):
    before = everything(place)
    said = retrograde(*words.split())
    assert said.code == 2
    assert saying in said.err + said.out
    assert everything(place) == before


def test_a_checkpoint_whose_run_has_a_damaged_manifest_is_refused(finished, refused, place):
    (place / "run" / "manifest.json").write_text("{")
    words = ["run/checkpoints/step-000001", "--environment", "hop", "--json"]
    refused("evaluate", *words, saying="run/manifest.json is damaged")


def test_a_checkpoint_that_was_cut_short_is_named_where_it_is_evaluated(finished, refused, place):
    checkpoint = place / "run" / "checkpoints" / "step-000001"
    weights = checkpoint / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    asked = ["evaluate", "run/checkpoints/step-000001", "--environment", "hop", "--json"]
    saying = "error: run/checkpoints/step-000001 is damaged: "
    said = refused(*asked, saying=[saying, "model.safetensors has"])
    assert said.startswith(saying)
    (checkpoint / "COMPLETE.json").unlink()  # a model that nobody made a checksum of
    refused(*asked, saying=[saying, "no model can be read from it"])
    asked = ["train", "--model", "run/checkpoints/step-000001", "--out", "other"]
    refused(*asked, saying=[saying, "no model can be read from it"])


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("--environment bad.py:X", "environment 'bad.py:X'"),
        ("--reward bad.py:X", "reward 'bad.py:X'"),
        ("--environment.context summarise(bad.py:X)", "summary 'bad.py:X'"),
    ],
)
def test_a_mistake_in_a_file_of_ones_own_is_one_line(refused, place, words, what):
    (place / "bad.py").write_text("import json\nimport nowhere_to_be_found\n")
    said = refused("train", *words.split(), saying=[what, "line 2: ModuleNotFoundError"])
    assert said.startswith(f"error: {what} cannot be loaded: {place}/bad.py, line 2: ")
    (place / "bad.py").write_text("def X(:\n")
    refused("train", *words.split(), saying=[what, f"{place}/bad.py, line 1: SyntaxError"])


def test_lines_that_a_resumed_run_goes_on_without_are_told(finished, retrograde, place):
    metrics, evaluations = (place / "run" / f"{name}.jsonl" for name in ("metrics", "evaluations"))
    again = ["train", "--resume", "--out", "run", "--quiet"]
    assert "damaged" not in retrograde(*again, "--steps", "2").err
    metrics.write_text(metrics.read_text()[:-9])
    evaluations.write_text(evaluations.read_text()[:9])
    said = retrograde(*again, "--steps", "3")
    assert said.code == 0
    notice = "is damaged: of {} of 2 steps so far there is no line in it that can be read"
    assert f"notice: run/metrics.jsonl {notice.format(1)} (the first is 2)" in said.err
    assert f"notice: run/evaluations.jsonl {notice.format(2)} (the first is 0)" in said.err
    assert [json.loads(line)["step"] for line in metrics.read_text().splitlines()] == [0, 1, 3]


def test_a_finished_run_of_which_no_line_is_left_is_told_so(finished, retrograde, place):
    (place / "run" / "metrics.jsonl").write_text("{")
    said = retrograde("train", "--resume", "--out", "run", "--quiet")
    assert said.code == 0
    assert "notice: run/metrics.jsonl is damaged: of 1 of 1 steps" in said.err
    assert said.out == "checkpoint: run/checkpoints/step-000001\n"


def test_a_run_that_used_more_than_its_budget_is_finished_and_how_it_goes_on_is_said(
    finished, retrograde, place
):
    again = ["train", "--resume", "--out", "run", "--quiet"]
    manifest = place / "run" / "manifest.json"
    record = json.loads(manifest.read_text())
    # As if one turn had been asked for: the only iteration took more than that.
    record["settings"]["run"] |= {"steps": None, "max_env_steps": 1}
    record["arguments"] += ["--steps", "None", "--max-env-steps", "1"]
    manifest.write_text(json.dumps(record))
    said = retrograde(*again)
    assert said.code == 0
    assert "notice: the run is finished, at step 1 after " in said.err
    assert "`retrograde train --resume --out run --max-env-steps N` goes on" in said.err
    refused = retrograde(*again, "--max-env-steps", "2")
    assert (refused.code, "beyond what is asked for" in refused.err) == (2, True)


def test_a_directory_that_another_run_is_writing_in_is_refused(refused, place, stranger):
    (place / "busy").mkdir()
    held = os.open(place / "busy", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    refused("train", "--model", stranger, "--out", "busy", saying=["busy", "another process"])
    os.close(held)


def test_a_directory_that_cannot_be_made_is_refused(refused, stranger):
    refused("train", "--model", stranger, "--out", "/proc/nowhere/run", saying="/proc/nowhere/run")
