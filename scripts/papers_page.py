"""Writes `docs/papers.md`: one row a method, from what its file says of itself.

Run as `python scripts/papers_page.py [PATH]`; PATH is `docs/papers.md` unless given.
"""

import importlib
import inspect
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEAD = """# Papers

One row a method: where it comes from, which file it is, how it differs, and where its numbers are
worked by hand. Written by `scripts/papers_page.py` from the files themselves.

| method | source | file | differs from the source | numbers by hand |
|---|---|---|---|---|
"""


def page() -> str:
    """The page as it should be now.

    Raises:
        ValueError: a method lacks a section of its docstring, or its golden test.
    """
    registry = importlib.import_module("retrograde.algorithms.registry")
    return HEAD + "".join(row(name, method) for name, method in registry.ALGORITHMS.items())


def row(name: str, method: object) -> str:
    """The row of one method."""
    module = inspect.getmodule(method)
    doc = inspect.getdoc(module) or ""
    file = f"src/{module.__name__.replace('.', '/')}.py" if module else ""
    cells = [f"`{name}`", linked(section(name, doc, "Source"))]
    cells += [f"[{Path(file).name}](../{file})", section(name, doc, "Differs from the source")]
    return f"| {' | '.join([*cells, golden(name)])} |\n"


def section(name: str, doc: str, title: str) -> str:
    """The text under a title of a module's docstring, on one line."""
    found = re.search(rf"^{title}:[ \n]((?:.*\n?)(?:[ ]{{4}}.*\n?)*)", doc, flags=re.MULTILINE)
    if found is None:
        raise ValueError(f"{name}: its file has no section {title!r}")
    return " ".join(found[1].split()).replace("|", "\\|")


def linked(text: str) -> str:
    """The text with arXiv numbers as links."""
    return re.sub(r"arXiv:(\d{4}\.\d{5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", text)


def golden(name: str) -> str:
    """A link to the test file whose numbers were worked by hand."""
    path = f"tests/golden/test_{name}.py"
    if not (ROOT / path).exists():
        raise ValueError(f"{name}: there is no {path}")
    return f"[test_{name}.py](../{path})"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "papers.md"
    target.write_text(page(), encoding="utf-8")
