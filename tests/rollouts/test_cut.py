"""Observations that are too long lose their middles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograde.data.message import Message
from retrograde.data.tree import ROOT_PARENT, End, Group
from retrograde.environments.hop import Hop
from retrograde.environments.protocol import Observation
from retrograde.policies.scripted import ScriptedPolicy
from retrograde.rollouts.cut import CHARACTERS_A_TOKEN, cut, without_middle
from retrograde.rollouts.plans import NEW_TREE, Fork

from .test_contexts import speaker
from .worlds import Watched, chat, grower, ids


def by_words(messages):
    """A token for each word, and two for each message."""
    return sum(2 + len(message.content.split()) for message in messages)


def test_a_short_text_is_left_alone_and_a_long_one_loses_its_middle():
    assert without_middle("abcdefgh", 8) == "abcdefgh"
    # 8 characters, 5 kept: 3 of the beginning, 2 of the end; 3 are missing.
    assert without_middle("abcdefgh", 5) == "abc\n[... 3 characters left out ...]\ngh"
    assert without_middle("abcdefgh", 1) == "a\n[... 7 characters left out ...]"
    assert without_middle("abcdefgh", 0) == "[... 8 characters left out ...]"


def test_as_much_is_kept_as_there_is_room_for():
    text = " ".join(f"w{i}" for i in range(100))
    (message,) = cut([Message("user", text)], 20, by_words)
    # 2 for the message, 6 for "[... N characters left out ...]": 12 words fit, 6 at each end. The
    # last of the first half and the first of the second may be pieces of words.
    first, marker, last = message.content.split("\n")
    assert by_words([message]) == 20
    assert first.split()[:5] == ["w0", "w1", "w2", "w3", "w4"]
    assert last.split()[-5:] == ["w95", "w96", "w97", "w98", "w99"]
    missing = len(text) - len(first) - len(last)
    assert marker == f"[... {missing} characters left out ...]"


def test_of_several_messages_the_longer_ones_are_cut():
    short, long = Message("tool", "fine", name="a"), Message("tool", "x " * 500, name="b")
    kept, shortened = cut([short, long], 40, by_words)
    assert kept == short
    assert shortened.name == "b"
    assert by_words([kept, shortened]) <= 40


def test_a_huge_text_is_not_even_counted_whole():
    seen = []

    def counted(messages):
        seen.append(max(len(message.content) for message in messages))
        return by_words(messages)

    cut([Message("user", "word " * 10**6)], 50, counted)
    assert max(seen) <= 50 * CHARACTERS_A_TOKEN + 100


@given(st.lists(st.text(), max_size=4), st.integers(min_value=20, max_value=60))
def test_what_fits_is_untouched_and_what_is_cut_fits(texts, limit):
    messages = [Message("user", text) for text in texts]
    found = cut(messages, limit, by_words)
    assert (found == tuple(messages)) == (by_words(messages) <= limit)
    if len(texts) <= 2:  # otherwise the markers alone may take more
        assert by_words(found) <= limit
    assert found == cut(messages, limit, by_words)


def long_winded(_episode, _text, observation):
    if observation.end is not None:
        return observation
    return Observation((Message("user", "Ada " * 50_000),), score=observation.score)


async def test_a_policy_is_shown_the_cut_and_the_cut_is_counted():
    world = Watched(Hop(context="full"), turned=long_winded)
    growing = grower(world, ScriptedPolicy(speaker), observation_tokens=30)
    plant = [[Fork(NEW_TREE, ROOT_PARENT)]]
    (group,) = await growing.grow([Group("train-0")], plant, 0, 1)
    (tree,) = group.trees
    assert growing.counts["cut/observations"] == len(tree.turns) - 1 > 0
    for turn in tree.turns[1:]:
        assert len(turn.observation) <= 30
        assert chat().decode(turn.observation).count("Ada") > 5


async def test_an_episode_that_outgrows_the_context_is_truncated():
    world = Watched(Hop(hops=5, context="full"))
    policy = ScriptedPolicy(lambda _context, _seed: ids("search Ada friend"))
    plant = [[Fork(NEW_TREE, ROOT_PARENT)]]
    growing = grower(world, policy)
    (group,) = await growing.grow([Group("train-0")], plant, 0, 1)
    (whole,) = group.trees
    assert len(whole.turns) == 6
    # Room for the context of turn 3 and an answer to it, and for not a token more.
    room = len(whole.context(3)) + growing.sampling.max_new_tokens
    growing = grower(world, policy, context_tokens=room)
    (group,) = await growing.grow([Group("train-0")], plant, 0, 1)
    (tree,) = group.trees
    assert tree.turns[:3] == whole.turns[:3]
    assert len(tree.turns) == 4
    assert tree.turns[3].end is End.TRUNCATED
    assert tree.turns[3].score == whole.turns[3].score
    assert growing.counts["cut/contexts"] == growing.counts["ended/truncated"] == 1
    growing = grower(world, policy, context_tokens=room - 1)
    (group,) = await growing.grow([Group("train-0")], plant, 0, 1)
    assert len(group.trees[0].turns) == 3
    world.book.check()


async def test_an_opening_without_room_for_an_answer_fails_and_says_by_how_much():
    world = Watched(Hop())
    growing = grower(world, ScriptedPolicy(speaker), context_tokens=20)
    with pytest.raises(RuntimeError, match="2 x ContextOverflowError at opening"):
        await growing.grow([Group("train-0")], [[Fork(NEW_TREE, ROOT_PARENT)] * 2], 0, 1)
    world.book.check()
