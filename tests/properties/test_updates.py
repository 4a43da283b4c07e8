"""Laws that hold from judged trees to gradients."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from retrograde.credit.dynamic_sampling import DynamicSampling
from retrograde.credit.group_relative import GroupRelative
from retrograde.credit.outcome import Outcome
from retrograde.credit.sibling_mean import SiblingMean
from retrograde.data.batch import ActionTokens
from retrograde.data.rows import Row, rows_of
from retrograde.data.tree import End, Group, Tree
from retrograde.losses.policy import Level, Mean, PolicyLoss, Surrogate

from .forests import groups

logps = st.floats(-4, 0)
lengths = st.lists(st.integers(1, 4), min_size=2, max_size=6)


@st.composite
def updates(draw):
    """Rows that belong to up to three rollouts, and how far each token has moved since."""
    rows = [
        Row(
            context=(1,),
            action=(2,) * length,
            behaviour_logp=tuple(draw(logps) for _ in range(length)),
            advantage=draw(st.floats(-2, 2)),
            turn=0,
            group=0,
            rollout=(0, 0, 0, draw(st.integers(0, 2))),
        )
        for length in draw(lengths)
    ]
    return rows, [draw(st.floats(-0.5, 0.5)) for row in rows for _ in row.action]


def scored(update):
    """The tokens of an update, and their log-probabilities under the policy of now."""
    rows, moved = update
    tokens = exact(rows)
    return tokens, tokens.behaviour_logp + torch.tensor(moved, dtype=torch.float64)


def exact(rows):
    """Tokens with floats as wide as the rows hold them."""
    tokens = ActionTokens.of(rows)
    logp = [value for row in rows for value in row.behaviour_logp]
    advantage = [row.advantage for row in rows for _ in row.action]
    return replace(
        tokens,
        behaviour_logp=torch.tensor(logp, dtype=torch.float64),
        advantage=torch.tensor(advantage, dtype=torch.float64),
        reference_logp=torch.tensor(logp, dtype=torch.float64) * 0.5 - 0.25,
    )


def value_and_gradient(loss, tokens, logp_T, parts):
    """Loss and gradient of an update taken in parts."""
    weight_T = loss.weights(tokens)
    live_T = logp_T.clone().requires_grad_()
    total = sum(loss(live_T[part], tokens.at(part), weight_T[part]) for part in parts)
    total.backward()
    return float(total.detach()), live_T.grad


@pytest.mark.parametrize("level", Level)
@settings(max_examples=30)
@given(update=updates(), mean=st.sampled_from(Mean), part=st.lists(st.integers(0, 2), min_size=6))
def test_splitting_an_update_changes_neither_loss_nor_gradient(level, update, mean, part):
    tokens, logp_T = scored(update)
    loss = PolicyLoss(ratio=level, mean=mean, kl=0.1)
    # A part holds whole rows; for a ratio over rollouts, whole rollouts.
    unit_T = tokens.rollout if level is Level.ROLLOUT else tokens.turn
    part_of = torch.tensor(part)[unit_T]
    parts = [torch.nonzero(part_of == i).squeeze(-1) for i in range(3)]
    whole, whole_T = value_and_gradient(loss, tokens, logp_T, [torch.arange(len(logp_T))])
    split, split_T = value_and_gradient(loss, tokens, logp_T, [p for p in parts if len(p)])
    assert split == pytest.approx(whole, abs=1e-12)
    torch.testing.assert_close(split_T, whole_T, atol=1e-12, rtol=0)


@pytest.mark.parametrize("level", Level)
@settings(max_examples=30)
@given(update=updates(), mean=st.sampled_from(Mean))
def test_on_policy_the_gradient_is_reinforce_at_every_level(level, update, mean):
    tokens, _ = scored(update)
    loss = PolicyLoss(ratio=level, mean=mean)
    on_policy_T = tokens.behaviour_logp.clone().requires_grad_()
    weight_T = loss.weights(tokens)
    loss(on_policy_T, tokens, weight_T).backward()
    expected_T = -weight_T * tokens.advantage
    torch.testing.assert_close(on_policy_T.grad, expected_T, atol=1e-12, rtol=0)


@pytest.mark.parametrize("surrogate", Surrogate)
@settings(max_examples=30)
@given(
    update=updates(),
    mean=st.sampled_from(Mean),
    dual=st.sampled_from((None, 1.2)),
    scales=st.lists(st.sampled_from((0.5, 1.0, 2.0)), min_size=6, max_size=6),
    part=st.lists(st.integers(0, 2), min_size=6),
)
def test_splitting_changes_nothing_whatever_the_surrogate(
    surrogate, update, mean, dual, scales, part
):
    tokens, logp_T = scored(update)
    tokens = replace(tokens, clip_scale=torch.tensor(scales, dtype=torch.float64)[tokens.turn])
    loss = PolicyLoss(surrogate=surrogate, mean=mean, dual_clip=dual, length=3.0)
    part_of = torch.tensor(part)[tokens.turn]
    parts = [torch.nonzero(part_of == i).squeeze(-1) for i in range(3)]
    whole, whole_T = value_and_gradient(loss, tokens, logp_T, [torch.arange(len(logp_T))])
    split, split_T = value_and_gradient(loss, tokens, logp_T, [p for p in parts if len(p)])
    assert split == pytest.approx(whole, abs=1e-12)
    torch.testing.assert_close(split_T, whole_T, atol=1e-12, rtol=0)


@pytest.mark.parametrize("surrogate", Surrogate)
@settings(max_examples=30)
@given(update=updates(), mean=st.sampled_from(Mean), dual=st.sampled_from((None, 3.0)))
def test_on_policy_every_surrogate_has_the_gradient_of_reinforce(surrogate, update, mean, dual):
    tokens, _ = scored(update)
    loss = PolicyLoss(surrogate=surrogate, mean=mean, dual_clip=dual, length=2.0)
    on_policy_T = tokens.behaviour_logp.clone().requires_grad_()
    weight_T = loss.weights(tokens)
    loss(on_policy_T, tokens, weight_T).backward()
    expected_T = -weight_T * tokens.advantage
    torch.testing.assert_close(on_policy_T.grad, expected_T, atol=1e-12, rtol=0)


@given(updates())
def test_the_weights_of_rollouts_sum_to_what_they_average(update):
    tokens, _ = scored(update)
    turns = float(PolicyLoss(mean=Mean.ROLLOUT_TURNS).weights(tokens).sum())
    assert turns == pytest.approx(tokens.num_turns / tokens.num_rollouts)
    total = float(PolicyLoss(mean=Mean.ROLLOUT_SUM, length=4.0).weights(tokens).sum())
    assert total == pytest.approx(len(tokens.turn) / tokens.num_rollouts / 4)


@given(updates())
def test_levels_agree_where_they_must(update):
    rows, _ = update
    tokens, logp_T = scored(update)
    at = {level: PolicyLoss(ratio=level).ratios(logp_T, tokens) for level in Level}
    if all(len(row.action) == 1 for row in rows):
        torch.testing.assert_close(at[Level.TURN], at[Level.TOKEN])
    if tokens.num_rollouts == tokens.num_turns:
        torch.testing.assert_close(at[Level.ROLLOUT], at[Level.TURN])


@given(updates())
def test_in_rows_of_one_token_every_turn_and_every_token_count_the_same(update):
    rows, _ = update
    short = exact(
        [replace(row, action=(2,), behaviour_logp=row.behaviour_logp[:1]) for row in rows]
    )
    of_turns, of_tokens, of_sums = (
        PolicyLoss(mean=mean).weights(short) for mean in (Mean.TURN, Mean.TOKEN, Mean.SUM)
    )
    torch.testing.assert_close(of_turns, of_tokens)
    torch.testing.assert_close(of_turns, of_sums)


@given(updates())
def test_the_weights_of_every_mean_sum_to_what_they_average(update):
    tokens, _ = scored(update)
    for mean in (Mean.TOKEN, Mean.TURN, Mean.ROLLOUT):
        assert float(PolicyLoss(mean=mean).weights(tokens).sum()) == pytest.approx(1)
    total = float(PolicyLoss(mean=Mean.SUM).weights(tokens).sum())
    assert total == pytest.approx(len(tokens.turn) / tokens.num_turns)


@given(updates())
def test_the_order_of_rows_does_not_change_the_loss(update):
    rows, _ = update
    tokens, logp_T = scored(update)
    starts = torch.tensor([0, *(len(row.action) for row in rows)]).cumsum(0).tolist()
    backwards = list(reversed(range(len(rows))))
    kept_T = torch.cat([torch.arange(starts[i], starts[i + 1]) for i in backwards])
    other = exact([rows[i] for i in backwards])
    for mean in Mean:
        loss = PolicyLoss(mean=mean)
        expected = loss(logp_T, tokens, loss.weights(tokens))
        actual = loss(logp_T[kept_T], other, loss.weights(other))
        torch.testing.assert_close(actual, expected)


CREDITS = (
    SiblingMean(),
    GroupRelative(),
    GroupRelative(scale=False),
    Outcome("mean"),
    Outcome("others"),
    DynamicSampling(),
)


@pytest.mark.parametrize("credit", CREDITS, ids=repr)
@settings(max_examples=25)
@given(groups, st.floats(-3, 3))
def test_equal_returns_give_exactly_no_gradient(credit, group, outcome):
    # Every rollout that did not fail earns the same; failed ones earn what they like.
    trees = []
    for tree in group.trees:
        turns = [
            replace(turn, reward=outcome if turn.end in (End.FINISHED, End.TRUNCATED) else 0.0)
            for turn in tree.turns
        ]
        trees.append(Tree(tuple(turns)))
    equal = Group("t", tuple(trees))
    for grown_in in range(4):
        rows = rows_of([equal], [credit(equal, grown_in)])
        if not rows:
            continue
        tokens = exact(rows)
        loss = PolicyLoss()
        logp_T = (tokens.behaviour_logp * 1.1).requires_grad_()
        loss(logp_T, tokens, loss.weights(tokens)).backward()
        assert torch.equal(logp_T.grad.abs(), torch.zeros_like(logp_T))


@pytest.mark.parametrize("credit", CREDITS, ids=repr)
@given(groups, st.randoms())
def test_permuting_a_group_permutes_its_judgements(credit, group, random):
    order = list(range(len(group.trees)))
    random.shuffle(order)
    shuffled = Group("t", tuple(group.trees[i] for i in order))
    for grown_in in range(3):
        before, after = credit(group, grown_in), credit(shuffled, grown_in)
        for place, i in enumerate(order):
            assert after[place].trains_V == before[i].trains_V
            assert after[place].advantage_V == pytest.approx(before[i].advantage_V, abs=1e-9)


@pytest.mark.parametrize("credit", CREDITS, ids=repr)
@given(groups, st.integers(-3, 3))
def test_a_constant_on_every_outcome_changes_no_judgement(credit, group, constant):
    moved = Group(
        "t",
        tuple(
            Tree(
                tuple(
                    replace(turn, reward=turn.reward + constant * (turn.end is not None))
                    for turn in tree.turns
                )
            )
            for tree in group.trees
        ),
    )
    for grown_in in range(3):
        for before, after in zip(credit(group, grown_in), credit(moved, grown_in), strict=True):
            assert after.trains_V == before.trains_V
            assert after.advantage_V == pytest.approx(before.advantage_V, abs=1e-6)


@given(groups)
def test_only_turns_of_the_round_that_left_the_tree_train(group):
    for grown_in in range(4):
        for tree, judged in zip(group.trees, SiblingMean()(group, grown_in), strict=True):
            for (_, turn), trains in zip(tree.visits, judged.trains_V, strict=True):
                node = tree.turns[turn]
                if trains:
                    assert node.grown_in == grown_in > 0
                    assert node.parent == -1 or tree.turns[node.parent].grown_in < grown_in
