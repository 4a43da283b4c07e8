"""The process in which a sandbox's code runs: it confines itself, then runs what it was given."""

import ast
import json
import linecache
import os
import random
import sys
import traceback
from dataclasses import asdict
from typing import Any

from retrograde.environments.confinement import Limits, Walls, confine, readable_by_python

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
    sys.argv = [FILE]
    sys.exit(_run(order["code"]))


def _run(code: str) -> int:
    """Run code as a script, print what an expression at its end is worth, and say how it went."""
    linecache.cache[FILE] = (len(code), None, code.splitlines(keepends=True), FILE)
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        tree = ast.parse(code, FILE)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, FILE, "exec"), names)  # noqa: S102 - what this process is for
        if last is not None:
            value = eval(compile(ast.Expression(last.value), FILE, "eval"), names)  # noqa: S307
            if value is not None:
                print(repr(value))  # noqa: T201 - what the policy reads
    except SystemExit:
        raise
    except BaseException as raised:  # noqa: BLE001 - whatever the code raises is its output
        _print_from_code(raised)
        return 1
    return 0


def _print_from_code(raised: BaseException) -> None:
    """A traceback without the frames of this module."""
    place = raised.__traceback__
    while place is not None and place.tb_frame.f_code.co_filename == __file__:
        place = place.tb_next
    if isinstance(raised, SyntaxError) and raised.filename == FILE:
        place = None
    traceback.print_exception(type(raised), raised, place)
