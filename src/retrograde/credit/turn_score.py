"""Turn-score credit: what a turn did to the best score so far, and what it led to."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from retrograde.credit.standing import Rollout, Visit, by_visit, paths, relative
from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Judgement
from retrograde.data.tree import End, Group, Tree

Scores = Mapping[Rollout, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class TurnScore:
    """Retrospective + hindsight + counterfactual, normalised over the turns of one index.

    With m the best score before a turn (0 before the first) and r its own: retrospective credit is
    r - m for a new best, `preserve` for keeping a success, r - m again for losing one. A drop
    before the first success costs nothing here. A turn of no new best before success gets hindsight
    credit: the best score from it on, less the mean of that over such turns of the other rollouts
    at the same index. A turn with alternatives behind the same past gets its score less their mean.

    Trains the rollouts of round 0 alone. A turn that nobody else has keeps its raw credit. Keeping
    and losing a success happen only where episodes go on after one.

    Source:
        TCPO, arXiv:2608.01667.
    Differs from the source:
        Weights, merge and normalisation are ours, since they were not to be found.
    """

    progress: float = 1.0
    preserve: float = 0.2
    regression: float = 1.0
    hindsight: float = 1.0
    counterfactual: float = 1.0
    threshold: float = 1.0
    """The least score of a success."""
    gamma: float = 0.9
    """A turn's credit is multiplied by it once for each turn before."""
    normalise: bool = True
    """Take z-scores; otherwise raw credit."""

    def __post_init__(self) -> None:
        for name in ("progress", "preserve", "regression", "hindsight", "counterfactual"):
            weight = getattr(self, name)
            if not (math.isfinite(weight) and weight >= 0):
                raise ValueError(f"{name}: a weight of at least 0 is needed, got {weight}")
        if not 0 < self.threshold <= 1:
            raise ValueError(f"threshold: a score in (0, 1] is needed, got {self.threshold}")
        if not 0 < self.gamma <= 1:
            raise ValueError(f"gamma: a factor in (0, 1] is needed, got {self.gamma}")

    def __call__(
        self, group: Group, grown_in: int, evidence: Evidence = NO_EVIDENCE
    ) -> Sequence[Judgement]:
        """One judgement for each tree.

        Raises:
            ValueError: a turn of a rollout has no score.
        """
        del grown_in, evidence
        rollouts = {
            (t, leaf): path
            for (t, leaf), path in paths(group).items()
            if group.trees[t].turns[leaf].grown_in == 0
        }
        scores = {
            rollout: tuple(score_of(group.trees[rollout[0]], turn) for turn in path)
            for rollout, path in rollouts.items()
        }
        found: dict[Visit, float] = {}
        for k in range(max(map(len, scores.values()), default=0)):
            credit = self.raw(scores, k)
            for (t, leaf), own in credit.items():
                others = alternatives(group.trees[t], rollouts[t, leaf][k])
                if others:
                    against = scores[t, leaf][k] - fmean(others)
                    credit[t, leaf] = own + self.counterfactual * against
            stands = relative(credit) if self.normalise and len(credit) > 1 else credit
            for (t, leaf), value in stands.items():
                found[t, leaf, rollouts[t, leaf][k]] = value * self.gamma**k
        return by_visit(group, found)

    def raw(self, scores: Scores, k: int) -> dict[Rollout, float]:
        """Retrospective and hindsight credit of the rollouts that have a turn k."""
        here = {rollout: each for rollout, each in scores.items() if k < len(each)}
        best = {rollout: max(each[:k], default=0.0) for rollout, each in here.items()}
        future = {
            rollout: max(each[k:])
            for rollout, each in here.items()
            if each[k] <= best[rollout] < self.threshold
        }
        credit: dict[Rollout, float] = {}
        for rollout, each in here.items():
            credit[rollout] = self._retrospective(best[rollout], each[k])
            peers = [ahead for other, ahead in future.items() if other != rollout]
            if rollout in future and peers:
                credit[rollout] += self.hindsight * (future[rollout] - fmean(peers))
        return credit

    def _retrospective(self, best: float, score: float) -> float:
        if score > best:
            return self.progress * (score - best)
        if best < self.threshold:
            return 0.0
        return self.preserve if score == best else self.regression * (score - best)


def score_of(tree: Tree, turn: int) -> float:
    """A turn's score.

    Raises:
        ValueError: it has none.
    """
    score = tree.turns[turn].score
    if score is None:
        raise ValueError(f"a score for each turn is needed, turn {turn} has none")
    return score


def alternatives(tree: Tree, turn: int) -> list[float]:
    """Scores of the answers that a later round gave behind the same past; failed ones left out."""
    own = tree.turns[turn]
    return [
        score_of(tree, i)
        for i, other in enumerate(tree.turns)
        if other.parent == own.parent
        and other.grown_in > own.grown_in
        and other.end is not End.FAILED
    ]
