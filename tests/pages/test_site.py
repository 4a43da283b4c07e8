"""The site: its made pages are whole, and its checks find what is planted."""

import importlib
import sys
import zlib
from pathlib import Path

import pytest

from retrograde.algorithms.options import options_of
from retrograde.algorithms.registry import ALGORITHMS
from retrograde.credit.sibling_mean import SiblingMean
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn
from retrograde.environments.registry import ENVIRONMENTS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def scripts():
    """The scripts import each other as if they stood where they are run."""
    sys.path.insert(0, str(ROOT / "scripts"))
    yield
    sys.path.remove(str(ROOT / "scripts"))


def script(name):
    return importlib.import_module(name)


def test_every_algorithm_has_a_page_with_its_source_options_and_numbers():
    pages = script("algorithm_pages").pages()
    assert set(pages) == {"algorithms/index.md", *(f"algorithms/{n}.md" for n in ALGORITHMS)}
    for name, method in ALGORITHMS.items():
        page = pages[f"algorithms/{name}.md"]
        assert f"[`{name}`]({name}.md)" in pages["algorithms/index.md"]
        for part in ("**Source.**", "**Differs from the source.**", "**Needs of an", "def test_"):
            assert part in page, (name, part)
        for option, default in options_of(method).items():
            shown = "left open" if default is None else f"`{default}`"
            (row,) = [
                line
                for line in page.splitlines()
                if line.startswith(f"| `{option.replace('_', '-')}` |")
            ]
            assert f"| {shown} |" in row
            assert not row.endswith("|  |"), f"{name}: nothing is said of {option}"


def test_a_method_that_is_in_no_group_is_missed(monkeypatch):
    pages = script("algorithm_pages")
    monkeypatch.setattr(pages, "GROUPS", {**pages.GROUPS, "Trees": ("at2po",)})
    with pytest.raises(ValueError, match="tree_grpo"):
        pages.pages()


def test_every_public_name_is_documented():
    assert script("check_site").undocumented() == []


def test_the_reference_has_every_package_and_module():
    reference = script("reference_pages")
    text = "\n".join(reference.pages().values())
    modules = [path for path in reference.PACKAGE.rglob("*.py") if reference.public(path)]
    assert len(modules) > 200
    for path in modules:
        assert f"::: {reference.dotted(path)}\n" in text, path


def planted_package(folder):
    package = folder / "planted"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text('"""A package."""\n')
    (package / "inner" / "__init__.py").write_text('"""Inside."""\n')
    (package / "inner" / "_hidden.py").write_text("def anything(): ...\n")
    (package / "inner" / "thing.py").write_text(
        '"""A module."""\n\n\nclass Said:\n    """Documented."""\n\n'
        "    def method(self): ...\n\n    def _own(self): ...\n\n\ndef function(): ...\n"
    )
    return package


def test_names_without_documentation_are_found(tmp_path):
    check, package = script("check_site"), planted_package(tmp_path)
    assert check.undocumented(package) == [
        "planted.inner.thing.Said.method", "planted.inner.thing.function",
    ]  # fmt: skip


def test_names_that_the_reference_lacks_are_found(tmp_path):
    check, package = script("check_site"), planted_package(tmp_path)
    lines = "planted py:module 1 x -\nplanted.inner py:module 1 x -\nplanted.inner.thing p 1 x -\n"
    (tmp_path / "objects.inv").write_bytes(b"#\n#\n#\n#\n" + zlib.compress(lines.encode()))
    known = check.inventory_of(tmp_path)
    assert check.unreachable(known, package) == [
        "planted.inner.thing.Said", "planted.inner.thing.Said.method",
        "planted.inner.thing.function",
    ]  # fmt: skip


SOUND = (
    '<html><head><link rel="canonical" href="https://elsewhere.org"/></head><body id="top">'
    '<a href="other.html#there">x</a> <a href="#top">y</a> <a href="https://elsewhere.org/a">z</a>'
    '<img src="a.svg" alt="a"/> <a href="sub/">s</a></body></html>'
)


@pytest.fixture
def site(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "index.html").write_text('<a href="../index.html">back</a>')
    (tmp_path / "index.html").write_text(SOUND)
    (tmp_path / "other.html").write_text('<h2 id="there">t</h2>')
    (tmp_path / "a.svg").write_text("<svg/>")
    (tmp_path / "a.css").write_text("a { background: url(a.svg) }")
    return tmp_path


def test_a_sound_site_has_no_faults(site):
    assert script("check_site").faults(site) == []


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        ('<a href="nothere.html">x</a>', "nothere.html: leads nowhere"),
        ('<a href="other.html#nothere">x</a>', "no anchor 'nothere'"),
        ('<a href="#nothere">x</a>', "no anchor 'nothere'"),
        ('<a href="https://nohost">x</a>', "no host"),
        ('<a href="ftp://a.org/b">x</a>', "of no known kind"),
        ('<img src="a.svg"/>', "no text in its place"),
        ('<img src="b.svg" alt="b"/>', "which is not there"),
        ('<script src="https://cdn.org/x.js"></script>', "from the network"),
        ('<link rel="stylesheet" href="//fonts.org/css"/>', "from the network"),
        ('<p style="background: url(https://a.org/b.png)"></p>', "from the network"),
    ],
)
def test_planted_faults_are_found(site, planted, fault):
    (site / "planted.html").write_text(planted)
    (found,) = script("check_site").faults(site)
    assert found.startswith("planted.html: ")
    assert fault in found


@pytest.mark.parametrize("rule", ["@import 'https://a.org/b.css';", "a{background:url(//a.org/b)}"])
def test_a_style_sheet_that_loads_from_elsewhere_is_found(site, rule):
    (site / "b.css").write_text(rule)
    (found,) = script("check_site").faults(site)
    assert found.startswith("b.css: loads ")


def test_the_pictures_are_what_their_script_draws():
    for name, drawn in script("concept_pictures").pictures().items():
        kept = (ROOT / "docs" / "pictures" / name).read_text(encoding="utf-8")
        assert kept == drawn, "run `python scripts/concept_pictures.py`"


def test_the_stepper_has_every_frame_in_order():
    page = (ROOT / "docs" / "rtpo.md").read_text(encoding="utf-8")
    places = []
    for number, (title, about, _, _) in enumerate(script("concept_pictures").FRAMES, 1):
        shown = f'src="pictures/rtpo-{number}.svg" alt="{title}. {about}"'
        assert shown in page
        places.append(page.index(shown))
    assert places == sorted(places)


@pytest.mark.parametrize("trained", [1, 2, 3])
def test_the_advantages_in_the_pictures_are_those_of_the_credit(trained):
    pictures = script("concept_pictures")

    def turn(parent, reward=0.0, *, grown_in=0, end=None):
        return Turn(parent, 0, (9,), (9,), (1,), (-1.0,), grown_in, grown_in, reward, end)

    trunk = [turn(i - 1 if i else ROOT_PARENT) for i in range(2)]
    trunk.append(turn(1, end=End.FINISHED))
    number = 4 - trained
    parent = trained - 2 if trained > 1 else ROOT_PARENT
    siblings = [
        turn(parent, float(earned), grown_in=number, end=End.FINISHED)
        for earned in pictures.RETURNS[trained]
    ]
    tree = Tree((*trunk, *siblings))
    (judged,) = SiblingMean()(Group("t", (tree,)), number)
    visits = zip(tree.visits, judged.advantage_V, judged.trains_V, strict=True)
    found = {visited: advantage for (_, visited), advantage, trains in visits if trains}
    expected = [float(gain) for gain in pictures.advantages(trained)]
    assert [found[i] for i in sorted(found)] == pytest.approx(expected)


def test_every_environment_has_a_page_and_is_in_the_list():
    listed = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
    for name in ENVIRONMENTS:
        assert (ROOT / "docs" / "environments" / f"{name}.md").exists(), name
        assert f"(environments/{name}.md)" in listed, name
