"""Multi-hop questions over a made-up world, one look-up a turn.

Who is whose friend is drawn anew for each task, so nothing but looking people up, in the
right order, answers a question. There is one turn for each relation and one for the answer:
any wrong turn is fatal, and only a reward at the end says so.
"""

import itertools
import random
import re
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self

from retrograde.data.message import (
    THOUGHT_CLOSES,
    THOUGHT_OPENS,
    ContextPolicy,
    Message,
    spoken,
)
from retrograde.data.offer import Offer
from retrograde.data.seeds import derived
from retrograde.data.tree import End
from retrograde.environments.protocol import Forking, Observation, Split
from retrograde.environments.tasks import numbered_task, parts_of_task

ENTITIES = (
    "Ada", "Ben", "Carl", "Dora", "Emma", "Finn", "Grace", "Hugo", "Iris", "Jack",
    "Kate", "Leo", "Max", "Nina", "Oscar", "Paul", "Rose", "Sam", "Tom", "Vera",
)  # fmt: skip
RELATIONS = ("friend", "boss", "teacher", "doctor", "neighbour", "mentor")
MOST_HOPS = 5
REMEMBERED = 1 << 12
"""Answers and look-ups of which it is kept what they come to: siblings say the same often."""

RULES = (
    "Answer the question by looking people up. Each turn, you may first think inside "
    f"{THOUGHT_OPENS} {THOUGHT_CLOSES}; then say exactly one line. Either "
    "search NAME RELATION, which tells you who that is, for example: search Ada friend. Or "
    "answer NAME, which ends the game. Look up one relation a turn, in the order of the "
    "question. You have one turn for each relation and one for the answer."
)
ASKED = "Who is"
OF = "'s"
FOUND = "Found:"
LEFT = "Left:"
NOTHING = "nothing"
MISUNDERSTOOD = "Not understood. Say search NAME RELATION or answer NAME."
SEARCH = "search"
ANSWER = "answer"

PHRASES = (RULES, MISUNDERSTOOD, ASKED, FOUND, LEFT, OF)
"""Fixed text that only the environment says."""
WORDS = (
    SEARCH, ANSWER, NOTHING, "?", *ENTITIES, *RELATIONS, *map(str, range(MOST_HOPS + 1)),
)  # fmt: skip
"""Every other word that the environment or its teacher says."""

_SEARCH_LINE = re.compile(
    r"[\W_]*search[\W_]+([a-z]+)(?:['\u2019]s)?[\W_]+([a-z]+)[\W_]*", re.IGNORECASE
)
_ANSWER_LINE = re.compile(r"[\W_]*answer[\W_]+([a-z]+)[\W_]*", re.IGNORECASE)
_SPELLING = {entity.lower(): entity for entity in ENTITIES}


class Odds(NamedTuple):
    """How a teacher errs.

    Weights of no mistake, of taking the last relation for the next, of going back to the start
    of the question, and of a wild guess.
    """

    search: tuple[float, float, float, float]
    last_search: tuple[float, float, float, float]
    answer: tuple[float, float, float, float]


FEW_HOPS = 3
"""Up to here a question is easy to get right by chance, so its teacher errs more."""
FEW_HOPS_ODDS = Odds(
    search=(0.6, 0.28, 0.08, 0.04),
    last_search=(0.6, 0.0, 0.36, 0.04),
    answer=(0.6, 0.0, 0.28, 0.12),
)
MANY_HOPS_ODDS = Odds(
    search=(0.7, 0.19, 0.07, 0.04),
    last_search=(0.7, 0.0, 0.26, 0.04),
    answer=(0.7, 0.0, 0.19, 0.11),
)


@dataclass(frozen=True, slots=True)
class Said:
    """What the policy's words ask for; nothing, if they mean nothing."""

    answer: str | None = None
    search: tuple[str, str] | None = None

    @staticmethod
    @lru_cache(REMEMBERED)
    def of(text: str) -> "Said":
        """Read the first line outside thought that is a search or an answer."""
        for line in spoken(text).splitlines():
            if searched := _SEARCH_LINE.fullmatch(line):
                entity, relation = (word.lower() for word in searched.groups())
                if entity in _SPELLING and relation in RELATIONS:
                    return Said(search=(_SPELLING[entity], relation))
            elif answered := _ANSWER_LINE.fullmatch(line):
                entity = answered[1].lower()
                if entity in _SPELLING:
                    return Said(answer=_SPELLING[entity])
        return Said()


@dataclass(frozen=True, slots=True)
class Question:
    """Whom a chain of relations leads to, in a world of its own."""

    world: int
    """Seed of who is whose friend, boss and so on."""
    start: str
    """The person the chain starts from."""
    relations: tuple[str, ...]
    """The chain, in the order of look-ups; no relation comes twice."""

    @classmethod
    def of(cls, task: str, hops: int) -> Self:
        """The question of a task.

        Train and test can share no question about the same people: which of the two a
        question belongs to is a hash of its words and of everyone on its chain.

        Raises:
            ValueError: there is no such task.
        """
        split, index = parts_of_task(task, "hop")
        questions = (
            cls._drawn(derived("hop", hops, split, index, attempt), hops)
            for attempt in itertools.count()
        )
        return next(question for question in questions if question.split == split)

    @classmethod
    def _drawn(cls, world: int, hops: int) -> Self:
        chance = random.Random(world)
        relations = tuple(chance.sample(RELATIONS, hops))
        return cls(world, chance.choice(ENTITIES), relations)

    @property
    def split(self) -> Split:
        """Where the question belongs, whichever task it came from."""
        return "test" if derived(self.text, *self.chain) % 2 else "train"

    @property
    def text(self) -> str:
        """The question in words."""
        return f"{ASKED} {self.start}{''.join(f'{OF} {r}' for r in self.relations)}?"

    @property
    def chain(self) -> tuple[str, ...]:
        """Everyone on the way: the start, whom each look-up finds, and so the answer, last."""
        people = [self.start]
        for relation in self.relations:
            people.append(self.found(people[-1], relation))
        return tuple(people)

    @lru_cache(REMEMBERED)  # noqa: B019 - what it keeps are questions, a few words each
    def found(self, entity: str, relation: str) -> str:
        """Whom a look-up finds; never the person asked about."""
        others = [other for other in ENTITIES if other != entity]
        return others[derived(self.world, entity, relation) % len(others)]


class HopEpisode:
    """One attempt at a question. The world has no chance in it, so a fork needs no seed."""

    def __init__(self, task: str, question: Question) -> None:
        """Start at the first turn."""
        self.task = task
        self.question = question
        self.chain = question.chain
        self.used = 0
        """Turns so far."""
        self.found = 0
        """How many people of the chain have been found, up to the first wrong turn."""
        self.last_found: str | None = None
        """Whom the last look-up found, right or not. Only the teacher goes by it."""
        self.over = False

    @property
    def right(self) -> bool:
        """Whether each turn so far was the right one."""
        return self.found == self.used

    @property
    def score(self) -> float:
        """How far the question is answered: look-ups that were right, and the answer to come."""
        return self.found / (len(self.question.relations) + 1)

    @property
    def left(self) -> tuple[str, ...]:
        """Relations still to look up, going by the turns used."""
        return self.question.relations[self.used :]

    def opening(self) -> tuple[Message, ...]:
        """Rules and question."""
        return (
            Message("system", RULES, lasting=True),
            Message("user", self.question.text, lasting=True),
        )

    async def act(self, text: str) -> Observation:
        """Look someone up, or answer."""
        if self.over:
            raise RuntimeError(f"the episode of {self.task!r} is over: open the task again")
        said = Said.of(text)
        if said.answer is not None:
            self.over = True
            earned = self.right and not self.left and said.answer == self.chain[-1]
            score = 1.0 if earned else self.score
            return Observation((), reward=float(earned), end=End.FINISHED, score=score)
        if not self.left:
            self.over = True
            return Observation((), end=End.TRUNCATED, score=self.score)
        if self.right and said.search == (self.chain[self.used], self.left[0]):
            self.found += 1
        self.used += 1
        if said.search is None:
            heard = MISUNDERSTOOD
        else:
            self.last_found = self.question.found(*said.search)
            heard = f"{FOUND} {self.last_found}"
        told = Message("user", f"{heard}\n{LEFT} {' '.join(self.left) or NOTHING}")
        return Observation((told,), score=self.score)

    def fork(self, seed: int) -> Self:  # noqa: ARG002 - there is no chance to draw
        """An independent copy."""
        twin = object.__new__(type(self))  # `copy.copy` takes several times as long
        vars(twin).update(vars(self))
        return twin

    def state_key(self) -> Hashable:
        """Turns used and people found: if as many, that says who was found last, too.

        If fewer, nothing can be earned any more, and the number is the score that remains.
        """
        return self.task, self.used, self.found

    def demonstrate(self, seed: int) -> str:
        """What a teacher says who knows no more than the policy and errs about every other turn.

        It may take the last relation for the next, go back to the start, or guess.
        """
        chance, left, start = random.Random(seed), self.left, self.question.start
        here = self.last_found or start
        odds = FEW_HOPS_ODDS if len(self.question.relations) <= FEW_HOPS else MANY_HOPS_ODDS
        turn = odds.answer if not left else odds.last_search if len(left) == 1 else odds.search
        mistake = chance.choices(("none", "relation", "start", "guess"), turn)[0]
        entity = {"start": start, "guess": chance.choice(ENTITIES)}.get(mistake, here)
        said = f"{ANSWER} {entity}"
        if left:
            guess = chance.choice(RELATIONS)
            relation = {"relation": left[-1], "guess": guess}.get(mistake, left[0])
            said = f"{SEARCH} {entity} {relation}"
        return f"{THOUGHT_OPENS} {len(left)} {THOUGHT_CLOSES} {said}"

    async def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True)
class Hop:
    """Who is Ada's friend's boss's teacher? One look-up a turn, none to spare."""

    name = "hop"
    forking = Forking.FORK
    success_return = 1.0
    max_new_tokens = 12
    offers = frozenset({Offer.SCORES, Offer.GOLD})
    vocabulary = None

    hops: int = 3
    """Relations in a question, 1 to 5. An episode takes one turn more."""
    context: ContextPolicy = "window"
    """What the policy is shown of the past: full, drop_thinking, window, window(N), markov or
    summarise(FILE.py:NAME)."""

    def __post_init__(self) -> None:
        if not 1 <= self.hops <= MOST_HOPS:
            raise ValueError(f"hops: got {self.hops}, needed 1 to {MOST_HOPS}")

    @property
    def turn_limit(self) -> int:
        """A turn for each relation and one for the answer."""
        return self.hops + 1

    def size(self, split: Split) -> None:
        """Without end."""

    def task(self, split: Split, index: int) -> str:
        """The task with this index, from 0 on."""
        return numbered_task(split, index)

    def gold(self, task: str) -> str:
        """The right answer, said with the thought that its turn is said with."""
        answer = Question.of(task, self.hops).chain[-1]
        return f"{THOUGHT_OPENS} 0 {THOUGHT_CLOSES} {ANSWER} {answer}"

    async def open(self, task: str, seed: int) -> HopEpisode:  # noqa: ARG002 - no chance to draw
        """Start an episode."""
        return HopEpisode(task, Question.of(task, self.hops))
