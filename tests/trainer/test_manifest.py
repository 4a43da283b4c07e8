"""What a run was started with, and what it is held to."""

import json

import pytest

from retrograde.algorithms.grpo import grpo
from retrograde.algorithms.rtpo import rtpo
from retrograde.trainer.manifest import check_same, read_manifest, settings_of, write_manifest
from retrograde.trainer.run import Run

NAMES = {"algorithm": "rtpo", "environment": "hop", "model": "embedded"}


def settings(algorithm=None, world=None, names=None, **run):
    return settings_of(names or NAMES, algorithm or rtpo(), world or {"hops": 3}, Run(**run), {})


def test_what_is_written_is_read_back(tmp_path):
    write_manifest(tmp_path, settings(seed=3), ["--seed", "3"])
    record = read_manifest(tmp_path)
    assert record["settings"] == settings(seed=3)
    assert record["arguments"] == ["--seed", "3"]
    assert {"packages", "python", "machine", "commit"} < record.keys()
    assert record["packages"].keys() >= {"torch", "transformers", "retrograde"}
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_settings_are_plain_data():
    found = settings()
    assert json.loads(json.dumps(found)) == found
    assert found["algorithm_settings"]["loss"]["clip_low"] == 0.2
    assert found["run"]["temperature"] == 1.0


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (settings(seed=1), "run.seed: the run has 0, asked for is 1"),
        (settings(rtpo(clip=0.3)), "algorithm_settings.loss.clip_low: the run has 0.2"),
        (settings(grpo()), "algorithm_settings.grow.siblings: the run has 8, asked for is None"),
        (settings(world={"hops": 2}), "environment_settings.hops: the run has 3, asked for is 2"),
        (settings(names=NAMES | {"model": "x"}), "model: the run has 'embedded', asked for is 'x'"),
        (settings(prompts=4), "run.prompts: the run has None, asked for is 4"),
    ],
)
def test_a_resumed_run_is_held_to_its_settings(other, said):
    with pytest.raises(ValueError, match="settings it was started with") as refused:
        check_same(settings(), other)
    assert said in str(refused.value)


def test_all_differences_are_named_at_once():
    with pytest.raises(ValueError, match=r"(?s)run\.prompts.*run\.seed"):
        check_same(settings(), settings(prompts=4, seed=1))


def test_a_run_may_be_made_longer():
    check_same(settings(steps=3), settings(steps=30))
    check_same(settings(steps=3), settings(max_env_steps=100))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "holds no manifest.json"),
        ("", "is damaged"),
        ('{"settings": {', "is damaged"),
        ("[]", "is damaged"),
        ('{"settings": {}}', "names no settings and arguments"),
    ],
)
def test_a_directory_without_a_sound_manifest_is_refused_by_name(tmp_path, text, said):
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ValueError, match=said) as refused:
        read_manifest(tmp_path)
    assert str(tmp_path) in str(refused.value)
