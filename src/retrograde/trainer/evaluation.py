"""Success on held-out tasks."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import fmean

from retrograde.data.offer import Offer
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree
from retrograde.environments.protocol import Environment
from retrograde.policies.protocol import Policy, Sampling
from retrograde.rendering.history import Renderer
from retrograde.rollouts.acting import MEASURES
from retrograde.rollouts.grow import Figure, Grower
from retrograde.rollouts.limits import Limits
from retrograde.rollouts.plans import NEW_TREE, Fork

SEED = 0
"""Evaluations always play the same tasks with the same worlds and the same draws."""


Watch = Callable[[Sequence[Group], bool], None]
"""Shown the groups of an evaluation, each of one tree, and whether they were played greedily."""


async def evaluate(
    environment: Environment,
    renderer: Renderer,
    policy: Policy,
    *,
    episodes: int,
    max_new_tokens: int,
    first: int = 0,
    limits: Limits | None = None,
    watch: Watch | None = None,
) -> dict[str, float]:
    """Play held-out tasks, from number `first` on, once at temperature 1 and once greedily.

    Args:
        environment: whose tasks.
        renderer: shows the policy what the environment says.
        policy: answers.
        episodes: how many tasks.
        max_new_tokens: of one answer.
        first: number of the first task.
        limits: of time and length; None for the defaults.
        watch: is shown the rollouts, those at temperature 1 first.

    Returns:
        `eval/success` and `eval/success_greedy`, shares in [0, 1] of the rollouts that did not
        fail; `eval/turns`, mean turns of a rollout at temperature 1; `eval/failed`, a number.
        And what the environment measures itself, averaged over the rollouts that did not fail:
        `eval/NAME`, and greedily `eval/NAME_greedy`.
    """
    tasks = [environment.task("test", first + i) for i in range(episodes)]
    metrics: dict[str, float] = {"eval/failed": 0.0, "eval/episodes": float(episodes)}
    measured: dict[str, float] = {}
    for name, temperature in (("eval/success", 1.0), ("eval/success_greedy", 0.0)):
        sampling = Sampling(temperature, max_new_tokens)
        grower = Grower(environment, renderer, policy, sampling, limits=limits)
        plant = [[Fork(NEW_TREE, ROOT_PARENT)] for _ in tasks]
        groups = await grower.grow([Group(task) for task in tasks], plant, 0, SEED)
        if watch is not None:
            watch(groups, not temperature)
        played = [group.trees[0] for group in groups]
        valid = [tree for tree in played if tree.turns[tree.trunk[-1]].end is not End.FAILED]
        metrics[name] = fmean(succeeded(environment, tree, tree.trunk[-1]) for tree in valid)
        metrics["eval/failed"] += episodes - len(valid)
        if temperature:
            metrics["eval/turns"] = fmean(len(group.trees[0].turns) for group in groups)
        suffix = "" if temperature else "_greedy"
        for what, value in _measured(grower.figures, played).items():
            measured[f"eval/{what}{suffix}"] = value
    return measured | metrics


def _measured(figures: Sequence[Figure], played: Sequence[Tree]) -> dict[str, float]:
    """Means of what an environment measured in rollouts that did not fail."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for figure in figures:
        tree = played[figure.place.group]
        if tree.turns[tree.trunk[-1]].end is not End.FAILED:
            found[figure.name.removeprefix(MEASURES)].append(figure.value)
    return {name: fmean(values) for name, values in found.items()}


def succeeded(environment: Environment, tree: Tree, leaf: int) -> bool:
    """Whether a rollout did its task: by the last score if there are scores, else by return."""
    if Offer.SCORES in environment.offers:
        return tree.turns[leaf].score == 1.0
    return tree.returns[leaf] >= environment.success_return


def valid_returns(groups: Sequence[Group]) -> list[float]:
    """Returns of the first attempts of all groups, failed ones left out."""
    return [
        tree.returns[tree.trunk[-1]]
        for group in groups
        for tree in group.trees
        if tree.turns[tree.trunk[-1]].end is not End.FAILED
    ]
