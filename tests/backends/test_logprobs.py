"""A token's log-probability depends on its own row and on nothing else."""

import pytest
import torch

from retrograde.backends.flat import action_logp
from retrograde.backends.padding import microbatches, padded
from retrograde.backends.route import route_of, scored
from retrograde.ops.logprobs import selected_logp

from .tiny import KINDS, model, sequences

EVERY = [(kind, attention) for kind in KINDS for attention in ("eager", "sdpa")]
CONTEXTS, ACTIONS = sequences(9)


@pytest.fixture(scope="module", params=EVERY, ids=str)
def made(request):
    kind, attention = request.param
    return model(kind, attention=attention)


@pytest.fixture(scope="module")
def alone(made):
    """Each row by itself, without padding, positions or masks: what transformers says."""
    found = []
    with torch.inference_mode():
        for context, action in zip(CONTEXTS, ACTIONS, strict=True):
            logits = made(torch.tensor([[*context, *action]])).logits[0]
            chosen = torch.tensor(action)
            found.append(selected_logp(logits[len(context) - 1 : -1], chosen, 0.7))
    assert torch.cat(found).std() > 0.5  # a uniform model would agree with anything
    return found


def agree(found, expected):
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("budget", [21, 60, 10_000])
@torch.inference_mode()
def test_batch_mates_and_padding_change_nothing(made, alone, budget):
    agree(scored(route_of(made, 0), CONTEXTS, ACTIONS, 0.7, budget), alone)


@torch.inference_mode()
def test_order_changes_nothing(made, alone):
    order = [4, 8, 0, 2, 7, 1, 3, 6, 5]
    mixed = [CONTEXTS[i] for i in order], [ACTIONS[i] for i in order]
    agree(scored(route_of(made, 0), *mixed, 0.7, 10_000), [alone[i] for i in order])


@pytest.mark.parametrize("pad", [0, 3, 23])
@torch.inference_mode()
def test_nor_does_the_padding_token_even_if_it_is_said(made, alone, pad):
    assert any(pad in row for row in (*CONTEXTS, *ACTIONS))
    agree(action_logp(made, CONTEXTS, ACTIONS, 0.7, pad), alone)


@torch.inference_mode()
def test_nor_does_the_side_on_which_is_padded(made, alone):
    """Padding on the right, by hand, gives the same numbers as the padding that is used."""
    width = max(len(c) + len(a) for c, a in zip(CONTEXTS, ACTIONS, strict=True))
    whole = [[*c, *a] for c, a in zip(CONTEXTS, ACTIONS, strict=True)]
    ids = torch.tensor([row + [0] * (width - len(row)) for row in whole])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in whole])
    logits = made(ids, attention_mask=mask).logits
    found = [
        selected_logp(logits[i, len(c) - 1 : len(c) + len(a) - 1], torch.tensor(a), 0.7)
        for i, (c, a) in enumerate(zip(CONTEXTS, ACTIONS, strict=True))
    ]
    agree(found, alone)


@torch.inference_mode()
def test_wrong_positions_would_be_noticed(made, alone):
    """The control: left padding without positions of its own, as was seen in the field."""
    batch = padded(CONTEXTS, ACTIONS, 0, torch.device("cpu"))
    longest = max(map(len, ACTIONS))
    logits = made(batch.ids_BN, logits_to_keep=longest).logits
    found = [
        selected_logp(row[: len(a)], torch.tensor(a), 0.7)
        for row, a in zip(logits, ACTIONS, strict=True)
    ]
    assert max(float((f - a).abs().max()) for f, a in zip(found, alone, strict=True)) > 1e-2


def test_contexts_end_and_answers_begin_in_one_column():
    batch = padded([(1, 2, 3), (4,)], [(5, 6), (7, 8, 9)], 0, torch.device("cpu"))
    assert batch.ids_BN.tolist() == [[1, 2, 3, 5, 0], [0, 0, 4, 7, 8]]
    assert batch.mask_BN.tolist() == [[1, 1, 1, 1, 0], [0, 0, 1, 1, 1]]
    assert [row[:4] for row in batch.positions_BN.tolist()] == [[0, 1, 2, 3], [0, 0, 0, 1]]
    assert padded([(1, 2), (3,)], None, 9, torch.device("cpu")).ids_BN.tolist() == [[1, 2], [9, 3]]


@pytest.mark.parametrize("budget", [9, 12, 20, 100])
def test_microbatches_keep_to_their_budget_and_lose_nothing(budget):
    lengths = [3, 9, 1, 4, 4, 7, 2, 9, 5]
    parts = microbatches(lengths, budget)
    assert sorted(i for part in parts for i in part) == list(range(len(lengths)))
    assert all(len(part) * max(lengths[i] for i in part) <= budget for part in parts)
    assert (len(parts) == 1) == (budget == 100)


def test_a_row_beyond_the_budget_is_refused():
    with pytest.raises(ValueError, match="max_tokens_per_microbatch is 8, and one row has 9"):
        microbatches([3, 9], 8)
    assert microbatches([], 8) == []
