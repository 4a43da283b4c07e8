"""Answers compared as SQuAD compares them."""

import re
import string
from collections import Counter

from retrograde.data.message import spoken

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def said(answer: str) -> str:
    """What of an answer counts: what is tagged `<answer>` last, or all that is no thought."""
    tagged = _ANSWER.findall(answer)
    return tagged[-1].strip() if tagged else spoken(answer)


def normalised(text: str) -> str:
    """Lower case, no punctuation, no articles, single spaces.

    Source:
        SQuAD, arXiv:1606.05250, evaluation script.
    """
    bare = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def exact_match(text: str, gold: str) -> float:
    """1 if they are the same once normalised, else 0."""
    return float(normalised(text) == normalised(gold))


def f1(text: str, gold: str) -> float:
    """Harmonic mean of precision and recall over words, as often as each is said.

    Where one of them has no word, 1 if the other has none either.
    """
    words, wanted = normalised(text).split(), normalised(gold).split()
    if not (words and wanted):
        return float(words == wanted)
    common = sum((Counter(words) & Counter(wanted)).values())
    return 2 * common / (len(words) + len(wanted))
