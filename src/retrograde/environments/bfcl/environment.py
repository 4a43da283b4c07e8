"""The environment `bfcl`."""

from dataclasses import dataclass
from typing import Literal

from retrograde.data.offer import Offer
from retrograde.environments.bfcl.case import (
    CATEGORIES,
    MOST_MESSAGES,
    STORIES,
    Case,
)
from retrograde.environments.bfcl.episode import DONE, BfclEpisode, Terms, answer
from retrograde.environments.bfcl.reading import Form
from retrograde.environments.bfcl.simulation import Simulation
from retrograde.environments.bfcl.verdict import Unanswerable
from retrograde.environments.protocol import Forking, Split
from retrograde.environments.tasks import numbered_task


@dataclass(frozen=True)
class Bfcl:
    """Function calling over several turns: the 800 multi-turn tasks of BFCL v3."""

    name = "bfcl"
    forking = Forking.FORK
    vocabulary = None

    category: Literal["all", "base", "long_context", "miss_func", "miss_param"] = "all"
    """Which tasks; `all` takes the four in turn."""
    calls: Form = "hermes"
    """How calls are written."""
    reward: Literal["final", "progress"] = "final"
    """final: 1 at the end if all was done rightly. progress: for each of the user's messages
    its share of 1, at once, if what was done about it is right."""
    unanswerable: Unanswerable = "no_calls"
    """What is right where the user asks for what cannot be done. no_calls: to call nothing.
    state: to change nothing. free: anything, as BFCL's own score has it."""
    documentation: Literal["full", "short"] = "full"
    """How much is said about each function. short: its first sentence and its signature."""
    listing: Literal["usual", "template", "text"] = "usual"
    """Where the functions are listed: by the model's chat template, or in the text of the system
    message. usual: by the template for hermes calls, which is how templates have it, and in the
    text for pythonic ones."""
    answers: int = 6
    """Answers to one message at most, the one that ends it included. BFCL allows 21."""
    turn_limit: int = 40
    """Answers at most."""
    max_new_tokens: int = 128
    """Tokens an answer may take, for a tokenizer with about one token a word."""
    context: Literal["full", "drop_thinking"] = "full"
    """What the policy is shown of the past."""

    def __post_init__(self) -> None:
        for name in ("answers", "turn_limit", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: at least 1 is needed, got {getattr(self, name)}")

    @property
    def success_return(self) -> float:
        """1, with room for rounding where it is the sum of shares."""
        return 1.0 if self.reward == "final" else 1 - 1 / (2 * MOST_MESSAGES)

    @property
    def offers(self) -> frozenset[Offer]:
        """The score, and with `progress` a reward whenever a message is done with."""
        turns = {Offer.TURN_REWARDS} if self.reward == "progress" else set[Offer]()
        return frozenset({Offer.SCORES, *turns})

    def size(self, split: Split) -> int:  # noqa: ARG002
        """Half the stories, as often as they are told."""
        return STORIES // 2 * (len(CATEGORIES) if self.category == "all" else 1)

    def task(self, split: Split, index: int) -> str:
        """The task with this index, from 0 on."""
        if index >= self.size(split):
            raise ValueError(f"bfcl has {self.size(split)} {split} tasks: no {split}-{index}")
        return numbered_task(split, index)

    def gold(self, task: str) -> str:
        """There is none: what ends an episode rightly depends on all that went before."""
        raise LookupError(f"bfcl has no single answer that ends {task} rightly")

    def case(self, task: str) -> Case:
        """What BFCL has under this task.

        Raises:
            ValueError: there is no such task.
        """
        return Case.of(task, self.category)

    def right_answers(self, task: str) -> list[str]:
        """A whole episode that does all rightly; never shown to a policy.

        Raises:
            ValueError: there is no such task.
        """
        case = self.case(task)
        simulation = Simulation(case)
        answers: list[str] = []
        for request in case.requests:
            if request.truth:
                answers.append(answer(request.truth, simulation, self.calls))
            answers.append(DONE)
        return answers

    async def open(self, task: str, seed: int) -> BfclEpisode:  # noqa: ARG002 - no chance to draw
        """Start an episode."""
        usual = "template" if self.calls == "hermes" else "text"
        listing = usual if self.listing == "usual" else self.listing
        terms = Terms(
            self.calls,
            self.reward,
            self.unanswerable,
            self.documentation,
            listing,
            answers=self.answers,
            turns=self.turn_limit,
        )
        return BfclEpisode(task, self.case(task), terms)
