"""The training loop, all of it: plan, grow, credit, learn, publish."""

from itertools import count

from retrograde.algorithms.algorithm import Algorithm
from retrograde.data.seeds import derived
from retrograde.data.tree import Group
from retrograde.rollouts.plans import Moment, longest_trunk
from retrograde.trainer.drift import Drift
from retrograde.trainer.learning import judged_rows, learn
from retrograde.trainer.ports import Ports
from retrograde.trainer.run import Run, State

EVENTS = "events/"
"""Begins what environments count themselves; all other counts are of rollouts."""


async def train(algorithm: Algorithm, run: Run, state: State, ports: Ports) -> None:
    """Train until a budget is used up or it is asked to stop, from wherever the state says."""
    if state.step == 0:
        ports.journal.doing("saving")
        ports.checkpoint(state)
        ports.journal.doing("evaluating")
        evaluation = await ports.evaluate()
        run.note(state, evaluation)
        ports.journal.close_step(state, [], evaluation)
    while not (run.is_over(state) or ports.is_stopping()):
        share = run.share_done(state)
        groups = [Group(task) for task in ports.tasks(state.step, 0)]
        prompts = len(groups)
        seed, drift = derived(run.seed, "iteration", state.step), Drift()
        for grown_in in count():
            left = run.turns_left(state, groups)
            moment = Moment(prompts, derived(seed, "plan", grown_in), left)
            forks = algorithm.grow(groups, grown_in, moment)
            groups += _further(ports, state.step, range(len(groups), len(forks)), prompts)
            growing = any(forks)
            if growing:
                ports.journal.doing(f"sampling round {grown_in}")
                groups = await ports.actors.grow(groups, forks, grown_in, seed)
            if algorithm.update.every_round or not growing:
                rows = judged_rows(algorithm, ports, groups, grown_in, share)
                if rows and algorithm.update.every_round:
                    drift.watch(groups)
                sweep = longest_trunk(groups)
                await learn(algorithm, state, ports, rows, sweep, seed, drift=drift)
            if not growing:
                break
        _tally(state, ports)
        state.step += 1
        evaluation = None
        if run.is_evaluation_due(state, share):
            ports.journal.doing("evaluating")
            evaluation = await ports.evaluate()
            run.note(state, evaluation)
        ports.journal.close_step(state, groups, evaluation)
        if run.is_saving_due(state) or ports.is_stopping():
            ports.journal.doing("saving")
            ports.checkpoint(state)


def _further(ports: Ports, step: int, numbers: range, prompts: int) -> list[Group]:
    """Tasks that a plan asked for beyond those the iteration began with."""
    if numbers:
        ports.journal.count("tasks/further", len(numbers))
    return [Group(ports.tasks(step, i // prompts)[i % prompts]) for i in numbers]


def _tally(state: State, ports: Ports) -> None:
    for name, number in ports.actors.drain().items():
        ports.journal.count(name if name.startswith(EVENTS) else f"rollouts/{name}", number)
        state.env_steps += number if name == "turns" else 0
        state.tokens += number if name == "tokens" else 0
    for name, value in ports.actors.figures():
        ports.journal.add({name: value})
