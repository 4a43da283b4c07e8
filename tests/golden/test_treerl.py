"""TreeRL, arXiv:2506.11902: local plus global credit on an entropy-guided tree, by hand."""

import math

import pytest
import torch

from retrograde.algorithms.treerl import treerl
from retrograde.credit.local_global import LocalGlobal
from retrograde.data.batch import ActionTokens
from retrograde.data.rows import rows_of
from retrograde.losses.policy import Mean, Surrogate
from retrograde.rollouts.entropy_tree import EntropyTree
from retrograde.rollouts.plans import Fork

from .grown import DONE, LOST, ROOT, by_turn, chain, group, turn, visited

# One task, two chains; tokens in brackets:
#
#   tree 0   0 [2] ─┬─ 1 [1] (1)
#                   └─ 2 [3] (0)
#   tree 1   0 [1] ─── 1 [1] (0)
#
# Return minus the mean of the others: 1 - 0 = 1, 0 - 1/2 = -1/2, -1/2.
# Sums over leaves and tokens: 0.0 1/2 (2 leaves), 0.1 1, 0.2 -1/2, 1.0 -1/2, 1.1 -1/2.
# Level: (2 * 1/2 + 1 * 1 - 3 * 1/2 - 1 * 1/2 - 1 * 1/2) / (2 * 2 + 1 + 3 + 1 + 1) = -.05.
# V = (mean of leaves + .05) / sqrt(leaves): 0.0 .3 / sqrt 2 = .21213, 0.1 1.05, 0.2 -.45,
# 1.0 -.45, 1.1 -.45, and the root (0 + .05) / sqrt 3 = .02887.
DRAWN = group(
    (
        turn(ROOT, tokens=2),
        turn(0, 1.0, DONE, tokens=1),
        turn(0, 0.0, DONE, 1, tokens=3),
    ),
    (turn(ROOT), turn(0, 0.0, DONE)),
)
PARENT, TOP = 0.3 / math.sqrt(2), 0.05 / math.sqrt(3)
ADVANTAGE = {
    (0, 0): 2 * PARENT - TOP,
    (0, 1): 2 * 1.05 - PARENT,
    (0, 2): 2 * -0.45 - PARENT,
    (1, 0): 2 * -0.45 - TOP,
    (1, 1): -0.45,  # an only child: nothing but V
}


def test_local_plus_global():
    found = by_turn(LocalGlobal(), DRAWN)
    assert found == pytest.approx(ADVANTAGE)
    rounded = {(0, 0): 0.39540, (0, 1): 1.88787, (0, 2): -1.11213, (1, 0): -0.92887, (1, 1): -0.45}
    assert found == pytest.approx(rounded, abs=1e-5)


def test_child_and_parent_are_scaled_each_by_its_own_leaves():
    # Plain values are 1.05 and .3: a local part of .75, and of .838 as it is.
    local = by_turn(LocalGlobal(), DRAWN)[0, 1] - 1.05
    assert local == pytest.approx(1.05 - 0.3 / math.sqrt(2))
    assert local != pytest.approx(0.75, abs=0.05)


def test_the_level_counts_tokens():
    # With 0.2 as short as 0.1 the level is (1 + 1 - .5 - .5 - .5) / 8 = .0625.
    drawn = group((*DRAWN.trees[0].turns[:2], turn(0, 0.0, DONE, 1)), DRAWN.trees[1])
    assert by_turn(LocalGlobal(), drawn)[1, 1] == pytest.approx(-0.5 - 0.0625)


def test_a_shared_turn_trains_for_each_leaf_below_it():
    every = visited(LocalGlobal(), DRAWN)
    assert every[0, 1, 0] == every[0, 2, 0]
    assert len(every) == 6


def test_a_failed_leaf_counts_nowhere():
    # 1 and 0 are left: +-1; sums 0.0 1, 0.1 1, 1.0 -1, 1.1 -1; level (2 + 1 - 1 - 1) / 5 = .2.
    failed = group((*DRAWN.trees[0].turns[:2], turn(0, 0.0, LOST, 1, tokens=3)), DRAWN.trees[1])
    found = visited(LocalGlobal(), failed)
    assert set(found) == {(0, 1, 0), (0, 1, 1), (1, 1, 0), (1, 1, 1)}
    assert found[0, 1, 1] == pytest.approx(0.8)
    assert found[0, 1, 0] == pytest.approx(1.6 + 0.2 / math.sqrt(2))
    assert visited(LocalGlobal(), group((turn(ROOT, 0.0, LOST),))) == {}


def test_equal_returns_give_exactly_nothing():
    trees = (turn(ROOT, 0.1), turn(0, 0.2, DONE), turn(0, 0.2, DONE)), (turn(ROOT, 0.3, DONE),)
    assert set(by_turn(LocalGlobal(), group(*trees)).values()) == {0.0}
    assert by_turn(LocalGlobal(), group(chain(2, 1.0))) == {(0, 0): 0.0, (0, 1): 0.0}


def test_each_tree_is_forked_at_its_most_uncertain_turns():
    # Leaves aside: .3, .7 and .5 in the first, .2 in the second, which is chosen twice.
    grown = group(
        (turn(ROOT, nll=0.3), turn(0, nll=0.7), turn(1, nll=0.5), turn(2, 1.0, DONE, nll=9.0)),
        (turn(ROOT, nll=0.2), turn(0, 0.0, DONE, nll=9.0)),
    )
    plan = treerl(chains=2).grow
    assert plan([grown], 1) == [[Fork(0, 0, 2), Fork(0, 1, 2), Fork(1, ROOT, 2), Fork(1, ROOT, 2)]]


def test_the_papers_shape_has_30_leaves():
    algorithm = treerl(chains=6)
    assert algorithm.grow == EntropyTree(6, 2, 1, 2, penalty=0.0, apart=True)
    assert treerl(chains=2) == treerl()
    (forks,) = algorithm.grow([group(*(chain(3),) * 6)], 1)
    assert len(algorithm.grow([group()], 0)[0]) + sum(fork.answers for fork in forks) == 30


@pytest.mark.parametrize("surrogate", ["unweighted", "clipped"])
def test_the_first_gradient(surrogate):
    # Three rollouts of 3, 5 and 2 tokens, a third each: -A / (3 * tokens).
    algorithm = treerl(surrogate=surrogate)
    rows = rows_of([DRAWN], [algorithm.credit(DRAWN, 1)], algorithm.view)
    tokens = ActionTokens.of(rows)
    logp_T = tokens.behaviour_logp.clone().requires_grad_()
    algorithm.loss(logp_T, tokens, algorithm.loss.weights(tokens)).backward()
    a = ADVANTAGE
    expected = [a[0, 0] / 9] * 2 + [a[0, 1] / 9] + [a[0, 0] / 15] * 2 + [a[0, 2] / 15] * 3
    expected += [a[1, 0] / 6, a[1, 1] / 6]
    torch.testing.assert_close(logp_T.grad, -torch.tensor(expected))


def test_the_loss_is_reinforce_unless_asked_otherwise():
    assert treerl().loss.surrogate is Surrogate.UNWEIGHTED
    clipped = treerl(surrogate="clipped").loss
    assert (clipped.clip_low, clipped.clip_high, clipped.mean) == (0.2, 0.26, Mean.ROLLOUT)
    assert treerl(answers=2) == treerl()
    with pytest.raises(ValueError, match=r"answers: at least 1 .* got 0"):
        treerl(answers=0)
