"""One question, some searches and an answer: what all search environments share."""

import copy
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from retrograde.data.message import THOUGHT_CLOSES, THOUGHT_OPENS, ContextPolicy, Message
from retrograde.data.offer import Offer
from retrograde.data.tree import End
from retrograde.environments.plain import PlainEnvironment, PlainEpisode
from retrograde.environments.protocol import Forking, Observation
from retrograde.environments.search.answers import exact_match, f1
from retrograde.environments.search.format import (
    ANSWER_CLOSES,
    ANSWER_OPENS,
    BOX_CLOSES,
    BOX_OPENS,
    FOUND_CLOSES,
    FOUND_OPENS,
    SEARCH_CLOSES,
    SEARCH_OPENS,
    Said,
    boxed,
    is_formatted,
)
from retrograde.environments.search.retriever import Passage, Retriever

Reward = Literal["em", "f1", "at2po"]
KNOWN = "The answer is known."
"""What is thought before an answer."""
MISUNDERSTOOD = (
    f"Not understood. Say {THOUGHT_OPENS} .. {THOUGHT_CLOSES} and then either "
    f"{SEARCH_OPENS} words {SEARCH_CLOSES} or "
    f"{ANSWER_OPENS} {BOX_OPENS}answer{BOX_CLOSES} {ANSWER_CLOSES}."
)
NOTHING = "Nothing was found."
LAST_TURN = "Answer now."
MALFORMED = "call/malformed"


@dataclass(frozen=True)
class SearchEnvironment(PlainEnvironment):
    """What can be chosen in every search environment."""

    forking = Forking.FORK
    offers = frozenset({Offer.GOLD})

    searches: int = 4
    """Searches before the answer. An episode takes one turn more."""
    topk: int = 3
    """Passages that a search finds, at most."""
    reward: Reward = "em"
    """em: 1 for the right answer, else 0. f1: overlap in words with it. at2po: as em if all that
    was said is in the format, and -1 if it is not."""
    answers: Literal["any", "boxed"] = "any"
    """Whether an answer may do without its box. One that may not is wrong without it."""
    context: ContextPolicy = "full"
    """What the policy is shown of the past."""
    max_new_tokens: int = 24
    """Words that a turn may take, thought included; of a pretrained model, half its tokens."""

    def __post_init__(self) -> None:
        for name, least in (("searches", 1), ("topk", 1), ("max_new_tokens", 1)):
            value = getattr(self, name)
            if value < least:
                raise ValueError(f"{name}: got {value}, needed {least} or more")

    @property
    def turn_limit(self) -> int:
        """Every search and the answer."""
        return self.searches + 1

    @property
    def rules(self) -> str:
        """What the policy is told first, with an example."""
        return (
            f"Answer the question. Each turn, think inside {THOUGHT_OPENS} {THOUGHT_CLOSES}. Then "
            f"either search with {SEARCH_OPENS} words {SEARCH_CLOSES}, at most {self.searches} "
            f"times: what is found is shown inside {FOUND_OPENS} {FOUND_CLOSES}. Or end with "
            f"{ANSWER_OPENS} {BOX_OPENS}answer{BOX_CLOSES} {ANSWER_CLOSES}, in few words. For "
            f"example: {THOUGHT_OPENS} I need the capital of Japan. {THOUGHT_CLOSES} "
            f"{SEARCH_OPENS} capital of Japan {SEARCH_CLOSES}"
        )

    def earned(self, *, em: float, overlap: float, formatted: bool) -> float:
        """The reward of an episode that is over."""
        if self.reward == "f1":
            return overlap
        if self.reward == "at2po" and not formatted:
            return -1.0
        return em


class SearchEpisode(PlainEpisode):
    """One attempt at a question. There is no chance in it, so a fork needs no seed."""

    def __init__(
        self,
        task: str,
        question: str,
        golds: Sequence[str],
        environment: SearchEnvironment,
        retriever: Retriever,
    ) -> None:
        """Start at the first turn."""
        self.task = task
        self.question = question
        self.golds = tuple(golds)
        self.environment = environment
        self.retriever = retriever
        self.said: tuple[str, ...] = ()
        """The policy's words, turn by turn."""
        self.shown: tuple[tuple[Passage, ...], ...] = ()
        """What each turn found."""
        self.searched = 0
        self.over = False

    @property
    def score(self) -> float | None:
        """How far the question is answered, before it is; None if that is not known."""
        return None

    def opening(self) -> tuple[Message, ...]:
        """Rules and question."""
        return (
            Message("system", self.environment.rules, lasting=True),
            Message("user", self.question, lasting=True),
        )

    async def act(self, text: str) -> Observation:
        """Search, or answer."""
        if self.over:
            raise RuntimeError(f"the episode of {self.task!r} is over: open the task again")
        said = Said.of(text)
        self.said = (*self.said, text)
        left = self.environment.turn_limit - len(self.said)
        if said.answer is not None:
            return self._ended(said.answer, End.FINISHED)
        malformed = () if said.search else (MALFORMED,)
        if not left:
            return self._ended(None, End.TRUNCATED, malformed)
        found: tuple[Passage, ...] = ()
        if said.search:
            self.searched += 1
            found = await self.retriever.search(said.search, self.environment.topk)
        self.shown = (*self.shown, found)
        heard = information(found) if said.search else MISUNDERSTOOD
        heard = heard if left > 1 else f"{heard}\n{LAST_TURN}"
        return Observation((Message("user", heard),), score=self.score, events=malformed)

    def _ended(self, answer: str | None, end: End, events: tuple[str, ...] = ()) -> Observation:
        self.over = True
        if answer is not None:
            unboxed = answer if self.environment.answers == "any" else None
            answer = boxed(answer) or unboxed
        em, overlap = 0.0, 0.0
        if answer:
            em, overlap = exact_match(answer, self.golds), f1(answer, self.golds)
        formatted = is_formatted(self.said)
        before = self.score
        return Observation(
            (),
            reward=self.environment.earned(em=em, overlap=overlap, formatted=formatted),
            end=end,
            score=None if before is None else 1.0 if em else before,
            events=events,
            measures=(
                ("em", em),
                ("f1", overlap),
                ("format", float(formatted)),
                ("searches", float(self.searched)),
            ),
        )

    def fork(self, seed: int) -> Self:  # noqa: ARG002 - there is no chance to draw
        """An independent copy."""
        return copy.copy(self)

    def state_key(self) -> Hashable:
        """Turns used, how far it is, and what was said, if the reward goes by its format."""
        words = self.said if self.environment.reward == "at2po" else ()
        return self.task, len(self.said), self.score, words


def answered(answer: str, thought: str = KNOWN) -> str:
    """A turn that answers."""
    return (
        f"{THOUGHT_OPENS} {thought} {THOUGHT_CLOSES} "
        f"{ANSWER_OPENS} {BOX_OPENS}{answer}{BOX_CLOSES} {ANSWER_CLOSES}"
    )


def sought(query: str, thought: str) -> str:
    """A turn that searches."""
    return f"{THOUGHT_OPENS} {thought} {THOUGHT_CLOSES} {SEARCH_OPENS} {query} {SEARCH_CLOSES}"


def information(passages: Sequence[Passage]) -> str:
    """What a search found, as the policy reads it."""
    shown = "\n".join(f"({i}) {passage.shown}" for i, passage in enumerate(passages, start=1))
    return f"{FOUND_OPENS} {shown or NOTHING} {FOUND_CLOSES}"
