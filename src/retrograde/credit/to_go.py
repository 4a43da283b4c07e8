"""Credit for what is still to come: the sum of rewards from a turn on."""

from collections.abc import Sequence
from dataclasses import dataclass

from retrograde.credit.standing import Visit, by_visit, outcomes
from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Judgement
from retrograde.data.tree import Group


@dataclass(frozen=True, slots=True)
class ReturnToGo:
    """What a rollout earns from each turn on, undiscounted; to be whitened over the update.

    A turn's reward comes with its last token, so all tokens of a turn have the same.
    A failed rollout does not train.

    Source:
        REINFORCE++, arXiv:2501.03262.
    Differs from the source:
        No KL term is in the reward. What is to come is carried across observations to the first
        turn, as verl 0.9.1 does.
    """

    def __call__(
        self, group: Group, grown_in: int, evidence: Evidence = NO_EVIDENCE
    ) -> Sequence[Judgement]:
        """One judgement for each tree; the round does not matter."""
        del grown_in, evidence
        valid = outcomes(group)
        to_go: dict[Visit, float] = {}
        for t, tree in enumerate(group.trees):
            for leaf, turn in tree.visits:
                if (t, leaf) in valid:
                    before = tree.returns[turn] - tree.turns[turn].reward
                    to_go[t, leaf, turn] = valid[t, leaf] - before
        return by_visit(group, to_go)
