"""What is kept of rollouts is what was trained on, and a resumed run keeps nothing twice."""

import asyncio
import json

import pytest
from tests.trainer.runs import ran, taught_hop

from retrograde.algorithms.grpo import grpo
from retrograde.algorithms.rtpo import rtpo
from retrograde.data.rows import Row
from retrograde.data.stored import Played, Scribe, Visit, stored_file, stored_files, stored_groups
from retrograde.data.tree import End, Group
from retrograde.trainer.archive import Archive

from .test_journal import GROUPS, rollout, won

SCRIBE = Scribe(lambda ids: " ".join(map(str, ids)))


def opened(folder, last=-1, keep=2):
    return Archive(folder, last, SCRIBE, won, keep=keep)


def row(place, turn, advantage, logp=(-1.0,)):
    return Row((1,), (2,), logp, advantage, turn, place[0], (0, *place))


def visits(folder):
    return [group.visits for group in stored_groups(folder)]


@pytest.mark.parametrize(("keep", "stored"), [(0, 0), (2, 2), (-1, 3)])
def test_the_first_groups_of_an_iteration_are_kept(tmp_path, keep, stored):
    opened(tmp_path, keep=keep).close_step(1, GROUPS)
    path = stored_file(tmp_path, Played.TRAINING, 1)
    found = list(stored_groups(path)) if path.exists() else []
    assert [each.group for each in found] == GROUPS[:stored]
    if found:
        assert found[0].texts[0][0] == ("1", "2")
        assert found[0].success == ({2: True}, {0: False})


def test_turns_keep_what_they_were_worth(tmp_path):
    archive = opened(tmp_path)
    # Group 0's first tree has turns 0, 1, 2 and one leaf, 2; group 2 is not kept.
    rows = [row((0, 0, 2), 1, 0.5), row((0, 1, 0), 0, 0.0), row((2, 0, 0), 0, 9.0)]
    assert archive.wanted(rows) == rows[:1]
    archive.judged(rows, [[-0.5]], 7)
    archive.judged([row((1, 0, 1), 1, -1.0, (-3.0,))], None, 8)
    archive.close_step(1, GROUPS)
    first, second = visits(tmp_path)
    assert first == (
        (Visit(1, 2, 0, 7, 0.5, (), (-0.5,), ()),),
        (Visit(0, 0, 0, 7, 0.0, (), (), ()),),  # an advantage of 0 carries no gradient
    )
    # A skipped update moved nothing; the ratio was taken to something else than the sampler's.
    assert second == ((Visit(1, 1, 0, None, -1.0, (-3.0,), (), ()),), ())
    archive.close_step(2, GROUPS[:1])
    assert visits(stored_file(tmp_path, Played.TRAINING, 2)) == [((), ())]  # it was forgotten


def test_every_held_out_task_is_noted_and_the_first_are_kept(tmp_path):
    archive = opened(tmp_path, keep=1)
    tasks = [
        Group("won", (rollout(1.0),)),
        Group("lost", (rollout(0.0, 2),)),
        Group("broke", (rollout(0.0, end=End.FAILED),)),
        *(Group(f"more {i}", (rollout(1.0),)) for i in range(9)),
    ]
    archive.evaluated(tasks, greedy=False)
    archive.evaluated(tasks, greedy=True)
    archive.close_step(4, [])
    line = json.loads((tmp_path / "evaluations.jsonl").read_text())
    assert line["step"] == 4
    assert line["sampled"]["return"][:3] == [1.0, 0.0, None]
    assert line["sampled"]["success"][:3] == [True, False, None]
    assert line["greedy"] == line["sampled"]
    kept = list(stored_groups(tmp_path, Played.EVALUATION))
    assert [each.greedy for each in kept] == [False] * 12 + [True] * 12
    assert not stored_file(tmp_path, Played.TRAINING, 4).exists()


def test_later_evaluations_keep_what_goes_otherwise_than_at_first(tmp_path):
    def played(outcomes):
        return [Group(f"test-{i}", (rollout(won),)) for i, won in enumerate(outcomes)]

    archive = opened(tmp_path, keep=1)  # 8 tasks, and 8 that changed
    archive.evaluated(played([0.0] * 20 + [1.0] * 80), greedy=True)
    archive.close_step(0, [])
    archive.evaluated(played([1.0] * 20 + [1.0] * 75 + [0.0] * 5), greedy=True)
    archive.close_step(9, [])
    first, later = (
        [int(each.group.task[5:]) for each in stored_groups(path)]
        for path in stored_files(tmp_path, Played.EVALUATION)
    )
    assert first == list(range(64))
    # Five were forgotten, and of those that were learned there is room for three.
    assert later == [*range(8), 8, 9, 10, *range(95, 100)]


def test_what_is_made_again_is_dropped(tmp_path):
    archive = opened(tmp_path)
    for step in range(4):
        archive.evaluated(GROUPS, greedy=True)
        archive.close_step(step, GROUPS)
    (tmp_path / "rollouts" / ".step-000009.jsonl.zst.unfinished").write_bytes(b"half")
    opened(tmp_path, last=2)
    assert sorted(path.name for path in (tmp_path / "rollouts").iterdir()) == [
        f"{kind}-00000{step}.jsonl.zst" for kind in ("evaluation", "step") for step in (0, 1, 2)
    ]
    lines = (tmp_path / "evaluations.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [0, 1, 2]


def test_a_real_run_tells_its_updates(tmp_path):
    method = rtpo(siblings=3, min_signal=1, learning_rate=1e-3)
    run = asyncio.run(ran(method, model=taught_hop(), prompts=2))
    groups = run.notes.grown[-1]
    archive = opened(tmp_path)
    for number, (rows, made) in enumerate(run.notes.judgements):
        archive.judged(rows, run.learner.score(archive.wanted(rows)) if made else None, number + 1)
    archive.close_step(1, groups)
    found = [visit for tree in visits(tmp_path) for each in tree for visit in each]
    assert len(found) == sum(len(rows) for rows, _ in run.notes.judgements)
    # Reverse turns: phase k judges the answers grown in round k, and later phases earlier turns.
    for stored in stored_groups(tmp_path):
        for tree, worth in zip(stored.group.trees, stored.visits, strict=True):
            by_phase = {visit.phase: tree.depths[visit.turn] for visit in worth}
            assert list(by_phase) == sorted(by_phase)
            assert list(by_phase.values()) == sorted(by_phase.values(), reverse=True)
            for visit in worth:
                assert bool(visit.after) == visit.carried_gradient


def test_a_method_that_learns_once_has_one_phase(tmp_path):
    run = asyncio.run(ran(grpo(rollouts=3, learning_rate=1e-3), model=taught_hop(), prompts=2))
    archive = opened(tmp_path)
    ((rows, made),) = run.notes.judgements
    archive.judged(rows, run.learner.score(archive.wanted(rows)) if made else None, 1)
    archive.close_step(1, run.notes.grown[-1])
    assert {v.phase for tree in visits(tmp_path) for each in tree for v in each} == {0}
