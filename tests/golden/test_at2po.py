"""AT2PO, arXiv:2601.04767: where its tree grows and what its turns are worth, worked by hand."""

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch

from retrograde.algorithms.at2po import at2po
from retrograde.algorithms.atpo import atpo
from retrograde.algorithms.grpo import grpo
from retrograde.algorithms.random_tree import random_tree
from retrograde.credit.turn_value import TurnValue
from retrograde.data.batch import ActionTokens
from retrograde.data.rows import rows_of
from retrograde.rollouts.entropy_tree import EntropyTree
from retrograde.rollouts.plans import NEW_TREE, Chains, Fork, Moment

from .drawn import DONE, LOST, ROOT, by_leaf, by_turn, chain, group, turn, visited

# One task, two chains, uncertainty in brackets:
#
#   tree 0   0 [1] ─┬─ 1 [2] (1)
#                   └─ 2 [1] (0)
#   tree 1   0 [3] ─── 1 [5] (0)
#            2 [2] (1), a second first turn
#
# Returns 1, 0, 0, 1: mean 1/2, population standard deviation 1/2; a leaf's value is +-S with
# S = .5 / (.5 + 1e-6).
#   V(0.0)  = (2 * 1 + 1 * -1) / 3         = 1/3
#   V(1.0)  = -1
#   V(root) = (1 * 1/3 + 3 * -1 + 2 * 1) / 6 = -1/9    the first turns of both chains
S = 0.5 / (0.5 + 1e-6)
DRAWN = group(
    (turn(ROOT), turn(0, 1.0, DONE, nll=2.0), turn(0, 0.0, DONE, 1)),
    (turn(ROOT, nll=3.0), turn(0, 0.0, DONE, nll=5.0), turn(ROOT, 1.0, DONE, 1, nll=2.0)),
)
VALUE = {(0, 0): 1 / 3, (0, 1): 1.0, (0, 2): -1.0, (1, 0): -1.0, (1, 1): -1.0, (1, 2): 1.0}


def times_s(values):
    return pytest.approx({place: value * S for place, value in values.items()})


def test_a_turn_is_worth_the_weighted_mean_of_its_children():
    assert by_turn(TurnValue(), DRAWN) == times_s(VALUE)


def test_local_global_and_both():
    parent = {(0, 0): -1 / 9, (0, 1): 1 / 3, (0, 2): 1 / 3, (1, 0): -1 / 9, (1, 1): -1.0}
    parent[1, 2] = -1 / 9
    local = {place: VALUE[place] - parent[place] for place in VALUE}
    whole = {place: VALUE[place] + 1 / 9 for place in VALUE}
    assert local == pytest.approx({(0, 0): 4 / 9, (0, 1): 2 / 3, (0, 2): -4 / 3, (1, 0): -8 / 9,
                                   (1, 1): 0.0, (1, 2): 10 / 9})  # fmt: skip
    assert by_turn(TurnValue(credit="local"), DRAWN) == times_s(local)
    assert by_turn(TurnValue(credit="global"), DRAWN) == times_s(whole)
    both = {place: local[place] + whole[place] for place in VALUE}
    assert by_turn(TurnValue(credit="both"), DRAWN) == times_s(both)
    # An only child stands exactly where its parent does.
    assert by_turn(TurnValue(credit="local"), DRAWN)[1, 1] == 0.0


def test_the_outcome_goes_to_the_whole_rollout():
    leaves = {(0, 1): 1.0, (0, 2): -1.0, (1, 1): -1.0, (1, 2): 1.0}
    credit = TurnValue(credit="outcome")
    assert by_leaf(credit, DRAWN) == times_s(leaves)
    assert visited(credit, DRAWN)[0, 1, 0] == -visited(credit, DRAWN)[0, 2, 0] > 0


def test_softmax_weights_of_the_code():
    # (e^2 - e) / (e^2 + e) = (e - 1) / (e + 1) = .4621.
    found = by_turn(TurnValue("softmax"), DRAWN)
    assert found[0, 0] == pytest.approx(S * (math.e - 1) / (math.e + 1))
    assert found[0, 0] / S == pytest.approx(0.4621, abs=1e-4)
    # An uncertainty that exp cannot hold is no obstacle.
    wild = group((turn(ROOT), turn(0, 1.0, DONE, nll=2000.0), turn(0, 0.0, DONE, nll=1.0)))
    assert by_turn(TurnValue("softmax"), wild)[0, 0] == pytest.approx(S)


# 0 ─┬─ 1 (1)                  Returns 1, 1, 0, 0 again. V(0) = 1/3 under equal weights.
#    ├─ 2 (1)                  The root: (1/3 - 1) / 2 = -1/3 for children,
#    └─ 3 (0)                            (3 * 1/3 - 1) / 4 = 0 for leaves.
# 4 (0)                     and the plain sum would be another thing again.
UNEVEN = group(
    (
        turn(ROOT, nll=7.0),
        turn(0, 1.0, DONE, nll=0.1),
        turn(0, 1.0, DONE, nll=0.2),
        turn(0, 0.0, DONE, nll=9.0),
        turn(ROOT, 0.0, DONE, nll=0.3),
    )
)


def test_equal_weights_for_each_child_or_for_each_leaf():
    for weights, root in (("mean", -1 / 3), ("leaf_mean", 0.0)):
        value = by_turn(TurnValue(weights), UNEVEN)
        assert value[0, 0] == pytest.approx(S / 3)
        whole = by_turn(TurnValue(weights, "global"), UNEVEN)
        assert whole[0, 4] == pytest.approx((-1 - root) * S)


def test_where_all_children_are_certain_the_plain_mean_is_taken():
    certain = group((turn(ROOT, nll=0.0), *(turn(0, r, DONE, nll=0.0) for r in (1.0, 1.0, 0.0))))
    # Returns 1, 1, 0: V(0) is the mean of standardised returns, which is 0.
    assert by_turn(TurnValue(), certain)[0, 0] == pytest.approx(0.0, abs=1e-12)
    assert by_turn(TurnValue(), certain)[0, 1] > 0
    one = group((*DRAWN.trees[0].turns,), DRAWN.trees[1])
    assert by_turn(TurnValue(), one) == by_turn(TurnValue(), DRAWN)


def test_a_certain_child_beside_an_uncertain_one_counts_nothing():
    half = group((turn(ROOT), turn(0, 1.0, DONE, nll=0.0), turn(0, 0.0, DONE, nll=0.5)))
    assert by_turn(TurnValue(), half)[0, 0] == pytest.approx(-S)


def test_uncertainty_is_shared_among_siblings_and_with_nobody_else():
    # Whatever happens to be uncertain elsewhere, 0.0 lies where it lay.
    other = (turn(ROOT, nll=100.0), turn(0, 0.0, DONE, nll=100.0), turn(ROOT, 1.0, DONE, 1))
    changed = by_turn(TurnValue(), group(DRAWN.trees[0], other))
    assert changed[0, 0] == pytest.approx(S / 3)


def test_a_shared_turn_trains_for_each_leaf_below_it_with_all_it_is_worth():
    every = visited(TurnValue(), DRAWN)
    assert every[0, 1, 0] == every[0, 2, 0] == pytest.approx(S / 3)
    once = visited(TurnValue(once=True), DRAWN)
    assert set(every) - set(once) == {(0, 2, 0)}
    assert all(once[place] == every[place] for place in once)


def test_a_failed_leaf_counts_nowhere():
    # Without the failed leaf returns are 1 and 0: +-S; V(0.0) is its one valid child's.
    failed = group(
        (turn(ROOT), turn(0, 1.0, DONE, nll=2.0), turn(0, 0.0, LOST, nll=50.0)),
        (turn(ROOT), turn(0, 0.0, DONE)),
        (turn(ROOT, nll=50.0), turn(0, 0.0, LOST)),
    )
    found = visited(TurnValue("share", "value"), failed)
    assert found == pytest.approx({(0, 1, 0): S, (0, 1, 1): S, (1, 1, 0): -S, (1, 1, 1): -S})
    # The root's children are 0.0 and 1.0, equally uncertain: V(root) = 0.
    assert visited(TurnValue(credit="global"), failed) == pytest.approx(found)


@pytest.mark.parametrize("credit", ["value", "local", "global", "both", "outcome"])
@pytest.mark.parametrize("weights", ["share", "softmax", "mean", "leaf_mean"])
def test_equal_returns_give_exactly_nothing(credit, weights):
    # .1 + .2 and .3 differ in floating point, by 6e-17, and that is no difference.
    trees = (
        (turn(ROOT, 0.1), turn(0, 0.2, DONE, nll=0.3), turn(0, 0.2, DONE, nll=0.7)),
        (turn(ROOT, 0.3, DONE),),
    )
    found = by_turn(TurnValue(weights, credit), group(*trees))
    assert set(found.values()) == {0.0}
    assert len(found) == 4
    assert set(by_turn(TurnValue(weights, credit), group(chain(2, 1.0))).values()) == {0.0}


# Two chains under one root; (uncertainty - .1 * answers of the parent), the leaves in brackets:
#
#   tree 0   0: 1.0 - .2 = .8    1: .50 - .1 = .40   [2: 9.0]
#   tree 1   0:  .9 - .2 = .7    1: .85 - .1 = .75   [2: 9.0]
#
# Counting the first turns of each tree alone would give .9, .8 and .75: both first turns.
PLANTED = group(
    (turn(ROOT), turn(0, nll=0.5), turn(1, 1.0, DONE, nll=9.0)),
    (turn(ROOT, nll=0.9), turn(0, nll=0.85), turn(1, 0.0, DONE, nll=9.0)),
)


def forks(plan, grown, rounds_done=1, seed=0):
    (found,) = plan([grown], rounds_done, Moment(seed=seed))
    return [(fork.tree, fork.parent) for fork in found]


def test_the_top_turns_are_answered_anew_where_they_stood():
    ranked = [(0, ROOT), (1, 0), (1, ROOT), (0, 0)]
    for branches in range(1, 5):
        plan = EntropyTree(2, branches, 2, penalty=0.1)
        assert forks(plan, PLANTED) == ranked[:branches]


def test_without_a_penalty_only_uncertainty_counts():
    # 1.0, .9, .85, .5
    ranked = [(0, ROOT), (1, ROOT), (1, 0), (0, 0)]
    assert forks(EntropyTree(2, 4, 2, penalty=0.0), PLANTED) == ranked


def test_answers_that_were_added_count_against_their_siblings():
    # Turn 3 stands beside turn 1 of tree 1 now: .85 - .2 = .65 and .84 - .2 = .64. A third
    # first turn makes .7 and .6 of 0.0 and 1.0.
    more = (
        *PLANTED.trees[1].turns,
        turn(0, grown_in=1, nll=0.84),
        turn(3, 0.0, DONE, 1),
        turn(ROOT, 0.0, DONE, 1, nll=9.0),
    )
    grown = group(PLANTED.trees[0], more)
    plan = EntropyTree(2, 4, 2, penalty=0.1)
    assert forks(plan, grown, 2) == [(0, ROOT), (1, 0), (1, 0), (1, ROOT)]


def test_with_too_few_candidates_the_top_ones_are_chosen_again():
    plan = EntropyTree(2, 6, 2, penalty=0.1)
    assert forks(plan, PLANTED) == [(0, ROOT), (1, 0), (1, ROOT), (0, 0), (0, ROOT), (1, 0)]
    # Leaves are never candidates, however uncertain; if there is nothing else, the root is.
    assert forks(plan, group(chain(1), chain(1))) == [(0, ROOT)] * 6


def test_the_root_competes_in_the_codes_scoring():
    # 1.0 - .05, .9 - .05, .85, .5 and, for the root, 0 - .05: last, but before any repetition.
    code = EntropyTree(2, 5, 2, scoring="code")
    assert forks(code, PLANTED) == [(0, ROOT), (1, ROOT), (1, 0), (0, 0), (0, ROOT)]
    crowded = group(
        (turn(ROOT, nll=0.0), *(turn(0, nll=0.01),) * 3, *(turn(i, 0, DONE) for i in (1, 2, 3))),
        chain(1),
    )
    one = EntropyTree(2, 2, 2, scoring="code")
    # Two first turns. 0.0 has 0 - .05, as the root, and comes first; the three have .01 - .1.
    assert forks(one, crowded) == [(0, ROOT), (0, ROOT)]
    # The paper counts one more for each: -.1, and -.14.
    assert forks(replace(one, scoring="paper"), crowded) == [(0, ROOT), (0, 0)]


def test_random_expansion_draws_from_the_same_candidates():
    plan = EntropyTree(2, 2, 2, expansion="random")
    drawn = [tuple(forks(plan, PLANTED, seed=seed)) for seed in range(400)]
    assert drawn == [tuple(forks(plan, PLANTED, seed=seed)) for seed in range(400)]
    count = Counter(place for pair in drawn for place in pair)
    assert set(count) == {(0, ROOT), (1, ROOT), (1, 0), (0, 0)}
    # 800 draws over 4 candidates: 200 each, give or take 5 standard deviations of about 10.
    assert all(150 < times < 250 for times in count.values())
    assert all(len(set(pair)) == 2 for pair in drawn)  # without replacement while it lasts
    two = plan([PLANTED, PLANTED], 1, Moment(seed=3))
    assert any(plan([PLANTED, PLANTED], 1, Moment(seed=s))[0] != two[1] for s in range(9))


def test_chains_then_expansions_then_nothing():
    plan = EntropyTree(3, 2, 2, answers=2)
    (planted,) = plan([group()], 0)
    assert planted == [Fork(NEW_TREE, ROOT, keep=True)] * 3
    (first,) = plan([PLANTED], 1)
    assert [(fork.answers, fork.keep, fork.turns) for fork in first] == [(2, True, None)] * 2
    (last,) = plan([PLANTED], 2)
    assert not any(fork.keep for fork in last)  # nothing is forked after it
    assert plan([PLANTED], 3) == [[]]
    assert plan.forks
    chains = EntropyTree(3, 2, 0)
    assert not chains.forks
    assert chains([group()], 0) == [[Fork(NEW_TREE, ROOT)] * 3]


def test_the_papers_shape_has_22_leaves():
    algorithm = at2po(chains=10, branches=6, expansions=2)
    leaves = len(algorithm.grow([group()], 0)[0])
    grown = group(*(chain(3),) * 10)
    for done in (1, 2):
        leaves += sum(fork.answers for fork in algorithm.grow([grown], done)[0])
    assert leaves == 22


def test_apart_each_tree_has_its_own_choice():
    plan = EntropyTree(2, 1, 1, penalty=0.0, apart=True)
    assert forks(plan, PLANTED) == [(0, ROOT), (1, ROOT)]
    # Alone, 0.0 has 1 - .4 and 0.1 .5 - .4; in tree 1 .9 - .4 and .85 - .4.
    assert forks(replace(plan, penalty=0.4), PLANTED) == [(0, ROOT), (1, ROOT)]
    assert forks(plan, group(chain(1), chain(2))) == [(0, ROOT), (1, ROOT)]


def test_the_turn_ratio_and_its_gradient():
    # The rollout of tree 0 that got 1: two tokens at A = 1/3, one at A = 1, and so on; each of
    # the four rollouts counts a quarter. At ratio 1 a token's gradient is -A / (4 |rollout|).
    drawn = group(
        (turn(ROOT, tokens=2), turn(0, 1.0, DONE, nll=2.0), turn(0, 0.0, DONE, 1)),
        DRAWN.trees[1],
    )
    algorithm = at2po()
    rows = rows_of([drawn], [algorithm.credit(drawn, 1)], algorithm.view)
    tokens = ActionTokens.of(rows)
    weight_T = algorithm.loss.weights(tokens)
    logp_T = tokens.behaviour_logp.clone().requires_grad_()
    algorithm.loss(logp_T, tokens, weight_T).backward()
    third = 1 / 3 / 12
    expected = [-third, -third, -1 / 12, -third, -third, 1 / 12, 1 / 8, 1 / 8, -1 / 4]
    torch.testing.assert_close(logp_T.grad, torch.tensor(expected) * S)
    # One token twice as likely, its neighbour half as likely: the turn's ratio is 1, and no
    # bound is active. A token's own ratio would be cut off at 1.004.
    moved = torch.tensor([math.log(2), -math.log(2), *[0.0] * 7])
    logp_T = (tokens.behaviour_logp + moved).requires_grad_()
    algorithm.loss(logp_T, tokens, weight_T).backward()
    torch.testing.assert_close(logp_T.grad, torch.tensor(expected) * S)
    # Both 1% more likely: beyond 1.004 with A > 0, both lose their gradient together.
    logp_T = (tokens.behaviour_logp + torch.tensor([0.01, 0.01, *[0.0] * 7])).requires_grad_()
    algorithm.loss(logp_T, tokens, weight_T).backward()
    torch.testing.assert_close(logp_T.grad[:4], torch.tensor([0.0, 0.0, *expected[2:4]]) * S)


def test_the_bounds_are_the_papers():
    for loss in (at2po().loss, atpo().loss):
        assert (loss.clip_low, loss.clip_high) == (3e-3, 4e-3)


def test_the_ladder_of_the_ablation():
    control, credit = random_tree(), TurnValue(credit="outcome")
    assert control.loss == grpo(mean="rollout").loss
    assert (control.grow.expansion, control.credit) == ("random", credit)
    with_loss = random_tree(loss="turn")
    assert with_loss == replace(control, loss=atpo().loss)
    with_entropy = random_tree(loss="turn", expansion="entropy")
    assert with_entropy == replace(with_loss, grow=at2po().grow)
    assert at2po() == replace(with_entropy, credit=TurnValue())


def test_atpo_is_chains():
    assert atpo(rollouts=5).grow == Chains(5, least=2)
    assert atpo().credit == grpo().credit
    assert atpo(rollouts=8) == atpo()
    with pytest.raises(ValueError, match=r"rollouts: at least 2 .* got 1"):
        atpo(rollouts=1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"chains": 0}, "chains: at least 1 .* got 0"),
        ({"branches": 0}, "branches: at least 1 .* got 0"),
        ({"expansions": -1}, "expansions: at least 0 .* got -1"),
        ({"chains": 1, "expansions": 0}, "chains: at least 2 .* got 1"),
        ({"penalty": -0.1}, r"penalty: .* got -0.1"),
        ({"penalty": math.nan}, "penalty: .* got nan"),
    ],
)
def test_trees_that_cannot_be_grown_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        at2po(**options)
    assert at2po(chains=4) == at2po()
