"""The data of the page is what the run's directory says, small, and nothing but data."""

import base64
import gzip
import html.parser
import json
import math
import re
import subprocess
import sys

import pytest

from retrograde.data.stored import stored_groups
from retrograde.report.flips import flipped
from retrograde.report.page import asset, figures, policy, report
from retrograde.report.payload import group_payload, index_entry
from retrograde.report.recorded import recorded, runs_under
from retrograde.report.shelf import Shelf, spread

from .runs import HOSTILE, evaluation, made, stored


class Page(html.parser.HTMLParser):
    """The elements of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.blocks = {}
        self._open = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._open = dict(attrs).get("id") if tag == "script" else None

    def handle_data(self, data):
        if self._open:
            self.blocks[self._open] = self.blocks.get(self._open, "") + data

    def handle_endtag(self, tag):
        self._open = None

    def group(self, key):
        return json.loads(gzip.decompress(base64.b64decode(self.blocks[f"group-{key}"])))


@pytest.fixture
def run(tmp_path):
    return made(tmp_path / "run")


def test_a_report_holds_the_figures_and_the_rollouts_of_a_run(run):
    page = Page(report([run]))
    head = json.loads(page.blocks["head"])
    (mine,) = head["runs"]
    assert mine["summary"]["sampled"] == pytest.approx([0.2, 0.6])
    assert mine["summary"]["turns"] == 400
    assert mine["curves"]["step"] == [0, 1, 2, 3, 4]
    assert mine["curves"]["eval/success"] == [0.2, None, 0.4, None, 0.6]
    assert len(head["groups"]) == head["kept"] == 4 * 2 + 2 * 3
    keys = [entry["key"] for entry in head["groups"]]
    assert keys[0] == "0-step-1-0"
    assert page.group("0-step-3-1") == json.loads(
        json.dumps(group_payload(list(stored_groups(run))[5]))
    )


def test_what_a_run_says_stays_data(run):
    page = Page(report([run]))
    assert page.tags.count("img") == 0
    assert page.tags.count("script") == 1 + 1 + 14  # the figures, the program, each group
    assert json.loads(page.blocks["head"])["groups"][1]["task"] == HOSTILE
    assert "onerror" not in re.sub(r'<script type="application/json".*?</script>', "",
                                   report([run]), flags=re.DOTALL)  # fmt: skip


def test_the_page_may_run_one_script_and_reach_nothing_else(run):
    text = report([run])
    assert f'content="{policy()}"' in text
    assert "default-src 'none'" in policy()
    assert "unsafe" not in policy()
    for name in ("app.js", "app.css"):
        assert "http" not in re.sub(r"https?://(www\.w3\.org|github\.com)\S*", "", asset(name))
        assert "</s" not in asset(name).lower()


def test_licences_of_the_libraries_are_in_the_page():
    for name in ("d3-hierarchy", "preact", "uplot"):
        assert re.search(
            rf"{name} \d+\.\d+\.\d+\s+.*?(MIT|ISC|Permission)", asset("app.js"), re.DOTALL
        )


def test_an_entry_says_what_a_group_can_be_found_by():
    entry = index_entry(stored(7, "a", turns=2, siblings=3))
    # The trunk; then 3 siblings of turn 2, then 3 of turn 1 with a turn behind each.
    assert (entry["turns"], entry["leaves"], entry["rounds"]) == (2 + 3 + 6, 1 + 3 + 3, 3)
    assert (entry["won"], entry["judged"]) == (2, 7)
    assert entry["ends"] == {"finished": 7}
    assert entry["mean"] == pytest.approx(2 / 7, abs=1e-6)
    assert (entry["gradient"], entry["visits"]) == (6, 6)


def test_a_groups_ids_are_exact_and_its_numbers_short():
    group = stored(7, "a", turns=2, siblings=1)
    record = group_payload(group)
    for turn, told in zip(group.group.trees[0].turns, record["trees"][0]["turns"], strict=True):
        assert (told[2], told[3]) == (turn.fresh, turn.action)
        assert told[4] == pytest.approx(turn.logprobs, abs=1e-4)
    assert record["space"] == " "  # these words are joined by spaces
    assert record["special"] == [0]
    turn, leaf, phase, update, advantage, *_, gradient = record["trees"][0]["visits"][0]
    assert (turn, leaf, phase, update, advantage, gradient) == (2, 2, 1, 4, 0.0, False)


def test_tasks_that_changed_are_found_the_failing_first():
    lines = [
        evaluation(0, [True, False, None, True, False]),
        evaluation(5, [True, True, True, None, None]),
        evaluation(9, [False, True, True, True, False]),
    ]
    found = [(f["task"], f["learned"], f["history"]) for f in flipped(lines) if f["greedy"]]
    assert found == [("test-0", False, [1, 1, 0]), ("test-1", True, [0, 1, 1])]
    assert flipped(lines[:1]) == []


def test_numbers_that_are_none_are_left_out(run):
    with (run / "metrics.jsonl").open("a") as out:
        out.write(json.dumps({"step": 5, "grad_norm": math.inf, "reward/mean": math.nan}) + "\n")
        out.write('{"step": 6, "rew')  # is being written
    (told,) = figures([run])["runs"]
    assert told["curves"]["step"][-1] == 5
    assert told["curves"]["grad_norm"][-1] is told["curves"]["reward/mean"][-1] is None
    json.dumps(told, allow_nan=False)


def test_groups_are_taken_from_the_whole_length_of_a_run():
    assert spread(0) == []
    assert spread(1) == [0]
    assert spread(2) == [0, 1]
    assert spread(9) == [0, 8, 4, 2, 6, 1, 3, 5, 7]
    for count in range(40):
        assert sorted(spread(count)) == list(range(count))


def test_a_long_run_is_sampled(tmp_path):
    run = made(tmp_path, steps=12, groups=2)
    shelf = Shelf([run])
    everything, packed = shelf.sampled(10**9)
    assert len(everything) == shelf.count() == 12 * 2 + 6
    room = sum(map(len, packed.values())) // 2
    entries, some = shelf.sampled(room)
    assert len(json.dumps(entries)) + sum(map(len, some.values())) <= room
    assert {entry["key"] for entry in entries} == some.keys()
    steps = [entry["step"] for entry in entries]
    assert {1, 12} <= set(steps)
    assert steps == sorted(steps)
    assert len(steps) < 24
    # Tasks that changed come before all, both their evaluations, but for a third of the room.
    entries, _ = shelf.sampled(room, [[(True, "test-1"), (True, "test-0")]])
    kept = [(entry["step"], entry["task"]) for entry in entries if entry["played"] == "greedy"]
    assert kept == [(0, "test-0"), (0, "test-1"), (12, "test-0"), (12, "test-1")]
    assert shelf.sampled(room // 8, [[(True, "test-1"), (True, "test-0")]])[0][0]["step"] == 1


def test_a_page_stays_small_however_much_was_kept(tmp_path, monkeypatch):
    run = made(tmp_path, steps=12, groups=2)
    for most in (135_000, 145_000):
        monkeypatch.setattr("retrograde.report.page.MOST_BYTES", most)
        assert most - 4_000 < len(report([run])) <= most


def test_runs_are_found_where_a_comparison_leaves_them(tmp_path):
    runs = [made(tmp_path / "runs" / "rtpo" / f"seed-{seed}", seed=seed) for seed in (0, 1)]
    assert runs_under(tmp_path) == runs
    assert runs_under(runs[0]) == runs[:1]
    assert len(json.loads(Page(report(runs)).blocks["head"])["runs"]) == 2


def test_runs_with_other_settings_are_other_methods(tmp_path):
    runs = [made(tmp_path / f"run-{i}", seed=i, steps=1) for i in range(3)]
    names = [run["summary"]["method"] for run in figures(runs)["runs"]]
    assert names == ["rtpo on hop, embedded"] * 3
    manifest = json.loads((runs[2] / "manifest.json").read_text())
    manifest["settings"]["algorithm_settings"] = {"grow": {"siblings": 4}}
    (runs[2] / "manifest.json").write_text(json.dumps(manifest))
    names = [run["summary"]["method"] for run in figures(runs)["runs"]]
    assert names == ["rtpo on hop, embedded"] * 2 + ["rtpo (siblings 4) on hop, embedded"]


def test_a_page_needs_no_torch():
    code = "import sys, retrograde.report.server; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no run to look at"):
        runs_under(tmp_path)
    with pytest.raises(ValueError, match="not the directory of a run"):
        recorded(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        recorded(tmp_path)


def test_a_run_that_has_not_begun_has_a_page(run):
    (run / "metrics.jsonl").unlink()
    (run / "evaluations.jsonl").unlink()
    for path in (run / "rollouts").iterdir():
        path.unlink()
    head = json.loads(Page(report([run])).blocks["head"])
    assert head["groups"] == []
    assert head["runs"][0]["summary"]["sampled"] == []
