"""Writes `docs/quality.md`: how many planted faults the tests find, and which they do not.

Run as `python scripts/quality_page.py FOLDER [PATH]`, where FOLDER is the one that mutmut ran in;
`make mutants` does. PATH is `docs/quality.md` unless given. Why a mutant may live is said in
`scripts/survivors.toml`, by what was changed into what; one that nothing is said about is listed
as open.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SURVIVED, UNTESTED, UNKNOWN = 0, 33, None
HEAD = """# Quality

A *mutant* is the code with one small fault planted in it: a `<` that became `<=`, a 1 that became a
2, an argument that became `None`. It is *killed* if a test fails. What survives is a fault that
nobody would notice, or a change that is none.

Written by `make mutants`, which plants {total} faults in the functions and methods of `ops`,
`credit`, `losses` and `schedules` and runs the tests of those packages, the golden ones and the
laws, with 10 examples a law in place of 50. Not planted are faults in messages of errors and in
`strict=True`, and mutmut leaves out functions that are decorated.

**{killed} of {total} are killed: {share}.**

{modules}
"""
OPEN = "Open"


@dataclass(frozen=True)
class Mutant:
    """A planted fault and what became of it."""

    module: str
    name: str
    code: int | None
    """How the tests ended; see the constants."""

    @property
    def killed(self) -> bool:
        """Whether a test failed, or never ended."""
        return self.code not in (SURVIVED, UNTESTED, UNKNOWN)


def planted(folder: Path) -> list[Mutant]:
    """Every mutant of a run."""
    root = folder / "mutants" / "src" / "retrograde"
    found = []
    for path in sorted(root.rglob("*.py.meta")):
        module = path.relative_to(root).as_posix().removesuffix(".meta")
        codes = json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
        found += [Mutant(module, name, code) for name, code in codes.items()]
    return found


def change(folder: Path, mutant: Mutant) -> tuple[str, str]:
    """The line that was changed, and what into."""
    command = [str(Path(sys.executable).parent / "mutmut"), "show", mutant.name]
    shown = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout  # noqa: S603
    lines = [line for line in shown.splitlines() if not line.startswith(("---", "+++"))]
    before, after = (
        " ".join(line[1:].strip() for line in lines if line.startswith(mark)) for mark in "-+"
    )
    return before, after


def reasons() -> list[tuple[re.Pattern[str], str]]:
    """What is said about survivors: patterns of `module: before => after`, and why they live."""
    path = ROOT / "scripts" / "survivors.toml"
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["survivor"]
    return [(re.compile(pattern), entry["why"]) for entry in entries for pattern in entry["what"]]


def share(killed: int, total: int) -> str:
    """A percentage."""
    return f"{killed / total:.1%}" if total else "none planted"


def table(mutants: Sequence[Mutant]) -> str:
    """Counts by module."""
    by_module: defaultdict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_module[mutant.module].append(mutant)
    lines = ["| module | planted | killed | share |", "|---|---|---|---|"]
    for module, own in by_module.items():
        killed = sum(mutant.killed for mutant in own)
        lines.append(f"| `{module}` | {len(own)} | {killed} | {share(killed, len(own))} |")
    return "\n".join(lines)


def listed(survivors: Mapping[str, Sequence[tuple[str, str, str]]]) -> str:
    """The survivors under what is said about them; open ones last."""
    parts = []
    for why in sorted(survivors, key=lambda why: why == OPEN):
        lines = [f"## {why} ({len(survivors[why])})", ""]
        for module, before, after in survivors[why]:
            lines += [f"- `{module}`", "", "  ```diff", f"  -{before}", f"  +{after}", "  ```"]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def page(folder: Path) -> str:
    """The whole page."""
    mutants = planted(folder)
    if any(mutant.code is UNKNOWN for mutant in mutants):
        unknown = sum(mutant.code is UNKNOWN for mutant in mutants)
        raise ValueError(f"{folder}: {unknown} of {len(mutants)} mutants were not run yet")
    killed = sum(mutant.killed for mutant in mutants)
    survivors: defaultdict[str, list[tuple[str, str, str]]] = defaultdict(list)
    known = reasons()
    for mutant in mutants:
        if mutant.killed:
            continue
        before, after = change(folder, mutant)
        said = f"{mutant.module}: {before} => {after}"
        why = next((why for pattern, why in known if pattern.search(said)), OPEN)
        survivors[why].append((mutant.module, before, after))
    head = HEAD.format(
        total=len(mutants),
        killed=killed,
        share=share(killed, len(mutants)),
        modules=table(mutants),
    )
    return f"{head}\n# What survives\n\n{listed(survivors)}\n"


def main(arguments: list[str]) -> int:
    """Writes the page."""
    if not arguments:
        print(__doc__)
        return 2
    path = Path(arguments[1]) if len(arguments) > 1 else ROOT / "docs" / "quality.md"
    path.write_text(page(Path(arguments[0])), encoding="utf-8")
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
