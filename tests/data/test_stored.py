"""Groups with what is kept beside them: exact ids, text, credit, success."""

import json
import random
from dataclasses import replace

import pytest
import zstandard

from retrograde.data.stored import (
    Played,
    Scribe,
    StoredGroup,
    Text,
    Visit,
    store_groups,
    stored_count,
    stored_file,
    stored_groups,
    success_of,
)
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn


def turn(parent, action, reward=0.0, end=None, **options):
    shared = 0 if parent == ROOT_PARENT else 3
    return Turn(parent, shared, (7, 8), (8,), action, (-0.1,) * len(action), 0, 4, reward, end,
                **options)  # fmt: skip


GROUP = Group(
    "a task",
    (
        # Turn 0 has four siblings behind it: won, lost, like the first of them, broken.
        Tree(
            (
                turn(ROOT_PARENT, (1,)),
                turn(0, (2, 9), 1.0, End.FINISHED),
                turn(0, (3, 9), 0.0, End.TRUNCATED),
                turn(0, (2, 9), 0.0, End.MERGED, merged_into=1),
                turn(0, (), 0.0, End.FAILED),
            )
        ),
    ),
)
SCRIBE = Scribe(lambda ids: "".join(chr(96 + i) for i in ids), (9, 99))


def stored(**options):
    fields = {
        "texts": SCRIBE.texts(GROUP),
        "success": success_of(GROUP, lambda tree, leaf: tree.returns[leaf] == 1.0),
        "visits": (
            (
                Visit(1, 1, 2, 5, 0.1 + 0.2, (), (-0.25, -1e-9), ()),
                Visit(2, 2, 2, None, (-1.0, 0.5), (-1.0, -2.0), (), (0.5,)),
            ),
        ),
        "pieces": SCRIBE.pieces(GROUP),
        "special": frozenset({9}),
    }
    return StoredGroup(3, GROUP, **(fields | options))


def test_what_is_stored_reads_back_the_same(tmp_path):
    path = tmp_path / "x.jsonl.zst"
    groups = [stored(), stored(greedy=True, played=Played.EVALUATION)]
    store_groups(path, groups)
    assert list(stored_groups(path)) == groups
    assert list(tmp_path.iterdir()) == [path]  # nothing unfinished beside it


def test_text_and_pieces_are_what_the_scribe_says():
    first = stored().texts[0][1]
    assert first == Text(observed="h", said="bi")
    assert stored().pieces == {1: "a", 2: "b", 3: "c", 7: "g", 8: "h", 9: "i"}


def test_only_leaves_that_were_played_to_an_end_succeeded_or_not():
    assert stored().success == ({1: True, 2: False},)


def test_a_visit_says_whether_it_carried_gradient():
    made = Visit(1, 1, 0, 5, 0.5)
    assert made.carried_gradient
    assert not made._replace(update=None).carried_gradient  # the update was skipped
    assert not made._replace(advantage=0.0).carried_gradient
    assert not made._replace(advantage=(0.0, 0.0)).carried_gradient
    assert made._replace(advantage=(0.0, -1.0)).mean == -0.5


def test_a_run_is_read_in_the_order_of_its_iterations(tmp_path):
    (tmp_path / "rollouts").mkdir()
    for step in (1_000_000, 2, 10):
        store_groups(stored_file(tmp_path, Played.TRAINING, step), [replace(stored(), step=step)])
    evaluation = replace(stored(), step=0, played=Played.EVALUATION)
    store_groups(stored_file(tmp_path, Played.EVALUATION, 0), [evaluation])
    assert [group.step for group in stored_groups(tmp_path)] == [2, 10, 1_000_000]
    assert list(stored_groups(tmp_path, Played.EVALUATION)) == [evaluation]


def test_a_directory_without_rollouts_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"rollouts/step-\*.jsonl.zst is needed"):
        list(stored_groups(tmp_path))


def test_what_is_damaged_is_named(tmp_path):
    path = tmp_path / "step-000001.jsonl.zst"
    path.write_bytes(b"no archive")
    with pytest.raises(ValueError, match=r"step-000001.jsonl.zst is damaged"):
        list(stored_groups(path))
    path.write_bytes(zstandard.compress(json.dumps({"format": 2}).encode()))
    with pytest.raises(ValueError, match=r"line 1, is no stored group"):
        list(stored_groups(path))


def cut(path, share):
    """A file that holds many groups, each of which is known by its task, without its end."""
    chance = random.Random(0)
    tasks = [f"{i} {chance.randbytes(2000).hex()}" for i in range(200)]
    store_groups(path, [replace(stored(), group=Group(task, GROUP.trees)) for task in tasks])
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    return tasks


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.5, 0.999])
def test_a_file_that_was_cut_short_is_refused_or_read_as_far_as_it_goes_and_told_of(
    tmp_path, share
):
    path = tmp_path / "step-000001.jsonl.zst"
    tasks = cut(path, share)
    with pytest.raises(ValueError, match=r"step-000001.jsonl.zst is damaged"):
        list(stored_groups(path))
    told = []
    read = [each.group.task for each in stored_groups(path, told=told.append)]
    assert read == tasks[: len(read)]
    assert (len(read) > 0) == (share >= 0.5)
    assert stored_count(path, told.append) == len(read) < len(tasks)
    assert told[0] == told[1]
    assert f"read are the {len(read)} groups before that" in told[0]


def test_of_a_whole_file_nothing_is_told(tmp_path):
    path = tmp_path / "step-000001.jsonl.zst"
    tasks = cut(path, 1.0)
    told = []
    assert len(list(stored_groups(path, told=told.append))) == len(tasks)
    assert stored_count(path, told.append) == len(tasks)
    assert told == []
