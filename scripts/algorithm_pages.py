"""Writes one page a method, from its own file; `make docs` puts them on the site."""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from docstring_parser import parse

from papers_page import linked, section

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = 2
"""Tests of a golden file that are shown."""
GROUPS = {
    "Turn by turn, the last first": ("rtpo", "rtpo_plus", "seeupo"),
    "Trees": (
        *("at2po", "tree_grpo", "treerl", "treepo", "arpo", "aepo", "patr"),
        "random_tree",
    ),
    "Turns of whole rollouts": (
        *("atpo", "gigpo", "stepo", "planpo", "tcpo", "leap", "memopilot"),
        "a2tgpo",
    ),
    "Whole rollouts": (
        *("reinforce", "rloo", "reinforce_pp", "grpo", "dr_grpo", "dapo", "gspo", "cispo"),
        "grpo_flat",
    ),
    "With a critic": ("ppo", "turn_ppo"),
}


def pages() -> dict[str, str]:
    """Each page by its path in the site, the overview first.

    Raises:
        ValueError: a method is in no group or in two, or its file lacks a section or a test.
    """
    methods: Mapping[str, Callable[..., Any]] = importlib.import_module(
        "retrograde.algorithms.registry"
    ).ALGORITHMS
    placed = [name for names in GROUPS.values() for name in names]
    if sorted(placed) != sorted(methods):
        wrong = sorted(set(placed) ^ set(methods)) or "one is named twice"
        raise ValueError(f"GROUPS must name each method once: {wrong}")
    written = {f"algorithms/{name}.md": page(name, methods[name]) for name in placed}
    return {"algorithms/index.md": overview(methods)} | written


def overview(methods: Mapping[str, Callable[..., Any]]) -> str:
    """The page that leads to the others."""
    lines = [
        "# Algorithms\n",
        "One word chooses the method: `--algorithm NAME`. Each page is made from the method's own",
        "file and from the test in which its numbers are worked by hand.",
        "[Add an algorithm](../add_an_algorithm.md) says how one is written,",
        "[Gradients, exact and estimated](../estimators.md) how far each gradient is from the",
        "exact one, and [Measured runs](../results.md) what they come to at equal cost.\n",
    ]
    for title, names in GROUPS.items():
        lines += [f"## {title}\n", "| method | what it is |", "|---|---|"]
        lines += [f"| [`{name}`]({name}.md) | {summary(methods[name])} |" for name in names]
        lines.append("")
    return "\n".join(lines)


def page(name: str, method: Callable[..., Any]) -> str:
    """The page of one method."""
    module = inspect.getmodule(method)
    doc = inspect.getdoc(module) or ""
    made = method()
    needs = [*(["forks"] if made.grow.forks else []), *map(str, made.needs)]
    file = f"../../src/retrograde/algorithms/{name}.py"
    return "\n".join(
        [
            f"# {name}\n",
            f"{doc.splitlines()[0]}\n",
            "```bash",
            f"retrograde train --algorithm {name}",
            "```\n",
            f"**Source.** {linked(section(name, doc, 'Source'))}\n",
            f"**Differs from the source.** {section(name, doc, 'Differs from the source')}\n",
            f"**Needs of an environment.** {', '.join(needs) or 'an outcome, no more'}.\n",
            "## Options\n",
            f"`--algorithm.NAME VALUE` on the command line, `{name}(NAME=VALUE)` in Python.\n",
            *options(method),
            "\n## What it chooses\n",
            "At its defaults:\n",
            "```text",
            *(f"{field:10} {chosen(getattr(made, field))}" for field in FIELDS),
            "```\n",
            f"The whole file is short: [{name}.py]({file}).\n",
            "## Numbers worked by hand\n",
            example(name),
            "",
        ]
    )


FIELDS = ("grow", "credit", "loss", "update", "view", "normalise")


def chosen(value: object) -> str:
    """A choice of an algorithm, in few words."""
    if value is None:
        return "nothing"
    return re.sub(r"<(\w+)\.\w+: '([\w ]+)'>", r"\2", repr(value))


def options(method: Callable[..., Any]) -> list[str]:
    """The rows of the table of options."""
    written = importlib.import_module("retrograde.algorithms.options").written_out(method)
    said = {p.arg_name: p.description or "" for p in parse(inspect.getdoc(written) or "").params}
    rows = ["| option | default | what it is |", "|---|---|---|"]
    for name, parameter in inspect.signature(written).parameters.items():
        about = " ".join(said[name].split()).replace("|", "\\|")
        values = getattr(parameter.annotation, "__args__", ())
        if values and all(isinstance(value, str) for value in values):
            about += f" One of {', '.join(f'`{value}`' for value in values)}."
        default = "left open" if parameter.default is None else f"`{parameter.default}`"
        rows.append(f"| `{name.replace('_', '-')}` | {default} | {about} |")
    return rows


def example(name: str) -> str:
    """The first tests of a method's golden file, with what is drawn and worked out above them."""
    path = f"tests/golden/test_{name}.py"
    text = (ROOT / path).read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    tests = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    ]
    parts: list[str] = []
    end = 0
    for node in [*tests[:EXAMPLES]]:
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
        drawing = drawn_before(lines, end, first, tree)
        parts.append(textwrap.dedent("\n".join([*drawing, *lines[first : node.end_lineno]])))
        end = node.end_lineno or first
    said = (ast.get_docstring(tree) or "").splitlines()[0]
    code = "\n\n\n".join(parts)
    return (
        f"{said}\n\n```python\n{code}\n```\n\nThe first {len(parts)} of {len(tests)} tests in "
        f"[{Path(path).name}](../../{path}), where the names they use are defined."
    )


def drawn_before(lines: list[str], start: int, end: int, tree: ast.Module) -> list[str]:
    """The last drawing in comments between two lines, and the value it is a drawing of."""
    drawings = [
        node
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and start < node.lineno <= end
        and lines[node.lineno - 2].startswith("#")
    ]
    if not drawings:
        return []
    node = drawings[-1]
    first = node.lineno - 1
    while first > start and lines[first - 1].startswith("#"):
        first -= 1
    return [*lines[first : node.end_lineno], "", ""]


def summary(method: Callable[..., Any]) -> str:
    """What a method is, in a sentence."""
    return (inspect.getdoc(method) or "").splitlines()[0].replace("|", "\\|")
