"""How right an answer is, as SQuAD counts it."""

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
CLOSED = frozenset({"yes", "no", "noanswer"})
"""Answers that share no credit with others: half of `no` is not half right."""


def normalised(text: str) -> str:
    """An answer in lower case, without punctuation and articles, with single spaces.

    Source: Rajpurkar et al. 2016, the evaluation script of SQuAD 1.1.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, golds: Sequence[str]) -> float:
    """1 if the answer equals one of the right ones once both are normalised, else 0."""
    return float(normalised(answer) in {normalised(gold) for gold in golds})


def f1(answer: str, golds: Sequence[str]) -> float:
    """Overlap in words with the right answer that is nearest, 0 to 1.

    Source: Yang et al. 2018, the evaluation script of HotpotQA, which keeps yes and no apart.
    """
    return max((_f1(normalised(answer), normalised(gold)) for gold in golds), default=0.0)


def _f1(said: str, gold: str) -> float:
    if said == gold:
        return 1.0
    if said in CLOSED or gold in CLOSED:
        return 0.0
    said_words, gold_words = said.split(), gold.split()
    common = sum((Counter(said_words) & Counter(gold_words)).values())
    return 2 * common / (len(said_words) + len(gold_words)) if common else 0.0
