"""A policy that says what it is told to: for tests, and for replaying records."""

from collections.abc import Callable, Sequence

from retrograde.policies.protocol import Answer, Ids, Sampling


class ScriptedPolicy:
    """Answers each context by a function; every token has the same log-probability."""

    def __init__(self, script: Callable[[Ids, int], Ids], logp: float = -1.0) -> None:
        """Bind a script.

        Args:
            script: from a context and a seed, the same for no two answers, to the answer's ids.
            logp: what it claims each token's log-probability is, in nats.
        """
        self.version = 0
        self._script = script
        self._logp = logp

    async def sample(self, contexts: Sequence[Ids], sampling: Sampling, seed: int) -> list[Answer]:
        """Play the script for each context, cut to `max_new_tokens`."""
        answers: list[Answer] = []
        for i, context in enumerate(contexts):
            ids = self._script(context, seed + i)
            cut = ids[: sampling.max_new_tokens]
            answers.append(Answer(cut, (self._logp,) * len(cut), len(cut) == len(ids)))
        return answers

    async def score(self, contexts: Sequence[Ids], actions: Sequence[Ids]) -> list[list[float]]:
        """The claimed log-probability of each token."""
        del contexts
        return [[self._logp] * len(action) for action in actions]
