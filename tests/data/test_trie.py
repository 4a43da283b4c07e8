"""Sequences as a trie: each distinct prefix once, and everything below a node in one stretch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograde.data.trie import Node, Trie, packs

ids = st.lists(st.integers(0, 3), min_size=1, max_size=9).map(tuple)
many = st.lists(ids, min_size=1, max_size=12)


def test_a_trie_by_hand():
    # 7 8 9, 7 8 5 6 and 7 8 9 again; 2 alone. In lexical order: 2, 7 8 5 6, 7 8 9, 7 8 9.
    trie = Trie.of([(7, 8, 9), (7, 8, 5, 6), (7, 8, 9), (2,)])
    assert trie.ids_N == (2, 7, 8, 5, 6, 9)
    assert trie.depth_N == (0, 0, 1, 2, 3, 2)
    assert trie.paths == ((1, 2, 5), (1, 2, 3, 4), (1, 2, 5), (0,))
    assert trie.nodes == (Node(0, 1, 1, 0), Node(1, 3, 6, 0), Node(3, 5, 5, 1), Node(5, 6, 6, 1))
    assert trie.flat_tokens == 11
    assert trie.whole_paths == [(0,), (1, 2, 3, 4), (1, 2, 5)]  # 7 8 9 once


def test_a_sequence_that_another_goes_on_from_shares_all_of_it():
    trie = Trie.of([(1, 2, 3), (1, 2)])
    assert trie.ids_N == (1, 2, 3)
    assert trie.paths == ((0, 1, 2), (0, 1))
    assert trie.whole_paths == [(0, 1, 2)]


@given(many)
def test_paths_spell_the_sequences_and_nothing_is_there_twice(sequences):
    trie = Trie.of(sequences)
    for sequence, path in zip(sequences, trie.paths, strict=True):
        assert tuple(trie.ids_N[i] for i in path) == sequence
        assert [trie.depth_N[i] for i in path] == list(range(len(sequence)))
    prefixes = {sequence[: i + 1] for sequence in sequences for i in range(len(sequence))}
    assert len(trie.ids_N) == len(prefixes)


@given(many)
def test_a_token_sees_its_ancestors_and_no_other(sequences):
    """Who sees whom, by the nodes, is who precedes whom on a path."""
    trie = Trie.of(sequences)
    by_nodes = set()
    for node in trie.nodes:
        own = range(node.start, node.end)
        by_nodes |= {(q, k) for q in own for k in own if k <= q}
        by_nodes |= {(q, k) for q in range(node.end, node.below) for k in own}
    by_paths = {(q, k) for path in trie.paths for i, q in enumerate(path) for k in path[: i + 1]}
    assert by_nodes == by_paths
    for one in trie.nodes:  # of one level, no two have a token below in common
        for other in trie.nodes:
            if one.start < other.start and one.level == other.level:
                assert one.below <= other.start


def test_an_empty_sequence_is_refused():
    with pytest.raises(ValueError, match="at least one token"):
        Trie.of([(1,), ()])


@given(many, st.integers(9, 40))
def test_packs_hold_every_sequence_once_and_keep_to_the_budget(sequences, budget):
    parts = packs(sequences, budget)
    assert sorted(i for part in parts for i in part) == list(range(len(sequences)))
    for part in parts:
        assert len(Trie.of([sequences[i] for i in part]).ids_N) <= budget


def test_packs_by_hand():
    # Lexical order: 1 2 3, 1 2 4 5, 6. The first two are 5 distinct tokens, the third makes 6.
    sequences = [(1, 2, 4, 5), (6,), (1, 2, 3)]
    assert packs(sequences, 6) == [[2, 0, 1]]
    assert packs(sequences, 5) == [[2, 0], [1]]
    assert packs(sequences, 4) == [[2], [0], [1]]
    with pytest.raises(ValueError, match="is 3, and one row has 4 tokens"):
        packs(sequences, 3)
