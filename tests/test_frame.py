"""The frame itself: what importing costs, which imports are allowed, how long things may be."""

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

import retrograde

ROOT = Path(__file__).parents[1]
SOURCES = (ROOT, ROOT / "src", ROOT / "src" / "retrograde")
LINT_LIMITS = ROOT / "scripts" / "lint_limits.py"

PUBLIC = (
    "ALGORITHMS",
    "ENVIRONMENTS",
    "Algorithm",
    "Call",
    "End",
    "Environment",
    "Episode",
    "Forking",
    "Group",
    "Grower",
    "Message",
    "Observation",
    "Record",
    "Run",
    "ToolEnvironment",
    "Tree",
    "Turn",
    "train",
)
"""What `retrograde` promises. A change here is a change for users: it goes into CHANGELOG.md."""

violations = runpy.run_path(str(LINT_LIMITS))["violations"]


def python(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_importing_the_package_loads_no_torch():
    loaded = python("-c", "import retrograde, sys; print(*sorted(sys.modules))")
    assert loaded.returncode == 0, loaded.stderr
    assert not {"torch", "transformers", "numpy", "gymnasium"} & set(loaded.stdout.split())


def test_the_public_names_are_these():
    assert sorted(retrograde.__all__) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there_and_documented(name):
    value = getattr(retrograde, name)
    for named in value.values() if isinstance(value, Mapping) else [value]:
        assert named.__doc__


def test_a_name_that_is_not_public_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(retrograde, "no_such_name")  # noqa: B009


def test_the_version_is_written_once():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert retrograde.__version__ == project["version"]


def test_every_floor_is_under_the_import_contracts():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    floors, *forbidden = settings["importlinter"]["contracts"]
    packages = {p.parent.name for p in (ROOT / "src" / "retrograde").glob("*/__init__.py")}
    named = {floor.strip() for layer in floors["layers"] for floor in layer.split("|")}
    assert named == {f"retrograde.{package}" for package in packages}
    for contract in forbidden:
        assert len(named - set(contract["source_modules"])) == 1
    strict = {path.removeprefix("src/retrograde/") for path in settings["pyright"]["strict"]}
    assert strict == packages - {"backends", "cli"}


@pytest.fixture
def copied(tmp_path):
    """A copy of the package with its settings, for planting violations in."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "retrograde", tmp_path / "retrograde", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("module", "planted", "broken"),
    [
        ("ops/segments.py", "import retrograde.algorithms", "Floors"),
        ("credit/protocol.py", "import retrograde.losses", "Floors"),
        ("rollouts/plans.py", "import transformers", "Only backends know a backend"),
        ("trainer/loop.py", "import gymnasium", "Only environments know Gymnasium"),
    ],
)
def test_an_import_in_the_wrong_direction_is_caught(copied, module, planted, broken):
    with (copied / "retrograde" / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{planted}\n")
    # The copy must come before the installed package on the path.
    run = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command"
    linted = python("-c", f"{run}; lint_imports_command(['--no-cache'])", cwd=copied)
    assert linted.returncode == 1, linted.stdout + linted.stderr
    failed = [line for line in linted.stdout.splitlines() if line.endswith(" BROKEN")]
    assert len(failed) == 1
    assert failed[0].startswith(broken)


PLANTED = {
    "long.py": ("x = 1\n" * 401, "401 lines"),
    "algorithms/rtpo.py": ("x = 1\n" * 61, "61 lines"),
    "algorithms/grpo.py": ("x = 1\n" * 61, "61 lines"),
    "trainer/loop.py": ("x = 1\n" * 81, "81 lines"),
    "long_function.py": ("def f() -> None:\n" + "    x = 1\n" * 60, "f has 61 lines"),
    "wide_function.py": ("def f(a, b, c, d, e, f, g): ...\n", "7 positional parameters"),
    "broad.py": ("try:\n    x = 1\nexcept Exception:\n    x = 2\n", "every exception"),
    "bare.py": ("try:\n    x = 1\nexcept:\n    x = 2\n", "every exception"),
    "hidden.py": ("try:\n    x = 1\nexcept (OSError, BaseException):\n    x = 2\n", "every"),
    "pickled.py": ("import pickle\nx = pickle.load(None)\n", "pickle"),
    "tensors.py": ("import torch\nx = torch.load('x', weights_only=True)\n", "pickle"),
    "stub.py": ("def f() -> None:\n    raise NotImplementedError\n", "not implemented"),
    "later.py": ("# TODO: the rest\n", "unfinished"),
    "utils/paths.py": ("x = 1\n", "'utils'"),
    "core.py": ("x = 1\n", "'core'"),
}


@pytest.mark.parametrize("module", PLANTED)
def test_a_limit_that_is_broken_is_reported(tmp_path, module):
    source, expected = PLANTED[module]
    path = tmp_path / module
    path.parent.mkdir(exist_ok=True)
    path.write_text(source)
    (found,) = violations(tmp_path)
    assert found.startswith(f"{path}:")
    assert expected in found


def test_what_is_at_the_limit_is_allowed(tmp_path):
    (tmp_path / "algorithms").mkdir()
    (tmp_path / "algorithms" / "rtpo.py").write_text("x = 1\n" * 60)
    (tmp_path / "long.py").write_text("x = 1\n" * 400)
    (tmp_path / "functions.py").write_text(
        "def f(self, a, b, c, d, e, f, *, g, h): ...\ndef g():\n" + "    x = 1\n" * 59
    )
    assert list(violations(tmp_path)) == []


def test_algorithms_are_short(tmp_path):
    folder = tmp_path / "algorithms"
    folder.mkdir()
    for i, lines in enumerate((80, 40, 39)):
        (folder / f"method_{i}.py").write_text("x = 1\n" * lines)
    assert list(violations(tmp_path)) == []
    (folder / "method_1.py").write_text("x = 1\n" * 41)
    (found,) = violations(tmp_path)
    assert "half of the algorithms have over 41 lines" in found
    (folder / "method_1.py").write_text("x = 1\n" * 81)
    assert "a module of 81 lines; at most 80" in next(violations(tmp_path))


def test_the_script_fails_when_something_is_found(tmp_path):
    (tmp_path / "helpers.py").write_text("x = 1\n")
    found = python(str(LINT_LIMITS), str(tmp_path))
    assert (found.returncode, found.stdout.count("\n")) == (1, 1)
    assert python(str(LINT_LIMITS), str(tmp_path / "nowhere")).returncode == 2


def test_the_package_keeps_its_limits():
    assert list(violations(ROOT / "src" / "retrograde")) == []


def blocks_of(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def test_the_algorithm_of_the_guide_works_as_written(copied):
    for block in blocks_of("add_an_algorithm.md", "python"):
        path = copied / block.splitlines()[0].removeprefix("# ").removeprefix("src/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block, encoding="utf-8")
    (diff,) = blocks_of("add_an_algorithm.md", "diff")
    registry = copied / "retrograde" / "algorithms" / "registry.py"
    source = registry.read_text(encoding="utf-8")
    for before, added in re.findall(r"^ (.*)\n\+(.*)\n", diff, flags=re.MULTILINE):
        assert f"{before}\n" in source
        if f"{added}\n" not in source:  # whoever followed the guide has it already
            source = source.replace(f"{before}\n", f"{before}\n{added}\n")
    registry.write_text(source, encoding="utf-8")
    tested = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=copied)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "3 passed" in tested.stdout


def test_the_guide_takes_about_forty_lines():
    credit, algorithm, _ = blocks_of("add_an_algorithm.md", "python")
    bare = [line for line in (credit + algorithm).splitlines() if line.strip()]
    said = re.sub(r'"""(.|\n)*?"""', "", credit + algorithm)
    code = [line for line in said.splitlines() if line.strip() and not line.startswith("#")]
    assert len(code) <= 40
    assert len(bare) <= 70


def test_the_tour_runs_as_written(tmp_path):
    script = tmp_path / "tour.py"
    script.write_text("\n".join(blocks_of("tour.md", "python")), encoding="utf-8")
    walked = python("-W", "error", str(script))
    assert walked.returncode == 0, walked.stderr


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *ROOT.glob("[dD]*/*.md")]))
def test_what_a_page_points_to_is_there(page):
    # The first page of the site leads to pages that are made while it is built.
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)", text)
    made = ("algorithms/index.md", "reference/index.md") if page.name == "index.md" else ()
    assert [link for link in links if not (page.parent / link).exists() and link not in made] == []
    modules = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", text))
    missing = [m for m in modules if not any((r / m).exists() for r in SOURCES)]
    assert missing == []
