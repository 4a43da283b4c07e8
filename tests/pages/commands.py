"""Commands on the pages, held against the parsers that will read them."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from retrograde.algorithms.registry import ALGORITHMS
from retrograde.cli.completion import PARSERS, train_parser
from retrograde.cli.main import COMMANDS
from retrograde.environments.registry import ENVIRONMENTS

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.name != "quality.md"),
]
"""What people read; quality.md shows planted faults."""
FENCE = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+?) -->\s*\n\s*)?"
    r"^(?P<indent> *)```(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
INLINE = re.compile(r"`((?:retrograde|make|pip) [^`]+)`")
SHELL = {"bash", "console", "sh", "shell"}
PLACEHOLDER = re.compile(
    r"[A-Z][A-Z_]*(:[A-Z]+)?$|.*[/:].*|.*\.\w+$|.*\.\.\.|.*\|.*|[A-Z](,[A-Z])*$"
)
"""What stands for something of the reader's: no value that could be checked."""
AFTER_ENVIRONMENT = {"--tasks", "--seed", "--threaded"}
"""Options that `retrograde doctor` reads once it knows the environment."""
MADE_ON_PAGES = {"median_grpo"}
"""Algorithms that a page teaches to write."""
OTHERS = {"cd", "export", "eval", "source", "git", "python", "python3.12", "npx", "nvidia-smi"}
"""Programs that are not ours."""
OF_OTHERS = {"--no-deps"}
"""Options of theirs."""


class Block(NamedTuple):
    """A fenced block of a page."""

    page: Path
    language: str
    text: str
    reason: str | None
    """Why it is not run; None if it is."""

    @property
    def name(self) -> str:
        """Where it is."""
        return str(self.page.relative_to(ROOT))


def blocks(page: Path, text: str | None = None) -> list[Block]:
    """The fenced blocks of a page, without their indentation."""
    return [
        Block(
            page,
            found["language"].strip(),
            re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
            found["reason"],
        )
        for found in FENCE.finditer(page.read_text(encoding="utf-8") if text is None else text)
    ]


def commands(page: Path) -> Iterator[str]:
    """Every command of ours on a page, in blocks and in prose."""
    text = page.read_text(encoding="utf-8")
    for block in blocks(page, text):
        if block.reason is None and (block.language in SHELL or not block.language):
            yield from lines_of(block)
    for found in INLINE.finditer(FENCE.sub("", text)):
        yield " ".join(found[1].split())


def lines_of(block: Block) -> Iterator[str]:
    """The commands of a block; one without a language has some if they begin with our name."""
    joined = re.sub(r"\\\n\s*", "", block.text)
    for line in joined.splitlines():
        command = re.split(r"\s{2,}|\s#", line.removeprefix("$ "))[0].strip()
        ours = command.startswith(("retrograde ", "make "))
        if command and (block.language in SHELL or ours):
            yield command


def fault(command: str) -> str | None:
    """What is wrong with a command, if anything is."""
    words = shlex.split(command, comments=True)
    if words[0] == "retrograde":
        return _fault_of_ours(words[1:])
    if words[0] == "make":
        return _fault_of_make(words[1:])
    if words[0] == "pip":
        return _fault_of_pip(command)
    return None if words[0] in OTHERS or words[0].startswith("./") else "an unknown program"


def _fault_of_ours(words: list[str]) -> str | None:
    name = words[0] if words else ""
    if PLACEHOLDER.fullmatch(name) or name.startswith("--"):
        return None
    if name not in COMMANDS:
        return f"no command {name!r}"
    known = options_of(name)
    free = any(".py:" in word or word.startswith(("tools", "verifiers")) for word in words)
    for word in words[1:]:
        option = word.partition("=")[0]
        belongs = option.startswith("--environment.") and free
        if option.startswith("--") and option not in known and not belongs:
            return f"retrograde {name} has no option {option}"
    return _fault_of_values(name, words[1:])


def unknown_options(page: Path) -> list[str]:
    """Options that a page names in prose and no command has."""
    known = {option for name in COMMANDS for option in options_of(name)} | OF_OTHERS
    known |= {f"--{group}.{some}" for group in ("algorithm", "environment", "model") for some in
              ("NAME", "X")}  # fmt: skip
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    said = re.findall(r"`(--[a-z][\w.-]*)", prose)
    return [option for option in said if option not in known]


@cache
def options_of(name: str) -> frozenset[str]:
    """The options of a command, those of every method and environment among them."""
    train = frozenset(train_parser()._option_string_actions)
    if name == "train":
        return train
    module = import_module(PARSERS.get(name, COMMANDS[name][0]))
    own = frozenset(module.parser()._option_string_actions)
    if name == "compare":
        return own | train
    worlds = frozenset(option for option in train if option.startswith("--environment."))
    return own | worlds | (AFTER_ENVIRONMENT if name == "doctor" else frozenset())


def _fault_of_values(name: str, words: list[str]) -> str | None:
    known = {"--algorithm": {*ALGORITHMS, *MADE_ON_PAGES}, "--environment": {*ENVIRONMENTS}}
    for option, value in pairwise(words):
        named = value.partition(":")[0]
        if option in known and not PLACEHOLDER.fullmatch(value) and named not in known[option]:
            return f"{option} {value}: there is none of that name"
    if name == "list" and words and not PLACEHOLDER.fullmatch(words[0]):
        kinds = ("algorithms", "environments", "models", "rewards")
        return None if words[0] in kinds else f"nothing to list: {words[0]}"
    return None


def is_whole(command: str) -> bool:
    """Whether nothing in a command stands for something of the reader's, paths of runs aside."""
    words = shlex.split(command, comments=True)
    values = [
        word for before, word in pairwise(words) if not word.startswith("-") and before != "--out"
    ]
    return not any(PLACEHOLDER.fullmatch(value) or value in MADE_ON_PAGES for value in values)


def _fault_of_make(words: list[str]) -> str | None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))
    wrong = [w for w in words if "=" not in w and w not in targets and w not in ("&&", "make")]
    return f"no target {wrong[0]!r} in the Makefile" if wrong else None


def _fault_of_pip(command: str) -> str | None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"]) | {"NAME"}
    for found in re.findall(r"(?:retrograde|\.)\[([\w,]+)\]", command):
        for extra in found.split(","):
            if extra not in extras:
                return f"no extra {extra!r}"
    return None


def scripts(page: Path) -> list[str]:
    """The scripts of the repository that a page says can be run."""
    return re.findall(r"python (scripts/\w+\.py)", page.read_text(encoding="utf-8"))
