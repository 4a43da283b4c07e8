"""What a run keeps of its rollouts: trees with their credit, and how each held-out task went."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from retrograde.data.rows import Row
from retrograde.data.stored import (
    EVALUATIONS,
    ROLLOUTS,
    Played,
    Scribe,
    StoredGroup,
    Visit,
    step_of,
    store_groups,
    stored_file,
    stored_files,
    success_of,
)
from retrograde.data.tree import End, Group, Tree
from retrograde.trainer.lines import add_line, forget_later_than, read_lines
from retrograde.trainer.scores import Scores

EVALUATED = 8
"""Held-out tasks whose rollouts are kept, for each group that an iteration keeps; and as many of
those that went otherwise than at first."""
FIRST = 64
"""The same of the first evaluation, of which nobody knows yet what will change."""


class _Judged(NamedTuple):
    row: Row
    number: int
    """Of the update, within the iteration."""
    update: int | None
    after: tuple[float, ...]


class Archive:
    """Keeps the first groups of each iteration, and of each evaluation."""

    def __init__(
        self,
        run: Path,
        last: int,
        scribe: Scribe,
        succeeded: Callable[[Tree, int], bool],
        *,
        keep: int,
    ) -> None:
        """Open a run's directory.

        Args:
            run: the directory.
            last: records of later steps are dropped: they are made again.
            scribe: knows what ids say.
            succeeded: whether the rollout that ends in a leaf did its task.
            keep: groups an iteration; -1 for all.
        """
        self.run = run
        self.evaluations = run / EVALUATIONS
        (run / ROLLOUTS).mkdir(parents=True, exist_ok=True)
        self.scribe = scribe
        self.succeeded = succeeded
        self.keep = keep
        self._judged: list[_Judged] = []
        self._updates = 0
        self._played: dict[bool, Sequence[Group]] = {}
        for unfinished in (run / ROLLOUTS).glob(".*.unfinished"):
            unfinished.unlink()
        for played in Played:
            for path in stored_files(run, played):
                if step_of(path) > last:
                    path.unlink()
        forget_later_than(self.evaluations, last)

    def wanted(self, rows: Iterable[Row]) -> list[Row]:
        """Those an update moves whose trees are kept: they are to be scored after it."""
        return [row for row in rows if self._keeps(row) and row.is_informative]

    def judged(self, rows: Iterable[Row], after: Scores | None, update: int) -> None:
        """Remember what an update trained on.

        Args:
            rows: those of this round, with the advantages they were trained with.
            after: what those of them that are `wanted` score after it; None if it was skipped.
            update: number of the weights it publishes.
        """
        scores = iter(after or ())
        made = None if after is None else update
        for row in filter(self._keeps, rows):
            is_moved = after is not None and row.is_informative
            now = tuple(next(scores)) if is_moved else ()
            self._judged.append(_Judged(row, self._updates, made, now))
        self._updates += 1

    def _keeps(self, row: Row) -> bool:
        return self.keep < 0 or row.group < self.keep

    def evaluated(self, groups: Sequence[Group], greedy: bool) -> None:  # noqa: FBT001 - of `Watch`
        """Remember how held-out tasks were played."""
        self._played[greedy] = groups

    def close_step(self, step: int, groups: Sequence[Group]) -> None:
        """Write down what was remembered, and forget it."""
        shown = groups if self.keep < 0 else groups[: self.keep]
        if shown:
            visits = _visits(shown, self._judged)
            stored = [self._stored(step, g, visits=v) for g, v in zip(shown, visits, strict=True)]
            store_groups(stored_file(self.run, Played.TRAINING, step), stored)
        if self._played:
            line = {"step": step} | self._outcomes()
            add_line(self.evaluations, line)
            stored = [
                self._stored(step, groups[i], Played.EVALUATION, greedy=greedy)
                for greedy, groups in self._played.items()
                for i in self._shown(line, greedy)
            ]
            if stored:
                store_groups(stored_file(self.run, Played.EVALUATION, step), stored)
        self._judged, self._updates, self._played = [], 0, {}

    def _stored(
        self,
        step: int,
        group: Group,
        played: Played = Played.TRAINING,
        *,
        greedy: bool = False,
        visits: Sequence[Sequence[Visit]] = (),
    ) -> StoredGroup:
        return StoredGroup(
            step,
            group,
            played,
            greedy,
            self.scribe.texts(group),
            success_of(group, self.succeeded),
            tuple(map(tuple, visits)) or ((),) * len(group.trees),
            self.scribe.pieces(group),
            frozenset(self.scribe.special),
        )

    def _shown(self, line: Mapping[str, Any], greedy: bool) -> list[int]:  # noqa: FBT001 - a key
        """Which tasks of an evaluation are kept, by number."""
        kind = _kind(greedy)
        now, every = line[kind]["success"], range(len(line["tasks"]))
        if self.keep < 0:
            return list(every)
        first = read_lines(self.evaluations)[0]
        if first["step"] == line["step"] or first["tasks"] != line["tasks"] or kind not in first:
            return list(every[: FIRST * self.keep])
        then, most = first[kind]["success"], EVALUATED * self.keep
        changed = [i for i in every[most:] if then[i] is not None and now[i] not in (then[i], None)]
        changed.sort(key=lambda i: bool(now[i]))  # what was forgotten before what was learned
        return sorted((*every[:most], *changed[:most]))

    def _outcomes(self) -> dict[str, Any]:
        """How each task went, task by task; None where the world broke."""
        found: dict[str, Any] = {}
        for greedy, groups in self._played.items():
            found["tasks"] = [group.task for group in groups]
            trees = [group.trees[0] for group in groups]
            sound = [tree.turns[tree.trunk[-1]].end is not End.FAILED for tree in trees]
            found[_kind(greedy)] = {
                "return": [
                    tree.returns[tree.trunk[-1]] if is_sound else None
                    for tree, is_sound in zip(trees, sound, strict=True)
                ],
                "success": [
                    self.succeeded(tree, tree.trunk[-1]) if is_sound else None
                    for tree, is_sound in zip(trees, sound, strict=True)
                ],
            }
        return found


def _kind(greedy: bool) -> str:  # noqa: FBT001 - a key
    return "greedy" if greedy else "sampled"


def _visits(groups: Sequence[Group], judged: Sequence[_Judged]) -> list[list[list[Visit]]]:
    """For each group and tree, what its visits were worth, in the order of updates."""
    found: list[list[list[Visit]]] = [[[] for _ in group.trees] for group in groups]
    turns: list[tuple[_Judged, Tree, int, int]] = []
    for each in judged:
        _, g, t, leaf = each.row.rollout
        tree = groups[g].trees[t]
        turns.append((each, tree, tree.path(leaf)[each.row.turn], leaf))
    phases = _phases(turns)
    for each, tree, turn, leaf in turns:
        _, g, t, _ = each.row.rollout
        row, was = each.row, tree.turns[turn].logprobs
        before = () if row.behaviour_logp == was else row.behaviour_logp
        visit = Visit(
            turn,
            leaf,
            phases[each.number],
            each.update,
            row.advantage,
            before,
            each.after,
            row.values,
        )
        found[g][t].append(visit)
    return found


def _phases(turns: Sequence[tuple[_Judged, Tree, int, int]]) -> Mapping[int, int]:
    """The round after which each update was made: the last that any of its rollouts grew in."""
    phases: dict[int, int] = {}
    for each, tree, turn, leaf in turns:
        grown = max(tree.turns[turn].grown_in, tree.turns[leaf].grown_in)
        phases[each.number] = max(phases.get(each.number, 0), grown)
    return phases
