"""Objects whose methods are tools, as TRL's environment classes are."""

import random

import pytest
from tests.environments.tools.worlds import call, said, texts

from retrograde.data.tree import End
from retrograde.environments.protocol import Forking
from retrograde.environments.tools.environment import ToolEnvironment
from retrograde.rollouts.line import Line, ReplayDivergedError

ROWS = [{"prompt": f"Guess up to {n}.", "most": n} for n in range(5, 25)]


class Guessing:
    """Written for TRL: `reset` with the columns, methods as tools, `get_reward`."""

    def __init__(self) -> None:
        self.tries = 0
        self.solved = False

    @property
    def costly(self) -> str:
        raise AssertionError("properties are not looked at")

    def reset(self, most: int, **kwargs) -> str:
        self.secret = most // 2
        return f" It is a number below {most}."

    def guess(self, number: int) -> str:
        """Guess the number.

        Args:
            number: what it might be.
        """
        self.tries += 1
        self.solved = number == self.secret
        return "right" if self.solved else "higher" if number < self.secret else "lower"

    def _hidden(self) -> None:
        """Not a tool."""

    def get_reward(self) -> float:
        return float(self.solved) / max(1, self.tries)


class Dice:
    """Has chance in it, and says how it is copied."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rolled: list[int] = []
        self.closed = False

    def roll(self) -> int:
        """Roll the dice."""
        self.rolled.append(self.chance.randrange(1_000_000))
        return self.rolled[-1]

    def fork(self, seed: int) -> "Dice":
        twin = Dice(seed)
        twin.rolled = list(self.rolled)
        return twin

    def get_reward(self) -> float:
        return float(len(self.rolled))

    def close(self) -> None:
        self.closed = True


def guessing(**options) -> ToolEnvironment:
    return ToolEnvironment(**({"tasks": ROWS, "toolbox": Guessing} | options))


async def test_a_class_written_for_trl_runs_as_it_is():
    environment = guessing()
    most = environment.row("train-0").columns["most"]
    episode = await environment.open("train-0", 0)
    assert episode.opening()[-1].content == f"Guess up to {most}. It is a number below {most}."
    assert list(episode.kit.tools) == ["guess"]
    low = await episode.act(call("guess", number=0))
    right = await episode.act(call("guess", number=most // 2))
    last = await episode.act("done")
    await episode.close()
    assert [*texts(low), *texts(right)] == ["higher", "right"]
    assert (last.end, last.reward) == (End.FINISHED, 0.5)


async def test_each_episode_has_an_object_of_its_own():
    environment = guessing()
    one, other = await environment.open("train-0", 0), await environment.open("train-0", 0)
    await one.act(call("guess", number=0))
    assert (one.record.toolbox.tries, other.record.toolbox.tries) == (1, 0)


def test_how_it_forks_is_found_out_from_what_it_is():
    assert guessing().forking is Forking.NONE
    assert guessing(deterministic=True).forking is Forking.FORK

    class Uncopyable(Guessing):
        def __init__(self) -> None:
            super().__init__()
            self.generator = (i for i in range(3))

    assert guessing(toolbox=Uncopyable, deterministic=True).forking is Forking.REPLAY
    assert guessing(toolbox=Dice).forking is Forking.FORK


async def test_a_copy_goes_on_by_itself():
    episode = await guessing(deterministic=True).open("train-0", 0)
    await episode.act(call("guess", number=0))
    twin = episode.fork(1)
    await twin.act(call("guess", number=1))
    assert (episode.record.toolbox.tries, twin.record.toolbox.tries) == (1, 2)
    assert (len(episode.record.calls), len(twin.record.calls)) == (1, 2)
    assert twin.record.toolbox is twin.kit.toolbox is not episode.kit.toolbox


async def test_chance_is_drawn_from_the_seed_and_a_forks_from_its_own():
    environment = guessing(toolbox=Dice)
    (one,), (same,), (other,) = [
        await said(environment, call("roll"), seed=seed) for seed in (1, 1, 2)
    ]
    assert texts(one) == texts(same) != texts(other)
    episode = await environment.open("train-0", 1)
    twins = [episode.fork(seed) for seed in (5, 5, 6)]
    first, second, third = [texts(await twin.act(call("roll"))) for twin in twins]
    assert first == second != third


async def test_a_toolbox_is_closed_with_its_episode():
    episode = await guessing(toolbox=Dice).open("train-0", 0)
    assert "close" not in episode.kit.tools
    await episode.close()
    assert episode.kit.toolbox.closed


async def test_chance_that_is_called_deterministic_is_found_out():
    class Lying:
        def __init__(self) -> None:
            self.generator = (i for i in range(3))  # cannot be copied, so it is replayed

        def roll(self) -> float:
            """Roll the dice."""
            return random.random()

        def get_reward(self) -> float:
            return 0.0

    environment = guessing(toolbox=Lying, deterministic=True)
    assert environment.forking is Forking.REPLAY
    line = await Line.open(environment, "train-0", 0)
    await line.act(call("roll"))
    with pytest.raises(ReplayDivergedError):
        await line.fork(1)


async def test_a_task_names_its_toolbox_where_there_are_several():
    rows = [{**row, "environment": ("guess", "dice")[i % 2]} for i, row in enumerate(ROWS)]
    environment = guessing(tasks=rows, toolbox={"guess": Guessing, "dice": Dice})
    for i in range(environment.size("train")):
        episode = await environment.open(f"train-{i}", 0)
        wanted = {"guess": "guess", "dice": "roll"}[episode.record.row["environment"]]
        assert list(episode.kit.tools) == [wanted]
    assert environment.forking is Forking.NONE
    with pytest.raises(ValueError, match="task 0, environment: one of dice is needed, got 'guess'"):
        guessing(tasks=rows, toolbox={"dice": Dice})


def test_a_reset_that_cannot_take_the_columns_is_refused():
    class Narrow(Guessing):
        def reset(self, most: int) -> None:
            """Takes no prompt."""

    with pytest.raises(ValueError, match=r"Narrow.reset cannot take the columns of task .*prompt"):
        guessing(toolbox=Narrow)


async def test_a_toolbox_may_own_the_prompt_and_must_say_it_in_words():
    class Owning(Guessing):
        def reset(self, most: int) -> object:
            return "Go." if most < 15 else 3

    rows = [{"most": most} for most in range(10, 20)]
    environment = guessing(tasks=rows, toolbox=Owning)
    for i in range(environment.size("train")):
        if environment.row(f"train-{i}").columns["most"] < 15:
            episode = await environment.open(f"train-{i}", 0)
            assert [message.content for message in episode.opening()][1:] == ["Go."]
        else:
            with pytest.raises(
                ValueError, match=r"Owning.reset: text or None is needed, got a int"
            ):
                await environment.open(f"train-{i}", 0)
