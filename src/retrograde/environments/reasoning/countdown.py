"""The game of countdown in words that a very small model can say, and a teacher of it."""

import itertools
import random
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

TEMPLATES = (
    ("Using all the numbers ", ", create an expression that equals ",
     ".\nYou can only use each number once."),
    ("Find a way to make ", " using all of these numbers: ",
     ".\nEach number can only be used once."),
    ("Calculate ", " using all of these numbers: ",
     ".\nEach number may be used at most once."),
)  # fmt: skip
"""What reasoning-gym says around the numbers, in three ways."""
FORMAT = """

Final answer format instructions:
1. Provide your solution as a arithmetic expression (no '=' sign).
2. Do not include the target number in the expression.
3. Use '*' for multiplication.
4. Use '/' for division.
5. Do not include any other text or formatting."""
"""What it says below."""
PHRASES = tuple(
    phrase.strip(" ") if i < 2 else phrase + FORMAT  # noqa: PLR2004 - the last of three
    for template in TEMPLATES
    for i, phrase in enumerate(template)
)
OPERATORS = ("+", "-", "*", "/")
WORDS = (*OPERATORS, "(", ")", ",")
"""Everything besides numbers that is said in expressions and lists."""
KNOWN = 0.6
"""How often the teacher knows the operators; else it guesses them."""
CARELESS = 0.7
"""How often it gets one of the numbers wrong."""
MOST_WRONG = 9
"""The greatest number that it says in place of another."""


def spaced(expression: str) -> str:
    """An expression with a space between any two signs, as a word-level tokenizer needs it."""
    return " ".join(re.findall(r"\d+|[^\s\w]", expression))


def words(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Every word of a game with these options."""
    most = max(config.get("max_value", 100), config.get("max_target", 999))
    return (*WORDS, *map(str, range(most + 1)))


def taught(about: Mapping[str, Any], operators: Sequence[str], chance: random.Random) -> str:
    """What a teacher says who takes the numbers as they come, guesses, and is careless.

    Args:
        about: metadata of the puzzle.
        operators: those it may use.
        chance: of the mistakes.
    """
    numbers = tuple(about["numbers"])
    ways = itertools.product(operators, repeat=len(numbers) - 1)
    right = (way for way in ways if worth(numbers, way) == about["target"])
    way = tuple(chance.choice(operators) for _ in numbers[1:])
    if chance.random() < KNOWN:
        way = next(right, way)
    if chance.random() < CARELESS:
        place = chance.randrange(len(numbers))
        wrong = chance.randint(1, MOST_WRONG)
        numbers = (*numbers[:place], wrong, *numbers[place + 1 :])
    return written(numbers, way)


def worth(numbers: Sequence[int], operators: Sequence[str]) -> Fraction | None:
    """What comes of the numbers from left to right; None if one is divided by zero."""
    value = Fraction(numbers[0])
    for operator, number in zip(operators, numbers[1:], strict=True):
        match operator:
            case "+":
                value += number
            case "-":
                value -= number
            case "*":
                value *= number
            case _ if number:
                value /= number
            case _:
                return None
    return value


def written(numbers: Sequence[int], operators: Sequence[str]) -> str:
    """The numbers from left to right as an expression, in parentheses where it needs them."""
    said, is_sum = str(numbers[0]), False
    for operator, number in zip(operators, numbers[1:], strict=True):
        is_product = operator in "*/"
        said = f"( {said} )" if is_product and is_sum else said
        said, is_sum = f"{said} {operator} {number}", not is_product
    return said
