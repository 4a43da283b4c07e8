"""Next-reward credit: a turn is worth what the turn after it earns."""

from collections.abc import Sequence
from dataclasses import dataclass

from retrograde.credit.standing import Visit, by_visit, paths, relative_within
from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Judgement
from retrograde.data.tree import Group


@dataclass(frozen=True, slots=True)
class NextReward:
    """R_{i,t} = r_{i,t+1}, normalised over the group's rollouts at the same turn.

    For turns whose words take effect one turn later, as a memo does. The last turn of a rollout
    has no turn after it and does not train. Rollouts are compared though their pasts differ, and
    one that nobody else reaches a turn with has an advantage of 0 there.

    Source:
        MemoPilot, arXiv:2606.08656, multi-turn GRPO.
    Differs from the source:
        `delay=0` for environments whose rewards follow from the turn's own words.
    """

    delay: int = 1
    """After how many turns the reward that a turn is judged by is paid."""

    def __post_init__(self) -> None:
        if self.delay < 0:
            raise ValueError(f"delay: at least 0 turns are needed, got {self.delay}")

    def __call__(
        self, group: Group, grown_in: int, evidence: Evidence = NO_EVIDENCE
    ) -> Sequence[Judgement]:
        """One judgement for each tree; the round does not matter."""
        del grown_in, evidence
        rewards: dict[Visit, float] = {}
        for (t, leaf), path in paths(group).items():
            for turn, pays in zip(path, path[self.delay :], strict=False):
                rewards[t, leaf, turn] = group.trees[t].turns[pays].reward

        def turn_index(visit: Visit) -> int:
            return group.trees[visit[0]].depths[visit[2]]

        return by_visit(group, relative_within(rewards, turn_index, population=True))
