"""Whatever goes wrong in a world, and wherever: it is named, it costs a rollout, and no more."""

import asyncio
import math
import time
from collections import Counter

import pytest

from retrograde.credit.group_relative import GroupRelative
from retrograde.credit.sibling_mean import SiblingMean
from retrograde.data.rows import rows_of
from retrograde.data.tree import ROOT_PARENT, End, Group
from retrograde.environments.hop import Hop
from retrograde.environments.lake import Lake
from retrograde.environments.protocol import Forking
from retrograde.environments.threaded import Threaded
from retrograde.policies.scripted import ScriptedPolicy
from retrograde.rollouts import patience
from retrograde.rollouts.plans import NEW_TREE, Fork, ReverseTree

from .faulty import ACTS, Faulty, block, blocks, breaks, nothing, quits, waits
from .test_contexts import speaker
from .worlds import ended, grower, grown

TASKS = [f"train-{i}" for i in range(4)]
QUICK = {"turn_seconds": 0.1}


async def shaken(world, plan=None, **limits):
    """A plan grown to its end in a faulty world, with every episode given back."""
    growing = grower(world, ScriptedPolicy(speaker), **{**QUICK, **limits})
    groups = await grown(growing, plan or ReverseTree(2, 3), TASKS)
    await growing.forget()
    check_handles(world)
    return groups, growing.counts


def check_handles(world):
    """As many episodes were closed as were begun, none twice."""
    assert world.book.begun > 0
    assert world.book.closed == Counter(range(1, world.book.begun + 1))


def check_books(groups, counts):
    """What was counted is what is in the trees, and what failed does not train."""
    leaves = ended(groups)
    for end, number in leaves.items():
        if end is not End.STOPPED:
            assert counts[f"ended/{end}"] == number
    failed = sum(n for name, n in counts.items() if name.startswith("failed/"))
    assert failed == sum(
        n
        for name, n in counts.items()
        if name.startswith("failed_at/") and name != "failed_at/close"
    )
    for group in groups:
        for credit in (GroupRelative(), SiblingMean()):
            judged = credit(group, max(t.grown_in for tree in group.trees for t in tree.turns))
            rows = rows_of([group], [judged])
            assert all(row.action and math.isfinite(sum(row.advantages)) for row in rows)
            for tree, judgement in zip(group.trees, judged, strict=True):
                sound = {
                    turn for leaf, turn in tree.visits if tree.turns[leaf].end is not End.FAILED
                }
                for (_, turn), trains in zip(tree.visits, judgement.trains_V, strict=True):
                    assert turn in sound or not trains


def lasting(fault):
    """A fault that takes its whole time limit is struck less often, so that tests end."""
    return 0.04 if fault in ("waits", "sulks", "blocks", "grinds") else 0.25


@pytest.mark.parametrize("fault", ACTS)
async def test_a_fault_in_an_action_is_named_and_costs_its_rollout(fault, monkeypatch):
    monkeypatch.setattr(patience, "GRACE_SECONDS", 0.05)
    how, error = ACTS[fault]
    world = Faulty(Hop(), {"act": how}, lasting(fault))
    groups, counts = await shaken(world)
    failed = ended(groups)[End.FAILED]
    assert failed == counts[f"failed/{error}"] == counts["failed_at/act"] > 0
    assert sum(ended(groups).values()) > failed
    check_books(groups, counts)


async def test_without_faults_nothing_fails():
    groups, counts = await shaken(Faulty(Hop(), {"act": breaks}, 0.0))
    assert End.FAILED not in ended(groups)
    assert not any("fail" in name or "drop" in name for name in counts)


def broken(*_):
    raise OSError("no connection")


@pytest.mark.parametrize(
    ("where", "how", "error", "chance"),
    [
        ("open", breaks, "OSError", 0.3),
        ("open", waits, "TimeoutError", 0.3),
        ("open", blocks, "TimeoutError", 0.3),
        ("open", quits, "ExitedError", 0.3),
        ("opening", broken, "OSError", 0.3),
        ("opening", block, "TimeoutError", 0.3),
        ("opening", tuple, "ValueError", 0.3),
        ("opening", lambda: "go", "TypeError", 0.3),
        ("opening", lambda: None, "TypeError", 0.3),
        ("state_key", broken, "OSError", 0.3),
        ("state_key", block, "TimeoutError", 0.05),
        ("state_key", dict, "TypeError", 0.3),
    ],
)
async def test_a_fault_before_or_beside_an_action_is_named(where, how, error, chance):
    world = Faulty(Hop(), {where: how}, chance, seed=1)
    groups, counts = await shaken(world, ReverseTree(2, 3, continuations=1))
    assert counts[f"failed/{error}"] == counts[f"failed_at/{where}"] > 0
    assert all(len(group.trees) == 2 for group in groups)
    check_books(groups, counts)


async def test_open_that_gives_no_episode_is_found_at_the_opening():
    world = Faulty(Hop(), {"open": nothing}, 0.3, seed=1)
    growing = grower(world, ScriptedPolicy(speaker), **QUICK)
    await grown(growing, ReverseTree(2, 3), TASKS)
    assert growing.counts["failed_at/opening"] == growing.counts["failed/AttributeError"] > 0
    assert growing.counts["close_failed/AttributeError"] > 0  # it cannot be closed either
    await growing.forget()
    check_handles(world)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        (broken, "OSError"),
        (block, "TimeoutError"),
        (lambda episode: episode, "ValueError"),
    ],
)
@pytest.mark.parametrize("continuations", [0, 2])
async def test_a_copy_that_cannot_be_made_costs_those_that_needed_it(how, error, continuations):
    world = Faulty(Hop(), {"fork": how}, 0.1 if error == "TimeoutError" else 0.3, seed=2)
    groups, counts = await shaken(world, ReverseTree(2, 3, continuations))
    assert counts[f"failed/{error}"] == counts["failed_at/fork"] > 0
    assert counts[f"dropped/{error}"] > 0
    lost = [
        turn for group in groups for tree in group.trees for turn in tree.turns if not turn.action
    ]
    assert len(lost) == counts["ended/failed"] > 0
    check_books(groups, counts)


async def test_what_follows_a_lost_boundary_knows_what_it_would_have_been_shown():
    world = Faulty(Hop(), {"fork": broken}, 1.0)
    groups, counts = await shaken(world, ReverseTree(1, 2))
    for group in groups:
        (tree,) = group.trees
        siblings = [i for i in tree.leaves if not tree.turns[i].action]
        assert len(siblings) == 2 * len(tree.trunk)
        for i in siblings:
            (first,) = [j for j in tree.trunk if tree.turns[j].parent == tree.turns[i].parent]
            assert tree.context(i) == tree.context(first)
    # Each boundary is copied once and lost; behind it, two siblings each are dropped.
    boundaries = sum(len(group.trees[0].trunk) for group in groups)
    assert counts["failed/OSError"] == boundaries
    assert counts["dropped/OSError"] == counts["ended/failed"] == 2 * boundaries


@pytest.mark.parametrize(("how", "error"), [(breaks, "OSError"), (waits, "TimeoutError")])
async def test_a_replay_that_breaks_is_closed(how, error):
    world = Faulty(Hop(), {"act": how}, 0.1, seed=5, forking=Forking.REPLAY)

    def is_struck(where, seed, turns, by_turn=world.is_struck):
        # A replay has the seed of what it repeats: it takes another to break where that did not.
        return by_turn(where, seed, turns, world.book.begun)

    world.is_struck = is_struck
    groups, counts = await shaken(world)
    assert counts["failed_at/replay"] > 0
    assert counts["failed_at/act"] > 0
    assert counts[f"failed/{error}"] == counts["failed_at/replay"] + counts["failed_at/act"]
    check_books(groups, counts)


@pytest.mark.parametrize(("how", "error"), [(breaks, "OSError"), (waits, "TimeoutError")])
async def test_closing_that_fails_is_counted_and_costs_nothing(how, error):
    world = Faulty(Hop(), {"close": how}, 0.1)
    groups, counts = await shaken(world)
    assert counts[f"close_failed/{error}"] == counts["failed_at/close"] > 0
    assert End.FAILED not in ended(groups)
    assert counts["ended/failed"] == 0


async def test_a_world_that_never_ends_is_cut_off_at_its_own_limit():
    class Endless(Hop):
        turn_limit = 3

    groups, counts = await shaken(Faulty(Endless(hops=5), {}), ReverseTree(1, 2))
    turns = [len(tree.trunk) for group in groups for tree in group.trees]
    assert max(turns) == 3
    assert counts["cut/turns"] == counts["ended/truncated"] > 0


@pytest.mark.parametrize("chance", [0.0, 1.0])
async def test_an_episode_has_a_time_limit_of_its_own(chance):
    async def dawdles():
        await asyncio.sleep(0.06)
        return observation

    observation = await (await Hop().open("train-0", 0)).act("search Ada friend")
    world = Faulty(Hop(), {"act": dawdles}, chance)
    growing = grower(world, ScriptedPolicy(speaker), turn_seconds=5.0, episode_seconds=0.15)
    plant = [[Fork(NEW_TREE, ROOT_PARENT)] * 2]
    if chance == 0.0:
        await growing.grow([Group("train-0")], plant, 0, 1)
        assert growing.counts["ended/failed"] == 0
        return
    # 0.06 + 0.06 s are within 0.15 s; the third action has 0.03 s left and is given up.
    with pytest.raises(RuntimeError, match=r"all 2 rollouts.*2 x TimeoutError at act"):
        await growing.grow([Group("train-0")], plant, 0, 1)
    check_handles(world)


async def test_a_world_that_blocks_does_not_hold_up_the_others_in_threads():
    faulty = Faulty(Hop(), {"act": lambda: asyncio.sleep(0, time.sleep(0.5))}, 0.05)
    growing = grower(Threaded(faulty), ScriptedPolicy(speaker), turn_seconds=0.2)
    groups = await grown(growing, ReverseTree(2, 3), TASKS)
    await growing.forget()
    assert growing.counts["failed/TimeoutError"] == ended(groups)[End.FAILED] > 0
    check_handles(faulty)


async def test_in_threads_the_same_happens():
    forests = []
    for world in (Lake(slip=True), Threaded(Lake(slip=True))):
        growing = grower(world, ScriptedPolicy(speaker))
        forests.append(await grown(growing, ReverseTree(2, 3), TASKS))
        await growing.forget()
    assert forests[0] == forests[1]


class Interrupted(BaseException):
    pass


@pytest.mark.parametrize("number", range(1, 9))
@pytest.mark.parametrize("error", [Interrupted, RuntimeError])
async def test_whatever_stops_the_growth_every_episode_is_given_back(number, error):
    """The policy raises in its nth call, in whichever round that is."""
    calls = 0

    def script(context, seed):
        nonlocal calls
        calls += 1
        if calls == 5 * number:
            raise error
        return speaker(context, seed)

    world = Faulty(Hop(), {})
    growing = grower(world, ScriptedPolicy(script))
    with pytest.raises(error):
        await grown(growing, ReverseTree(2, 3), TASKS)
    check_handles(world)
    assert growing.world.lines == ()


async def test_a_growth_that_is_cancelled_gives_every_episode_back():
    # With one action that waits, all others have acted when the growth is cancelled.
    world = Faulty(Hop(), {"act": waits}, 0.1)
    growing = grower(world, ScriptedPolicy(speaker), turn_seconds=50.0)
    task = asyncio.ensure_future(grown(growing, ReverseTree(2, 3), TASKS))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    check_handles(world)


async def test_if_nothing_can_be_opened_the_run_stops_and_says_why():
    world = Faulty(Hop(), {"open": breaks}, 1.0)
    growing = grower(world, ScriptedPolicy(speaker))
    with pytest.raises(RuntimeError, match=r"all 8 rollouts of round 0 .*: 8 x OSError at open"):
        await grown(growing, ReverseTree(2, 3), TASKS)


async def test_a_failure_is_said_three_times_and_counted_each_time(caplog):
    groups, counts = await shaken(Faulty(Hop(), {"act": breaks}, 0.25))
    assert ended(groups)[End.FAILED] == counts["failed/OSError"] > 3
    assert caplog.text.count("no connection") == 3
