import pytest

from retrograde.data.message import spoken


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("go left", "go left"),
        (" go left ", "go left"),
        ("<think> hm </think> go left", "go left"),
        ("hm </think> go left", "go left"),
        ("<think> a </think> b <think> c </think> d", "d"),
        ("go <think> and never said more", "go"),
        ("<think> and never said more", ""),
        ("<think> hm </think>", ""),
        ("", ""),
    ],
)
def test_what_was_said_aloud(text, expected):
    assert spoken(text) == expected
