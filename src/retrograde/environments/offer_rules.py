"""Whether an environment keeps what it offers."""

from retrograde.data.offer import Offer
from retrograde.data.tree import End
from retrograde.environments.ground import Ground, NotApplicableError, ViolationError
from retrograde.environments.player import Played

GOLD_TRIES = 120
"""How often the gold answer is said somewhere on a walk, at most."""


async def scores(ground: Ground) -> str:
    """Scores come with every observation or are not offered; 1 is for a task that is done."""
    offers = ground.environment.offers
    walks = [await ground.walk(task, 0, way) for task in ground.sample for way in range(3)]
    given = [each.score for walk in walks for each in walk.heard]
    if Offer.SCORES not in offers:
        if all(score is not None for score in given):
            raise ViolationError("every observation has a score, and SCORES is not offered")
        raise NotApplicableError("SCORES is not offered")
    if any(score is None for score in given):
        raise ViolationError("SCORES is offered, and an observation has none")
    for walk in walks:
        *before, last = walk.heard
        if Offer.ATTEMPTS not in offers and any(each.score == 1 for each in before):
            raise ViolationError(f"an episode goes on behind a score of 1: {walk.said!r:.200}")
        succeeded = walk.earned >= ground.environment.success_return
        if Offer.TURN_REWARDS not in offers and (last.score == 1) != succeeded:
            raise ViolationError(
                f"an episode ends with score {last.score} and return {walk.earned}, and a return "
                f"of {ground.environment.success_return} is a success: {walk.said!r:.200}"
            )
    return f"{len(given)} scores"


async def turn_rewards(ground: Ground) -> str:
    """Rewards before the last turn are offered, or there are none."""
    walks = [await ground.walk(task, 0, way) for task in ground.sample for way in range(3)]
    if Offer.TURN_REWARDS in ground.environment.offers:
        return f"{sum(each.reward != 0 for walk in walks for each in walk.heard)} rewards"
    for walk in walks:
        for i, each in enumerate(walk.heard[:-1]):
            if each.reward:
                raise ViolationError(
                    f"turn {i} of {len(walk.heard)} earns {each.reward}, and TURN_REWARDS is not "
                    f"offered"
                )
    raise NotApplicableError("TURN_REWARDS is not offered, and no turn before the last earns")


async def gold(ground: Ground) -> str:
    """The gold answer ends a task, and where the time for it has come it ends it rightly."""
    environment = ground.environment
    if Offer.GOLD not in environment.offers:
        try:
            words = environment.gold(ground.sample[0])
        except LookupError as cause:
            raise NotApplicableError("GOLD is not offered") from cause
        raise ViolationError(f"GOLD is not offered, and yet gold gives {words!r:.80}")
    tried: list[str] = []
    for task in ground.sample:
        words = environment.gold(task)
        if not words or environment.gold(task) != words:
            raise ViolationError(f"{task}: gold gives {words!r:.80}, and not always the same")
        at_once = await ground.again(task, 0, [words])
        if at_once.heard[0].end is not End.FINISHED:
            raise ViolationError(f"{task}: {words!r:.80} does not end it")
        if not _is_success(ground, at_once):
            await _check_timely(ground, task, words)
        tried.append(task)
    return f"{len(tried)} tasks"


async def _check_timely(ground: Ground, task: str, words: str) -> None:
    """Somewhere on a walk the gold answer is a success."""
    tries = way = 0
    while tries < GOLD_TRIES:
        walk = await ground.walk(task, 0, way)
        way += 1
        for at in range(len(walk.said) - 1, 0, -1):
            tries += 1
            tried = await ground.again(task, 0, [*walk.said[:at], words])
            if tried.said[-1] == words and _is_success(ground, tried):
                return
        tries += 1
    found = f"{task}: {words!r:.80} was no success, neither at once nor in {tries} tries"
    if not await ground.has_teacher():
        raise NotApplicableError(f"{found}, and there is no teacher to lead there")
    raise ViolationError(found)


def _is_success(ground: Ground, walk: Played) -> bool:
    """By the last score if there are scores, else by the return."""
    if Offer.SCORES in ground.environment.offers:
        return walk.heard[-1].score == 1
    return walk.earned >= ground.environment.success_return
