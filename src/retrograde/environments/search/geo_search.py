"""Multi-hop questions over real geography, each fact one search away."""

import random
from dataclasses import dataclass
from functools import lru_cache

from retrograde.data.offer import Offer
from retrograde.data.vocabulary import Vocabulary
from retrograde.environments.protocol import Split
from retrograde.environments.search.episode import (
    KNOWN,
    LAST_TURN,
    MISUNDERSTOOD,
    NOTHING,
    SearchEnvironment,
    SearchEpisode,
    answered,
    sought,
)
from retrograde.environments.search.format import (
    ANSWER_CLOSES,
    ANSWER_OPENS,
    BOX_CLOSES,
    BOX_OPENS,
    FOUND_CLOSES,
    FOUND_OPENS,
    SEARCH_CLOSES,
    SEARCH_OPENS,
)
from retrograde.environments.search.questions import (
    COUNTRIES_OF,
    FEWEST_HOPS,
    FIRST,
    MOST_HOPS,
    NEIGHBOURS_OF,
    RELATIONS,
    SECOND,
    THEN,
    USERS_OF,
    WHAT,
    WHICH,
    Question,
    facts,
    questions,
)
from retrograde.environments.search.retriever import Bm25
from retrograde.environments.tasks import parts_of_task

TO_GO = "to look up."
"""What the teacher thinks behind the number of searches to go."""
LEAST_COUNTRIES = 10
PASSAGE_PHRASES = (
    *("is the capital of", "is a country on the continent of", "is a city in", "The currency of"),
    *(NEIGHBOURS_OF, COUNTRIES_OF, USERS_OF, FIRST, SECOND),
)
TAGS = (
    *(SEARCH_OPENS, SEARCH_CLOSES, ANSWER_OPENS, ANSWER_CLOSES),
    *(FOUND_OPENS, FOUND_CLOSES, BOX_OPENS),
)
SIGNS = ("?", ",", ".", "(", ")", "),", ").", BOX_CLOSES, "is", THEN)

RIGHT, EARLY, SKIP, BACK, GUESS = range(5)
"""What a turn of the teacher is: right; an answer too early; the last relation for the next; the
beginning once more; a name out of the blue."""
ODDS = (0.7, 0.08, 0.13, 0.08, 0.01)
ANSWER_ODDS = (0.7, 0.0, 0.0, 0.27, 0.03)


@lru_cache(maxsize=8)
def retriever(countries: int | None) -> Bm25:
    """An index over the passages of a world."""
    return Bm25(facts(countries).passages)


class GeoEpisode(SearchEpisode):
    """One attempt at a question about the world."""

    def __init__(self, task: str, question: Question, environment: "GeoSearch") -> None:
        """Start at the first turn."""
        world = environment.world
        super().__init__(task, question.text, question.golds, environment, retriever(world))
        self.chain = question.facts
        self.facts = facts(world)

    @property
    def score(self) -> float:
        """Facts of the chain that were found, out of all of them and the answer to come."""
        seen = {passage for found in self.shown for passage in found}
        needed = {fact.passage for fact in self.chain}
        return len(needed & seen) / (len(needed) + 1)

    def demonstrate(self, seed: int) -> str:
        """What a teacher says who can search but errs at about every third turn.

        It takes what it finds for what it should have looked up, so that an error leads astray.
        """
        chance, start, here = random.Random(seed), self.chain[0], self._read()
        left = self.chain[len(self.shown) :]
        turn = chance.choices(range(5), ODDS if left else ANSWER_ODDS)[0]
        name = {BACK: start.name, GUESS: chance.choice(tuple(self.facts.world.named))}.get(
            turn, here
        )
        if not left or turn == EARLY:
            return answered(name)
        relation = {SKIP: left[-1].relation, BACK: start.relation}.get(turn, left[0].relation)
        return sought(f"{name} {relation.sought}", f"{len(left)} {TO_GO}")

    def _read(self) -> str:
        """Where the chain has led, if what was found is what should have been looked up."""
        here = self.chain[0].name
        for step, found in zip(self.chain, self.shown, strict=False):
            fact = self.facts.known.get((step.relation, here))
            if fact is not None and fact.passage in found:
                here = fact.value
            elif found:
                here = next((name for name in self.facts.names[found[0]] if name != here), here)
        return here


@dataclass(frozen=True)
class GeoSearch(SearchEnvironment):
    """What is the currency of the most populous neighbour of Peru? Found by searching."""

    name = "geo_search"
    offers = frozenset({Offer.SCORES, Offer.GOLD})

    hops: int | None = None
    """Facts between a question and its answer, 2 to 4; None for all three, in turn."""
    countries: int = 40
    """The world is its so many most populous countries, at least 10; 0 for all, which is for
    pretrained models: their names are too many for the embedded policy to learn in minutes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hops is not None and not FEWEST_HOPS <= self.hops <= MOST_HOPS:
            raise ValueError(f"hops: got {self.hops}, needed {FEWEST_HOPS} to {MOST_HOPS} or None")
        if self.countries and self.countries < LEAST_COUNTRIES:
            raise ValueError(
                f"countries: got {self.countries}, needed {LEAST_COUNTRIES} or more, or 0 for all"
            )

    @property
    def world(self) -> int | None:
        """How many countries there are; None for all."""
        return self.countries or None

    @property
    def vocabulary(self) -> Vocabulary | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Everything that rules, questions, passages and the teacher say."""
        known = facts(self.world)
        names = {name for pair in known.names.values() for name in pair}
        for country in known.world.countries:
            names |= {country.name, country.currency_name}
        single = {name for name in names if name.isalnum()}
        numbers = (f"({i})" for i in range(1, self.topk + 1))
        return Vocabulary(
            phrases=(
                *(self.rules, MISUNDERSTOOD, LAST_TURN, NOTHING, KNOWN, TO_GO, WHAT, WHICH),
                *(*(relation.asked for relation in RELATIONS), *PASSAGE_PHRASES, *TAGS, *numbers),
                *(relation.sought for relation in RELATIONS if " " in relation.sought),
                *sorted(names - single),
            ),
            words=(
                *SIGNS,
                *(relation.sought for relation in RELATIONS if " " not in relation.sought),
                *map(str, range(MOST_HOPS + 1)),
                *sorted(single),
            ),
        )

    def size(self, split: Split) -> int:
        """As many tasks as there are questions."""
        return len(questions(self.world, self.hops, split))

    def question(self, task: str) -> Question:
        """What a task asks.

        Raises:
            ValueError: there is no such task.
        """
        split, index = parts_of_task(task, self.name)
        asked = questions(self.world, self.hops, "test" if split == "test" else "train")
        if int(index) >= len(asked):
            raise ValueError(f"{self.name} has {len(asked)} {split} tasks: no {task}")
        return asked[int(index)]

    def gold(self, task: str) -> str:
        """The right answer, with what the teacher thinks before an answer."""
        return answered(self.question(task).golds[0])

    async def open(self, task: str, seed: int) -> GeoEpisode:  # noqa: ARG002 - no chance to draw
        """Start an episode."""
        return GeoEpisode(task, self.question(task), self)
