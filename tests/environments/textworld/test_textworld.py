"""The environment `textworld`: generated games."""

import asyncio
import random
import subprocess

import pytest

from retrograde.data.offer import Offer
from retrograde.data.tree import End
from retrograde.environments.extras import MissingExtraError
from retrograde.environments.textworld import environment as environments
from retrograde.environments.textworld import game
from retrograde.environments.textworld.environment import TextWorld
from retrograde.environments.textworld.episode import IMPOSSIBLE, _cleaned


@pytest.fixture(scope="module", autouse=True)
def kept(tmp_path_factory):
    """Games made for these tests are made once, and not kept."""
    with pytest.MonkeyPatch.context() as patch:
        place = tmp_path_factory.mktemp("games")
        patch.setenv("XDG_CACHE_HOME", str(place))
        yield place


def treasure(**options):
    return TextWorld(kind="treasure", level=1, **options)


async def won(environment, task):
    """A game played by its teacher's best: what was said, the last observation, the return."""
    episode = await environment.open(task, 0)
    said, total, seen = [], 0.0, None
    while seen is None or seen.end is None:
        said.append(episode._state["policy_commands"][0])
        seen = await episode.act(said[-1])
        total += seen.reward
    await episode.close()
    return said, seen, total


async def test_the_way_is_the_way():
    for reward in ("win", "score"):
        said, seen, total = await won(treasure(reward=reward), "test-0")
        assert said[-1].startswith("take ")
        assert (seen.end, seen.score, total) == (End.FINISHED, 1.0, 1.0)
        assert seen.messages == ()


async def test_what_can_be_done_is_shown_and_nothing_else_happens():
    episode = await treasure().open("test-0", 0)
    system, here = episode.opening()
    assert system.lasting
    assert "Only the commands that are listed" in system.content
    assert here.content.endswith(f"\nCommands: {', '.join(episode.commands)}")
    assert "look" in episode.commands
    before = episode.state_key()
    for text in ("fly to the moon", "", "look. look", "save", "restart", "quit", "take", "\x00"):
        seen = await episode.act(text)
        assert seen.events == ("action/impossible",)
        assert seen.messages[0].content.startswith(IMPOSSIBLE)
    assert episode.state_key()[2:] == before[2:]
    await episode.close()


@pytest.mark.parametrize(
    "text",
    [
        "look",
        "LOOK.",
        "> look",
        "**look**",
        "I look around.\nlook",
        "<think>go</think> look",
        "`look`",
    ],
)
async def test_the_first_line_that_is_a_command_is_said(text):
    episode = await treasure().open("test-0", 0)
    seen = await episode.act(text)
    assert seen.events == ()
    assert seen.messages[0].content.startswith("-= ")
    await episode.close()


async def test_without_a_list_the_wording_is_told():
    episode = await treasure(admissible=False).open("test-0", 0)
    system, here = episode.opening()
    assert "Commands are worded like this: " in system.content
    assert "take ... from ..." in system.content
    assert "Commands:" not in here.content
    await episode.close()


async def test_the_turn_limit_ends_a_game():
    episode = await treasure(turn_limit=2).open("test-0", 0)
    assert (await episode.act("look")).end is None
    seen = await episode.act("look")
    assert (seen.end, seen.reward, seen.score) == (End.TRUNCATED, 0.0, 0.0)
    with pytest.raises(RuntimeError, match="is over"):
        await episode.act("look")
    await episode.close()


async def test_games_played_at_once_are_games_played_one_by_one():
    chance = random.Random(3)
    said = [
        [chance.choice(("look", "inventory", "go east", "go south", "x")) for _ in range(6)]
        for _ in range(4)
    ]

    async def told(words):
        episode = await treasure().open("test-0", 0)
        seen = [(episode.opening(), episode.state_key())]
        for word in words:
            observation = await episode.act(word)
            seen.append((observation, episode.state_key()))
        await episode.close()
        return seen

    alone = [await told(words) for words in said]
    assert await asyncio.gather(*map(told, said)) == alone
    assert alone[0] != alone[1]


async def test_the_teacher_finds_the_way_though_it_errs():
    episode = await treasure().open("test-0", 0)
    words = {episode.demonstrate(seed) for seed in range(30)}
    assert episode._state["policy_commands"][0] in words
    assert len(words) > 1
    await episode.close()


async def test_a_game_is_made_once(kept, monkeypatch):
    await (await treasure().open("test-0", 0)).close()
    made = sorted(path.name for path in kept.rglob("treasure-1-test-0.*"))
    assert made == ["treasure-1-test-0.json", "treasure-1-test-0.z8"]
    monkeypatch.setattr(game, "_make", None)
    await (await treasure().open("test-0", 1)).close()


async def test_a_game_that_cannot_be_made_says_why(monkeypatch):
    monkeypatch.setattr(game, "GENERATION", "retrograde.nothing")
    with pytest.raises(RuntimeError, match=r"was not made: .*retrograde\.nothing"):
        await treasure().open("train-7", 0)


async def test_a_failed_generation_leaves_nothing(kept, monkeypatch):
    monkeypatch.setattr(
        subprocess, "run", lambda *a, **k: subprocess.CompletedProcess(a, 0, "", "")
    )
    with pytest.raises(RuntimeError, match="was not made"):
        await treasure().open("train-8", 0)
    assert not list(kept.rglob("*train-8*"))


def test_status_line_and_gaps_are_cleaned_away():
    said = "\nTaken.\n\n\n\n\n>" + " " * 40 + "-= Kitchen =-0/11"
    assert _cleaned(said) == "Taken."
    assert _cleaned("a > b\n\n \n\nc") == "a > b\n\nc"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"level": 6}, "level: got 6, cooking has 1 to 5"),
        ({"kind": "house", "level": 0}, "level: got 0, house has 1 to 3"),
        ({"games": 0}, "games: at least 1 is needed, got 0"),
    ],
)
def test_options_are_checked(options, said):
    with pytest.raises(ValueError, match=said):
        TextWorld(**options)


def test_without_the_package_the_command_is_named(monkeypatch):
    def missing(module, name):
        raise MissingExtraError(f"{module} pip install 'retrograde[{name}]'")

    monkeypatch.setattr(environments, "extra", missing)
    with pytest.raises(MissingExtraError, match=r"retrograde\[textworld\]"):
        TextWorld()


async def test_tasks_and_offers():
    environment = TextWorld(games=3)
    assert [environment.task("train", i) for i in range(3)] == ["train-0", "train-1", "train-2"]
    with pytest.raises(ValueError, match="textworld has 3 train tasks: no train-3"):
        environment.task("train", 3)
    with pytest.raises(ValueError, match="textworld has 3 test tasks: no test-3"):
        await environment.open("test-3", 0)
    with pytest.raises(ValueError, match="textworld has no task 'x'"):
        await environment.open("x", 0)
    with pytest.raises(LookupError, match="no single answer"):
        environment.gold("test-0")
    assert environment.offers == {Offer.SCORES}
    assert TextWorld(reward="score").offers == {Offer.SCORES, Offer.TURN_REWARDS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "level"),
    [
        ("cooking", 1),
        ("cooking", 2),
        ("cooking", 3),
        ("treasure", 4),
        ("coin", 3),
        ("house", 1),
        ("house", 3),
    ],
)
async def test_every_kind_is_won_by_its_way(kind, level):
    environment = TextWorld(kind=kind, level=level, reward="score")
    for split in ("train", "test"):
        said, seen, total = await won(environment, f"{split}-0")
        assert (seen.end, seen.score) == (End.FINISHED, 1.0)
        assert total >= environment.success_return
        assert len(said) <= environment.turn_limit


@pytest.mark.slow
async def test_a_meal_that_is_spoiled_is_lost():
    environment = TextWorld(kind="cooking", level=1)
    said, _, _ = await won(environment, "test-0")
    assert said[0].startswith("take ")
    episode = await environment.open("test-0", 0)
    await episode.act(said[0])
    eaten = said[0].removeprefix("take ").partition(" from ")[0]
    seen = await episode.act(f"eat {eaten}")
    assert (seen.end, seen.reward, seen.score) == (End.FINISHED, 0.0, pytest.approx(1 / 3))
    await episode.close()


@pytest.mark.slow
async def test_a_game_is_the_same_wherever_it_is_made(kept, tmp_path, monkeypatch):
    first = game.game_file("cooking", 1, "train", 0).with_suffix(".json").read_text()
    for seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / seed))
        again = game.game_file("cooking", 1, "train", 0)
        assert again.with_suffix(".json").read_text() == first
