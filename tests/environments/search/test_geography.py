"""Facts of the real world, looked up by hand, and the questions made of them."""

import itertools

import pytest

from retrograde.environments.search.answers import normalised
from retrograde.environments.search.geography import world
from retrograde.environments.search.questions import (
    CAPITAL,
    CAPITAL_OF,
    CITY_IN,
    CONTINENT,
    CURRENCY,
    FIRST_NEIGHBOUR,
    FIRST_ON,
    FIRST_USER,
    LAST,
    ONLY_USER,
    SECOND_NEIGHBOUR,
    SECOND_ON,
    Question,
    facts,
    questions,
)
from retrograde.environments.search.retriever import Bm25


@pytest.mark.parametrize(
    ("relation", "name", "value"),
    [
        (CAPITAL_OF, "Paris", "France"),
        (CAPITAL, "France", "Paris"),
        (CURRENCY, "France", "EUR"),
        (CONTINENT, "France", "Europe"),
        (FIRST_NEIGHBOUR, "France", "Germany"),  # 83 million; Italy 60, Spain 47
        (SECOND_NEIGHBOUR, "France", "Italy"),
        (CITY_IN, "Lyon", "France"),
        (CAPITAL_OF, "Bern", "Switzerland"),
        (CURRENCY, "Switzerland", "CHF"),
        (CAPITAL, "Australia", "Canberra"),
        (CURRENCY, "Japan", "JPY"),
        (ONLY_USER, "JPY", "Japan"),
        (FIRST_USER, "EUR", "Germany"),
        (FIRST_USER, "USD", "United States"),
        (FIRST_ON, "Africa", "Nigeria"),
        (SECOND_ON, "Africa", "Ethiopia"),
        (FIRST_ON, "South America", "Brazil"),
        (SECOND_ON, "Asia", "India"),
        (FIRST_NEIGHBOUR, "Nepal", "China"),
        (SECOND_NEIGHBOUR, "Nepal", "India"),
        (FIRST_NEIGHBOUR, "Portugal", "Spain"),
        (FIRST_NEIGHBOUR, "Peru", "Brazil"),
        (CAPITAL, "Kenya", "Nairobi"),
        (CITY_IN, "Mombasa", "Kenya"),
    ],
)
def test_a_fact_of_the_real_world(relation, name, value):
    assert facts(None).known[relation, name].value == value


@pytest.mark.parametrize(
    ("relation", "name"),
    [
        (FIRST_NEIGHBOUR, "Japan"),  # an island
        (SECOND_NEIGHBOUR, "Portugal"),  # has one neighbour
        (CITY_IN, "Valencia"),  # in Spain, and in Venezuela
        (CITY_IN, "Birmingham"),  # in the United Kingdom, and in the United States
        (CITY_IN, "Paris"),  # a capital
        (CAPITAL_OF, "Kingston"),  # of Jamaica, and of Norfolk Island
        (ONLY_USER, "EUR"),
        (FIRST_USER, "JPY"),  # asked for as the only one
    ],
)
def test_what_is_not_one_thing_is_not_asked_for(relation, name):
    assert (relation, name) not in facts(None).known


def test_a_question_worked_by_hand():
    known = facts(None).known
    chain = (known[CAPITAL_OF, "Bern"], known[FIRST_NEIGHBOUR, "Switzerland"])
    asked = Question(
        (*chain, known[CURRENCY, "Germany"]), facts(None).golds(known[CURRENCY, "Germany"])
    )
    assert asked.text == (
        "What is the currency of the most populous neighbour of the country whose capital is Bern?"
    )
    assert asked.golds == ("EUR", "Euro", "Euro (EUR)", "EUR (Euro)")
    assert Question(chain, ()).text == (
        "Which country is the most populous neighbour of the country whose capital is Bern?"
    )
    # Switzerland itself pays in CHF, so nothing can be skipped. From Paris it could: EUR as well.
    found = {q.text: q for split in ("train", "test") for q in questions(None, 3, split)}
    assert found[asked.text].golds == asked.golds
    assert asked.text.replace("Bern", "Paris") not in found


def test_other_names_are_as_right():
    known, golds = facts(None).known, facts(None).golds
    assert "USA" in golds(known[FIRST_USER, "USD"])
    assert "Bogota" in (golds(known[CAPITAL, "Colombia"]))
    assert golds(known[CONTINENT, "France"]) == ("Europe",)


@pytest.mark.parametrize("countries", [None, 40])
def test_a_small_world_says_nothing_that_is_not_so_in_the_whole(countries):
    whole, small = facts(None).known, facts(countries).known
    assert all(whole[key].value == fact.value for key, fact in small.items())
    assert len(world(40).countries) == 40
    assert world(40).countries[0].name == "China"


@pytest.mark.parametrize("hops", [2, 3, 4])
def test_there_are_thousands_of_questions_and_each_is_asked_once(hops):
    train, test = questions(None, hops, "train"), questions(None, hops, "test")
    texts = [question.text for question in (*train, *test)]
    assert len(set(texts)) == len(texts) > 3500
    assert not {q.text for q in train} & {q.text for q in test}
    assert 0.15 < len(test) / len(texts) < 0.25
    assert all(len(question.facts) == hops for question in (*train, *test))


def test_the_splits_of_a_small_world_agree_with_those_of_the_whole():
    small = {q.text for q in questions(40, 3, "test")}
    assert small & {q.text for q in questions(None, 3, "test")}
    assert not small & {q.text for q in questions(None, 3, "train")}


def test_a_chain_hangs_together_and_never_says_its_answer():
    for hops in (2, 3, 4):
        for question in questions(40, hops, "train"):
            for fact, following in itertools.pairwise(question.facts):
                assert following.name == fact.value
                assert fact.relation not in LAST
            assert question.golds[0] == question.facts[-1].value
            countries = [question.facts[0].name, *(fact.value for fact in question.facts)]
            assert len(set(countries)) == len(countries)
            words = f" {normalised(question.text)} "
            assert not any(f" {normalised(gold)} " in words for gold in question.golds)


def test_mixed_questions_take_each_number_of_hops_in_turn():
    lengths = [len(question.facts) for question in questions(40, None, "train")]
    assert lengths[:6] == [2, 3, 4, 2, 3, 4]
    assert lengths.count(2) == lengths.count(3) == lengths.count(4)


async def test_a_search_finds_the_passage_of_each_fact():
    known = facts(None)
    index = Bm25(known.passages)
    found: dict[str, list[bool]] = {"words": [], "as asked": []}
    for (relation, name), fact in known.known.items():
        words = await index.search(f"{name} {relation.sought}", 3)
        found["words"].append(fact.passage in words)
        found["as asked"].append(fact.passage in await index.search(f"{relation.asked} {name}", 3))
    recall = {how: sum(hits) / len(hits) for how, hits in found.items()}
    assert min(recall.values()) > 0.995, recall


async def test_what_shares_no_word_is_not_found():
    index = Bm25(facts(40).passages)
    assert await index.search("qwertz", 3) == ()
    assert await index.search("", 3) == ()
    (first,) = await index.search("BOGOTÁ capital", 1)
    assert first.text == "Bogota is the capital of Colombia."
    with pytest.raises(ValueError, match="passages: at least one"):
        Bm25(())
