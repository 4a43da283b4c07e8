"""Whether two texts say the same number or the same formula."""

import re
from typing import Any

from retrograde.environments.extras import extra

MOST_CHARACTERS = 500
"""Of an answer; longer ones are not read."""
_BOXED = r"\boxed{"
_WORDS = re.compile(
    r"\\text\s*\{[^{}]*\}|\\(?!d?frac)[A-Za-z]+|(?<!\\)\b[A-Za-z]+\b\s*=?|[$€£%\\!]"
)
_FRACTION = re.compile(r"\\d?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_NUMBER = re.compile(r"[-+]?(\d+|\d{1,3}(,\d{3})+)?(\.\d+)?(/\d+)?")


def is_same(gold: str, text: str) -> bool:
    r"""Whether an answer is the right one, by its value and not by how it is written.

    Where the right one is a number, the answer has to be one, not a sum that makes it; words and
    units around it do not matter. Where it is a formula that is multiplied out, so has the answer
    to be: a question is no answer to itself.

    Args:
        gold: the right one.
        text: the answer; only the last `\boxed{...}` of it is read, if there is one.
    """
    answer = boxed(text)
    if len(answer) > MOST_CHARACTERS:
        return False
    right, given = as_number(gold), as_number(answer)
    if right is not None:
        return given is not None and _verified(right, given)
    return _verified(_latex(gold), _latex(answer), as_expanded=True)


def boxed(text: str) -> str:
    r"""What the last `\boxed{...}` holds, or all of the text."""
    _, found, after = text.rpartition(_BOXED)
    if not found:
        return text.strip()
    depth = 1
    for end, sign in enumerate(after):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if depth == 0:
            return after[:end].strip()
    return after.strip()


def as_number(text: str) -> str | None:
    """The only number in a text, as a decimal or a fraction of integers; None without one."""
    bare = _WORDS.sub(" ", _FRACTION.sub(r"\1/\2", text.replace("\u2212", "-")))
    bare = re.sub(r"(?<=[-+])\s+|\s*(?=/)|(?<=/)\s*", "", bare).strip().removesuffix(".").strip()
    is_number = any(sign.isdigit() for sign in bare) and _NUMBER.fullmatch(bare)
    return bare.replace(",", "") if is_number else None


def _latex(formula: str) -> str:
    """A formula of Python's or of LaTeX as LaTeX."""
    bare = formula.replace("$", "").strip().removesuffix(".")
    return re.sub(r"\*\*\s*(\d+)", r"^{\1}", bare).replace("**", "^").replace("*", " ")


def _verified(gold: str, answer: str, *, as_expanded: bool = False) -> bool:
    right, given = _parsed(gold), _parsed(answer)
    if not right or not given:
        return False
    if as_expanded and _is_expanded(right[0]) and not _is_expanded(given[0]):
        return False
    return bool(extra("math_verify", "math").verify(right, given, timeout_seconds=None))


def _parsed(latex: str) -> list[Any]:
    return extra("math_verify", "math").parse(f"\\boxed{{{latex}}}", parsing_timeout=None)


def _is_expanded(formula: Any) -> bool:
    sympy = extra("sympy", "math")
    if not isinstance(formula, sympy.Expr):
        return True
    done = formula.doit()
    return bool(done == sympy.expand(done))
