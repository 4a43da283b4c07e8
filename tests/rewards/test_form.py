"""How answers look."""

import pytest

from retrograde.rewards.form import Format, InvalidAction, Length, Overlong

from .records import record

GOOD = "<think> a > b </think>\n<answer>Ada</answer>"


@pytest.mark.parametrize(
    ("answer", "fits"),
    [
        (GOOD, True),
        (f"  {GOOD}\n", True),
        ("<answer>Ada</answer><think></think>", False),
        ("<think></think>", False),
        (f"Well. {GOOD}", False),
        ("<think><answer>Ben</answer></think><answer>Ada</answer>", False),
        ("<think> a <think> b </think></think><answer>Ada</answer>", False),
        ("", False),
    ],
)
def test_tags_once_each_in_order_and_nothing_else(answer, fits):
    assert Format()(record(answer)) == float(fits)


def test_the_share_of_the_answers_counts():
    assert Format(tags="answer")(record("<answer>1</answer>", "2", "3", "4")) == 0.25
    assert Format(pattern=r"go (north|south).*")(record("go north\nplease", "go up")) == 0.5


def test_a_form_that_is_none_is_refused():
    with pytest.raises(ValueError, match="'\\(' is no regular expression"):
        Format(pattern="(")
    with pytest.raises(ValueError, match="a pattern or tags are needed"):
        Format(tags="")


@pytest.mark.parametrize(
    ("tokens", "worth"),
    [([5], 1.0), ([4, 6], 1.0), ([10, 5], 0.5), ([20], 0.0), ([99], 0.0)],
)
def test_length_falls_from_the_target_to_twice_as_much(tokens, worth):
    assert Length(target=10)(record(*"ab"[: len(tokens)], tokens=tokens)) == worth


def test_length_falls_as_far_as_is_said():
    # From 10 to 14: at 11 three quarters are left.
    assert Length(target=10, most=14)(record("a", tokens=[11])) == 0.75
    with pytest.raises(ValueError, match="more than target=10 is needed, got 10"):
        Length(target=10, most=10)
    with pytest.raises(ValueError, match="target: at least 1"):
        Length(target=0)


@pytest.mark.parametrize(
    ("tokens", "much"),
    # DAPO's equation 13 with L_max 100 and L_cache 20: 0 up to 80, then (tokens - 80) / 20, and 1
    # from 100 on; there with a minus in front.
    [(10, 0.0), (80, 0.0), (81, 0.05), (90, 0.5), (100, 1.0), (150, 1.0)],
)
def test_overlong(tokens, much):
    assert Overlong()(record("a", tokens=[tokens])) == pytest.approx(much)
    assert Overlong(limit=50, buffer=10)(record("a", tokens=[tokens // 2])) == pytest.approx(
        Overlong(limit=100, buffer=20)(record("a", tokens=[2 * (tokens // 2)]))
    )


def test_overlong_looks_at_the_last_answer_alone():
    assert Overlong()(record("a", "b", tokens=[100, 90])) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="buffer: at most limit=10, got 20"):
        Overlong(limit=10, buffer=20)
    with pytest.raises(ValueError, match="limit: at least 1"):
        Overlong(limit=0)


def test_invalid_actions_are_counted_by_their_events():
    events = [("call/malformed",), ("call/unknown", "invalid_move", "found")]
    assert InvalidAction()(record("a", "b", events=events)) == 2.0
    assert InvalidAction()(record("a", events=[("found",)])) == 0.0
    assert InvalidAction(events="found, lost")(record("a", "b", events=events)) == 1.0
