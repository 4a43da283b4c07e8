"""Every block of code on a page is run, or says why not; every command is one that exists."""

import contextlib
import re
from pathlib import Path

import pytest
from tests.cli.conftest import place, retrograde, stranger  # noqa: F401
from tests.pages.commands import (
    PAGES,
    ROOT,
    blocks,
    commands,
    fault,
    is_whole,
    scripts,
    unknown_options,
)

from retrograde.cli.contest import contest_from
from retrograde.cli.settings import parse_train
from retrograde.environments.extras import MissingExtraError

RUN_BY = {
    "docs/add_an_algorithm.md": "tests/test_frame.py",
    "docs/tour.md": "tests/test_frame.py",
    "docs/own_environment.md": "tests/pages/test_own_environment.py",
    "docs/rewards.md": "tests/pages/test_own_environment.py",
}
"""Pages whose Python is run by a test of its own."""
LANGUAGES = {"", "text", "diff", "json", "transcript", "doctor", "python", "bash", "console"}
HUB = re.compile(r'model="Qwen/[^"]+"')
"""A model that would have to be fetched; a small one takes its place."""
NAMED = [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES]
RUN = "runs/hop-rtpo-0"
"""What the code of some pages reads."""
TRAINED = ("README.md", "docs/tools.md")
"""Pages whose code trains, which takes long with a model that never comes to an end."""
PYTHON = [
    pytest.param(
        page,
        id=str(page.relative_to(ROOT)),
        marks=[pytest.mark.slow] if str(page.relative_to(ROOT)) in TRAINED else [],
    )
    for page in PAGES
    if str(page.relative_to(ROOT)) not in RUN_BY
    and any(block.language == "python" and block.reason is None for block in blocks(page))
]


@pytest.mark.parametrize("page", NAMED)
def test_every_block_is_of_a_known_kind(page):
    for block in blocks(page):
        kind = block.language.split(" ")[0]
        assert kind in LANGUAGES, f"{block.name}: {block.language}"
        if block.reason is not None:
            assert len(block.reason.split()) > 2, block


@pytest.mark.parametrize("page", NAMED)
def test_every_command_exists(page):
    wrong = {command: fault(command) for command in commands(page)}
    assert not {command: why for command, why in wrong.items() if why}


@pytest.mark.parametrize("page", NAMED)
def test_every_option_in_prose_exists(page):
    assert not unknown_options(page)


@pytest.mark.parametrize("page", NAMED)
def test_commands_without_placeholders_are_understood(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in commands(page):
        words = command.split()
        if words[:1] != ["retrograde"] or not is_whole(command) or "--resume" in words:
            continue
        if words[1] == "train" and not {"--help", "--help-all"} & set(words):
            with contextlib.suppress(MissingExtraError):  # what it needs may not be installed here
                parse_train(words[2:])
        if words[1] == "compare" and len(words) > len(("retrograde", "compare")):
            contest_from(words[2:])


@pytest.mark.parametrize("page", NAMED)
def test_every_script_is_there(page):
    for script in scripts(page):
        assert (ROOT / script).exists(), script


@pytest.mark.parametrize("page", PYTHON)
def test_the_code_of_a_page_runs(page, place, stranger, retrograde):  # noqa: F811
    if RUN in page.read_text(encoding="utf-8"):
        words = ["--model", stranger, "--steps", "1", "--prompts", "2", "--eval-episodes", "2"]
        assert retrograde("train", *words, "--quiet", "--out", RUN).code == 0
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks(page):
        if block.language == "python" and block.reason is None:
            short = f'model="{stranger}", steps=1, prompts=1, eval_episodes=1, quiet=True'
            text = HUB.sub(short, re.sub(r", steps=\d+", "", block.text))
            exec(compile(text, block.name, "exec"), names)  # noqa: S102 - the page's own code


@pytest.mark.parametrize("page", RUN_BY)
def test_pages_that_are_run_elsewhere_are(page):
    assert Path(page).name in (ROOT / RUN_BY[page]).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("retrograde trian", "no command 'trian'"),
        ("retrograde train --algorithm.sibling 3", "has no option --algorithm.sibling"),
        ("retrograde train --max-steps 3", "has no option --max-steps"),
        ("retrograde train --algorithm grrpo", "there is none of that name"),
        ("retrograde compare --algorithm rtpo --sneeds 3", "has no option --sneeds"),
        ("retrograde evaluate DIR --environment pond", "there is none of that name"),
        ("retrograde list algorithm", "nothing to list"),
        ("make doc", "no target 'doc'"),
        ("pip install 'retrograde[seaarch]'", "no extra 'seaarch'"),
        ("retrogrde train", "an unknown program"),
    ],
)
def test_what_does_not_exist_is_found(command, why):
    assert why in (fault(command) or "")


def test_an_unknown_option_in_prose_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("use `--max-stepps 3` or `--steps 3`, not `--environment.hop`\n")
    assert unknown_options(page) == ["--max-stepps", "--environment.hop"]


def test_what_is_given_away_is_not_run(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- not run: it is another library -->\n```bash\nretrograde trian\n```\n")
    assert not list(commands(page))
    page.write_text("```bash\nretrograde trian\n```\n")
    assert list(commands(page)) == ["retrograde trian"]
    page.write_text("one `retrograde trian --now` in prose\n")
    assert list(commands(page)) == ["retrograde trian --now"]
