"""The geography environment: worked by hand, then the teacher and the limits."""

import pytest

from retrograde.backends.embedded import embedded_tokenizer
from retrograde.data.tree import End
from retrograde.environments.protocol import Forking
from retrograde.environments.search.episode import (
    LAST_TURN,
    MALFORMED,
    MISUNDERSTOOD,
    NOTHING,
    answered,
    sought,
)
from retrograde.environments.search.format import Said
from retrograde.environments.search.geo_search import GeoEpisode, GeoSearch
from retrograde.environments.search.questions import (
    CAPITAL_OF,
    CURRENCY,
    FIRST_NEIGHBOUR,
    Question,
    facts,
)

CHAIN = ((CAPITAL_OF, "Paris"), (FIRST_NEIGHBOUR, "France"), (CURRENCY, "Germany"))
RIGHT = tuple(
    f"<think> {i} </think> <search> {query} </search>"
    for i, query in enumerate(
        ("Paris capital", "France most populous neighbour", "Germany currency")
    )
)
EURO = answered("Euro")


def paris(**options) -> GeoEpisode:
    """The currency of the most populous neighbour of the country whose capital is Paris."""
    known = facts(None)
    chain = tuple(known.known[step] for step in CHAIN)
    return GeoEpisode(
        "train-0", Question(chain, known.golds(chain[-1])), GeoSearch(countries=0, **options)
    )


async def play(episode, *texts):
    return [await episode.act(text) for text in texts]


def searches(environment, task):
    """The right search for each fact, and the right answer."""
    chain = environment.question(task).facts
    looked = [sought(f"{fact.name} {fact.relation.sought}", "so") for fact in chain]
    return [*looked, environment.gold(task)]


async def test_a_question_worked_by_hand():
    episode = paris(topk=1)
    rules, question = episode.opening()
    assert (rules.role, rules.lasting, question.role, question.lasting) == (
        "system", True, "user", True,
    )  # fmt: skip
    assert "at most 4 times" in rules.content
    said = await play(episode, *RIGHT, EURO)
    assert [o.messages[0].content for o in said[:-1]] == [
        "<information> (1) Paris is the capital of France. </information>",
        (
            "<information> (1) Of all neighbours of France, the most populous is Germany, the "
            "second most populous is Italy, then Spain. </information>"
        ),
        "<information> (1) The currency of Germany is EUR (Euro). </information>",
    ]
    # Three facts and the answer: each is worth a quarter.
    assert [o.score for o in said] == [0.25, 0.5, 0.75, 1.0]
    assert [(o.reward, o.end) for o in said] == [(0, None)] * 3 + [(1.0, End.FINISHED)]
    assert dict(said[-1].measures) == {"em": 1.0, "f1": 1.0, "format": 1.0, "searches": 3.0}
    with pytest.raises(RuntimeError, match=r"train-0.*over"):
        await episode.act(EURO)


@pytest.mark.parametrize(
    ("answer", "em", "f1"),
    [
        (r"<answer> \boxed{EUR} </answer>", 1.0, 1.0),
        (r"<answer> The currency is the \boxed{Euro}. </answer>", 1.0, 1.0),
        ("<answer> the euro! </answer>", 1.0, 1.0),
        # {euro, coin} against {euro}: 2 * 1 / (2 + 1).
        (r"<answer> \boxed{Euro coin} </answer>", 0.0, 2 / 3),
        (r"<answer> \boxed{CHF} </answer>", 0.0, 0.0),
    ],
)
async def test_answers_are_compared_as_squad_does(answer, em, f1):
    (said,) = await play(paris(), answer)
    measures = dict(said.measures)
    assert (said.reward, measures["em"], measures["f1"]) == (em, em, pytest.approx(f1))
    assert (said.score == 1.0) == (em == 1.0)
    (said,) = await play(paris(reward="f1"), answer)
    assert said.reward == pytest.approx(f1)


@pytest.mark.parametrize(
    ("turns", "reward"),
    [
        pytest.param((*RIGHT, EURO), 1.0, id="right"),
        pytest.param((EURO,), 1.0, id="right at once"),
        pytest.param((*RIGHT, answered("CHF")), 0.0, id="wrong, but in the format"),
        pytest.param((*RIGHT, "<think> x </think> <answer> Euro </answer>"), -1.0, id="no box"),
        pytest.param((r"<answer> \boxed{Euro} </answer>",), -1.0, id="no thought"),
        pytest.param(("<think> so", EURO), -1.0, id="a thought left open before"),
        pytest.param((*RIGHT, RIGHT[0], RIGHT[0]), -1.0, id="no answer"),
        pytest.param(("Euro",) * 5, -1.0, id="nothing but words"),
    ],
)
async def test_at2po_rewards_the_format(turns, reward):
    said = await play(paris(reward="at2po"), *turns)
    assert said[-1].reward == reward
    assert not any(o.reward for o in said[:-1])
    assert dict(said[-1].measures)["format"] == float(reward >= 0)


async def test_a_box_can_be_asked_for():
    plain = "<think> x </think> <answer> Euro </answer>"
    for answers, reward in (("any", 1.0), ("boxed", 0.0)):
        (said,) = await play(paris(answers=answers), plain)
        assert (said.reward, said.end) == (reward, End.FINISHED)
    (said,) = await play(paris(answers="boxed"), EURO)
    assert said.reward == 1.0


@pytest.mark.parametrize("text", ["", "Euro", "<search> Paris", "<think> <search> a </search>"])
async def test_words_that_mean_nothing_are_answered_with_the_rules_and_counted(text):
    (said,) = await play(paris(), text)
    assert said.messages[0].content == MISUNDERSTOOD
    assert (said.events, said.end, said.reward) == ((MALFORMED,), None, 0.0)
    (said,) = await play(paris(), RIGHT[0])
    assert said.events == ()


async def test_what_is_not_there_is_not_found():
    (said,) = await play(paris(), "<search> qwertz </search>")
    assert said.messages[0].content == f"<information> {NOTHING} </information>"


async def test_the_last_turn_is_announced_and_then_the_episode_is_cut_off():
    said = await play(paris(searches=2), RIGHT[0], RIGHT[1], RIGHT[2])
    assert not said[0].messages[0].content.endswith(LAST_TURN)
    assert said[1].messages[0].content.endswith(LAST_TURN)
    assert (said[2].end, said[2].reward, said[2].score) == (End.TRUNCATED, 0.0, 0.5)
    said = await play(paris(searches=1), RIGHT[0], "hm")
    assert (said[1].end, said[1].events) == (End.TRUNCATED, (MALFORMED,))


async def test_the_right_searches_and_answers_succeed_on_200_test_tasks():
    environment = GeoSearch(countries=0)
    for i in range(200):
        task = environment.task("test", i)
        *looked, gold = searches(environment, task)
        said = await play(await environment.open(task, 0), *looked, gold)
        assert (said[-1].reward, said[-1].score, said[-1].end) == (1.0, 1.0, End.FINISHED)
        # A wrong answer fails, whatever was found; here, the name the question begins at.
        wrong = answered(environment.question(task).facts[0].name)
        said = await play(await environment.open(task, 0), *looked, wrong)
        assert said[-1].reward == 0.0
        assert said[-1].score < 1.0


async def test_a_fork_has_the_same_past_and_leaves_its_original_alone():
    episode = paris()
    await episode.act(RIGHT[0])
    twin = episode.fork(3)
    assert twin.state_key() == episode.state_key()
    await twin.act("nonsense")
    assert twin.state_key() != episode.state_key()
    said = await play(episode, *RIGHT[1:], EURO)
    assert said[-1].score == 1.0
    assert len(twin.said) == 2
    assert not twin.over


async def test_states_are_told_apart_by_words_only_where_the_reward_reads_them():
    for reward, equal in (("em", True), ("at2po", False)):
        one, other = paris(reward=reward), paris(reward=reward)
        await one.act("hm")
        await other.act("<think> hm")
        assert (one.state_key() == other.state_key()) is equal


async def test_the_teacher_errs_but_is_always_well_formed_and_known_to_the_tokenizer():
    environment, wins = GeoSearch(countries=20), 0.0
    tokenizer = embedded_tokenizer(environment.vocabulary)
    for i in range(300):
        episode = await environment.open(environment.task("train", i), 0)
        end, turn = None, 0
        while end is None:
            text = episode.demonstrate(1000 * i + turn)
            assert text == episode.demonstrate(1000 * i + turn)
            said = await episode.act(text)
            heard = "".join(message.content for message in said.messages)
            assert tokenizer.unk_token_id not in tokenizer.encode(text + heard)
            assert Said.of(tokenizer.decode(tokenizer.encode(text))) == Said.of(text) or said.end
            assert MALFORMED not in said.events
            end, turn = said.end, turn + 1
            wins += said.reward
        assert turn <= environment.turn_limit
    assert 30 < wins < 200


def test_limits():
    environment = GeoSearch()
    assert (environment.turn_limit, environment.forking) == (5, Forking.FORK)
    assert environment.size("train") > 1_000
    assert GeoSearch(countries=0).size("train") > 10_000
    with pytest.raises(ValueError, match=r"geo_search has .* test tasks: no test-999999"):
        environment.task("test", 999_999)
    with pytest.raises(ValueError, match="no test-999999"):
        environment.gold("test-999999")
    for options, problem in (
        ({"hops": 5}, "hops: got 5, needed 2 to 4 or None"),
        ({"countries": -3}, "countries: got -3, needed 10 or more, or 0 for all"),
        ({"searches": 0}, "searches: got 0, needed 1 or more"),
        ({"topk": 0}, "topk: got 0"),
    ):
        with pytest.raises(ValueError, match=problem):
            GeoSearch(**options)
