"""One update: from grown groups to published weights."""

from collections.abc import Sequence

from retrograde.algorithms.algorithm import Algorithm
from retrograde.data.rows import Row, View, rows_of
from retrograde.data.seeds import derived
from retrograde.data.tree import Group
from retrograde.schedules.carry import Rollout, carried
from retrograde.trainer.drift import Drift
from retrograde.trainer.evidence import gathered
from retrograde.trainer.not_finite import failure
from retrograde.trainer.parity import PROBED, PROBED_AFTER, logp_difference, moved, probed
from retrograde.trainer.ports import Ports
from retrograde.trainer.run import State
from retrograde.trainer.scores import scored


def judged_rows(
    algorithm: Algorithm, ports: Ports, groups: Sequence[Group], grown_in: int, progress: float
) -> list[Row]:
    """What an update trains on, after round `grown_in`; groups that are dropped are counted."""
    evidence = gathered(algorithm, groups, ports, progress)
    judged = [
        algorithm.credit(group, grown_in, known)
        for group, known in zip(groups, evidence, strict=True)
    ]
    rows = rows_of(groups, judged, algorithm.view)
    dropped = len(groups) - len({row.group for row in rows})
    # Learning round by round, every group has rounds in which nothing of it trains.
    if dropped and not algorithm.update.every_round:
        ports.journal.count("tasks/dropped", dropped)
    return rows


async def learn(
    algorithm: Algorithm,
    state: State,
    ports: Ports,
    rows: list[Row],
    sweep: int,
    seed: int,
    *,
    drift: Drift,
) -> set[int]:
    """Take an update's optimizer steps and publish the weights; skip it if it has no signal.

    Whoever asks what rows score is answered by one pass before the update, and one after it.

    Returns:
        The absolute indices of the turns that were trained; none if it was skipped.

    Raises:
        NotFiniteError: a loss or gradient is not finite; its step was not taken.
    """
    if not rows:
        return set()
    update, learner, journal = algorithm.update, ports.learner, ports.journal
    fresh: Sequence[Row] = probed(rows, PROBED) if algorithm.view is View.EXACT else ()
    sampled, watched = scored(learner, fresh, drift.unscored)
    drift.note(watched)
    if fresh:
        journal.add(logp_difference(fresh, sampled))
    elif algorithm.view is View.FLAT_RECOMPUTED:
        rows = learner.recomputed(rows)
    if algorithm.normalise is not None:
        rows = algorithm.normalise(rows)
    batch = _with_recent(rows, state, sweep) if update.replay else rows
    steps = 0
    if update.has_signal(batch):
        journal.doing("learning")
        steps = _steps(algorithm, state, ports, batch, derived(seed, state.version))
    if not steps:
        journal.judged(rows, None)
        journal.count("update/skipped")
        return set()
    trained = {row.turn for row in batch}
    _record(state, ports, rows, trained, drift)
    journal.count("update/steps", steps)
    state.version += 1
    await ports.actors.load(learner.weights(), state.version)
    return trained


def _record(
    state: State, ports: Ports, rows: Sequence[Row], trained: set[int], drift: Drift
) -> None:
    """Tell the journal how far an update led."""
    learner, journal = ports.learner, ports.journal
    journal.doing("recording")
    few = probed(rows, PROBED_AFTER)
    led, kept, watched = scored(learner, few, journal.wanted(rows), drift.rows)
    try:
        journal.add(moved(few, led))
    except FloatingPointError as cause:
        raise failure(cause, ports.keep_batch(state, rows, cause), taken=True) from cause
    journal.judged(rows, kept)
    journal.add(drift.measured(trained, watched))


def _steps(algorithm: Algorithm, state: State, ports: Ports, batch: list[Row], seed: int) -> int:
    """Take the optimizer steps of an update; how many changed the weights."""
    update, learner, journal = algorithm.update, ports.learner, ports.journal
    steps, first = 0, True
    factors: dict[Rollout, float] = {}
    for stage in update.stages(batch):
        for minibatch in update.batches(carried(stage, factors), seed):
            try:
                metrics = learner.step(minibatch, algorithm.loss)
                if algorithm.critic is not None and ports.critic is not None:
                    journal.add(ports.critic.step(minibatch, algorithm.critic))
            except FloatingPointError as cause:
                raise failure(cause, ports.keep_batch(state, minibatch, cause)) from cause
            journal.add(metrics)
            steps += metrics["grad_norm"] > 0
            journal.count("rows/trained", metrics["rows/run"])
            if first:
                names = ("ratio/error_max", "ratio/abs_log_mean", "logp_difference/max")
                journal.add({f"first_minibatch/{name}": metrics[name] for name in names})
                first = False
        if update.carry is not None:
            factors = update.carry.after(factors, stage, learner.score(stage))
    return steps


def _with_recent(rows: list[Row], state: State, sweep: int) -> list[Row]:
    """Rows of this round and of the sweep - 1 rounds before it."""
    state.recent.append(rows)
    while len(state.recent) > max(sweep, 1):
        state.recent.popleft()
    return [row for kept in state.recent for row in kept]
