"""What an environment keeps to that can be continued twice from one point."""

from collections.abc import Sequence

from retrograde.data.message import Message
from retrograde.environments.ground import Ground, NotApplicableError, ViolationError, check_alike
from retrograde.environments.player import Played
from retrograde.environments.protocol import Episode, Forking

BOUNDARIES = 8
"""Of one walk, at which copies are made; of a longer one, evenly spread."""
CHANCES = 8
"""Openings, and copies, that are compared to see chance."""


def _check_forks(ground: Ground) -> None:
    if ground.environment.forking is not Forking.FORK:
        raise NotApplicableError(f"forking is {ground.environment.forking}")


async def fork(ground: Ground) -> str:
    """A copy has the same past; neither it nor its original disturbs the other."""
    _check_forks(ground)
    number = 0
    for task in ground.sample:
        walk = await ground.walk(task, 0)
        for at in range(0, len(walk.said), 1 + len(walk.said) // BOUNDARIES):
            await _check_independent(ground, task, walk, at)
            number += 1
    return f"{number} boundaries"


async def _check_independent(ground: Ground, task: str, walk: Played, at: int) -> None:
    """At one boundary: go on in the original beside copies, and in copies beside the original."""
    where = f"{task}, before turn {at}"
    async with ground.opened(task, 0) as episode:
        here = Played(episode.opening())
        await here.follow(episode, walk.said[:at])
        first, second = episode.fork(1), episode.fork(1)
        if first is episode or first is second:
            raise ViolationError(f"{where}: fork gave no new episode")
        if first.state_key() != episode.state_key():
            raise ViolationError(f"{where}: the state of a copy is another")
        try:
            alone = await _onwards(here.opening, first, walk.said[at:])
            await first.close()
            await here.follow(episode, walk.said[at:])
            check_alike(walk, here, f"{where}: an original beside a copy that was used and closed")
            beside = await _onwards(here.opening, second, walk.said[at:])
            check_alike(alone, beside, f"{where}: two copies with one seed")
        finally:
            await second.close()


async def _onwards(opening: tuple[Message, ...], episode: Episode, words: Sequence[str]) -> Played:
    walk = Played(opening)
    await walk.follow(episode, words)
    return walk


async def chance(ground: Ground) -> str:
    """Copies with other seeds have chance of their own, where episodes with other seeds do."""
    _check_forks(ground)
    by_opening = by_copy = 0
    for task in ground.sample:
        walk = await ground.walk(task, 0)
        opened = [await ground.again(task, seed, walk.said) for seed in range(CHANCES)]
        by_opening += _differ(opened)
        async with ground.opened(task, 0) as episode:
            copies: list[Played] = []
            for seed in range(CHANCES):
                copy = episode.fork(seed)
                try:
                    copies.append(await _onwards(walk.opening, copy, walk.said))
                finally:
                    await copy.close()
        by_copy += _differ(copies)
    if by_opening and not by_copy:
        raise ViolationError(
            f"{CHANCES} episodes with seeds of their own differ in {by_opening} of "
            f"{len(ground.sample)} tasks, and {CHANCES} copies with seeds of their own in none: "
            f"fork(seed) has to draw what is still to come from its seed"
        )
    if not by_opening:
        raise NotApplicableError("nothing is left to chance")
    return f"chance in {by_opening} of {len(ground.sample)} tasks, and in the copies of {by_copy}"


def _differ(walks: Sequence[Played]) -> bool:
    return any(walk.heard != walks[0].heard for walk in walks)


async def replay(ground: Ground) -> str:
    """What is repeated to make a copy leaves nothing to chance, not even to the seed's."""
    if ground.environment.forking is not Forking.REPLAY:
        raise NotApplicableError(f"forking is {ground.environment.forking}")
    for task in ground.sample:
        walk = await ground.walk(task, 0)
        for seed in range(1, CHANCES):
            again = await ground.again(task, seed, walk.said)
            check_alike(
                walk, again, f"{task} with the seeds 0 and {seed}, of which a replay has but one,"
            )
    return f"{len(ground.sample)} tasks, {CHANCES} seeds"
