"""Credit within the tree and within the task: how a rollout stands among each."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from retrograde.credit.standing import Rollout, by_rollout, outcomes, relative
from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Judgement
from retrograde.data.seeds import derived
from retrograde.data.tree import Group


@dataclass(frozen=True, slots=True)
class TreeRelative:
    """Standardised return among the tree's rollouts plus that among all of the task's.

    Of each tree, `keep` rollouts are kept, drawn by chance; the others neither train nor count,
    no more than failed ones do.

    Source:
        Tree-GRPO, arXiv:2509.21240, equations of the intra-tree and inter-tree advantage.
    Differs from the source:
        A tree or task with a single rollout, or whose returns are all equal, adds 0; the code
        takes mean 0 and deviation 1 for a single one, so that its return is its advantage.
        The chance is derived from what the tree says, so that judging is repeatable.
    """

    keep: int = 3

    def __post_init__(self) -> None:
        if self.keep < 1:
            raise ValueError(f"keep: at least 1 rollout of a tree is needed, got {self.keep}")

    def __call__(
        self, group: Group, grown_in: int, evidence: Evidence = NO_EVIDENCE
    ) -> Sequence[Judgement]:
        """One judgement for each tree; the round does not matter."""
        del grown_in, evidence
        found = outcomes(group)
        within: dict[Rollout, float] = {}
        for t in range(len(group.trees)):
            within |= relative(self._kept(group, t, found))
        among = relative({rollout: found[rollout] for rollout in within})
        return by_rollout(group, {rollout: within[rollout] + among[rollout] for rollout in within})

    def _kept(self, group: Group, t: int, found: Mapping[Rollout, float]) -> dict[Rollout, float]:
        mine = [rollout for rollout in found if rollout[0] == t]
        if len(mine) > self.keep:
            said = (token for turn in group.trees[t].turns for token in turn.action)
            chance = random.Random(derived("kept", group.task, t, *said))
            mine = sorted(chance.sample(mine, self.keep))
        return {rollout: found[rollout] for rollout in mine}
