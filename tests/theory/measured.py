"""What is measured about each statement of the theory.

The tests compare these numbers with closed forms; `scripts/theory_tables.py` prints them.
Every number is an exact expectation over all outcomes, so none has a standard error.

Shapes: K turns, S states, A actions, M worlds.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from retrograde.credit.group_relative import GroupRelative
from retrograde.credit.sibling_mean import SiblingMean, value_of
from retrograde.data.tree import ROOT_PARENT, Group, Tree
from retrograde.losses.policy import Mean, PolicyLoss
from retrograde.ops.ratios import token_ratio
from retrograde.rollouts.plans import Fork, ReverseTree

from .growth import (
    Actor,
    branched,
    chain,
    expected_gradient,
    first_of_flat_groups,
    flat_groups,
    phase,
    siblings,
    trunk_kinds,
)
from .mdp import (
    Path,
    Policy,
    World,
    alike,
    full_gradient,
    paths,
    random_world,
    turn_gradient,
    turn_tables,
    values,
    visitation,
    with_new_turns,
)

SUM = PolicyLoss(mean=Mean.SUM)


class Setting(NamedTuple):
    """A world in the middle of a sweep: turns behind `turn` have already been updated."""

    world: World
    policy: Policy
    before_D: Tensor
    now_D: Tensor
    before: Actor
    now: Actor


def setting(world: World, turn: int, policy: Policy | None = None) -> Setting:
    """Per-turn tables drawn at random, and again at random behind `turn`."""
    policy = policy or turn_tables(world.shape)
    before_D = policy.random(1)
    now_D = with_new_turns(policy, before_D, policy.random(2), turn + 1)
    actors = Actor(world, policy, before_D), Actor(world, policy, now_D)
    return Setting(world, policy, before_D, now_D, *actors)


class Gradients(NamedTuple):
    """What a phase gives in expectation, and the exact gradient of its turn."""

    estimated_D: Tensor
    exact_D: Tensor

    @property
    def factor(self) -> float:
        """The multiple of the exact gradient that comes nearest."""
        return float(self.estimated_D @ self.exact_D / (self.exact_D @ self.exact_D))

    @property
    def residue(self) -> float:
        """What is left when that multiple is taken away, relative to the estimate's length."""
        rest_D = self.estimated_D - self.factor * self.exact_D
        return float(rest_D.norm() / self.estimated_D.norm())


def phase_gradients(
    s: Setting, turn: int, fork: Fork, loss: PolicyLoss = SUM, *, all_paths: bool = False
) -> Gradients:
    """One phase of RTPO with one trunk, in expectation."""
    grown = phase(s.before, s.now, turn, fork, all_paths=all_paths)
    estimated_D = expected_gradient(grown, SiblingMean(), loss, s.policy.score, s.now_D)
    return Gradients(estimated_D, turn_gradient(s.world, s.policy, s.before_D, s.now_D, turn))


def flat_gradients(s: Setting, size: int, mean: Mean) -> Gradients:
    """A group of whole rollouts, each judged against the group's mean, in expectation."""
    estimated_D = expected_gradient(
        flat_groups(s.now, size),
        GroupRelative(scale=False),
        PolicyLoss(mean=mean),
        s.policy.score,
        s.now_D,
    )
    return Gradients(estimated_D, full_gradient(s.world, s.policy, s.now_D))


def group_advantage(actor: Actor, size: int) -> Tensor:
    """Expected advantage that a group of rollouts gives an action in a state: K S A."""
    total_KSA = torch.zeros(actor.world.shape, dtype=torch.float64)
    chance_KSA = torch.zeros_like(total_KSA)
    credit = GroupRelative(scale=False)
    for chance, path, group in first_of_flat_groups(actor, size):
        for turn, advantage in enumerate(credit(group, 0)[0].advantage_V):
            total_KSA[turn, path[turn].state, path[turn].action] += chance * advantage
            chance_KSA[turn, path[turn].state, path[turn].action] += chance
    return total_KSA / chance_KSA


def sibling_advantage(s: Setting, turn: int, fork: Fork) -> Tensor:
    """Expected advantage that siblings give an action in a state: S A."""
    total_SA = torch.zeros(s.world.shape[1:], dtype=torch.float64)
    chance_SA = torch.zeros_like(total_SA)
    for chance, state, action, advantage in _judged_siblings(s, turn, fork):
        total_SA[state, action] += chance * advantage
        chance_SA[state, action] += chance
    return total_SA / chance_SA


def _judged_siblings(s: Setting, turn: int, fork: Fork) -> list[tuple[float, int, int, float]]:
    """(chance, state, action, advantage) of each sibling of each outcome of a phase."""
    found: list[tuple[float, int, int, float]] = []
    for chance, trunk in _standing_at(s.before, turn):
        state = trunk[turn].state
        for probability, grown in siblings(s.now, fork, turn, state):
            tree = branched(trunk, s.before, turn, grown, s.now)
            (judgement,) = SiblingMean()(Group("world", (tree,)), 1)
            visits = zip(tree.visits, judgement.advantage_V, judgement.trains_V, strict=True)
            trained = {visit: a for (_, visit), a, trains in visits if trains}
            for number, sibling in enumerate(grown):
                advantage = trained[len(trunk) + number]
                each = chance * probability / len(grown)
                found.append((each, state, sibling.step.action, advantage))
    return found


def _standing_at(actor: Actor, turn: int) -> list[tuple[float, Path]]:
    """One trunk for each state a turn can be reached in."""
    return alike(iter(trunk_kinds(actor, turn)), lambda path: path[turn].state)


class Spread(NamedTuple):
    """Where the variance of a return comes from, at one turn."""

    of_states: float
    """Variance of V over the states that are visited."""
    of_actions: float
    """Mean square of the advantage."""
    downstream: float
    """Mean variance of the return, given state and action."""


def spread(world: World, policy: Policy, theta_D: Tensor, turn: int) -> Spread:
    """The three parts; returns are 0 or 1 and every rollout has the turn."""
    logp_KSA = policy.actions(theta_D)
    exact = values(world, logp_KSA)
    at_S = visitation(world, logp_KSA)[turn]
    both_SA = at_S.unsqueeze(-1) * logp_KSA[turn].exp()
    v_S, q_SA = exact.v_KS[turn], exact.q_KSA[turn]
    return Spread(
        float(at_S @ v_S.square() - (at_S @ v_S).square()),
        float((both_SA * (q_SA - v_S.unsqueeze(-1)).square()).sum()),
        float((both_SA * q_SA * (1 - q_SA)).sum()),
    )


def group_mse(actor: Actor, turn: int, size: int) -> float:
    """Mean square error of the group's advantage as an estimate of the exact one."""
    exact = values(actor.world, actor.policy.actions(actor.theta_D))
    advantage_SA = (exact.q_KSA[turn] - exact.v_KS[turn].unsqueeze(-1)).tolist()
    credit = GroupRelative(scale=False)
    error = 0.0
    for chance, path, group in first_of_flat_groups(actor, size):
        estimate = credit(group, 0)[0].advantage_V[turn]
        error += chance * (estimate - advantage_SA[path[turn].state][path[turn].action]) ** 2
    return error


def sibling_mse(s: Setting, turn: int, fork: Fork) -> float:
    """The same for siblings."""
    exact = values(s.world, s.policy.actions(s.now_D))
    advantage_SA = (exact.q_KSA[turn] - exact.v_KS[turn].unsqueeze(-1)).tolist()
    return sum(
        chance * (estimate - advantage_SA[state][action]) ** 2
        for chance, state, action, estimate in _judged_siblings(s, turn, fork)
    )


def settled(world: World, theta_D: Tensor | None = None) -> Setting:
    """A setting in which nothing has been updated since the trunk."""
    policy = turn_tables(world.shape)
    theta_D = policy.random(1) if theta_D is None else theta_D
    actor = Actor(world, policy, theta_D)
    return Setting(world, policy, theta_D, theta_D, actor, actor)


def guessing_world(lure: float = 1.0) -> World:
    """One turn, two states, two actions; the action that names the state wins.

    Under a uniform policy every state is worth the same and nothing is left to chance
    downstream, so that a baseline of one's own state brings nothing.

    Args:
        lure: chance to win with the right action.
    """
    chance = torch.zeros(1, 2, 2, 4, dtype=torch.float64)
    chance[0, :, :, 2] = lure * torch.eye(2, dtype=torch.float64)
    chance[0, :, :, 3] = 1 - chance[0, :, :, 2]
    return World(
        torch.tensor([0.5, 0.5], dtype=torch.float64),
        chance,
        torch.zeros(1, 2, 2, dtype=torch.float64),
    )


def continued_value(s: Setting, by: Actor, turn: int) -> Tensor:
    """Expected value of a sibling as the library sees it, if `by` continues it: S A."""
    _, num_states, num_actions = s.world.shape
    total_SA = torch.zeros(num_states, num_actions, dtype=torch.float64)
    chance_SA = torch.zeros_like(total_SA)
    for trunk in (path for _, path in _standing_at(s.before, turn)):
        state = trunk[turn].state
        for chance, grown in siblings(by, Fork(0, turn - 1, 1), turn, state):
            tree = branched(trunk, s.before, turn, grown, by)
            value = value_of(tree, len(trunk))
            before = tree.returns[turn - 1] if turn else 0.0
            total_SA[state, grown[0].step.action] += chance * (value - before)
            chance_SA[state, grown[0].step.action] += chance
    return total_SA / chance_SA


def reweighted_value(s: Setting, turn: int, low: float = 0.0, high: float = float("inf")) -> Tensor:
    """Expected value of a sibling that `before` continued, its return weighted: S A.

    The weight is the product of the token ratios of everything behind the turn, kept
    within `low` and `high`.
    """
    _, num_states, num_actions = s.world.shape
    value_SA = s.world.bonus_KSA[turn].clone()
    for state in range(num_states):
        for action in range(num_actions):
            for chance, step in s.world.outcomes(turn, state, action):
                won = step.reward - s.world.bonus[turn][state][action]
                value_SA[state, action] += chance * won
                if step.onwards is None:
                    continue
                for after, path in paths(s.world, s.before.choice, turn + 1, step.onwards):
                    weight = min(max(weight_of(s, path, turn + 1), low), high)
                    total = sum(step.reward for step in path)
                    value_SA[state, action] += chance * after * weight * total
    return value_SA


def weight_of(s: Setting, path: Path, index: int, clip: float | None = None) -> float:
    """Product of the token ratios of a path that begins at turn `index`, each clipped or not."""
    ratio_T = token_ratio(_logp(s.now, path, index), _logp(s.before, path, index))
    return float((ratio_T if clip is None else ratio_T.clamp(1 - clip, 1 + clip)).prod())


def _logp(actor: Actor, path: Path, index: int) -> Tensor:
    turns = [
        actor.turn(step, index=index + i, parent=ROOT_PARENT, grown_in=0)
        for i, step in enumerate(path)
    ]
    return torch.tensor([v for turn in turns for v in turn.logprobs], dtype=torch.float64)


def weight_variance(num_turns: int, step: float = 0.5) -> tuple[float, float]:
    """Variance of the weight of a whole rollout, and the paper's lower bound on it.

    The policy of two actions acts with logits (0, 0) and has since been moved to (step, 0).
    """
    chance = torch.zeros(num_turns, 1, 2, 3, dtype=torch.float64)
    chance[:-1, ..., 0] = 1.0
    chance[-1, ..., 1] = 1.0
    world = World(
        torch.ones(1, dtype=torch.float64),
        chance,
        torch.zeros(num_turns, 1, 2, dtype=torch.float64),
    )
    policy = turn_tables(world.shape)
    before_D = torch.zeros(policy.size, dtype=torch.float64)
    now_D = torch.tensor([step, 0.0], dtype=torch.float64).repeat(num_turns)
    actors = Actor(world, policy, before_D), Actor(world, policy, now_D)
    s = Setting(world, policy, before_D, now_D, *actors)
    second = sum(
        chance * weight_of(s, path, 0) ** 2 for chance, path in paths(world, s.before.choice, 0, 0)
    )
    ratio_A = (policy.actions(now_D) - policy.actions(before_D))[0, 0].exp()
    excess = float(ratio_A.square().mean()) - 1
    return second - 1, (1 + excess) ** num_turns - 1


class Worlds(NamedTuple):
    """Many random worlds at once, for exact dynamic programming alone."""

    start_MS: Tensor
    moves_MKSAS: Tensor
    reward_MKSA: Tensor


def many_worlds(count: int, shape: tuple[int, int, int] = (3, 4, 3), seed: int = 0) -> Worlds:
    """Worlds drawn at random: transitions from a flat Dirichlet, uniform rewards at the end."""
    rng = torch.Generator().manual_seed(seed)
    num_turns, num_states, num_actions = shape
    full = (count, num_turns, num_states, num_actions)
    moves = -torch.rand(*full, num_states, generator=rng, dtype=torch.float64).log()
    start = -torch.rand(count, num_states, generator=rng, dtype=torch.float64).log()
    reward = torch.rand(full, generator=rng, dtype=torch.float64)
    reward[:, :-1] = 0.0
    return Worlds(
        start / start.sum(-1, keepdim=True),
        moves / moves.sum(-1, keepdim=True),
        reward,
    )


def action_values(worlds: Worlds, chosen_MKSA: Tensor) -> Tensor:
    """Q of a policy in each world: M K S A."""
    q: list[Tensor] = []
    v_MS = torch.zeros_like(worlds.start_MS)
    for turn in reversed(range(worlds.reward_MKSA.shape[1])):
        onwards = torch.einsum("msat,mt->msa", worlds.moves_MKSAS[:, turn], v_MS)
        q.insert(0, worlds.reward_MKSA[:, turn] + onwards)
        v_MS = (chosen_MKSA[:, turn] * q[0]).sum(-1)
    return torch.stack(q, 1)


def total_value(worlds: Worlds, chosen_MKSA: Tensor) -> Tensor:
    """J of a policy in each world: M."""
    first_MSA = action_values(worlds, chosen_MKSA)[:, 0]
    return (worlds.start_MS * (chosen_MKSA[:, 0] * first_MSA).sum(-1)).sum(-1)


def best_value(worlds: Worlds) -> Tensor:
    """J of the best policy, by the optimality equation and no sweep: M."""
    v_MS = torch.zeros_like(worlds.start_MS)
    for turn in reversed(range(worlds.reward_MKSA.shape[1])):
        onwards = torch.einsum("msat,mt->msa", worlds.moves_MKSAS[:, turn], v_MS)
        v_MS = (worlds.reward_MKSA[:, turn] + onwards).max(-1).values
    return (worlds.start_MS * v_MS).sum(-1)


def swept(worlds: Worlds, chosen_MKSA: Tensor, turns: Sequence[int]) -> Tensor:
    """The policy after an exact greedy step at each of `turns`, one after the other."""
    chosen_MKSA = chosen_MKSA.clone()
    for turn in turns:
        best_MS = action_values(worlds, chosen_MKSA)[:, turn].argmax(-1)
        chosen_MKSA[:, turn] = one_hot(best_MS, chosen_MKSA.shape[-1]).double()
    return chosen_MKSA


def all_at_once(worlds: Worlds, chosen_MKSA: Tensor) -> Tensor:
    """The policy after a greedy step at all turns at the same time."""
    best_MKS = action_values(worlds, chosen_MKSA).argmax(-1)
    return one_hot(best_MKS, chosen_MKSA.shape[-1]).double()


def some_policy(worlds: Worlds, seed: int = 1) -> Tensor:
    """A random policy in each world: M K S A."""
    rng = torch.Generator().manual_seed(seed)
    noise = torch.randn(worlds.reward_MKSA.shape, generator=rng, dtype=torch.float64)
    return noise.softmax(-1)


class Cost(NamedTuple):
    """Turns of one trunk and all its phases, none of which ends early."""

    generated: int
    trained: int


def cost(num_turns: int, size: int) -> Cost:
    """Counted in a tree that the library's plan has grown, with the library's credit.

    Args:
        num_turns: turns of the trunk, and of every continuation.
        size: siblings at each boundary.
    """
    s = settled(random_world(0, (num_turns, 2, 2)))
    _, trunk = trunk_kinds(s.now, num_turns - 1)[0]
    tree = chain(s.now, trunk)
    plan, trained = ReverseTree(siblings=size), 0
    for done in range(1, num_turns + 1):
        ((fork,),) = plan([Group("world", (tree,))], done)
        turns = list(tree.turns)
        for _ in range(fork.answers):
            s.now.extend(turns, trunk[fork.parent + 1 :], fork.parent, fork.parent + 1, done)
        tree = Tree(tuple(turns))
        (judgement,) = SiblingMean()(Group("world", (tree,)), done)
        trained += sum(judgement.trains_V)
    return Cost(len(tree.turns), trained)


def continued(s: Setting, turn: int, fork: Fork) -> float:
    """Expected number of continuations that the siblings of one boundary need."""
    total = 0.0
    for chance, trunk in _standing_at(s.before, turn):
        for probability, grown in siblings(s.now, fork, turn, trunk[turn].state):
            total += chance * probability * sum(len(one.continuations) for one in grown)
    return total


def phases_of_the_plan(num_turns: int) -> list[int]:
    """The turns at which the library's plan forks a trunk, in order."""
    world = random_world(0, (num_turns, 2, 2))
    actor = settled(world).now
    _, trunk = trunk_kinds(actor, num_turns - 1)[0]
    tree = chain(actor, trunk)
    plan = ReverseTree()
    asked: list[int] = []
    for done in range(1, num_turns + 2):
        ((*forks,),) = plan([Group("world", (tree,))], done)
        asked += [fork.parent + 1 for fork in forks]
    return asked


def blind_world() -> World:
    """Two turns. Chance picks one of two rooms, each with a different winning action."""
    chance = torch.zeros(2, 2, 2, 4, dtype=torch.float64)
    chance[0, :, :, :2] = 0.5
    chance[1, 0, 0, 2] = chance[1, 1, 1, 2] = 1.0
    chance[1, 0, 1, 3] = chance[1, 1, 0, 3] = 1.0
    return World(
        torch.tensor([1.0, 0.0], dtype=torch.float64),
        chance,
        torch.zeros(2, 2, 2, dtype=torch.float64),
    )


def detour_world() -> World:
    """Two turns. The first action picks the room: in room 0, action 0 wins 4 times in 10; in
    room 1, action 1 always wins."""
    world = blind_world()
    world.chance_KSAO[0] = 0.0
    world.chance_KSAO[0, :, 0, 0] = world.chance_KSAO[0, :, 1, 1] = 1.0
    world.chance_KSAO[1, 0, 0, 2] = 0.4
    world.chance_KSAO[1, 0, 0, 3] = 0.6
    return world


def recursive_value(world: World, trunk_KSA: Tensor, *, blind: bool) -> float:
    """What one reverse sweep of greedy steps reaches in a world of two turns.

    Args:
        world: two turns, two states.
        trunk_KSA: log-probabilities of the policy that walks the trunks; greedy steps weigh
            states as it visits them.
        blind: whether the last turn is shown one context for both states.
    """
    at_S = visitation(world, trunk_KSA)[1]
    last_SA = world.chance_KSAO[1, :, :, 2]
    weighed_SA = at_S.unsqueeze(-1) * last_SA
    choice = weighed_SA.sum(0).argmax().repeat(2) if blind else last_SA.argmax(-1)
    v_S = last_SA[torch.arange(2), choice]
    first_SA = world.chance_KSAO[0, :, :, :2] @ v_S
    return float(world.start_S @ first_SA.max(-1).values)


def best_blind_value(world: World) -> float:
    """The best that any policy can do if the last turn is shown one context for both states."""
    last_SA = world.chance_KSAO[1, :, :, 2]
    return max(
        float(world.start_S @ (world.chance_KSAO[0, :, :, :2] @ last_SA[:, action]).max(-1).values)
        for action in range(last_SA.shape[1])
    )


def silent_share(s: Setting, turn: int, size: int) -> tuple[float, float]:
    """Probability that a boundary gives no advantage at all, measured and by formula.

    The formula is E[V^n + (1 - V)^n] for n siblings with returns of 0 or 1.
    """
    at_S = visitation(s.world, s.policy.actions(s.before_D))[turn]
    v_S = values(s.world, s.policy.actions(s.now_D)).v_KS[turn]
    silent = 0.0
    for chance, trunk in _standing_at(s.before, turn):
        fork = Fork(0, turn - 1, size)
        for probability, grown in siblings(s.now, fork, turn, trunk[turn].state):
            tree = branched(trunk, s.before, turn, grown, s.now)
            (judgement,) = SiblingMean()(Group("world", (tree,)), 1)
            silent += chance * probability * (not any(judgement.advantage_V))
    return silent, float(at_S @ (v_S**size + (1 - v_S) ** size))


def shares_of_three(of_two: float) -> float:
    """Silent boundaries at three siblings, from their share at two."""
    return 1 - 3 * (1 - of_two) / 2


def moved(world: World, policy: Policy, turn: int, rate: float = 1.0) -> list[float]:
    """How far one phase moves the policy: largest total variation over states, turn by turn."""
    theta_D = policy.random(1)
    actor = Actor(world, policy, theta_D)
    grown = phase(actor, actor, turn, Fork(0, turn - 1, 2))
    step_D = expected_gradient(grown, SiblingMean(), SUM, policy.score, theta_D)
    before_KSA = policy.actions(theta_D).exp()
    after_KSA = policy.actions(theta_D + rate * step_D).exp()
    return (0.5 * (after_KSA - before_KSA).abs().sum(-1)).max(-1).values.tolist()
