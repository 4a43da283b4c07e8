"""Group credit that looks at how many rollouts a turn is part of."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from retrograde.credit.standing import Place, by_turn, by_visit, outcomes, relative
from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Judgement
from retrograde.data.tree import Group


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """Each rollout stands among its group; a turn that several share takes from all of them.

    Under "mean" each visit to a shared turn gets the mean of their standings, which is the
    same gradient as each with its own as long as no ratio is clipped. Under "share" each visit
    gets its own rollout's, divided by their number, so that a turn weighs the same however many
    share it.

    Source:
        "mean": ARPO, arXiv:2507.19849, section 3.2, hard advantage estimation.
    """

    shared: Literal["mean", "share"] = "mean"

    def __call__(
        self, group: Group, grown_in: int, evidence: Evidence = NO_EVIDENCE
    ) -> Sequence[Judgement]:
        """One judgement for each tree; the round does not matter."""
        del grown_in, evidence
        standing = relative(outcomes(group))
        visits = [
            (t, leaf, turn)
            for t, tree in enumerate(group.trees)
            for leaf, turn in tree.visits
            if (t, leaf) in standing
        ]
        through: defaultdict[Place, list[float]] = defaultdict(list)
        for t, leaf, turn in visits:
            through[t, turn].append(standing[t, leaf])
        if self.shared == "mean":
            return by_turn(group, {place: fmean(each) for place, each in through.items()})
        return by_visit(
            group,
            {
                (t, leaf, turn): standing[t, leaf] / len(through[t, turn])
                for t, leaf, turn in visits
            },
        )
