"""Brevity credit: successes judged by how few turns, and how few tokens a turn, they took."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from retrograde.credit.standing import Visit, by_visit, paths, relative, relative_within
from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Judgement
from retrograde.data.tree import Group, Tree


@dataclass(frozen=True, slots=True)
class Brevity:
    """A^E + alpha A^S, of reward / turns and of reward / tokens; both 0 for failures.

    Failures stay in every mean with 0. The two are normalised apart and then added. A rollout is a
    success if its last score is 1 or, in environments without scores, if its return reaches
    `success`. A slow success can get less than 0; where rollouts have one or two turns, the first
    counts double. Tokens are those of the action, stop token included.

    Source:
        PlanPO, arXiv:2608.17289, equations 4 to 6.
    Differs from the source:
        `group="flat"` is nearer to its prose, which pools the successful answers of all turns;
        failures are in the pool here, with 0, as they are in the equations.
    """

    group: Literal["turn", "flat"] = "turn"
    """What answers are judged among: those of the same turn, or all of the task."""
    scale: bool = True
    """Divide each by its standard deviation (ddof 1) + 1e-6."""
    reward: float = 10.0
    """Of a success."""
    success: float = 1.0
    """The least return of a success, where there are no scores."""
    alpha_initial: float = 0.1
    """Weight of A^S at the start of a run."""
    alpha_final: float = 0.05
    """Weight of A^S at its end; in between it falls linearly."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.reward) and self.reward > 0):
            raise ValueError(f"reward: a number above 0 is needed, got {self.reward}")
        if not 0 <= self.alpha_final <= self.alpha_initial <= 1:
            raise ValueError(
                f"alpha_initial, alpha_final: numbers in [0, 1] that do not rise are needed, "
                f"got {self.alpha_initial} and {self.alpha_final}"
            )

    def __call__(
        self, group: Group, grown_in: int, evidence: Evidence = NO_EVIDENCE
    ) -> Sequence[Judgement]:
        """One judgement for each tree; the round does not matter."""
        del grown_in
        rollouts = paths(group)
        worth = {(t, leaf): self._worth(group.trees[t], leaf) for t, leaf in rollouts}
        whole = relative(
            {rollout: worth[rollout] / len(path) for rollout, path in rollouts.items()},
            scale=self.scale,
        )
        answers = {
            (*rollout, turn): worth[rollout] / len(group.trees[rollout[0]].turns[turn].action)
            for rollout, path in rollouts.items()
            for turn in path
        }

        def part(visit: Visit) -> Hashable:
            return group.trees[visit[0]].depths[visit[2]] if self.group == "turn" else ()

        own = relative_within(answers, part, scale=self.scale)
        alpha = self.alpha_initial + (self.alpha_final - self.alpha_initial) * evidence.progress
        return by_visit(group, {visit: whole[visit[:2]] + alpha * own[visit] for visit in answers})

    def _worth(self, tree: Tree, leaf: int) -> float:
        score = tree.turns[leaf].score
        succeeds = tree.returns[leaf] >= self.success if score is None else score == 1
        return self.reward if succeeds else 0.0
