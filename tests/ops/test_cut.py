"""Top-k, top-p and min-p, worked by hand."""

import math

import pytest
import torch

from retrograde.ops.cut import WHOLE, Cut
from retrograde.ops.logprobs import selected_logp

# Probabilities 0.5, 0.2, 0.2, 0.1: the logits are their logarithms.
PROBS = torch.tensor([0.2, 0.5, 0.1, 0.2])
LOGITS = PROBS.log()


def kept(**cut):
    return Cut(**cut).kept(LOGITS).tolist()


def test_by_hand():
    assert kept(top_k=1) == [False, True, False, False]
    # The second likeliest ties with the third: both stay, so that no order of a sort matters.
    assert kept(top_k=2) == [True, True, False, True]
    assert kept(top_k=9) == [True] * 4
    # 0.5 reaches 0.5 (up to rounding below it); 0.6 needs a second token, and that ties.
    assert kept(top_p=0.49) == [False, True, False, False]
    assert kept(top_p=0.6) == [True, True, False, True]
    # 0.5 + 0.2 + 0.2 = 0.9 < 0.95
    assert kept(top_p=0.95) == [True] * 4
    # At least 0.3 x 0.5 = 0.15
    assert kept(min_p=0.3) == [True, True, False, True]
    assert kept(min_p=0.5) == [False, True, False, False]
    # The three after one another: of 0.5, 0.2, 0.2 (top-k 2), renormalised 0.56, 0.22, 0.22,
    # the first alone reaches 0.55, while it would not have before.
    assert kept(top_k=2, top_p=0.55) == [False, True, False, False]
    assert kept(top_p=0.55) == [True, True, False, True]


def test_the_likeliest_is_always_kept():
    for cut in (Cut(top_k=1), Cut(top_p=1e-9), Cut(min_p=1.0)):
        assert cut.kept(LOGITS).tolist() == [False, True, False, False]


def test_log_probabilities_are_of_what_is_left():
    cut = Cut(top_k=2)
    logp = selected_logp(LOGITS.expand(2, 4), torch.tensor([1, 3]), 1.0, cut)
    # 0.5 / 0.9 and 0.2 / 0.9
    assert logp.tolist() == pytest.approx([math.log(0.5 / 0.9), math.log(0.2 / 0.9)])
    # A token that was drawn counts among them: 0.1 / (0.9 + 0.1)
    (edge,) = selected_logp(LOGITS[None], torch.tensor([2]), 1.0, cut).tolist()
    assert edge == pytest.approx(math.log(0.1))


def test_what_is_cut_off_gets_no_gradient():
    logits = LOGITS.clone().requires_grad_()
    selected_logp(logits[None], torch.tensor([3]), 1.0, Cut(top_k=2)).sum().backward()
    # d log p_3 / d logits = 1 - 2/9 at 3, -5/9 and -2/9 at the others that are left, 0 at 2.
    assert logits.grad.tolist() == pytest.approx([-2 / 9, -5 / 9, 0.0, 7 / 9])


def test_the_whole_distribution_is_left_as_it_is():
    assert WHOLE.is_whole
    assert WHOLE.applied(LOGITS) is LOGITS
    assert not Cut(top_p=0.9).is_whole


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"top_k": -1}, "top_k: at least 0 is needed .* got -1"),
        ({"top_p": 0.0}, r"top_p: above 0 and at most 1 is needed, got 0\.0"),
        ({"top_p": 1.5}, r"top_p: .* got 1\.5"),
        ({"min_p": 2.0}, r"min_p: between 0 and 1 is needed, got 2\.0"),
    ],
)
def test_impossible_cuts_are_refused(bad, said):
    with pytest.raises(ValueError, match=said):
        Cut(**bad)
