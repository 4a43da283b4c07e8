"""Rows packed as a trie have the log-probabilities and gradients of rows run one by one."""

import random
from dataclasses import replace

import pytest
import torch

from retrograde.backends import layout, packed
from retrograde.backends.layout import Layout
from retrograde.backends.packed import packed_logp
from retrograde.backends.trie_attention import NAME, attending
from retrograde.data.trie import Trie

from .tiny import ARCHITECTURES, VOCABULARY, architecture

CPU = torch.device("cpu")


MANY = 1 << 40
WAYS = {"along the trie": (-MANY, 256), "side by side": (MANY, 256), "only what is new": (MANY, 0)}


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def way(request, monkeypatch):
    """Attention by rectangles, of whole sequences, or of their new tokens where these are few."""
    call, slack = request.param
    monkeypatch.setattr(layout, "CALL", call)
    monkeypatch.setattr(layout, "SLACK", slack)


def family(chance, count):
    """Contexts that fork from one another at random places, and answers to them."""
    contexts = [tuple(chance.randrange(VOCABULARY) for _ in range(3))]
    while len(contexts) < count:
        old = chance.choice(contexts)
        more = tuple(chance.randrange(VOCABULARY) for _ in range(chance.randint(0, 8)))
        contexts.append(old[: chance.randint(1, len(old))] + more)
    actions = [tuple(chance.randrange(4) for _ in range(chance.randint(1, 5))) for _ in contexts]
    return contexts, actions


def one_by_one(model, contexts, actions, temperature=1.0):
    logps = []
    for context, action in zip(contexts, actions, strict=True):
        logits = model(torch.tensor([[*context, *action]])).logits[0] / temperature
        every = logits[len(context) - 1 : -1].log_softmax(-1)
        logps.append(every[torch.arange(len(action)), torch.tensor(action)])
    return logps


def gradient(model, logps, weights):
    model.zero_grad()
    sum((logp * weight).sum() for logp, weight in zip(logps, weights, strict=True)).backward()
    return [p.grad.clone() for p in model.parameters()]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_packed_equals_flat(name):
    chance = random.Random(5)
    for number in range(6):
        model = architecture(name, seed=number)
        contexts, actions = family(chance, chance.randint(1, 14))
        weights = [torch.randn(len(a), dtype=torch.float64) for a in actions]
        flat = one_by_one(model, contexts, actions, 0.7)
        expected = gradient(model, flat, weights)
        found, _ = packed_logp(model, contexts, actions, 0.7)
        for one, other in zip(found, flat, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
        for one, other in zip(gradient(model, found, weights), expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9 * float(other.abs().max()))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_packed_equals_flat_in_single_precision_and_with_checkpointing(name):
    chance = random.Random(6)
    model = architecture(name, dtype=torch.float32)
    contexts, actions = family(chance, 12)
    weights = [torch.ones(len(a)) for a in actions]
    expected = gradient(model, one_by_one(model, contexts, actions), weights)
    found = gradient(model, packed_logp(model, contexts, actions, 1.0)[0], weights)
    model.activation_checkpointing_enable()
    model.train()
    with attending(model, NAME):
        again = gradient(model, packed_logp(model, contexts, actions, 1.0)[0], weights)
    for one, two, other in zip(found, again, expected, strict=True):
        largest = float(other.abs().max())
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5 * largest)
        torch.testing.assert_close(two, other, rtol=0, atol=1e-5 * largest)


@pytest.mark.usefixtures("way")
def test_order_and_company_do_not_matter():
    model = architecture("qwen3")
    contexts, actions = family(random.Random(7), 9)
    found, _ = packed_logp(model, contexts, actions, 1.0)
    order = [4, 0, 8, 2, 6, 1, 3, 7, 5]
    turned, _ = packed_logp(model, [contexts[i] for i in order], [actions[i] for i in order], 1.0)
    for i, logp in zip(order, turned, strict=True):
        torch.testing.assert_close(logp, found[i], rtol=1e-12, atol=1e-12)
    alone, _ = packed_logp(model, contexts[3:4], actions[3:4], 1.0)
    torch.testing.assert_close(alone[0], found[3], rtol=1e-12, atol=1e-12)


def test_a_shared_prefix_is_run_once():
    model = architecture("llama")
    seen = []
    model.get_decoder().register_forward_pre_hook(
        lambda _module, _words, named: seen.append(named["input_ids"].shape[1]), with_kwargs=True
    )
    context = tuple(range(12))
    packed_logp(model, [context] * 4, [(1, 2), (1, 3), (4, 2), (1, 2)], 1.0)
    # 12 of the context, then 1 and 4: the last token of an answer predicts nothing.
    assert seen == [14]


def test_chunks_of_the_last_layer_change_nothing(monkeypatch):
    model = architecture("qwen2")
    contexts, actions = family(random.Random(8), 10)
    weights = [torch.ones(len(a), dtype=torch.float64) for a in actions]
    whole = gradient(model, packed_logp(model, contexts, actions, 1.0)[0], weights)
    monkeypatch.setattr(packed, "CHUNK_BYTES", 3 * 8 * VOCABULARY)
    parts = gradient(model, packed_logp(model, contexts, actions, 1.0)[0], weights)
    for one, other in zip(parts, whole, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_states_are_those_before_each_token():
    model = architecture("qwen3")
    contexts, actions = family(random.Random(9), 5)
    logps, states = packed_logp(model, contexts, actions, 1.0, states=True)
    for action, logp, state in zip(actions, logps, states, strict=True):
        said = model.get_output_embeddings()(state).log_softmax(-1)
        expected = said[torch.arange(len(action)), torch.tensor(action)]
        torch.testing.assert_close(expected, logp, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("call", "calls"), [(295, 2), (296, 1)])
def test_whole_sequences_are_laid_side_by_side_where_that_costs_less(monkeypatch, call, calls):
    # 1 2 3 4 forks to ten answers of two tokens, and reading a key costs as much as 16 queries of
    # it. Along the trie: it and the answers, padded to 4 tokens, on themselves, 11 x 4 x (4 + 16),
    # and 20 queries on 4 keys, 4 x (20 + 16): 880 + 144 = 1024 in two calls.
    # Side by side: 10 x 6 x (6 + 16) = 1320 in one call, 296 more.
    monkeypatch.setattr(layout, "CALL", call)
    trie = Trie.of([(1, 2, 3, 4, 10 + i, 20 + i) for i in range(10)])
    assert len(Layout.of(trie, CPU, width=1).calls) == calls


def test_each_token_looks_once_side_by_side(monkeypatch):
    monkeypatch.setattr(layout, "CALL", MANY)
    trie = Trie.of([(1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 7, 8), (1, 2, 3, 4, 9)])
    (call,) = Layout.of(trie, CPU, width=1).calls
    # Those with the fewest new tokens first. In lexical order 5 6 lies at 4 and 5, 7 8 at 6 and 7,
    # 9 at 8.
    assert call.query_SQ.tolist() == [
        [0, 1, 2, 3, 8, 0],
        [0, 1, 2, 3, 6, 7],
        [0, 1, 2, 3, 4, 5],
    ]
    assert call.key_SK.tolist() == call.query_SQ.tolist()
    assert call.hidden_SQK is None
    assert call.reach == 5
    # What is shared looks in the first sequence in lexical order.
    assert call.query_at.tolist() == [8, 6, 7, 0, 1, 2, 3, 4, 5]


def test_only_new_tokens_look_where_most_of_a_sequence_is_shared(monkeypatch):
    monkeypatch.setattr(layout, "CALL", MANY)
    monkeypatch.setattr(layout, "SLACK", 0)  # so that 2 queries and 7 do not share a call
    # 1 2 3 4 5 forks to 6 7, 6 8 and 9; in lexical order 7 lies at 6, 8 at 7 and 9 at 8.
    fork = (1, 2, 3, 4, 5)
    trie = Trie.of([(*fork, 6, 7), (*fork, 6, 8), (*fork, 9)])
    new, whole = Layout.of(trie, CPU, width=1).calls
    assert new.query_SQ.tolist() == [[7], [8]]
    assert new.key_SK.tolist() == [[0, 1, 2, 3, 4, 5, 7], [0, 1, 2, 3, 4, 8, 0]]
    assert new.hidden_SQK.tolist() == [[[False] * 7], [[False] * 6 + [True]]]
    assert whole.query_SQ.tolist() == whole.key_SK.tolist() == [[0, 1, 2, 3, 4, 5, 6]]
    assert whole.hidden_SQK is None


def test_without_the_layout_it_is_refused():
    model = architecture("llama")
    with attending(model, NAME), pytest.raises(ValueError, match="needs the layout"):
        model(torch.tensor([[1, 2]]))
    assert model.config._attn_implementation == "sdpa"


def blind(true):
    """The mistake of a layout: its first call is about what the first token of each piece says."""
    call = true.calls[0]
    wrong = replace(call, key_SK=call.key_SK[:, :1].expand_as(call.key_SK))
    return replace(true, calls=(wrong, *true.calls[1:]))


@pytest.mark.usefixtures("way")
def test_who_is_seen_matters(monkeypatch):
    """The control: of other tokens than its ancestors, a token makes something else."""
    model = architecture("qwen3")
    contexts, actions = [(1, 2, 3, 4)] * 2, [(5, 6), (7, 8)]
    found, _ = packed_logp(model, contexts, actions, 1.0)
    real = Layout.of.__func__
    monkeypatch.setattr(Layout, "of", classmethod(lambda cls, *asked: blind(real(cls, *asked))))
    other, _ = packed_logp(model, contexts, actions, 1.0)
    assert (torch.cat(found) - torch.cat(other)).abs().max() > 1e-3
