"""Questions over a chain of facts, with the passage that holds each of them.

A question begins at a name and follows relations; what the last one leads to is the answer.
Every relation is a function of the world, so every question has one answer; it is never a name
that the question holds, no country comes twice on the way, and no step on it can be skipped.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from retrograde.data.seeds import derived
from retrograde.environments.protocol import Split
from retrograde.environments.search.geography import ALIASES, LISTED, Country, World, folded, world
from retrograde.environments.search.retriever import Passage

FEWEST_HOPS, MOST_HOPS = 2, 4
TEST_SHARE = 5
"""One question in so many is a test question; which, is a hash of its words."""
NEIGHBOURS_OF, COUNTRIES_OF = "Of all neighbours of", "Of all countries of"
USERS_OF = "Of all countries with the currency"
FIRST, SECOND, THEN = "the most populous is", "the second most populous is", "then"


@dataclass(frozen=True, slots=True)
class Relation:
    """What leads from one name to another."""

    asked: str
    """How a question says it, in front of the name."""
    sought: str
    """What a search for it adds to the name."""


CAPITAL_OF = Relation("the country whose capital is", "capital")
CITY_IN = Relation("the country with the city of", "city")
ONLY_USER = Relation("the only country whose currency is", "currency")
FIRST_USER = Relation("the most populous country whose currency is", "most populous country")
FIRST_ON = Relation("the most populous country in", "most populous country")
SECOND_ON = Relation("the second most populous country in", "second most populous country")
FIRST_NEIGHBOUR = Relation("the most populous neighbour of", "most populous neighbour")
SECOND_NEIGHBOUR = Relation(
    "the second most populous neighbour of", "second most populous neighbour"
)
CAPITAL = Relation("the capital of", "capital")
CURRENCY = Relation("the currency of", "currency")
CONTINENT = Relation("the continent of", "continent")

MOVES = (FIRST_NEIGHBOUR, SECOND_NEIGHBOUR)
"""From a country to a country."""
LAST = (CAPITAL, CURRENCY, CONTINENT)
"""From a country to what no question goes on from."""
RELATIONS = (
    CAPITAL_OF, CITY_IN, ONLY_USER, FIRST_USER, FIRST_ON, SECOND_ON, *MOVES, *LAST,
)  # fmt: skip
WHAT, WHICH = "What is", "Which country is"


@dataclass(frozen=True, slots=True)
class Fact:
    """One step: a relation of a name, what it leads to, and where that is written."""

    relation: Relation
    name: str
    value: str
    passage: Passage


@dataclass(frozen=True, slots=True)
class Question:
    """A chain of facts, asked for its end."""

    facts: tuple[Fact, ...]
    golds: tuple[str, ...]
    """The right answer, then others that are as right."""

    @property
    def text(self) -> str:
        """The question in words."""
        ends_in_country = self.facts[-1].relation not in LAST
        asked = " ".join(fact.relation.asked for fact in reversed(self.facts))
        return f"{WHICH if ends_in_country else WHAT} {asked} {self.facts[0].name}?"

    @property
    def split(self) -> Split:
        """Where the question belongs, whichever world it is asked in."""
        return "train" if derived("geo_search", self.text) % TEST_SHARE else "test"


class Facts:
    """All facts of a world, and the passages that hold them."""

    def __init__(self, of: World) -> None:
        """Write them down."""
        self.world = of
        self.known: dict[tuple[Relation, str], Fact] = {}
        self.names: dict[Passage, tuple[str, ...]] = {}
        """Whom or what a passage is about, and what it says of it."""
        passages: list[Passage] = []
        for country in of.countries:
            passages += self._of_country(country)
        for continent, countries in of.continents.items():
            passages.append(self._of_continent(continent, countries))
        for currency, countries in of.currencies.items():
            if of.everywhere[currency] > 1:
                passages.append(self._of_currency(currency, countries))
        self.passages = tuple(passages)

    def _add(self, relation: Relation, name: str, value: str, passage: Passage) -> None:
        self.known[relation, name] = Fact(relation, name, value, passage)
        self.names.setdefault(passage, (name, value))

    def _of_country(self, country: Country) -> Iterator[Passage]:
        name, capital, currency = country.name, country.capital, country.currency
        passage = Passage(f"{capital} is the capital of {name}.")
        if capital in self.world.capitals:
            self._add(CAPITAL_OF, capital, name, passage)
        self._add(CAPITAL, name, capital, passage)
        yield passage
        passage = Passage(f"The currency of {name} is {currency} ({country.currency_name}).")
        if self.world.everywhere[currency] == 1:
            self._add(ONLY_USER, currency, name, passage)
        self._add(CURRENCY, name, currency, passage)
        yield passage
        text = f"{name} is a country on the continent of {country.continent}."
        passage = Passage(text, keys=f"continent of {name}")
        self._add(CONTINENT, name, country.continent, passage)
        yield passage
        for city in country.cities:
            passage = Passage(f"{city} is a city in {name}.")
            self._add(CITY_IN, city, name, passage)
            yield passage
        if country.neighbours:
            text = f"{NEIGHBOURS_OF} {name}, {_ranked(country.neighbours)}."
            passage = Passage(text, keys=f"neighbour of {name}")
            for relation, neighbour in zip(MOVES, country.neighbours, strict=False):
                self._add(relation, name, neighbour, passage)
            yield passage

    def _of_continent(self, continent: str, countries: tuple[Country, ...]) -> Passage:
        names = [country.name for country in countries]
        text = f"{COUNTRIES_OF} {continent}, {_ranked(names)}."
        passage = Passage(text, keys=f"country in {continent}")
        for relation, name in zip((FIRST_ON, SECOND_ON), names, strict=False):
            self._add(relation, continent, name, passage)
        return passage

    def _of_currency(self, currency: str, countries: tuple[Country, ...]) -> Passage:
        names = [country.name for country in countries]
        called = f"{currency} ({countries[0].currency_name})"
        passage = Passage(
            f"{USERS_OF} {called}, {_ranked(names)}.",
            keys=f"country with the currency {currency}",
        )
        self._add(FIRST_USER, currency, names[0], passage)
        return passage

    def questions(self, hops: int) -> Iterator[Question]:
        """Every question of so many hops, once."""
        for relation, name in self.known:
            if relation not in LAST:
                yield from self._beginning((self.known[relation, name],), hops)

    def _beginning(self, facts: tuple[Fact, ...], hops: int) -> Iterator[Question]:
        here = facts[-1].value
        if len(facts) == hops:
            question = Question(facts, self.golds(facts[-1]))
            if not _holds(question.text, question.golds) and not self._can_be_cut(facts):
                yield question
            return
        been = {fact.name for fact in facts} | {fact.value for fact in facts}
        following = MOVES if len(facts) < hops - 1 else (*MOVES, *LAST)
        for relation in following:
            fact = self.known.get((relation, here))
            if fact is not None and fact.value not in been:
                yield from self._beginning((*facts, fact), hops)

    def _can_be_cut(self, facts: tuple[Fact, ...]) -> bool:
        """Whether the last relation leads to the same thing from a country on the way as well.

        The continent of a neighbour is most often one's own: whoever asks for that skips a step.
        """
        *before, last = facts
        on_the_way = (self.known.get((last.relation, fact.name)) for fact in before)
        return any(fact is not None and fact.value == last.value for fact in on_the_way)

    def golds(self, fact: Fact) -> tuple[str, ...]:
        """What a fact leads to, and what else it is called."""
        value = fact.value
        others = [*ALIASES.get(value, ()), folded(value)]
        if fact.relation is CURRENCY:
            name = self.world.named[fact.name].currency_name
            others += [name, f"{name} ({value})", f"{value} ({name})"]
        return (value, *dict.fromkeys(other for other in others if other != value.lower()))


def _ranked(names: Sequence[str]) -> str:
    """The first of some names that are in order."""
    parts = [f"{FIRST} {names[0]}"]
    parts += [f"{SECOND} {name}" for name in names[1:2]]
    parts += [f"{THEN} {name}" for name in names[2:LISTED]]
    return ", ".join(parts)


def _holds(text: str, golds: tuple[str, ...]) -> bool:
    """Whether a question says its own answer."""
    words = f" {text.rstrip('?')} "
    return any(f" {gold} " in words for gold in golds)


@lru_cache(maxsize=8)
def facts(countries: int | None) -> Facts:
    """The facts of the world, or of its most populous countries."""
    return Facts(world(countries))


@lru_cache(maxsize=16)
def questions(countries: int | None, hops: int | None, split: Split) -> tuple[Question, ...]:
    """All questions of a split, in an order that is the same everywhere.

    Args:
        countries: how many countries the world has; None for all.
        hops: relations in a question; None for all numbers in turn, each as often.
        split: train or test; no question is in both.
    """
    each = range(FEWEST_HOPS, MOST_HOPS + 1) if hops is None else (hops,)
    sorts = [_shuffled(countries, number, split) for number in each]
    return tuple(question for those in zip(*sorts, strict=False) for question in those)


@lru_cache(maxsize=16)
def _shuffled(countries: int | None, hops: int, split: Split) -> tuple[Question, ...]:
    found: Mapping[str, Question] = {
        question.text: question
        for question in facts(countries).questions(hops)
        if question.split == split
    }
    return tuple(found[text] for text in sorted(found, key=lambda text: derived("order", text)))
