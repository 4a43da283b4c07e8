"""The shop: rewards worked by hand, pages, gold paths, forks, and a server with WebShop's pages."""

import random
import socket
from dataclasses import replace
from statistics import fmean

import pytest

from retrograde.data.tree import End
from retrograde.environments.shop.catalogue import FOUND, NOUNS, Product, catalogue_of
from retrograde.environments.shop.goal import Fit, Goal, kind_fit, token_set_ratio
from retrograde.environments.shop.shop import (
    MALFORMED,
    NO_BUTTON,
    NO_SEARCH_BAR,
    RULES,
    Shop,
)

from .storefront import serving, session_of

pytest.importorskip("bm25s")
SMALL = Shop(products=200)


def product(title, **other):
    usual = {
        "asin": "B00000TEST",
        "query": "hoodie",
        "category": "clothing \u203a tops \u203a hoodie",
        "attributes": ("long sleeve", "slim fit"),
        "options": {"size": ("small", "large"), "color": ("red", "blue")},
        "price": 24.99,
        "description": "A hoodie.",
        "bullets": ("Good for winter.",),
        "reviews": (),
        "rating": 4.0,
    }
    return Product(title=title, **(usual | other))


HOODIE = product("Acorn cotton hoodie for home and gym, gift")
LONG = product(
    "Acorn cotton hoodie for home and gym and office and travel, gift pack set kit bundle"
)
GOAL = Goal(HOODIE, ("long sleeve",), {"size": "large", "color": "red"}, 30.0)
OTHER = {"query": "speaker", "category": "electronics \u203a audio \u203a speaker"}
RIGHT = {"size": "large", "color": "red"}


def test_nouns_are_what_the_levels_below_count():
    assert {"acorn", "cotton", "hoodie", "home", "gym", "gift"} <= NOUNS
    assert not {"for", "and", "long", "sleeve", "red"} & NOUNS


@pytest.mark.parametrize(
    ("wanted", "bought", "kind"),
    [
        # Same query. One noun of six in common (hoodie).
        (HOODIE, product("Kestrel wool hoodie"), 1.0),
        # Other query and category; 2 of 6 nouns, a third, is more than a fifth.
        (HOODIE, product("Acorn speaker for home", **OTHER), 1.0),
        # 1 of 6 is between a tenth and a fifth: half.
        (HOODIE, product("Kestrel speaker for home", **OTHER), 0.5),
        # Acorn to bundle, 12 nouns: 1 of 12 is below a tenth, even for the same query.
        (
            LONG,
            product("Kestrel wool gift"),
            0.1,
        ),
        # Nothing in common at all, though it is called a hoodie.
        (HOODIE, product("Kestrel wool sweater"), 0.0),
        # Two levels of the category in common; 1 of 6 nouns.
        (
            HOODIE,
            product("Kestrel shirt home", query="shirt", category="clothing \u203a tops \u203a x"),
            1.0,
        ),
    ],
)  # fmt: skip
def test_four_levels_of_kind(wanted, bought, kind):
    assert kind_fit(wanted, bought) == kind


@pytest.mark.parametrize(
    ("bought", "chosen", "reward"),
    [
        # 1 attribute, 2 options and the price of 1 + 2 + 1, of the right kind.
        (HOODIE, RIGHT, 1.0),
        (HOODIE, {"size": "small", "color": "red"}, 3 / 4),
        (HOODIE, {"size": "large"}, 3 / 4),
        (HOODIE, {}, 2 / 4),
        (replace(HOODIE, price=30.01), RIGHT, 3 / 4),
        (replace(HOODIE, price=30.0), RIGHT, 1.0),
        (replace(HOODIE, attributes=("slim fit",)), RIGHT, 3 / 4),
        # Not among the attributes, but the features say it.
        (replace(HOODIE, attributes=(), bullets=("With a Long Sleeve.",)), RIGHT, 1.0),
        # Half, a tenth and nothing of what all fits.
        (product("Kestrel speaker for home", **OTHER), RIGHT, 1 / 2),
        (product("Kestrel wool sweater"), RIGHT, 0.0),
        # More options than were asked for count no more than those: 1 + 2 + 1 of 4.
        (replace(HOODIE, bullets=("mint",)), RIGHT | {"scent": "mint"}, 1.0),
    ],
)
def test_rewards_worked_by_hand(bought, chosen, reward):
    assert Fit.of(GOAL, bought, chosen).reward == pytest.approx(reward)


def test_a_tenth_of_what_fits():
    goal = replace(GOAL, product=LONG)
    bought = product("Kestrel wool gift")
    assert Fit.of(goal, bought, {"size": "large"}).reward == pytest.approx(0.1 * 3 / 4)


def test_words_in_another_order_are_alike():
    assert token_set_ratio("long sleeve", "sleeve, LONG") == 100
    assert token_set_ratio("long sleeve", "long sleeve cotton") == 100  # one holds the other
    assert token_set_ratio("long sleeve", "short sleeve") < 85
    assert token_set_ratio("colour", "color") > 85  # 2 * 5 / 11 letters: 91
    assert token_set_ratio("", "a") == 0


def test_the_catalogue_is_the_same_every_time_and_searched_in_order_of_fit():
    catalogue = catalogue_of(200)
    catalogue_of.cache_clear()
    assert catalogue_of(200).products == catalogue.products
    assert len(catalogue.by_asin) == 200
    found = catalogue.found(catalogue.products[7].title)
    assert found[0] == catalogue.products[7]
    assert len(found) == FOUND
    assert len({p.asin for p in catalogue.found("hoodie")[:5]}) == 5
    assert all(p.query == "hoodie" for p in catalogue.found("hoodie")[:3])
    assert catalogue.found("xyzzy") == ()


async def opened(task="train-0", environment=SMALL):
    return await environment.open(task, 0)


async def test_an_errand_page_by_page():
    episode = await opened()
    goal = episode.goal
    rules, instruction, first = episode.opening()
    assert (rules.content, rules.lasting, instruction.lasting) == (RULES, True, True)
    assert goal.instruction in instruction.content
    assert first.content == "Search for products.\nYou can say: search[keywords]"
    said = await episode.act(f"search[{goal.product.title}]")
    page = said.messages[0].content
    assert page.startswith("[Back to Search] [Next >]\nPage 1 (Total results: 50)\n[B0")
    said = await episode.act("click[next >]")
    assert "[< Prev] [Next >]\nPage 2" in said.messages[0].content
    await episode.act("Click[< prev]")
    said = await episode.act(f"click[{goal.product.asin.lower()}]")
    assert f"Price: ${goal.product.price:.2f}" in said.messages[0].content
    value = next(iter(goal.options.values()))
    said = await episode.act(f"click[{value}]")
    assert f"You have chosen {value}." in said.messages[0].content
    said = await episode.act("click[Features]")
    assert goal.product.bullets[0] in said.messages[0].content
    said = await episode.act("click[< Prev]")
    assert f"You have chosen {value}." in said.messages[0].content
    said = await episode.act("click[Back to Search]")
    assert said.messages[0].content == first.content
    assert episode.place.chosen == ()
    assert said.reward == 0.0


@pytest.mark.parametrize(
    ("text", "complaint", "event"),
    [
        ("", MALFORMED, "action/malformed"),
        ("search", MALFORMED, "action/malformed"),
        ("search[]", MALFORMED, "action/malformed"),
        ("<think>search[hoodie]</think>", MALFORMED, "action/malformed"),
        ("buy[hoodie]", MALFORMED, "action/malformed"),
        ("click[Buy Now]", NO_BUTTON, "action/invalid"),
        ("click[]]", NO_BUTTON, "action/invalid"),
    ],
)
async def test_text_that_means_nothing_is_answered(text, complaint, event):
    episode = await opened()
    said = await episode.act(text)
    assert said.messages[0].content.startswith(complaint)
    assert (said.events, said.reward, said.end) == ((event,), 0.0, None)
    assert episode.used == 1


async def test_where_there_is_no_search_bar_nothing_is_searched():
    episode = await opened()
    await episode.act("search[hoodie]")
    said = await episode.act("search[speaker]")
    assert said.messages[0].content.startswith(NO_SEARCH_BAR)
    assert said.events == ("action/invalid",)
    assert episode.place.keywords == "hoodie"


async def test_what_is_told_to_be_possible_is():
    chance = random.Random(0)
    for number in range(10):
        episode = await opened(f"train-{number}")
        said = await episode.act(f"search[{episode.goal.product.query}]")
        while said.end is None:
            listed = said.messages[0].content.splitlines()[-1].removeprefix("You can say: ")
            text = chance.choice(listed.split(", "))
            said = await episode.act("search[red]" if text.startswith("search") else text)
            assert said.events == ()
    plain = await opened(environment=Shop(products=200, admissible=False))
    assert "You can say" not in plain.opening()[2].content


async def test_an_errand_that_takes_too_long_is_cut_off():
    episode = await opened(environment=Shop(products=200, turns=4))
    said = [await episode.act("nonsense") for _ in range(4)]
    assert [o.end for o in said] == [None] * 3 + [End.TRUNCATED]
    assert said[-1].measures == (("task_score", 0.0),)
    with pytest.raises(RuntimeError, match=r"train-0.*over"):
        await episode.act("search[x]")


async def test_the_gold_path_earns_1_on_200_tasks():
    environment = Shop()
    for number in range(200):
        task = environment.task("test", number)
        episode = await environment.open(task, 0)
        said = [await episode.act(text) for text in environment.path(task)]
        assert (said[-1].reward, said[-1].end) == (1.0, End.FINISHED)
        assert len(said) <= environment.turn_limit
        assert not any(o.events for o in said)
    last = said[-1]
    assert dict(last.measures) == {"task_score": 1.0, "r_type": 1.0}


async def test_without_its_options_the_gold_path_earns_less():
    task = SMALL.task("test", 0)
    episode = await opened(task)
    wanted = {f"click[{value}]" for value in episode.goal.options.values()}
    for text in SMALL.path(task):
        if text not in wanted:
            said = await episode.act(text)
    assert said.reward == pytest.approx(
        (len(episode.goal.attributes) + 1) / (len(episode.goal.attributes) + 3)
    )


async def test_forks_are_independent_and_states_compare():
    episode = await opened()
    await episode.act("search[hoodie]")
    twin, key = episode.fork(1), episode.state_key()
    assert twin.state_key() == key
    assert await twin.act("click[Next >]") == await episode.fork(2).act("click[Next >]")
    assert episode.state_key() == key != twin.state_key()


def test_products_that_are_asked_for_in_tests_are_not_asked_for_in_training():
    asked = {
        split: {SMALL.goal(f"{split}-{i}").product.asin for i in range(300)}
        for split in ("train", "test")
    }
    assert not asked["train"] & asked["test"]
    assert SMALL.goal("train-5") == SMALL.goal("train-5") != SMALL.goal("train-6")


def test_prices_that_are_asked_for_are_kept():
    for number in range(200):
        goal = SMALL.goal(f"train-{number}")
        assert goal.product.price < goal.price_upper <= goal.product.price + 40
        assert goal.price_upper % 10 == 0


async def test_the_teacher_buys_the_right_thing_at_times():
    rewards = []
    for number in range(150):
        episode, said, turn = await opened(f"train-{number}"), None, 0
        while said is None or said.end is None:
            said = await episode.act(episode.demonstrate(100 * number + turn))
            assert said.events == ()
            turn += 1
        rewards.append(said.reward)
    assert 0.25 < fmean(reward == 1 for reward in rewards) < 0.85


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"products": 99}, "products: got 99, needed 100 to 10000"),
        ({"turns": 3}, "turns: got 3, needed 4 to 50"),
        ({"seconds": 0.0}, "seconds: got 0.0"),
        ({"server": "http://x", "goals": 1500}, "goals: got 1500, needed more than 1500"),
    ],
)
def test_bad_options_are_refused(options, problem):
    with pytest.raises(ValueError, match=problem):
        Shop(**options)


@pytest.fixture(scope="module")
def server():
    goals = [SMALL.goal(f"test-{i}") for i in range(3)]
    with serving(catalogue_of(200), goals) as address:
        yield address


async def test_an_errand_on_a_server(server):
    environment = Shop(server=server)
    assert [environment.size(split) for split in ("train", "test")] == [12_087 - 1500, 500]
    for number in range(3):
        goal = SMALL.goal(f"test-{number}")
        episode = await environment.open(f"test-{number}", 0)
        _, instruction, first = episode.opening()
        assert instruction.content == f"Instruction: {goal.instruction}"
        assert first.content == "WebShop\n[Search]\nYou can say: search[keywords]"
        said = [await episode.act(text) for text in SMALL.path(f"test-{number}")]
        assert (said[-1].reward, said[-1].end) == (1.0, End.FINISHED)
        results = said[0].messages[0].content
        assert f"[{goal.product.asin}]\n{goal.product.title}\n" in results
        assert "B0UNSEEN" not in results
        assert "var unseen" not in results
        assert (
            f"You have chosen {next(iter(goal.options.values()))}." in said[2].messages[0].content
        )
        await episode.close()


async def test_a_servers_pages_lead_where_the_shops_own_do(server):
    served = await Shop(server=server).open("test-1", 0)
    own = await SMALL.open("test-1", 0)
    chance = random.Random(1)
    query, name = own.goal.product.query, own.goal.product.asin
    texts = [f"search[{query}]", "click[Next >]", "click[< Prev]", "search[x]", "nonsense"]
    for text in (*texts, "click[Back to Search]", f"search[{own.goal.product.title}]"):
        assert (await served.act(text)).events == (await own.act(text)).events
    for text in (f"click[{name}]", "click[Description]", "click[< Prev]"):
        assert (await served.act(text)).events == (await own.act(text)).events == ()
    labels = {button.lower() for button, _ in own.place.buttons(own.catalogue)}
    assert served.page.links.keys() == labels
    text = f"click[{chance.choice(sorted(labels - {'back to search', '< prev'}))}]"
    assert (await served.act(text)).reward == (await own.act(text)).reward


async def test_forks_on_a_server_share_a_session_and_nothing_else(server):
    episode = await Shop(server=server).open("test-0", 0)
    await episode.act("search[hoodie]")
    key, twin = episode.state_key(), episode.fork(1)
    assert twin.state_key() == key
    await twin.act("click[Next >]")
    assert episode.state_key() == key != twin.state_key()
    other = await Shop(server=server).open("test-0", 1)
    await other.act("search[hoodie]")
    assert other.state_key() == key
    assert session_of(other.page.url) != session_of(episode.page.url)
    assert session_of(twin.page.url) == session_of(episode.page.url)


async def test_a_server_that_fails_or_hangs_costs_one_rollout(server):
    with pytest.raises(RuntimeError, match=r"the WebShop server at .*500"):
        await Shop(server=server).open("train-0", 0)  # goal 1500 of 3
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RuntimeError, match="Timeout"):
            await Shop(server=address, seconds=0.2).open("test-0", 0)
    with pytest.raises(RuntimeError, match="Connect"):
        await Shop(server=address, seconds=2.0).open("test-0", 0)
