"""The process in which a sandbox's code runs: it confines itself, then runs what it was given."""

import ast
import json
import linecache
import os
import random
import sys
import traceback
from dataclasses import asdict
from types import TracebackType
from typing import Any

from retrograde.environments.confined.confinement import Limits, Walls, confine, readable_by_python

FILE = "<python>"
"""What tracebacks call the code."""


def serve() -> None:
    """Say which walls stand, run the code on standard input, once, and leave."""
    order: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    walls = confine(Limits(**order["limits"]), readable_by_python())
    print(json.dumps(asdict(walls)))  # noqa: T201 - the parent reads it, before anything else
    if Walls(**order["needed"]).lacking(walls):
        return
    random.seed(order["seed"])
    sys.argv, sys.excepthook = [FILE], _print_from_code
    _run(order["code"])


def _run(code: str) -> None:
    """Run code as a script, and print what an expression at its end is worth."""
    linecache.cache[FILE] = (len(code), None, code.splitlines(keepends=True), FILE)
    names: dict[str, Any] = {"__name__": "__main__"}
    tree = ast.parse(code, FILE)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        del tree.body[-1]
    exec(compile(tree, FILE, "exec"), names)  # noqa: S102 - what this process is for
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), FILE, "eval"), names)  # noqa: S307
        if value is not None:
            print(repr(value))  # noqa: T201 - what the policy reads


def _print_from_code(
    kind: type[BaseException], raised: BaseException, place: TracebackType | None
) -> None:
    """A traceback that begins in the code."""
    while place is not None and place.tb_frame.f_code.co_filename != FILE:
        place = place.tb_next
    traceback.print_exception(kind, raised, place)
