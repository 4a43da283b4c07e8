"""PATR, arXiv:2607.15610: checkpoints of trees drawn by hand, and the credit of what they leave."""

import math
from collections import Counter
from dataclasses import replace

import pytest
from tests.rollouts.worlds import Watched, grower, grown, ids

from retrograde.algorithms.patr import patr
from retrograde.data.batch import ActionTokens
from retrograde.data.rows import rows_of
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree
from retrograde.environments.lake import Lake
from retrograde.policies.scripted import ScriptedPolicy
from retrograde.rollouts.checkpoints import Checkpoints, loops
from retrograde.rollouts.plans import NEW_TREE, Fork, Moment

from .drawn import DONE, STOPPED, group, turn


def at_checkpoint(*scores, end=STOPPED):
    """Branches of two turns, one a score."""
    return group(*([turn(), turn(0, end, score=score, says=i)] for i, score in enumerate(scores)))


def onwards(grown, rounds_done=1, seed=0, **options):
    (forks,) = Checkpoints(**options)([grown], rounds_done, Moment(seed=seed))
    return {(fork.tree, fork.parent): fork.answers for fork in forks}


def test_round_0_plants_branches_of_a_stretch():
    assert (
        Checkpoints()([Group("a"), Group("b")], 0)
        == [[Fork(NEW_TREE, ROOT_PARENT, turns=2)] * 4] * 2
    )


def test_the_best_are_replaced_by_children_and_the_others_go_on():
    # Median .45; all lie within .5 of it. The two best get 2 children each, behind the very turn
    # at which they stand: the branch itself goes no further. 4 become 6.
    assert onwards(at_checkpoint(0.3, 0.6, 0.4, 0.5)) == {
        (0, 1): 1, (1, 1): 2, (2, 1): 1, (3, 1): 2,
    }  # fmt: skip
    (forks,) = Checkpoints()([at_checkpoint(0.3, 0.6, 0.4, 0.5)], 1)
    assert all(fork.turns == 2 for fork in forks)


def test_what_lags_behind_the_median_is_pruned():
    # Median (.625 + .875) / 2 = .75; .75 - .5 = .25: .2 is below it, .25 is not.
    lagging = at_checkpoint(0.2, 0.625, 0.875, 1.0)
    assert onwards(lagging, expand=0) == {(1, 1): 1, (2, 1): 1, (3, 1): 1}
    assert len(onwards(at_checkpoint(0.25, 0.625, 0.875, 1.0), expand=0)) == 4
    # With the paper's margin a score of 0 falls only where the median is above 1/2.
    assert len(onwards(at_checkpoint(0.0, 0.5, 0.5, 0.5), expand=0)) == 4


def test_of_fewer_than_three_none_lags():
    # Median of .2 and .8: .5; .2 < .5 - .1, and nothing is pruned. With a third it is.
    assert len(onwards(at_checkpoint(0.2, 0.8), margin=0.1, expand=0)) == 2
    assert len(onwards(at_checkpoint(0.2, 0.8, 0.8), margin=0.1, expand=0)) == 2
    assert (0, 1) not in onwards(at_checkpoint(0.2, 0.8, 0.8), margin=0.1, expand=0)


def test_what_repeats_itself_is_pruned_however_good():
    def path(*says):
        turns = [turn(i - 1 if i else ROOT_PARENT, says=word) for i, word in enumerate(says)]
        return [*turns[:-1], replace(turns[-1], end=STOPPED, score=0.9)]

    looping, changed, short = path(1, 1, 1), path(1, 2, 1), path(1, 1)
    grown_so_far = group(looping, changed, short)
    assert [loops(tree, len(tree.turns) - 1, 3) for tree in grown_so_far.trees] == [1, 0, 0]
    assert onwards(grown_so_far, repeats=3, expand=0) == {(1, 2): 1, (2, 1): 1}
    # Only the last actions count.
    assert not loops(group(path(1, 1, 1, 2)).trees[0], 3, 3)


def test_only_the_active_are_looked_at():
    # Tree 0 ended, tree 1 was pruned at an earlier checkpoint (round 0), 2 and 3 are active:
    # fewer than 3, so the .1 of tree 3 stays although the median of all scores is higher.
    mixed = group(
        [turn(), turn(0, DONE, 1.0, score=1.0)],
        [turn(), turn(0, STOPPED, score=0.9)],
        [turn(), turn(0), turn(1, STOPPED, score=0.9, grown_in=1)],
        [turn(), turn(0), turn(1, STOPPED, score=0.1, grown_in=1)],
    )
    assert onwards(mixed, 2, expand=0, margin=0.2) == {(2, 2): 1, (3, 2): 1}
    assert onwards(mixed, 3) == {}


def test_chance_decides_between_equals():
    chosen = Counter()
    for seed in range(60):
        answers = onwards(at_checkpoint(0.5, 0.5, 0.5, 0.2), seed=seed)
        assert answers[3, 1] == 1
        assert sum(answers.values()) == 6
        chosen.update(place for place, number in answers.items() if number == 2)
    assert set(chosen) == {(0, 1), (1, 1), (2, 1)}


def test_the_cap_leaves_out_children_first_and_then_the_worst():
    grown_so_far = at_checkpoint(0.3, 0.6, 0.4, 0.5)  # 8 turns; a stretch takes 2
    assert sum(onwards(grown_so_far, max_turns=20).values()) == 6
    assert onwards(grown_so_far, max_turns=18) == {(0, 1): 1, (1, 1): 2, (2, 1): 1, (3, 1): 1}
    assert onwards(grown_so_far, max_turns=17) == dict.fromkeys([(i, 1) for i in range(4)], 1)
    assert onwards(grown_so_far, max_turns=13) == {(1, 1): 1, (3, 1): 1}
    assert onwards(grown_so_far, max_turns=9) == {}
    assert sum(onwards(grown_so_far, max_turns=None).values()) == 6


def test_a_turn_without_a_score_is_refused():
    with pytest.raises(ValueError, match="turn 1 of tree 0 has none"):
        onwards(at_checkpoint(None, 0.5, 0.5))


def slippery(says="go east"):
    return Watched(Lake(slip=True)), ScriptedPolicy(lambda _context, _seed: ids(says))


async def grown_over(world, policy, plan, tasks=("train-0", "train-1")):
    growing = grower(world, policy)
    groups = await grown(growing, plan, tasks)
    await growing.forget()
    world.book.check()
    return groups


async def test_without_pruning_4_become_6_8_and_10():
    # Nobody moves, so all go on for 8 turns: 4 * 2 + 6 * 2 + 8 * 2 + 10 * 2 = 56 turns.
    world, policy = slippery("stay")
    groups = await grown_over(world, policy, Checkpoints(repeats=99))
    for each in groups:
        assert sum(len(tree.turns) for tree in each.trees) == 56
        assert sum(len(tree.leaves) for tree in each.trees) == 10


async def test_children_start_from_one_state_and_go_ways_of_their_own():
    world, policy = slippery()
    groups = await grown_over(world, policy, Checkpoints(repeats=99, margin=1.0))
    families = [
        (tree, below)
        for each in groups
        for tree in each.trees
        for below in tree.children
        if len(below) > 1
    ]
    assert families
    for tree, below in families:
        assert len({tree.context(i) for i in below}) == 1
    # The ice is slippery: equal words behind one state end in different places.
    assert any(len({tree.turns[i].score for i in below}) > 1 for tree, below in families)


async def test_a_loop_ends_a_branch_that_goes_nowhere():
    world, policy = slippery("stay")
    groups = await grown_over(world, policy, Checkpoints())
    for each in groups:
        # Four equal actions at the second checkpoint: all 6 are pruned, with what they earned.
        assert [t.end for tree in each.trees for t in tree.turns].count(End.STOPPED) == 6
        assert sum(len(tree.turns) for tree in each.trees) == 4 * 2 + 6 * 2


# Credit. Branch 0 was pruned at the checkpoint, branch 1 replaced by two children:
#
#   tree 0: 0 - 1 (stopped, R 0)
#   tree 1: 0 - 1 - 2 (R 1)
#               |
#               - 3 (R 0)
#
# Returns 0, 1, 0: mean 1/3, variance (1/9 + 4/9 + 1/9) / 2 = 1/3.
PRUNED = group(
    [turn(), turn(0, STOPPED, score=0.1)],
    [
        turn(),
        turn(0, score=0.9),
        turn(1, DONE, 1.0, score=1.0, grown_in=1),
        turn(1, DONE, score=0.0, grown_in=1),
    ],
)
SPREAD = math.sqrt(1 / 3) + 1e-6
WIN, LOSS = (2 / 3) / SPREAD, (-1 / 3) / SPREAD


def test_pruned_branches_stay_in_the_group_and_train():
    lost, kept = patr().credit(PRUNED, 2)
    assert lost.advantage_V == pytest.approx((LOSS, LOSS))
    assert lost.trains_V == (True, True)
    assert kept.advantage_V == pytest.approx((WIN, WIN, WIN, LOSS, LOSS, LOSS))
    # Without the pruned one it would be 1 and 0 around 1/2: half of the loss signal is gone.
    (alone,) = patr().credit(Group("t", PRUNED.trees[1:]), 2)
    assert alone.advantage_V[0] != pytest.approx(WIN)


def test_scores_never_enter_an_advantage():
    other = Group(
        "t",
        tuple(
            Tree(tuple(replace(t, score=1 - (t.score or 0.0)) for t in tree.turns))
            for tree in PRUNED.trees
        ),
    )
    assert patr().credit(other, 2) == patr().credit(PRUNED, 2)


def test_shared_turns_can_be_weighed_once():
    _, kept = patr(shared="share").credit(PRUNED, 2)
    assert kept.advantage_V == pytest.approx((WIN / 2, WIN / 2, WIN, LOSS / 2, LOSS / 2, LOSS))


def test_the_mean_is_over_tokens_then_rollouts():
    rows = rows_of([PRUNED], [patr().credit(PRUNED, 2)])
    tokens = ActionTokens.of(rows)
    # Three rollouts of 2, 3, 3 turns of 2 tokens: 1/3 / 4 and 1/3 / 6.
    assert patr().loss.weights(tokens).tolist() == pytest.approx([1 / 12] * 4 + [1 / 18] * 12)


def test_equal_arguments_give_equal_algorithms():
    assert patr(every=3) == patr(every=3) != patr()
    assert patr().grow.forks
    assert not patr(expand=0).grow.forks


@pytest.mark.parametrize(
    ("options", "saying"),
    [
        ({"branches": 1}, "branches: at least 2"),
        ({"every": 0}, "every: at least 1"),
        ({"expand": -1}, "expand: at least 0"),
        ({"children": 1}, "children: at least 2"),
        ({"repeats": 1}, "repeats: at least 2"),
        ({"margin": -0.1}, "margin"),
        ({"margin": math.nan}, "margin"),
        ({"max_turns": 7}, "max_turns: the first stretch takes 4 branches times 2 turns, got 7"),
    ],
)
def test_what_cannot_be_is_refused(options, saying):
    with pytest.raises(ValueError, match=saying):
        patr(**options)
