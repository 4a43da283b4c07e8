"""Limits on the package's source that no comment in it can switch off.

Run as `python scripts/lint_limits.py [FOLDER]`; prints each violation and exits with 1 if
there is any. FOLDER is the package, `src/retrograde` unless given.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

MODULE_LINES = 400
FUNCTION_LINES = 60
POSITIONAL_PARAMETERS = 6
SHORT_MODULES = {"algorithms/grpo.py": 60, "algorithms/rtpo.py": 60, "trainer/loop.py": 80}
"""Modules that are read as documentation, and how long each may be."""
ALGORITHM_LINES, USUAL_ALGORITHM_LINES = 80, 40
"""An algorithm is a short declaration: at most so long, and half of them no longer than this."""
FEW = 2
"""Half of so few files says nothing."""
NO_NOUNS = {"base", "common", "core", "helpers", "misc", "utils"}
"""A module is named after the one noun it defines; these name nothing."""
UNSAFE_CALLS = {("pickle", "load"), ("pickle", "loads"), ("torch", "load")}
"""A file must not be able to run code; safetensors and JSON cannot."""
MARKS_OF_THE_UNFINISHED = ("FIXME", "TODO", "XXX")


def violations(package: Path) -> Iterator[str]:
    """Every violation in a package, as `path:line: what is wrong`."""
    for path in sorted(package.rglob("*.py")):
        module = path.relative_to(package)
        source = path.read_text(encoding="utf-8")
        for line, wrong in _in_module(module, source):
            yield f"{path}:{line}: {wrong}"
    lengths = [
        len(path.read_text(encoding="utf-8").splitlines())
        for path in (package / "algorithms").glob("*.py")
    ]
    if len(lengths) > FEW and (usual := median(lengths)) > USUAL_ALGORITHM_LINES:
        wrong = f"half of the algorithms have over {usual:.0f} lines"
        yield f"{package / 'algorithms'}:1: {wrong}; at most {USUAL_ALGORITHM_LINES} are allowed"


def _in_module(module: Path, source: str) -> Iterator[tuple[int, str]]:
    lines = source.splitlines()
    most = ALGORITHM_LINES if module.parts[0] == "algorithms" else MODULE_LINES
    allowed = SHORT_MODULES.get(module.as_posix(), most)
    if len(lines) > allowed:
        yield allowed + 1, f"a module of {len(lines)} lines; at most {allowed} are allowed"
    for part in sorted(NO_NOUNS & set(module.with_suffix("").parts)):
        yield 1, f"a module called {part!r}; name it after the one noun it defines"
    for number, line in enumerate(lines, start=1):
        if any(mark in line for mark in MARKS_OF_THE_UNFINISHED):
            yield number, "unfinished; finish it, or file it where others see it"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _in_function(node)
        elif isinstance(node, ast.ExceptHandler) and _catches_all(node.type):
            yield node.lineno, "catches every exception; name the ones that are expected"
        elif isinstance(node, ast.Attribute) and _is_unsafe(node):
            yield node.lineno, "loads a pickle, which can run code; use safetensors or JSON"
        elif isinstance(node, ast.Name) and node.id == "NotImplementedError":
            yield node.lineno, "not implemented; leave it out, or make it a Protocol"


def _in_function(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[int, str]]:
    length = (function.end_lineno or function.lineno) - function.lineno + 1
    if length > FUNCTION_LINES:
        wrong = f"{function.name} has {length} lines; at most {FUNCTION_LINES} are allowed"
        yield function.lineno, wrong
    parameters = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    taken = len([name for name in parameters if name not in {"self", "cls"}])
    if taken > POSITIONAL_PARAMETERS:
        wrong = f"{function.name} takes {taken} positional parameters; "
        wrong += f"at most {POSITIONAL_PARAMETERS} are allowed, the rest are keyword-only"
        yield function.lineno, wrong


def _catches_all(caught: ast.expr | None) -> bool:
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(
        name is None or (isinstance(name, ast.Name) and name.id in {"Exception", "BaseException"})
        for name in names
    )


def _is_unsafe(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and (node.value.id, node.attr) in UNSAFE_CALLS


def main(arguments: list[str]) -> int:
    """Prints the violations; 1 if there are any, 2 if there is nothing to look at."""
    package = Path(arguments[0] if arguments else "src/retrograde")
    if not package.is_dir():
        print(f"a folder with the package is needed, got {package}", file=sys.stderr)
        return 2
    found = list(violations(package))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
