"""Which answers are the right one."""

import pytest

from retrograde.environments.confined.formula import as_number, boxed, is_same

pytest.importorskip("math_verify")
pytestmark = pytest.mark.filterwarnings("ignore:Timeout is disabled")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("42", "42"),
        ("-3", "-3"),
        ("- 3", "-3"),
        ("\u22125", "-5"),
        ("The answer is 42.", "42"),
        ("h = -14", "-14"),
        ("5 apples", "5"),
        (r"42\text{ apples}", "42"),
        ("$1,234.50", "1234.50"),
        ("5%", "5"),
        (".5", ".5"),
        ("7/2", "7/2"),
        (r"\dfrac{7}{2}", "7/2"),
        ("41 42", None),
        ("41 or 42", None),
        ("12 - 4", None),
        ("57 + 87", None),
        ("8 dollars and 5 cents", None),
        ("1,00", None),
        ("1e3", None),
        ("x", None),
        ("-", None),
        ("", None),
    ],
)
def test_a_text_with_one_number_is_that_number(text, number):
    assert as_number(text) == number


def test_the_last_box_is_read_and_braces_in_it_are_matched():
    assert boxed(r"first \boxed{1}, then \boxed{\frac{1}{2}} apples") == r"\frac{1}{2}"
    assert boxed(r"\boxed{12") == "12"
    assert boxed(" 12 ") == "12"


@pytest.mark.parametrize(
    ("gold", "text", "same"),
    [
        ("42", "42.0", True),
        ("42", r"so it is \boxed{42}", True),
        ("42", "43", False),
        ("0.5", r"\frac{1}{2}", True),
        ("42", "1/0", False),
        ("42", "40 + 2", False),  # the question again, were it that of a sum
        ("42", "41, 42", False),
        ("42", r"\boxed{41} \boxed{43} 42", False),
        ("42", "42" + " " * 9 + "x" * 600, False),
        ("x**2+2*x", "2x + x^2", True),
        ("x**2+2*x", r"\boxed{x^{2} + 2 x}", True),
        ("x**2+2*x", "x^2 + 3x", False),
        ("x**2+2*x", "x*(x + 2)", False),  # the question again, were it that of a product
        ("189*x**10 + 2", "2 + 189*x**10", True),
        ("42", "no idea", False),
        ("42", "", False),
    ],
)
def test_answers_are_compared_by_their_value(gold, text, same):
    assert is_same(gold, text) is same
