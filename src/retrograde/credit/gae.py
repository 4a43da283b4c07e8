"""Credit by a critic: generalized advantage estimates along a rollout."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from retrograde.data.evidence import NO_EVIDENCE, Evidence
from retrograde.data.rows import Advantage, Judgement
from retrograde.data.tree import End, Group, Tree
from retrograde.ops.returns import gae


@dataclass(frozen=True, slots=True)
class GAE:
    """Advantages of tokens or turns from a critic's values; return = advantage + value.

    A turn's reward comes with its last token. Estimates go back across observations as if they
    were not there, so an outcome reaches the first turn. A failed rollout does not train.

    Source:
        arXiv:1506.02438, equation 16; across observations as verl's compute_gae_advantage_return.
    Differs from the source:
        A truncated rollout ends with a value of 0, as a finished one does, which is verl's way.
    """

    gamma: float = 1.0
    """Discount of each state, 0 to 1."""
    lam: float = 1.0
    """How far estimates look ahead, 0 to 1."""
    turns: bool = False
    """States are turns, not tokens: the tokens of a turn share one advantage."""

    def __post_init__(self) -> None:
        for name in ("gamma", "lam"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: between 0 and 1 is needed, got {getattr(self, name)}")

    def __call__(
        self, group: Group, grown_in: int, evidence: Evidence = NO_EVIDENCE
    ) -> Sequence[Judgement]:
        """One judgement for each tree, which must not branch.

        Raises:
            ValueError: a tree branches, or a turn has not one value for each of its states.
        """
        del grown_in
        return [self._judged(t, tree, evidence) for t, tree in enumerate(group.trees)]

    def _judged(self, t: int, tree: Tree, evidence: Evidence) -> Judgement:
        if len(tree.leaves) > 1:
            raise ValueError(
                f"a critic judges rollouts that do not branch; tree {t} has {len(tree.leaves)} "
                f"leaves: let the plan be Chains"
            )
        path = [turn for _, turn in tree.visits]
        if not path or tree.turns[path[-1]].end is End.FAILED:
            return Judgement((0.0,) * len(path), (False,) * len(path))
        values = [self._values(evidence, t, tree, turn) for turn in path]
        earned = [
            (0.0,) * (len(said) - 1) + (tree.turns[turn].reward,)
            for turn, said in zip(path, values, strict=True)
        ]
        value_S = torch.tensor([v for said in values for v in said], dtype=torch.float64)
        reward_S = torch.tensor([r for each in earned for r in each], dtype=torch.float64)
        advantage_S = gae(reward_S, value_S, self.gamma, self.lam)
        sizes = [len(said) for said in values]
        advantages = _split(advantage_S, sizes)
        worth: list[Advantage] = [each[0] if self.turns else each for each in advantages]
        targets = tuple(_split(advantage_S + value_S, sizes))
        every = (True,) * len(path)
        return Judgement(tuple(worth), every, target_V=targets, value_V=tuple(values))

    def _values(self, evidence: Evidence, t: int, tree: Tree, turn: int) -> tuple[float, ...]:
        said = evidence.values.get((t, turn), ())
        needed = 1 if self.turns else len(tree.turns[turn].action)
        if len(said) != needed:
            raise ValueError(
                f"turn {turn} of tree {t} needs {needed} values of a critic, got {len(said)}"
            )
        return said


def _split(value_S: Tensor, sizes: list[int]) -> list[tuple[float, ...]]:
    every = (float(value) for value in value_S)
    return [tuple(next(every) for _ in range(size)) for size in sizes]
