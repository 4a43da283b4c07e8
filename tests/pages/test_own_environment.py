"""The code on the pages about environments and rewards is run, and their tables are whole."""

import importlib.util
import json
import re
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from tests.cli.conftest import place, retrograde, stranger  # noqa: F401
from tests.rewards.records import record

from retrograde.environments import conformance
from retrograde.rewards.judge import Judge
from retrograde.rewards.registry import REWARDS, weighted
from retrograde.trainer.run import Run

DOCS = Path(__file__).parents[2] / "docs"
ENVIRONMENT = (DOCS / "own_environment.md").read_text(encoding="utf-8")
REWARD = (DOCS / "rewards.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```python\n# (\S+\.py)\n(.*?)```", re.DOTALL)


def written(page, folder):
    """The files of a page."""
    files = dict(BLOCK.findall(page))
    for name, code in files.items():
        (folder / name).write_text(code)
    return files


def imported(path, monkeypatch):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    return module


async def test_the_environment_on_the_page_keeps_the_contract(tmp_path, monkeypatch):
    assert set(written(ENVIRONMENT, tmp_path)) == {"treasure.py", "test_treasure.py"}
    world = imported(tmp_path / "treasure.py", monkeypatch)
    report = await conformance.check(world.Treasure(places=15))
    report.confirm()
    assert report.verdict("replay") is conformance.Verdict.KEPT
    assert report.verdict("gold") is conformance.Verdict.KEPT
    test = imported(tmp_path / "test_treasure.py", monkeypatch)
    await test.test_treasure_keeps_the_contract()


def test_it_is_trained_on_with_the_rewards_on_the_page(retrograde, place, stranger):  # noqa: F811
    written(ENVIRONMENT, place)
    written(REWARD, place)
    said = retrograde(
        "train", "--environment", "treasure.py:Treasure", "--environment.places", "3",
        "--model", stranger, "--steps", "1", "--prompts", "2", "--eval-episodes", "2",
        "--algorithm.siblings", "2", "--algorithm.learning-rate", "1e-3", "--quiet", "--out", "run",
        "--reward", "environment", "--reward", "own.py:polite=0.2", "--reward", "own.py:brief",
        "--reward", "own.py:checked", "--reward", "invalid_action=-0.1",
    )  # fmt: skip
    assert said.code == 0, said.err
    *_, line = map(json.loads, (place / "run" / "metrics.jsonl").read_text().splitlines())
    assert line["events/invalid"] > 0
    for name in ("environment", "polite", "brief", "checked", "invalid_action"):
        assert f"reward/{name}" in line


def test_the_rewards_on_the_page_say_what_it_says(tmp_path, monkeypatch):
    written(REWARD, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert weighted("own.py:polite").function(record("look, please", "answer")) == 1.0
    assert weighted("own.py:brief").is_for_turns
    assert weighted("own.py:brief").function(record("a", "b", tokens=[3, 7])) == -0.07


def test_every_rule_and_every_reward_is_on_its_page():
    for rule in conformance.RULES:
        assert re.search(rf"^\|.*`{rule}`.* \|", ENVIRONMENT, re.MULTILINE), rule
    for name in REWARDS:
        assert f"| `{name}` |" in REWARD
    for field in fields(Judge):
        assert f"`{field.name}`" in REWARD


@pytest.mark.parametrize("name", ["turn_seconds", "episode_seconds", "reward_seconds"])
def test_the_defaults_on_the_page_are_the_defaults(name):
    option = name.replace("_", "-")
    (default,) = re.findall(rf"\| `--{option}` \| (\d+) \|", ENVIRONMENT)
    assert float(default) == getattr(Run(), name)
