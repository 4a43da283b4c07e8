"""Writes the pages of the API reference: one a package, all that is public in it.

Public is what no part of whose name begins with an underscore.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "retrograde"
FLOORS = {
    "cli": "The commands.",
    "backends": "Engines: the only floor that knows transformers.",
    "loggers": "Others that are told a run's figures.",
    "report": "A run as one page.",
    "trainer": "The loop, and what a run needs to be trusted and resumed.",
    "algorithms": "Each a short declaration of what it chooses.",
    "rollouts": "Where rollouts grow, and the growing.",
    "policies": "What a policy is asked.",
    "rewards": "What turns earn.",
    "environments": "What is played.",
    "credit": "Who gets credit.",
    "losses": "What is minimised.",
    "schedules": "When, how often, how hard.",
    "rendering": "What the policy is shown.",
    "data": "Records: what happened, and what is trained on.",
    "ops": "Pure functions of tensors.",
}


def pages(package: Path = PACKAGE) -> dict[str, str]:
    """Each page by its path in the site, the overview first."""
    inner = packages(package)
    lines = [
        "# API reference\n",
        "What is imported from `retrograde` itself, and below it the packages, from the top floor",
        "down. Each page has every public name of a package.\n",
        "| package | what is in it |",
        "|---|---|",
        *(
            f"| [`{dotted(folder, package)}`]({path_of(folder, package)}) "
            f"| {FLOORS.get(folder.name) or said(folder / '__init__.py')} |"
            for folder in inner
        ),
        "\n::: retrograde",
        "    options:",
        "      heading_level: 2",
        "",
    ]
    written = {"reference/index.md": "\n".join(lines)}
    for folder in inner:
        names = [dotted(path, package) for path in modules(folder)]
        blocks = "\n".join(f"::: {name}\n" for name in names)
        written[f"reference/{path_of(folder, package)}"] = (
            f"# {dotted(folder, package)}\n\n{blocks}"
        )
    return written


def packages(package: Path) -> list[Path]:
    """The packages inside a package, at any depth, in the order of the floors."""
    order = list(FLOORS)
    found = [
        path.parent
        for path in package.rglob("__init__.py")
        if path.parent != package
        if public(path)
    ]

    def place(folder: Path) -> tuple[int, Path]:
        top = folder.relative_to(package).parts[0]
        return (order.index(top) if top in order else len(order), folder)

    return sorted(found, key=place)


def modules(folder: Path) -> list[Path]:
    """The public modules of a package, itself first."""
    inside = sorted(path for path in folder.glob("*.py") if public(path))
    return [folder / "__init__.py", *(path for path in inside if path.stem != "__init__")]


def public(path: Path) -> bool:
    """Whether a module is for others to use."""
    parts = path.relative_to(ROOT).with_suffix("").parts if path.is_relative_to(ROOT) else ()
    return not any(part.startswith("_") and part != "__init__" for part in parts or (path.stem,))


def dotted(path: Path, package: Path = PACKAGE) -> str:
    """The name of a module or a package."""
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def path_of(folder: Path, package: Path) -> str:
    """Where the page of a package is, from the reference's own folder."""
    return f"{'.'.join(folder.relative_to(package).parts)}.md"


def said(path: Path) -> str:
    """The first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")[0]


def public_names(path: Path, package: Path = PACKAGE) -> Iterator[tuple[str, bool]]:
    """Each public name a module defines, and whether it is documented.

    A class's own methods are among them; what a method redefines is documented where it comes
    from, so magic methods and names behind an underscore are left out.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    name = dotted(path, package)
    yield name, ast.get_docstring(tree) is not None
    yield from _of_body(tree.body, name)


def _of_body(body: list[ast.stmt], inside: str) -> Iterator[tuple[str, bool]]:
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("_") or _is_overload(node):
            continue
        yield f"{inside}.{node.name}", ast.get_docstring(node) is not None
        if isinstance(node, ast.ClassDef):
            yield from _of_body(node.body, f"{inside}.{node.name}")


def _is_overload(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    marks = [ast.unparse(mark) for mark in node.decorator_list]
    return any(mark.endswith(("overload", "override", ".setter")) for mark in marks)
