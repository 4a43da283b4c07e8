"""Laws of every algorithm there is; one that is added to the registry is held to them, too.

Groups are grown by each method's own plan, in a world that offers everything. Where a law rightly
does not hold for a method, it is named here with the reason.
"""

import inspect
import json
import math
import random
from dataclasses import FrozenInstanceError, asdict, dataclass, replace
from statistics import fmean
from typing import Literal, get_args, get_origin

import pytest
import torch

from retrograde.algorithms import registry
from retrograde.algorithms.options import options_of, written_out
from retrograde.algorithms.registry import algorithm_named
from retrograde.cli import settings
from retrograde.credit.standing import by_rollout, outcomes, relative
from retrograde.data.batch import ActionTokens
from retrograde.data.tree import End, Group, Tree
from retrograde.losses.policy import Level, PolicyLoss
from retrograde.trainer.manifest import settings_of
from retrograde.trainer.run import Run

from .toy import ENDS, advantages, chains, changed, evidence_on, grown, updates

ALGORITHMS = dict(registry.ALGORITHMS)
NAMES = tuple(ALGORITHMS)
SEEDS = range(4)

every_algorithm = pytest.mark.parametrize("name", NAMES)


def same(one, other, *, near=1e-9):
    """Whether the same tokens train, with the same advantages."""
    return one.keys() == other.keys() and all(
        one[key] == pytest.approx(other[key], rel=near, abs=near) for key in one
    )


# Plain data


@every_algorithm
def test_equal_arguments_give_equal_values(name):
    method = ALGORITHMS[name]
    assert method() == method(**options_of(method))
    assert repr(method()) == repr(method())
    assert algorithm_named(name) is method
    with pytest.raises(FrozenInstanceError):
        method().loss.kl = 1.0


@every_algorithm
def test_settings_are_json_and_tell_algorithms_apart(name):
    def settings(**options):
        return settings_of({"algorithm": name}, ALGORITHMS[name](**options), {}, Run(), {})

    plain = settings()
    assert json.loads(json.dumps(plain)) == plain == settings()
    assert plain["algorithm_settings"]["loss"] == asdict(ALGORITHMS[name]().loss) | {
        key: str(value)
        for key, value in asdict(ALGORITHMS[name]().loss).items()
        if isinstance(value, str)
    }
    assert settings(learning_rate=0.125)["algorithm_settings"]["update"]["learning_rate"] == 0.125
    assert settings(learning_rate=0.125) != plain


# Command line


def others(name):
    """Another value for each option, as good as the default one."""
    method = ALGORITHMS[name]
    types = {
        option: parameter.annotation
        for option, parameter in inspect.signature(written_out(method)).parameters.items()
    }
    found = {}
    for option, default in options_of(method).items():
        for value in candidates(types[option], default):
            try:
                alone = method(**{option: value})
                method(**found, **{option: value})
            except ValueError:
                continue
            assert alone != method(), f"{name}: {option}={value} changes nothing"
            found[option] = value
            break
        else:
            raise AssertionError(f"{name}: no other value of {option} is accepted")
    return found


def candidates(kind, default):
    if get_origin(kind) is Literal:
        return [value for value in get_args(kind) if value != default]
    if isinstance(default, bool):
        return [not default]
    if isinstance(default, int):
        return [default + 1, default - 1]
    if isinstance(default, float):
        return [default / 2 or 0.125, default * 1.25, default - 0.25]
    return [64, 2] if int in get_args(kind) else [0.125, 2.0]


def words(options):
    for option, value in options.items():
        flag = option.replace("_", "-")
        if isinstance(value, bool):
            yield f"--algorithm.{flag}" if value else f"--algorithm.no-{flag}"
        else:
            yield from (f"--algorithm.{flag}", str(value))


@every_algorithm
def test_every_option_arrives_from_the_command_line(name, monkeypatch):
    monkeypatch.setattr(settings, "obstacles", lambda *_: [])  # any world will do here
    plain = settings.parse_train(["--algorithm", name])
    assert plain.algorithm == ALGORITHMS[name]()
    method, options = ALGORITHMS[name], others(name)
    assert options.keys() == options_of(method).keys()
    parsed = settings.parse_train(["--algorithm", name, *words(options)])
    assert parsed.algorithm == method(**options)
    assert parsed.algorithm_name == name
    # What another option leaves without effect arrives alone.
    idle = [
        o
        for o in options
        if method(**{k: v for k, v in options.items() if k != o}) == parsed.algorithm
    ]
    for option in idle:
        one = {option: options[option]}
        alone = settings.parse_train(["--algorithm", name, *words(one)])
        assert alone.algorithm == method(**one) != method()


# Credit


@every_algorithm
def test_the_order_of_trees_in_a_group_does_not_matter(name):
    algorithm = ALGORITHMS[name]()
    for seed in SEEDS:
        groups = grown(name, seed)
        orders = [random.Random(seed).sample(range(len(g.trees)), len(g.trees)) for g in groups]
        shuffled = [
            Group(group.task, tuple(group.trees[i] for i in order))
            for group, order in zip(groups, orders, strict=True)
        ]
        before, after = advantages(algorithm, groups), advantages(algorithm, shuffled)
        moved = {
            (number, (version, g, orders[g][t], leaf), turn): advantage
            for (number, (version, g, t, leaf), turn), advantage in after.items()
        }
        assert same(before, moved)


def with_outcomes(groups, worth):
    """Groups whose rollouts end with other rewards; what failed is left alone."""
    return changed(
        groups, lambda _, turn: replace(turn, reward=worth(turn)) if turn.end in ENDS else turn
    )


MOVED_BY_A_CONSTANT = {
    "gigpo": "returns are discounted, so a constant is worth less the earlier a turn is",
    "memopilot": "turns are judged by single rewards, and rollouts end at different turns",
    "turn_ppo": "returns are discounted",
}


@every_algorithm
def test_a_constant_on_every_outcome_changes_no_advantage(name):
    algorithm, moved = ALGORITHMS[name](), False
    for seed in SEEDS:
        groups = grown(name, seed)
        higher = with_outcomes(groups, lambda turn: turn.reward + 2.0)
        known = [evidence_on(algorithm, group) for group in groups]
        before, after = advantages(algorithm, groups, known), advantages(algorithm, higher, known)
        moved |= not same(before, after, near=1e-6)
    assert moved == (name in MOVED_BY_A_CONSTANT), name


NOT_BY_OUTCOME_ALONE = {
    "a2tgpo": "turns also stand by how far they raised the probability of the right answer",
    "gigpo": "returns are discounted: who gets there sooner stands higher",
    "leap": "rollouts are ranked by the turn whose score is 1",
    "memopilot": "turns are judged by single rewards, and rollouts end at different turns",
    "planpo": "among equal outcomes the shorter answer and the shorter rollout stand higher",
    "ppo": "outcomes stand against what the critic expected",
    "tcpo": "turns are judged by scores",
    "turn_ppo": "outcomes stand against what the critic expected",
}


@every_algorithm
def test_equal_outcomes_give_exactly_no_gradient(name):
    algorithm, silent = ALGORITHMS[name](), True
    for seed in SEEDS:
        equal = changed(
            grown(name, seed),
            lambda _, turn: replace(turn, reward=0.3 if turn.end in ENDS else 0.0),
        )
        silent &= not any(row.is_informative for rows in updates(algorithm, equal) for row in rows)
    assert silent != (name in NOT_BY_OUTCOME_ALONE), name


@every_algorithm
def test_outcomes_that_differ_give_one(name):
    # Otherwise the laws above would hold of a method that never learns.
    algorithm = ALGORITHMS[name]()
    rows = [row for seed in SEEDS for rows in updates(algorithm, grown(name, seed)) for row in rows]
    assert sum(row.is_informative for row in rows) > len(rows) / 4 > 0
    assert all(math.isfinite(a) for row in rows for a in row.advantages)
    assert all(row.clip_scale > 0 for row in rows)


# What failed, and what is not there


def ends_of(groups):
    return [t.turns[leaf].end for group in groups for t in group.trees for leaf in t.leaves]


@every_algorithm
def test_what_failed_never_trains(name):
    algorithm, failed = ALGORITHMS[name](), 0
    for seed in SEEDS:
        groups = grown(name, seed, breaks=0.2)
        failed += ends_of(groups).count(End.FAILED)
        for _, (_, g, t, leaf), _ in advantages(algorithm, groups):
            assert groups[g].trees[t].turns[leaf].end is not End.FAILED
    assert failed > 3
    silent = [
        turn for seed in SEEDS for group in grown(name, seed, breaks=0.2)
        for tree in group.trees for turn in tree.turns if not turn.action
    ]  # fmt: skip
    assert all(turn.end is End.FAILED for turn in silent)


@every_algorithm
def test_what_failed_is_in_no_mean(name):
    # Failed rollouts beside the others, and whatever failed turns say: nothing else moves.
    algorithm = ALGORITHMS[name]()
    for seed in SEEDS:
        groups = grown(name, seed, breaks=0.1)
        broken = [
            Tree((*tree.turns[:-1], replace(tree.turns[-1], reward=0.0, end=End.FAILED)))
            for tree in chains([1.0] * 3, seed).trees
        ]
        beside = [Group(group.task, (*group.trees, *broken)) for group in groups]
        assert advantages(algorithm, beside) == advantages(algorithm, groups)
        known = [evidence_on(algorithm, group) for group in groups]
        louder = changed(
            groups,
            lambda _, turn: replace(
                turn, logprobs=tuple(9 * logp for logp in turn.logprobs), score=1.0,
                entropies=tuple(e + 1 for e in turn.entropies),
            ) if turn.end is End.FAILED else turn,
        )  # fmt: skip
        assert advantages(algorithm, louder, known) == advantages(algorithm, groups, known)


@every_algorithm
def test_where_there_is_nothing_to_compare_there_is_no_number(name):
    algorithm = ALGORITHMS[name]()
    failed = changed(
        [chains([1.0, 0.0, 1.0])],
        lambda _, turn: replace(turn, reward=0.0, end=turn.end and End.FAILED),
    )
    assert advantages(algorithm, failed) == {}
    silent = changed(
        failed,
        lambda _, turn: (
            replace(turn, action=(), logprobs=(), entropies=()) if turn.end is End.FAILED else turn
        ),
    )
    assert advantages(algorithm, silent) == {}
    assert advantages(algorithm, [Group("t")]) == {}
    assert advantages(algorithm, []) == {}


ALONE = {
    "ppo": "it is compared with what the critic expected",
    "tcpo": "a turn that nobody else has keeps its raw credit",
    "turn_ppo": "it is compared with what the critic expected",
}


@every_algorithm
def test_a_single_rollout_has_nothing_to_be_compared_with(name):
    algorithm, informative = ALGORITHMS[name](), False
    for outcome in (0.0, 1.0, 0.1 + 0.2):
        for turns in (1, 3):
            alone = [chains([outcome], turns=turns)]
            found = advantages(algorithm, alone)
            assert all(math.isfinite(a) for each in found.values() for a in each)
            informative |= any(a != 0 for each in found.values() for a in each)
    assert informative == (name in ALONE)


# What reaches the loss, and what does not


@every_algorithm
def test_what_does_not_train_and_what_was_observed_changes_nothing(name):
    algorithm = ALGORITHMS[name]()
    for seed in SEEDS:
        groups = grown(name, seed)
        known = [evidence_on(algorithm, group) for group in groups]
        before = updates(algorithm, groups, known)
        trained = {
            (row.rollout[1], row.rollout[2], path[row.turn])
            for rows in before
            for row in rows
            for path in [groups[row.rollout[1]].trees[row.rollout[2]].path(row.rollout[3])]
        }
        other = changed(
            groups,
            lambda place, turn, trained=trained: replace(
                turn,
                fresh=tuple(token + 1000 for token in turn.fresh),
                observation=tuple(token + 1000 for token in turn.observation),
                logprobs=turn.logprobs if place in trained else (-7.0,) * len(turn.action),
            ),
        )
        after = updates(algorithm, other, known)
        for one, two in zip(before, after, strict=True):
            assert [replace(row, context=()) for row in one] == [
                replace(row, context=()) for row in two
            ]


# Loss


def wide(rows, seed, moved):
    """Tokens in float64, and their log-probabilities under a policy that moved so far."""
    tokens = ActionTokens.of(rows)
    logp_T = torch.tensor([x for row in rows for x in row.behaviour_logp], dtype=torch.float64)
    chance = torch.Generator().manual_seed(seed)
    shift_T = moved * torch.randn(len(logp_T), generator=chance, dtype=torch.float64)
    scale = None if tokens.clip_scale is None else tokens.clip_scale.double()
    tokens = replace(
        tokens,
        behaviour_logp=logp_T,
        advantage=torch.tensor([a for row in rows for a in row.advantages], dtype=torch.float64),
        reference_logp=logp_T * 0.5 - 0.25,
        clip_scale=scale,
    )
    return tokens, logp_T + shift_T


def value_and_gradient(loss, tokens, logp_T, parts):
    weight_T = loss.weights(tokens)
    live_T = logp_T.clone().requires_grad_()
    total = sum(loss(live_T[part], tokens.at(part), weight_T[part]) for part in parts)
    total.backward()
    return float(total.detach()), live_T.grad


def row_sets(name):
    algorithm = ALGORITHMS[name]()
    for seed in SEEDS:
        for rows in updates(algorithm, grown(name, seed)):
            if rows:
                yield seed, rows, algorithm.loss


@every_algorithm
@pytest.mark.parametrize("kl", [0.0, 0.1])
def test_splitting_an_update_changes_neither_loss_nor_gradient(name, kl):
    for seed, rows, plain in row_sets(name):
        loss = replace(plain, kl=kl)
        tokens, logp_T = wide(rows, seed, 0.3)
        everything = [torch.arange(len(logp_T))]
        whole, whole_T = value_and_gradient(loss, tokens, logp_T, everything)
        # Over microbatches of rows; over ranks, which hold whole rollouts.
        for unit_T in (tokens.turn, tokens.rollout):
            if loss.ratio is Level.ROLLOUT and unit_T is tokens.turn:
                continue
            part_of = torch.randint(3, (int(unit_T.max()) + 1,), generator=torch.Generator())
            parts = [torch.nonzero(part_of[unit_T] == i).squeeze(-1) for i in range(3)]
            split, split_T = value_and_gradient(loss, tokens, logp_T, [p for p in parts if len(p)])
            assert split == pytest.approx(whole, abs=1e-10)
            torch.testing.assert_close(split_T, whole_T, atol=1e-10, rtol=0)


@every_algorithm
@pytest.mark.parametrize("level", Level)
def test_on_policy_the_gradient_is_reinforce_whatever_shares_a_ratio(name, level):
    for seed, rows, plain in row_sets(name):
        loss: PolicyLoss = replace(plain, ratio=level, kl=0.0)
        tokens, logp_T = wide(rows, seed, 0.0)
        _, gradient_T = value_and_gradient(loss, tokens, logp_T, [torch.arange(len(logp_T))])
        expected_T = -loss.weights(tokens) * tokens.advantage
        torch.testing.assert_close(gradient_T, expected_T, atol=1e-12, rtol=0)


@every_algorithm
def test_advantages_of_nothing_give_exactly_no_gradient(name):
    for seed, rows, plain in row_sets(name):
        nothing = [replace(row, advantage=0.0) for row in rows]
        tokens, logp_T = wide(nothing, seed, 0.3)
        loss = replace(plain, kl=0.0)
        _, gradient_T = value_and_gradient(loss, tokens, logp_T, [torch.arange(len(logp_T))])
        assert torch.equal(gradient_T.abs(), torch.zeros_like(gradient_T))


# Trees that do not branch


ON_CHAINS = {
    # How outcomes stand there, and how often that is on the first turn and on the others; None
    # where nothing trains. What is done over the whole update comes after that.
    "aepo": ({}, 1, 1),
    "arpo": ({}, 1, 1),
    "at2po": ({"population": True}, 1, 1),
    "patr": ({}, 1, 1),
    "random_tree": ({"population": True}, 1, 1),
    "rtpo": None,
    "rtpo_plus": None,
    "tree_grpo": ({}, 1, 1),  # and 0 within the tree of a single rollout
    "treepo": ({"scale": False}, 1, 1),
    # Differences from the mean of the others are G / (G - 1) times those from the mean. The first
    # turn's parent, the root, is worth nothing, which counts twice; the others' as much as they.
    "treerl": ({"scale": False}, 2 * 4 / 3, 4 / 3),
}
UNLIKE_ON_CHAINS = {
    "tcpo": "turns are judged by scores, of which alternatives are a third",
}


@every_algorithm
def test_methods_that_branch_reduce_on_trees_that_do_not(name):
    algorithm = ALGORITHMS[name]()
    if not algorithm.grow.forks or name in UNLIKE_ON_CHAINS:
        assert name not in ON_CHAINS
        return
    assert name in ON_CHAINS, f"{name} branches: say here what it is where nothing does"
    group = chains([1.0, 0.0, 0.0, 0.5])
    judged = algorithm.credit(group, 0, evidence_on(algorithm, group))
    if ON_CHAINS[name] is None:
        assert not any(any(judgement.trains_V) for judgement in judged)
        return
    how, first, others = ON_CHAINS[name]
    stands = relative(outcomes(group), **how)
    for (_, value), judgement in zip(stands.items(), judged, strict=True):
        expected = (first * value, others * value, others * value)
        assert judgement.advantage_V == pytest.approx(expected, abs=1e-12)
        assert judgement.trains_V == (True,) * 3


# Controls: what the laws are there to find, they find


@dataclass(frozen=True)
class Wrong:
    """Return less a baseline, with a mistake in it."""

    mistake: str

    def __call__(self, group, grown_in, evidence=None):
        every = {
            (t, leaf): tree.returns[leaf]
            for t, tree in enumerate(group.trees)
            for leaf in tree.leaves
        }
        valid = outcomes(group)
        found = {
            "counts failures": {key: every[key] - fmean(every.values()) for key in valid},
            "trains failures": {key: value - fmean(every.values()) for key, value in every.items()},
            "no baseline": valid,
            "by place": {(t, leaf): value * t for (t, leaf), value in relative(valid).items()},
        }
        return by_rollout(group, found[self.mistake])


def test_the_laws_find_what_they_are_there_for(monkeypatch):
    laws = {
        "counts failures": test_what_failed_is_in_no_mean,
        "trains failures": test_what_failed_never_trains,
        "no baseline": test_a_constant_on_every_outcome_changes_no_advantage,
        "by place": test_the_order_of_trees_in_a_group_does_not_matter,
    }
    for mistake, law in laws.items():
        wrong = replace(ALGORITHMS["grpo"](), credit=Wrong(mistake))
        monkeypatch.setitem(ALGORITHMS, "grpo", lambda wrong=wrong: wrong)
        with pytest.raises(AssertionError):
            law("grpo")


def test_a_mean_of_means_is_found_when_an_update_is_split():
    @dataclass(frozen=True)
    class MeanOfMeans(PolicyLoss):
        def weights(self, tokens):
            return torch.ones_like(tokens.advantage)

        def __call__(self, logp_T, tokens, weight_T):
            return super().__call__(logp_T, tokens, weight_T / len(logp_T))

    _, rows, _ = next(iter(row_sets("grpo")))
    tokens, logp_T = wide(rows, 0, 0.3)
    whole, _ = value_and_gradient(MeanOfMeans(), tokens, logp_T, [torch.arange(len(logp_T))])
    parts = [torch.arange(3), torch.arange(3, len(logp_T))]
    split, _ = value_and_gradient(MeanOfMeans(), tokens, logp_T, parts)
    assert split != pytest.approx(whole, abs=1e-6)
