"""Answers as SQuAD compares them, worked by hand."""

import pytest

from retrograde.environments.search.answers import exact_match, f1, normalised


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Eiffel Tower!", "eiffel tower"),
        ("  a   cat, an owl; the dog. ", "cat owl dog"),
        ("U.S.A.", "usa"),
        ("N'Djamena", "ndjamena"),
        ("Guinea-Bissau", "guineabissau"),
        ("theatre", "theatre"),  # an article is a word of its own
        ("The", ""),
        ("Bogotá", "bogotá"),  # accents stay
        ("3.14", "314"),
    ],
)
def test_normalised(text, expected):
    assert normalised(text) == expected


@pytest.mark.parametrize(
    ("answer", "golds", "expected"),
    [
        ("the euro.", ["Euro"], 1.0),
        ("Euro", ["EUR", "Euro"], 1.0),
        ("Euros", ["Euro"], 0.0),
        ("Paris, France", ["Paris"], 0.0),
        ("", ["Paris"], 0.0),
        ("Paris", [], 0.0),
    ],
)
def test_exact_match(answer, golds, expected):
    assert exact_match(answer, golds) == expected


@pytest.mark.parametrize(
    ("answer", "golds", "expected"),
    [
        # 2 words said, 1 gold, 1 in common: precision 1/2, recall 1, F1 = 2 * .5 / 1.5 = 2/3.
        ("Paris, France", ["Paris"], 2 / 3),
        # "South Korea" and "North Korea": 1 of 2 and 1 of 2.
        ("South Korea", ["North Korea"], 0.5),
        # Counted as often as both have it: {new, york} of {new, york, new, jersey}:
        # precision 2/4, recall 2/2, F1 = 2 * .5 * 1 / 1.5 = 2/3.
        ("New York New Jersey", ["New York"], 2 / 3),
        ("Korea South", ["South Korea"], 1.0),  # order does not matter
        ("Lima", ["Quito", "Lima, Peru"], 2 / 3),  # the nearest counts
        ("yes", ["yes"], 1.0),
        ("yes it is", ["yes"], 0.0),  # HotpotQA: yes and no share no credit
        ("no", ["no way"], 0.0),
        ("the", ["Paris"], 0.0),
        ("Oslo", ["Bern"], 0.0),
        ("Oslo", [], 0.0),
    ],
)
def test_f1(answer, golds, expected):
    assert f1(answer, golds) == pytest.approx(expected)
