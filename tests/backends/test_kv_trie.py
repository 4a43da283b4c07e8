"""The store of keys and values: what is known is found, and what is old makes room."""

import gc

import torch
from hypothesis import given
from hypothesis import strategies as st

from retrograde.backends.kv_trie import Branch, KeyValueTrie

ids = st.lists(st.integers(0, 3), min_size=1, max_size=9).map(tuple)


def filled(store, context):
    """Read a context: each token's key is its id and its depth."""
    for branch in store.chain(context):
        if branch.is_read:
            continue
        keys, values = store.reserve(0, torch.zeros(1, 1, 2))
        for i, token in enumerate(branch.ids):
            keys[0, branch.start + i] = torch.tensor([float(token), float(branch.depth + i)])
            values[0, branch.start + i] = keys[0, branch.start + i]
        branch.is_read = True
    store.measure()


def spelled(store, context):
    """What the pool holds of a context."""
    keys, _ = store.pools[0]
    chain = store.chain(context)
    assert all(branch.is_read for branch in chain)
    places = [branch.start + i for branch in chain for i in range(len(branch.ids))]
    return [tuple(map(int, keys[0, place])) for place in places]


@given(st.lists(ids, min_size=1, max_size=12))
def test_every_context_is_found_where_it_was_put(contexts):
    store = KeyValueTrie(1 << 20)
    for context in contexts:
        store.begin([context])
        filled(store, context)
    for context in contexts:
        assert spelled(store, context) == [(token, i) for i, token in enumerate(context)]
    prefixes = {context[: i + 1] for context in contexts for i in range(len(context))}
    assert store.filled == len(prefixes)  # nothing is there twice


@given(st.lists(ids, min_size=1, max_size=20), st.integers(1, 12))
def test_a_full_store_drops_what_is_old_and_keeps_what_is_asked_for(contexts, tokens):
    store = KeyValueTrie(tokens * 16)  # a token is two vectors of two floats
    longest = max(map(len, contexts))  # one context is held whatever it takes
    for context in contexts:
        store.begin([context])
        filled(store, context)
        assert spelled(store, context) == [(token, i) for i, token in enumerate(context)]
        # What a branch that is in use holds beyond what is asked for stays as well.
        assert store.filled <= max(tokens, longest) + longest


def test_what_was_used_longest_ago_goes_first():
    store = KeyValueTrie(9 * 16)
    for context in [(1, 1, 1), (2, 2, 2), (1, 1, 1), (3, 3, 3), (4, 4, 4)]:
        store.begin([context])
        filled(store, context)
    # The fourth fills the store; the fifth needs three places, and (2, 2, 2) is the oldest.
    assert sorted(store.root.children) == [1, 3, 4]
    assert store.dropped == 3


def test_to_clear_is_to_forget():
    store = KeyValueTrie(1 << 20)
    store.begin([(1, 2)])
    filled(store, (1, 2))
    store.clear()
    assert store.filled == 0
    assert not store.chain((1, 2))[0].is_read


def test_what_is_forgotten_is_gone_without_the_collector():
    store = KeyValueTrie(1 << 20)
    store.chain((1, 2, 3))
    store.chain((1, 2, 4))

    def branches():
        return sum(type(each) is Branch for each in gc.get_objects())

    gc.collect()
    before = branches()
    gc.disable()
    try:
        store.clear()
        assert branches() == before - 3  # 1 2, 3 and 4; the root is made anew
    finally:
        gc.enable()
