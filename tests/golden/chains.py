"""Unbranched rollouts, and what an algorithm makes of them."""

import torch

from retrograde.data.batch import ActionTokens
from retrograde.data.rows import rows_of
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn


def rollout(*rewards, end=End.FINISHED, tokens=1):
    """One reward a turn; `tokens` is the length of every action, or one for each."""
    last = len(rewards) - 1
    lengths = tokens if isinstance(tokens, tuple) else (tokens,) * len(rewards)
    return Tree(
        tuple(
            Turn(
                parent=i - 1 if i else ROOT_PARENT,
                shared=0,
                fresh=(9,),
                observation=(9,),
                action=tuple(range(length)),
                logprobs=(-1.0,) * length,
                grown_in=0,
                policy_version=0,
                reward=reward,
                end=end if i == last else None,
            )
            for i, (reward, length) in enumerate(zip(rewards, lengths, strict=True))
        )
    )


def rows(algorithm, *groups):
    """What an update trains on; each group is a tuple of rollouts."""
    grown = [Group("t", trees) for trees in groups]
    found = rows_of(grown, [algorithm.credit(group, 0) for group in grown], algorithm.view)
    return algorithm.normalise(found) if algorithm.normalise else found


def advantages(algorithm, *trees):
    """One for each turn of each rollout that trains."""
    return [row.advantage for row in rows(algorithm, trees)]


def gradient(algorithm, *groups, ratios=None):
    """d loss / d log pi of each token, where the ratios are 1 or as given."""
    tokens = ActionTokens.of(rows(algorithm, *groups))
    moved_T = torch.zeros_like(tokens.advantage) if ratios is None else torch.tensor(ratios).log()
    logp_T = (tokens.behaviour_logp + moved_T).requires_grad_()
    algorithm.loss(logp_T, tokens, algorithm.loss.weights(tokens)).backward()
    return logp_T.grad.tolist()
