"""The process of the judge: makes reasoning-gym's puzzles, scores answers, compares formulas.

Scorers of reasoning-gym, and SymPy's parser, evaluate what they read; answers are read here, in
a confined process, and only if they are plain. Puzzles are made here, too: some of them depend on
the order of Python's hashes, which is fixed here.
"""

import ast
import builtins
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from tokenize import TokenError
from typing import Any

from retrograde.environments.confined.confinement import Limits, confine, readable_by_python
from retrograde.environments.confined.formula import is_same
from retrograde.environments.extras import extra

LIMITS = Limits(cpu_seconds=100_000, memory_bytes=4 << 30, open_files=256)
EVALUATING = (
    "algorithmic.binary_matrix", "algorithmic.spiral_matrix", "algorithmic.string_insertion",
    "games.n_queens",
)  # fmt: skip
"""Modules of reasoning-gym that give answers to `eval`."""
PLAIN_FUNCTIONS = frozenset({"abs", "max", "min", "pow", "round", "sum"})
_FUNCTIONS = frozenset(vars(builtins)) - PLAIN_FUNCTIONS
_NOT_PLAIN = re.compile(r"""["'\\`{}@:;]|__|\.\s*[A-Za-z_]|\blambda\b""")
RAISED = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, MemoryError,
    NameError, OSError, RuntimeError, SyntaxError, TokenError, TypeError, ValueError,
)  # fmt: skip
"""What packages raise about odd options and answers. Anything else ends the process, and the
judge starts another."""
READY = b"ready"
"""The first line that is written."""
TOLD = ("numbers", "target", "expression")
"""Metadata of a puzzle that is passed on, where there is any; teachers go by it."""


def serve() -> None:
    """Answer questions, one JSON text a line, until there are no more."""
    out, nothing = os.fdopen(os.dup(1), "wb", buffering=0), os.open(os.devnull, os.O_RDWR)
    confine(LIMITS, readable_by_python())
    out.write(READY + b"\n")
    for noisy in (1, 2):
        os.dup2(nothing, noisy)
    for line in sys.stdin.buffer:
        out.write(json.dumps(_answered(json.loads(line))).encode() + b"\n")


def _answered(asked: dict[str, Any]) -> dict[str, Any]:
    question = QUESTIONS[asked.pop("ask")]
    try:
        return {"told": question(**asked)}
    except RAISED as raised:
        return {"error": f"{type(raised).__name__}: {raised}"}


def _names() -> list[str]:
    return list(_package().factory.DATASETS)


def _options(dataset: str) -> list[str]:
    return list(_package().factory.DATASETS[dataset][1].__dataclass_fields__)


def _puzzle(**puzzle: Any) -> dict[str, Any]:
    entry = _entry(json.dumps(puzzle))
    about = {name: entry["metadata"][name] for name in TOLD if name in entry["metadata"]}
    return {"question": entry["question"], "answer": entry["answer"], "about": about}


def _score(text: str, **puzzle: Any) -> float:
    asked = json.dumps(puzzle)
    return float(_dataset(_without_index(asked)).score_answer(text, _entry(asked)))


def _same(gold: str, text: str) -> bool:
    _guard_sympy()
    return is_same(gold, text)


def _load(package: str) -> None:
    if package == "reasoning":
        _package()
    else:
        _same("1", "1")


QUESTIONS: Mapping[str, Callable[..., Any]] = {
    "load": _load,
    "names": _names,
    "options": _options,
    "puzzle": _puzzle,
    "score": _score,
    "same": _same,
}


@lru_cache(maxsize=16384)
def _entry(asked: str) -> dict[str, Any]:
    return _dataset(_without_index(asked))[json.loads(asked)["index"]]


def _without_index(asked: str) -> str:
    return json.dumps({k: v for k, v in json.loads(asked).items() if k != "index"})


@lru_cache(maxsize=64)
def _dataset(asked: str) -> Any:
    puzzles = json.loads(asked)
    return _package().create_dataset(
        puzzles["dataset"], seed=puzzles["seed"], size=puzzles["size"], **puzzles["config"]
    )


@lru_cache(maxsize=1)
def _package() -> Any:
    _guard_sympy()
    package = extra("reasoning_gym", "reasoning")
    for name in EVALUATING:
        module = sys.modules.get(f"reasoning_gym.{name}")
        if module is not None:
            vars(module)["eval"] = ast.literal_eval
    return package


@lru_cache(maxsize=1)
def _guard_sympy() -> None:
    """Let SymPy's parser, which evaluates what it has read, read plain formulas only."""
    sympy = extra("sympy", "reasoning")
    sympy_parser = extra("sympy.parsing.sympy_parser", "reasoning")
    parse = sympy_parser.parse_expr

    def guarded(s: str, *args: Any, **kwargs: Any) -> Any:
        if not is_plain(s):
            raise ValueError(f"no plain formula: {s[:80]!r}")
        return parse(s, *args, **kwargs)

    for module in (sympy_parser, sympy):
        vars(module)["parse_expr"] = guarded


def is_plain(formula: str) -> bool:
    """Whether a text holds no strings, attributes, or functions of Python that do harm."""
    if _NOT_PLAIN.search(formula):
        return False
    return not _FUNCTIONS & set(re.findall(r"[A-Za-z_]\w*", formula))
