"""One update: from judged rows to published weights."""

from retrograde.algorithms.algorithm import Algorithm
from retrograde.data.rows import Row, View
from retrograde.data.seeds import derived
from retrograde.trainer.parity import logp_difference
from retrograde.trainer.ports import Ports
from retrograde.trainer.run import State


async def learn(
    algorithm: Algorithm, state: State, ports: Ports, rows: list[Row], sweep: int, seed: int
) -> set[int]:
    """Take an update's optimizer steps and publish the weights; skip it if it has no signal.

    Returns:
        The absolute indices of the turns that were trained; none if it was skipped.
    """
    if not rows:
        return set()
    update, learner, journal = algorithm.update, ports.learner, ports.journal
    if algorithm.view is View.EXACT:
        journal.add(logp_difference(rows, learner))
    elif algorithm.view is View.FLAT_RECOMPUTED:
        rows = learner.recomputed(rows)
    batch = _with_recent(rows, state, sweep) if update.replay else rows
    if not update.has_signal(batch):
        journal.count("update/skipped")
        return set()
    journal.doing("learning")
    steps = 0
    for i, minibatch in enumerate(update.batches(batch, derived(seed, state.version))):
        metrics = learner.step(minibatch, algorithm.loss)
        journal.add(metrics)
        steps += metrics["grad_norm"] > 0
        journal.count("rows/trained", metrics["rows/run"])
        if i == 0:
            first = ("ratio/error_max", "ratio/abs_log_mean")
            journal.add({f"first_minibatch/{name}": metrics[name] for name in first})
    if not steps:
        journal.count("update/skipped")
        return set()
    journal.count("update/steps", steps)
    state.version += 1
    await ports.actors.load(learner.weights(), state.version)
    return {row.turn for row in batch}


def _with_recent(rows: list[Row], state: State, sweep: int) -> list[Row]:
    """Rows of this round and of the sweep - 1 rounds before it."""
    state.recent.append(rows)
    while len(state.recent) > max(sweep, 1):
        state.recent.popleft()
    return [row for kept in state.recent for row in kept]
