"""Who watches the growing is told which turn is answered, and how the last rollout ended."""

from dataclasses import replace

from tests.rollouts.worlds import chat, ids

from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn
from retrograde.environments.hop import Hop
from retrograde.policies.protocol import Sampling
from retrograde.policies.scripted import ScriptedPolicy
from retrograde.rendering.history import Renderer
from retrograde.rollouts.grow import Grower
from retrograde.rollouts.plans import NEW_TREE, Fork
from retrograde.rollouts.progress import Ended
from retrograde.rollouts.round import Round
from retrograde.rollouts.walk import Place

SAYS = {"Found: Jack": "answer Jack", "Found: Leo": "search Leo doctor",
        "Found: Iris": "search Iris neighbour", "": "search Paul teacher"}  # fmt: skip


def script(context, number):
    del number
    return ids(next(said for heard, said in SAYS.items() if heard in chat().decode(context)))


async def test_turns_are_counted_from_the_opening_in_every_round():
    seen = []
    environment = Hop(hops=3)
    grower = Grower(
        environment,
        Renderer(chat(), environment.context),
        ScriptedPolicy(script, logp=-1.0),
        Sampling(1.0, 16),
        watch=seen.append,
    )
    groups = [Group("train-0")]
    groups = await grower.grow(groups, [[Fork(NEW_TREE, ROOT_PARENT, keep=True)]], 0, 0)
    # A trunk of four turns, and nothing has ended while it grows.
    assert [(p.number, p.turn, p.live, p.last) for p in seen] == [
        (0, turn, 1, None) for turn in (1, 2, 3, 4)
    ]
    seen.clear()
    await grower.grow(groups, [[Fork(0, 2, answers=2), Fork(0, 1)]], 1, 0)
    # Two answers behind the third turn are of turn 4; one behind the second of turn 3, then 4.
    assert [(p.number, p.turn, p.live) for p in seen] == [(1, 4, 3), (1, 4, 1)]
    assert seen[1].last == Ended(End.FINISHED, 1.0, 4)


def test_what_is_not_over_has_not_ended():
    def turn(parent, reward, end):
        return Turn(parent, 0, (1,), (1,), (1,), (-1.0,), 0, 0, reward, end)

    trunk = (turn(ROOT_PARENT, 0.5, None), turn(0, 0.25, None))
    grown = Round([Group("t", (Tree((*trunk, turn(1, 0.0, End.FINISHED))),))], 1, 0)
    assert grown.last_ended() is None  # in this round
    assert grown.depth(Place(0, 0, ROOT_PARENT)) == 0
    assert grown.depth(Place(0, 0, 1)) == 2
    grown._added(Place(0, 0, 1), replace(turn(1, 9.0, None), end=End.MERGED, merged_into=2))
    assert grown.last_ended() is None
    grown._added(Place(0, 0, 1), turn(1, 1.0, End.TRUNCATED))
    assert grown.last_ended() == Ended(End.TRUNCATED, 1.75, 3)
