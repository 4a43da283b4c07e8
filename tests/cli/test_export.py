"""`retrograde export`: what comes out is what was said, and others can use it."""

import errno
import json
import os
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from tests.report.runs import made
from transformers import AutoTokenizer

from retrograde.cli import export
from retrograde.data.stored import stored_files, stored_groups

from .resumed import words

FULL = ("--environment.context", "full")


@pytest.fixture(scope="module")
def run(tmp_path_factory, walker):
    from retrograde.cli.main import main

    out = tmp_path_factory.mktemp("exported") / "run"
    assert main([*words("rtpo", walker, out), *FULL, "--keep-rollouts", "-1"]) == 0
    return out


def exported(retrograde, run, kind, *more, out="out.jsonl"):
    said = retrograde("export", run, "--to", kind, "--out", out, *more)
    assert said.code == 0, said
    return [json.loads(line) for line in Path(out).read_text().splitlines()], said.out


def test_a_chat_template_makes_of_a_conversation_the_very_ids(run, walker, retrograde, place):
    """Roles and words are right if the tokenizer spells from them what the policy was shown."""
    examples, said = exported(retrograde, run, "sft")
    assert said.startswith(f"{len(examples)} examples from ")
    assert "note" not in said  # the policy was shown everything
    tokenizer = AutoTokenizer.from_pretrained(walker)
    histories = {}
    for stored in stored_groups(run):
        for tree in stored.group.trees:
            for leaf in tree.leaves:
                ids = tree.history(leaf) + tree.turns[leaf].action
                histories.setdefault((stored.group.task, stored.step), set()).add(ids)
    spelled = 0
    for example in examples:
        text = tokenizer.apply_chat_template(example["messages"], tokenize=False)
        ids = tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
        spelled += ids in histories[example["task"], example["step"]]
    # An answer that ran out of tokens has no stop token, and the template puts one behind it.
    assert spelled > 0.9 * len(examples) > 10


def test_roles_alternate_and_the_policy_has_the_last_word(run, retrograde, place):
    examples, _ = exported(retrograde, run, "sft", "--only-success")
    for example in examples:
        roles = [message["role"] for message in example["messages"]]
        assert roles[0] in ("system", "user")
        assert roles[-1] == "assistant"
        assert all(one != two for one, two in pairwise(roles))
        assert example["reward"] > 0


def test_pairs_share_a_prompt_and_prefer_what_earned_more(run, retrograde, place):
    pairs, said = exported(retrograde, run, "preference", "--min-margin", "0.1")
    assert pairs
    assert said.startswith(f"{len(pairs)} pairs from ")
    for pair in pairs:
        assert pair["prompt"][-1]["role"] == "user"
        assert [message["role"] for message in pair["chosen"]] == ["assistant"]
        assert [message["role"] for message in pair["rejected"]] == ["assistant"]
        assert pair["chosen"] != pair["rejected"]
        assert pair["reward_chosen"] >= pair["reward_rejected"] + 0.1


def test_what_is_left_out_adds_up(run, retrograde, place):
    examples, said = exported(retrograde, run, "sft", "--min-reward", "0.5")
    left_out = [line.split(" x ")[0] for line in said.splitlines() if line.startswith("left out")]
    leaves = sum(len(tree.leaves) for stored in stored_groups(run) for tree in stored.group.trees)
    assert len(examples) + sum(int(n.removeprefix("left out: ")) for n in left_out) == leaves


def test_rollouts_that_were_cut_short_are_left_out_and_said(run, retrograde, place):
    whole, _ = exported(retrograde, run, "sft", out="whole.jsonl")
    mine = shutil.copytree(run, place / "mine")
    *before, last = stored_files(mine)
    last.write_bytes(last.read_bytes()[:-20])
    said = retrograde("export", mine, "--to", "sft", "--out", "out.jsonl")
    assert said.code == 0
    assert said.err.startswith(f"notice: {last} is damaged: it was cut short; read are the ")
    examples = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert examples == whole[: len(examples)]
    assert {each["step"] for each in whole} > {each["step"] for each in examples} != set()
    for path in before:
        path.write_bytes(b"")
    said = retrograde("export", mine, "--to", "sft", "--out", "none.jsonl")
    assert said.code == 2
    assert f"{before[0]} is damaged" in said.err
    assert not Path("none.jsonl").exists()


def test_where_it_cannot_write_it_says_so_before_any_work(retrograde, place, monkeypatch):
    run = made(place / "run", steps=1)
    closed = place / "closed"
    closed.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != closed)
    for out in ("closed/out.jsonl", "closed/further/out.jsonl"):
        said = retrograde("export", run, "--to", "sft", "--out", out)
        assert (said.code, said.err) == (2, f"error: --out {out}: {closed} cannot be written\n")
    monkeypatch.undo()


def test_a_disk_that_refuses_later_is_said_without_advice_that_is_trains(
    retrograde, place, monkeypatch
):
    run = made(place / "run", steps=1)
    monkeypatch.setattr(export, "synced", refusing)
    said = retrograde("export", run, "--to", "sft", "--out", "out.jsonl")
    assert said.code == 1
    assert "out.jsonl cannot be written: No space left" in said.err
    assert said.err.endswith("and export again\n")
    assert "--resume" not in said.err


def refusing(path):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_it_refuses_what_it_cannot_do(run, retrograde, place):
    (place / "there.jsonl").write_text("mine")
    said = retrograde("export", run, "--to", "sft", "--out", "there.jsonl")
    assert (said.code, "is there already" in said.err) == (2, True)
    assert (place / "there.jsonl").read_text() == "mine"
    (place / "nothing").mkdir()
    said = retrograde("export", "nothing", "--to", "sft", "--out", "out.jsonl")
    assert said.code == 2
    assert "rollouts/step-*" in said.err
    said = retrograde("export", run, "--to", "sft", "--min-reward", "7", "--out", "out.jsonl")
    assert said.code == 1
    assert "nothing was good enough" in said.err
