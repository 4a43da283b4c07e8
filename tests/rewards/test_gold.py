"""Being right, as SQuAD has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograde.environments.search import answers
from retrograde.rewards.gold import F1, ExactMatch, said

from .records import record


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("The Eiffel Tower!", "eiffel tower"),
        ("an  apple, a pear", "apple pear"),
        ("theatre", "theatre"),  # an article inside a word is none
        ("U.S.A.", "usa"),
        ("Théâtre de l'Odéon", "théâtre de lodéon"),
        ("The", ""),
    ],
)
def test_normalisation(text, plain):
    assert answers.normalised(text) == plain


@pytest.mark.parametrize(
    ("text", "gold", "f1"),
    [
        # 2 words in common of 2 and 3: P = 1, R = 2/3, F1 = 2 * 2 / (2 + 3) = 0.8
        ("eiffel tower", "the eiffel tower paris", 0.8),
        # "b" is said once and wanted twice: 2 in common of 2 and 3
        ("b c", "b b c", 2 * 2 / 5),
        # said twice and wanted once: 1 in common of 2 and 1
        ("b b", "b", 2 * 1 / 3),
        ("nothing alike", "something", 0.0),
        ("", "something", 0.0),
        ("the", "a", 1.0),  # neither says a word
    ],
)
def test_f1(text, gold, f1):
    assert answers.f1(text, [gold]) == pytest.approx(f1)


@given(st.text(), st.text())
def test_f1_lies_between_and_agrees_with_exact_match(text, gold):
    value = answers.f1(text, [gold])
    assert 0 <= value <= 1
    assert value == pytest.approx(answers.f1(gold, [text]))
    if answers.exact_match(text, [gold]):
        assert value == 1.0


def test_what_counts_of_an_answer_is_its_answer():
    assert said("<think> Ben? </think> The answer is Ada") == "The answer is Ada"
    tagged = "<think> <answer>Ben</answer> </think> <answer>Carl</answer> or <answer> Ada </answer>"
    assert said(tagged) == "Ada"


def test_the_last_answer_is_compared_with_the_gold_answer():
    gold = "<think> 0 </think> answer Ada"
    assert ExactMatch()(record("search Ada", "<think> hm </think> Answer: Ada.", gold=gold)) == 1.0
    assert ExactMatch()(record("answer Ada", "answer Ben", gold=gold)) == 0.0
    assert F1()(record("answer Ben", gold=gold)) == 0.5


def test_or_with_a_column_that_may_hold_several():
    columns = {"answers": ["New York City", "NYC"], "year": 1898}
    assert ExactMatch(column="answers")(record("nyc", **columns)) == 1.0
    assert ExactMatch(column="year")(record("1898", **columns)) == 1.0
    # "new york" against "new york city": 2 in common of 2 and 3.
    assert F1(column="answers")(record("New York", **columns)) == pytest.approx(0.8)


def test_without_a_right_answer_there_is_no_reward_at_all():
    with pytest.raises(LookupError, match=r"no gold answer .* known: year"):
        ExactMatch()(record("Ada", year=1898))
    with pytest.raises(LookupError, match="no column 'answers'; known: year"):
        F1(column="answers")(record("Ada", year=1898))
