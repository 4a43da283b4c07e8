"""The written-out way and the fused ways are the kernel's."""

import random

import pytest
import torch

from retrograde.backends import packed, trie_attention
from retrograde.backends.flex_route import flex
from retrograde.backends.layout import Layout
from retrograde.backends.partial_attention import (
    part,
    part_backward,
    written_out,
    written_out_backward,
)
from retrograde.backends.trie_attention import How, TrieAttention
from retrograde.data.trie import Trie

from .test_packed import family, gradient, way  # noqa: F401 - a fixture
from .tiny import ARCHITECTURES, architecture

CPU = torch.device("cpu")


def inputs(queries, keys, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(3, 2, n, 8, generator=generator, dtype=torch.float64)
        for n in (queries, keys, keys)
    ]


def some_hidden(queries, keys):
    """The last query sees nothing, every other all but its own number."""
    mask = torch.zeros(3, 1, queries, keys, dtype=torch.float64)
    for i in range(queries):
        mask[:, :, i, i % keys] = -torch.inf
    mask[:, :, -1] = -torch.inf
    return mask


CASES = {
    "causal": (5, 5, None, True),
    "all": (4, 7, None, False),
    "hidden": (4, 6, some_hidden(4, 6), False),
}


@pytest.mark.parametrize(("queries", "keys", "mask", "causal"), CASES.values(), ids=CASES)
def test_written_out_it_is_what_the_kernel_says(queries, keys, mask, causal):
    q, k, v = inputs(queries, keys)
    out, lse = part(q, k, v, mask, causal=causal, scale=0.3)
    own, own_lse = written_out(q, k, v, mask, causal=causal, scale=0.3)
    seeing = ~lse.isneginf()
    torch.testing.assert_close(own_lse, lse, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(own[seeing], out[seeing], rtol=1e-9, atol=1e-12)
    grad = torch.randn(out.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
    grad = grad * seeing[..., None]
    # Backwards the logsumexp is over all keys: that of a query that sees none here is another's.
    whole = own.masked_fill(~seeing[..., None], 0.2), own_lse.masked_fill(~seeing, 0.7)
    theirs = part_backward(grad, (q, k, v), whole, mask, causal=causal, scale=0.3)
    ours = written_out_backward(grad, (q, k, v), whole, mask, causal=causal, scale=0.3)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("way")
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("window", [None, 4])
def test_the_fused_kernel_sees_what_the_pieces_see(window):
    """Forwards: the reference of the kernel cannot go back on a CPU."""
    contexts, _ = family(random.Random(3), 9)
    trie = Trie.of(contexts)
    layout = Layout.of(trie, CPU, width=1)
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(2, len(trie.ids_N), 16, generator=generator) for _ in range(3))
    pieces = TrieAttention.apply(q, k, v, How(layout, 0.25, window))
    fused = flex(q[None], k[None], v[None], layout.block_mask(window), 0.25)[0]
    torch.testing.assert_close(fused, pieces, rtol=0, atol=1e-5)
    # The control: another window is another attention.
    other = flex(q[None], k[None], v[None], layout.block_mask(2), 0.25)[0]
    assert not torch.allclose(other, pieces, atol=1e-3)


def test_a_layout_of_something_else_has_no_block_mask():
    with pytest.raises(ValueError, match="a trie whose tokens all look and are seen"):
        Layout.planned([], [], [], CPU).block_mask(None)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_written_out_a_whole_model_has_the_same_gradients(name, monkeypatch):
    model = architecture(name)
    contexts, actions = family(random.Random(4), 8)
    weights = [torch.ones(len(a), dtype=torch.float64) for a in actions]
    found, _ = packed.packed_logp(model, contexts, actions, 1.0)
    expected = gradient(model, found, weights)
    monkeypatch.setattr(trie_attention, "part", written_out)
    monkeypatch.setattr(trie_attention, "part_backward", written_out_backward)
    again, _ = packed.packed_logp(model, contexts, actions, 1.0)
    for one, other in zip(gradient(model, again, weights), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9 * float(other.abs().max()))
