"""What is sampled: a task of several samples on shared contexts, for whoever samples.

Only the standard library is imported here, so that every engine can play it in a Python of its own.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Ids = list[int]
Sample = Callable[[Sequence[Ids], int], list[Ids]]
"""Answers of so many tokens to each context, once; equal contexts are told apart by place."""


@dataclass(frozen=True)
class Work:
    """Answers to contexts, and answers to what the contexts become."""

    name: str
    contexts: int
    siblings: int
    """Answers to each context, in the first turn; each goes on by itself."""
    context_tokens: int
    new_tokens: int
    turns: int = 1
    observation_tokens: int = 0
    """Added behind an answer, before the next turn."""

    @property
    def tokens(self) -> int:
        """How many are sampled."""
        return self.contexts * self.siblings * self.turns * self.new_tokens

    def done(self, sample: Sample, vocabulary: int) -> int:
        """Play it once; how many tokens were sampled.

        Raises:
            ValueError: an answer is shorter or longer than was asked for.
        """
        chance = random.Random(0)

        def words(number: int) -> Ids:
            return [chance.randrange(vocabulary) for _ in range(number)]

        opened = [words(self.context_tokens) for _ in range(self.contexts)]
        contexts = [context for context in opened for _ in range(self.siblings)]
        sampled = 0
        for _ in range(self.turns):
            answers = sample(contexts, self.new_tokens)
            for answer in answers:
                if len(answer) != self.new_tokens:
                    raise ValueError(
                        f"{self.name}: an answer of {len(answer)} tokens, and {self.new_tokens} "
                        "were asked for"
                    )
            sampled += sum(map(len, answers))
            contexts = [
                context + list(answer) + words(self.observation_tokens)
                for context, answer in zip(contexts, answers, strict=True)
            ]
        return sampled


SIBLINGS = Work("4 contexts x 8 siblings", 4, 8, 256, 32)
EPISODES = Work("8 episodes of 6 turns", 8, 1, 256, 32, turns=6, observation_tokens=32)
WORKS = {work.name: work for work in (SIBLINGS, EPISODES)}


def work_of(job: dict[str, Any]) -> Work:
    """From plain data."""
    return Work(**job)
