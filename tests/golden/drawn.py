"""Trees written down as they are drawn: one line a turn."""

from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn

DONE, STOPPED, FAILED = End.FINISHED, End.STOPPED, End.FAILED


def turn(parent=ROOT_PARENT, end=None, reward=0.0, *, grown_in=0, entropy=0.0, score=None, says=7):
    """A turn of two tokens whose entropies add up to `entropy`."""
    return Turn(
        parent=parent,
        shared=0,
        fresh=(9,),
        observation=(9,),
        action=(says, 2),
        logprobs=(-1.0, -1.0),
        grown_in=grown_in,
        policy_version=0,
        reward=reward,
        end=end,
        score=score,
        entropies=(entropy / 2, entropy / 2),
    )


def group(*trees):
    return Group("t", tuple(Tree(tuple(turns)) for turns in trees))
