"""Stored rollouts as examples for others: who said what, what is kept, and what is left out."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from retrograde.data.examples import NO_ROLES, Exporter, Wanted
from retrograde.data.message import Message
from retrograde.data.stored import Scribe, StoredGroup, success_of
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn
from retrograde.data.wire import group_from_json, group_to_json

STOP = 9
WORDS = {1: "left", 2: "right", 3: "up", 7: "seen", 8: "heard", STOP: "<|end|>"}
SCRIBE = Scribe(lambda ids: " ".join(WORDS[i] for i in ids), {STOP})
TOOL = json.dumps({"type": "function", "function": {"name": "look", "parameters": {}}})
RULES = Message("system", "Find the door.", lasting=True, tools=(TOOL,))
ASKED, WALL = Message("user", "Where?"), Message("tool", "A wall.", name="look")


def turn(parent, said, heard, reward=0.0, end=None, **more):
    shown = () if parent == ROOT_PARENT else (len(heard),)
    return Turn(
        parent, 0, (7, *shown), (7, *shown), (said, STOP), (-0.1, -0.1),
        0, 0, reward, end, heard=tuple(heard), **more,
    )  # fmt: skip


#   opening -- 0 left --- 1 left  reward 0
#                   |---- 2 right reward 1
#                   |---- 3 left  (merged into 1)
#                   |---- 4 right reward 0   the same words as 2: together worth 1/2
#                   |---- 5 up    failed
TREE = Tree((
    turn(ROOT_PARENT, 1, [RULES, ASKED]),
    turn(0, 1, [WALL], 0.0, End.FINISHED),
    turn(0, 2, [WALL], 1.0, End.FINISHED),
    turn(0, 1, [WALL], 0.0, End.MERGED, merged_into=1),
    turn(0, 2, [WALL], 0.0, End.TRUNCATED),
    turn(0, 3, [WALL], 0.0, End.FAILED),
))  # fmt: skip
#   the same opening -- 0 right reward 1: a sibling of the other tree's turn 0
OTHER = Tree((turn(ROOT_PARENT, 2, [RULES, ASKED], 1.0, End.FINISHED),))


def stored(*trees):
    group = Group("door-3", trees)
    return StoredGroup(
        5, group, texts=SCRIBE.texts(group), pieces=SCRIBE.pieces(group),
        success=success_of(group, lambda tree, leaf: tree.returns[leaf] == 1.0),
        special=frozenset({STOP}),
    )  # fmt: skip


def made(kind, *trees, **wanted):
    exporter = Exporter(Wanted(**wanted))
    examples = list(getattr(exporter, kind)(stored(*trees)))
    assert exporter.number == len(examples)
    return examples, +exporter.left_out


SYSTEM = {"role": "system", "content": "Find the door."}
USER = {"role": "user", "content": "Where?"}
HEARD = {"role": "tool", "content": "A wall.", "name": "look"}


def answer(text):
    return {"role": "assistant", "content": text}


def test_a_rollout_is_a_conversation():
    examples, left_out = made("sft", TREE)
    assert examples[1] == {
        "messages": [SYSTEM, USER, answer("left"), HEARD, answer("right")],
        "tools": [json.loads(TOOL)],
        "task": "door-3",
        "step": 5,
        "reward": 1.0,
    }
    # Five leaves: 1 and 2 are exported; 4 says the same as 2.
    assert [example["reward"] for example in examples] == [0.0, 1.0]
    assert left_out == Counter({
        "led to the same state as a sibling, which stands for it": 1,
        "failed: the environment broke": 1,
        "the same words as another example": 1,
    })  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "why", "number"),
    [({"min_reward": 0.5}, "earned less than 0.5", 2), ({"only_success": True}, "did not do", 2)],
)
def test_what_is_not_good_enough_is_left_out_and_counted(wanted, why, number):
    examples, left_out = made("sft", TREE, **wanted)
    assert [example["reward"] for example in examples] == [1.0]
    assert sum(n for reason, n in left_out.items() if why in reason) == number


def test_siblings_of_a_fork_are_a_pair():
    # Behind turn 0: left is worth 0, right (1 + 0) / 2; up broke. At the opening of both trees:
    # left is worth the mean of what was played behind it, (0 + 1 + 0) / 3, and right 1.
    examples, left_out = made("preference", TREE, OTHER)
    opening, behind = sorted(examples, key=lambda example: len(example["prompt"]))
    assert behind["prompt"] == [SYSTEM, USER, answer("left"), HEARD]
    assert (behind["chosen"], behind["rejected"]) == ([answer("right")], [answer("left")])
    assert (behind["reward_chosen"], behind["reward_rejected"]) == (0.5, 0.0)
    assert behind["tools"] == [json.loads(TOOL)]
    assert opening["prompt"] == [SYSTEM, USER]
    assert (opening["chosen"], opening["rejected"]) == ([answer("right")], [answer("left")])
    assert (opening["reward_chosen"], opening["reward_rejected"]) == (1.0, pytest.approx(1 / 3))
    assert left_out == {"answers that were not played on": 1}


def test_the_same_words_are_no_pair_however_they_came_out():
    """Trap: two siblings that said the same, of which one was lucky afterwards."""
    tree = Tree((TREE.turns[0], TREE.turns[2], TREE.turns[4]))
    assert made("preference", tree) == ([], {})


def test_answers_to_different_contexts_are_no_pair():
    elsewhere = replace(OTHER.turns[0], fresh=(8,), observation=(8,))
    examples, _ = made("preference", TREE, Tree((elsewhere,)))
    assert [len(example["prompt"]) for example in examples] == [4]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"min_reward": 0.6}, "forks whose best answer earned less than 0.6"),
        ({"min_margin": 0.6}, "forks whose answers differ by less than 0.6"),
    ],
)
def test_pairs_that_are_not_good_enough_are_left_out_and_counted(wanted, why):
    examples, left_out = made("preference", TREE, OTHER, **wanted)
    assert [example["reward_chosen"] for example in examples] == [1.0]
    assert left_out[why] == 1


def test_answers_that_came_to_the_same_prefer_none():
    tree = Tree((TREE.turns[0], TREE.turns[1], replace(TREE.turns[2], reward=0.0)))
    assert made("preference", tree) == ([], {"forks whose answers came to the same": 1})
    assert made("preference", Tree((*TREE.turns[:2], TREE.turns[4])), only_success=True)[0] == []


def test_what_was_stored_without_roles_is_left_out_and_said():
    bare = Tree(tuple(replace(node, heard=()) for node in TREE.turns))
    assert made("sft", bare) == ([], made("sft", bare)[1])
    assert made("sft", bare)[1][NO_ROLES] == 3
    assert made("preference", bare) == (
        [], {NO_ROLES: 1, "answers that were not played on": 1},
    )  # fmt: skip


def test_roles_are_stored():
    group = Group("door-3", (TREE, OTHER))
    again = group_from_json(group_to_json(group))
    assert again == group
    assert [node.heard for node in again.trees[0].turns] == [node.heard for node in TREE.turns]
    assert again.trees[0].turns[0].heard == (RULES, ASKED)
