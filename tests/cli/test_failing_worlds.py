"""A whole run in a world where everything breaks now and then."""

import json
import math

import pytest
from tests.rollouts.faulty import Shaky

WORLD = "tests.rollouts.faulty:Shaky"
SMALL = ["--prompts", "10", "--steps", "2", "--eval-episodes", "8", "--turn-seconds", "0.2"]


@pytest.mark.parametrize("algorithm", ["rtpo", "grpo", "treepo"])
def test_it_ends_well_and_says_what_went_wrong(algorithm, retrograde, place, walker):
    said = retrograde(
        "train", "--environment", WORLD, "--algorithm", algorithm, "--model", walker, *SMALL,
        "--algorithm.min-signal", "1", "--max-observation-tokens", "50", "--quiet", "--out", "run",
    )  # fmt: skip
    assert said.code == 0, said.err
    book = Shaky.made[-1].book
    assert book.begun > 0
    assert sorted(book.closed) == list(range(1, book.begun + 1))
    assert set(book.closed.values()) == {1}
    first, *lines = map(json.loads, (place / "run" / "metrics.jsonl").read_text().splitlines())
    assert first["eval/failed"] > 0
    assert all(math.isfinite(value) for line in lines for value in line.values())
    counted = {name for line in lines for name in line}
    assert {"rollouts/ended/failed", "rollouts/failed_at/act"} <= counted
    assert {"rollouts/close_failed/OSError", "rollouts/cut/observations"} <= counted
    assert any(name.startswith("rollouts/failed/") for name in counted)
    if algorithm != "grpo":
        assert {"rollouts/failed_at/fork", "rollouts/dropped/OSError"} <= counted


def test_a_reward_that_breaks_now_and_then_costs_its_rollouts(retrograde, place, walker):
    (place / "own.py").write_text(
        "from retrograde.data.seeds import derived\n"
        "def moody(episode):\n"
        "    drawn = derived(episode.task, *(turn.answer for turn in episode.turns)) % 6\n"
        "    if drawn == 0:\n"
        "        raise LookupError('no idea')\n"
        "    return float('nan') if drawn == 1 else drawn / 5\n"
    )
    said = retrograde(
        "train", "--environment", "lake", "--algorithm", "grpo", "--model", walker, *SMALL,
        "--algorithm.min-signal", "1", "--quiet",
        "--reward", "own.py:moody", "--reward", "length(target=9)=.1",
        "--out", "run",
    )  # fmt: skip
    assert said.code == 0, said.err
    _, *lines = map(json.loads, (place / "run" / "metrics.jsonl").read_text().splitlines())
    for line in lines:
        failed = line["rollouts/failed/LookupError"] + line["rollouts/failed/ValueError"]
        assert failed == line["rollouts/failed_at/reward/moody"] == line["rollouts/ended/failed"]
        # Whatever is not a failure is 2/5 to 5/5, and the lengths' share on top of it.
        assert 0.4 <= line["reward/moody"] <= 1.0
        total = line["reward/moody"] + 0.1 * line["reward/length"]
        assert line["reward/mean"] == pytest.approx(total)
    settings = json.loads((place / "run" / "manifest.json").read_text())["settings"]
    assert settings["rewards"] == {"own.py:moody": 1.0, "length(target=9)": 0.1}
    again = ["train", "--resume", "--out", "run", "--steps", "3", "--quiet"]
    assert retrograde(*again, "--reward", "own.py:moody").code == 0
    refused = retrograde(*again, "--reward", "f1")
    assert refused.code == 2
    assert "rewards.f1: the run has None, asked for is 1.0" in refused.err
