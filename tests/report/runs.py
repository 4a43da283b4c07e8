"""Directories of runs that nobody trained: real trees and records, made up."""

import json
from pathlib import Path

from retrograde.data.stored import (
    Played,
    Scribe,
    StoredGroup,
    Visit,
    store_groups,
    stored_file,
    success_of,
)
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn

WORDS = (
    "<|end|>",
    "look",
    "left",
    "right",
    "open",
    "door",
    "<b>bold</b>",
    "line\n",
    "\u00e9t\u00e9",
)
SCRIBE = Scribe(lambda ids: " ".join(WORDS[i] for i in ids), (0,))
HOSTILE = '</script><img src=x onerror="document.title=1"><!--'


def won(tree, leaf):
    return tree.returns[leaf] >= 1.0


def turn(parent, tree, action, grown_in, *, reward=0.0, end=None, depth=0):
    shared = 0
    if parent != ROOT_PARENT:
        before = tree[parent]
        shared = before.shared + len(before.fresh) + len(before.action)
    return Turn(
        parent, shared, (1, 2), (1, 2), action, (-0.1, -1.5, -0.01)[: len(action)], grown_in, 3,
        reward, end, None, depth / 8, (0.3, 1.0, 0.05)[: len(action)],
    )  # fmt: skip


def reversed_tree(turns=4, siblings=3):
    """What RTPO grows: a trunk, then siblings of the last turn, of the one before, and so on."""
    grown = []
    for depth in range(turns):
        last = depth == turns - 1
        end = End.FINISHED if last else None
        grown.append(turn(depth - 1, grown, (3, 5, 0), 0, end=end, depth=depth))
    visits = []
    for round_, depth in enumerate(reversed(range(turns)), 1):
        mine = []
        for number in range(siblings):
            parent = depth - 1
            mine.append(len(grown))
            for further in range(depth, turns):
                last = further == turns - 1
                worth = {"reward": float(number == 1), "end": End.FINISHED} if last else {}
                said = (3 + number % 3, 6, 0)
                grown.append(turn(parent, grown, said, round_, depth=further, **worth))
                parent = len(grown) - 1
        for number, sibling in enumerate(mine):
            leaf = sibling + turns - 1 - depth
            advantage = (2 / 3 if number == 1 else -1 / 3) if siblings > 1 else 0.0
            after = (-0.09, -1.4, -0.02) if advantage > 0 else (-0.2, -1.7, -0.02)
            visits.append(Visit(sibling, leaf, round_, 3 + round_, advantage, (), after, (0.25,)))
    return Tree(tuple(grown)), tuple(visits)


def stored(step, task, turns=4, siblings=3):
    tree, visits = reversed_tree(turns, siblings)
    group = Group(task, (tree,))
    return StoredGroup(
        step, group, Played.TRAINING, texts=SCRIBE.texts(group), success=success_of(group, won),
        visits=(visits,), pieces=SCRIBE.pieces(group), special=frozenset({0}),
    )  # fmt: skip


def played(step, task, reward):
    grown = [turn(ROOT_PARENT, [], (3, 5, 0), 0)]
    grown.append(turn(0, grown, (4, 0), 0, reward=reward, end=End.TRUNCATED))
    group = Group(task, (Tree(tuple(grown)),))
    return StoredGroup(
        step, group, Played.EVALUATION, greedy=True, texts=SCRIBE.texts(group),
        success=success_of(group, won), visits=((),), pieces=SCRIBE.pieces(group),
        special=frozenset({0}),
    )  # fmt: skip


def metrics(step):
    line = {
        "step": step, "policy_version": 4 * step, "tokens/generated": 300 * step,
        "env/steps": 100 * step, "wall_seconds": 1.5 * step + 1, "seconds/sampling": 1.0,
    }  # fmt: skip
    if step % 2 == 0:
        success = min(1.0, 0.2 + 0.1 * step)
        line |= {"eval/success": success, "eval/success_greedy": success, "eval/episodes": 3.0}
    if step:
        line |= {"reward/mean": 0.1 * step, "surprise": 1 / step, "clip_ratio": 0.1,
                 "ratio/mean": 1.0, "rows/zero_advantage": 0.5, "num_turns/mean": 4.0,
                 "completions/mean_length": 3.0, "seconds/learning": 0.5, "grad_norm": 0.3,
                 }  # fmt: skip
    return line


def evaluation(step, outcomes):
    told = {"return": [None if won is None else float(won) for won in outcomes],
            "success": outcomes}  # fmt: skip
    tasks = [f"test-{i}" for i in range(len(outcomes))]
    return {"step": step, "tasks": tasks, "sampled": told, "greedy": told}


def made(folder: Path, *, steps=4, groups=2, seed=0, turns=4, siblings=3) -> Path:
    """A run of some iterations with an evaluation before and after."""
    (folder / "rollouts").mkdir(parents=True)
    settings = {
        "algorithm": "rtpo", "environment": "hop", "model": "embedded",
        "run": {"seed": seed, "prompts": None}, "rewards": {},
    }  # fmt: skip
    manifest = {"settings": settings, "arguments": ["--seed", str(seed)], "commit": None,
                "packages": {"retrograde": "0"}, "machine": HOSTILE}  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))
    write_lines(folder / "metrics.jsonl", map(metrics, range(steps + 1)))
    before, after = [True, False, None], [False, True, True]
    write_lines(folder / "evaluations.jsonl", [evaluation(0, before), evaluation(steps, after)])
    for step, outcomes in ((0, before), (steps, after)):
        rollouts = [
            played(step, f"test-{i}", float(bool(outcome))) for i, outcome in enumerate(outcomes)
        ]
        store_groups(stored_file(folder, Played.EVALUATION, step), rollouts)
    for step in range(1, steps + 1):
        add_step(folder, step, groups, turns, siblings)
    return folder


def add_step(folder, step, groups=2, turns=4, siblings=3):
    names = [HOSTILE if (step, i) == (1, 1) else f"train-{step}-{i}" for i in range(groups)]
    rollouts = [stored(step, name, turns, siblings) for name in names]
    store_groups(stored_file(folder, Played.TRAINING, step), rollouts)


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
