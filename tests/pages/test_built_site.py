"""The site as it is built: whole, quiet on the network, and usable from disk in a real browser."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from tests.report.browser import AXE, Tab, browsing, until

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def built(folder, config=ROOT / "mkdocs.yml"):
    """What mkdocs says, and with which exit code."""
    pytest.importorskip("mkdocs", reason="`make setup-docs`")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config)]
    return subprocess.run(
        [*command, "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")},
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    said = built(folder)
    assert said.returncode == 0, said.stderr
    return folder


def test_nothing_is_wrong_with_it(site, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    assert import_module("check_site").main(site) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("planted", "complaint"),
    [
        ("[x](nothere.md)", "nothere.md"),
        ("[x](index.md#nothere)", "#nothere"),
        ("::: retrograde.nothere", "retrograde.nothere"),
        ("[x](../src/retrograde/nothere.py)", "nothere.py"),
    ],
)
def test_a_planted_fault_fails_the_build(tmp_path, planted, complaint):
    pages = tmp_path / "docs"
    pages.mkdir()
    (pages / "index.md").write_text(f"# Title\n\n{planted}\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: {pages}\nnav: [index.md]\n"
        f"hooks: [{ROOT / 'scripts' / 'site_hooks.py'}]\n"
        "not_in_nav: |\n  /**\n"
    )
    said = built(tmp_path / "site", config)
    assert said.returncode != 0
    assert complaint in said.stderr


@pytest.mark.browser
def test_rtpo_can_be_stepped_through_from_disk_with_keys(site):
    with browsing() as browser:
        tab = Tab(browser)
        asked = []
        tab.page.on("request", lambda request: asked.append(request.url))
        tab.page.goto((site / "rtpo.html").as_uri())
        where = tab.page.locator(".stepper-bar span")
        until(where).to_have_text("step 1 of 7")
        until(tab.page.locator(".stepper li:visible")).to_have_count(1)
        tab.page.focus(".stepper")
        for _ in range(3):
            tab.page.keyboard.press("ArrowRight")
        until(where).to_have_text("step 4 of 7")
        until(tab.page.locator(".stepper img:visible")).to_have_attribute(
            "src", "pictures/rtpo-4.svg"
        )
        tab.page.keyboard.press("End")
        until(where).to_have_text("step 7 of 7")
        until(tab.page.get_by_role("button", name="Next", exact=True)).to_be_disabled()
        tab.page.get_by_role("button", name="Back", exact=True).click()
        until(where).to_have_text("step 6 of 7")
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
        assert tab.complaints == []
        tab.close()


@pytest.mark.browser
def test_all_steps_are_shown_without_scripts(site):
    with browsing() as browser:
        tab = Tab(browser, java_script_enabled=False)
        tab.page.goto((site / "rtpo.html").as_uri())
        until(tab.page.locator(".stepper li:visible")).to_have_count(7)
        tab.close()


@pytest.mark.browser
def test_search_works_from_disk(site):
    with browsing() as browser:
        tab = Tab(browser)
        tab.page.goto((site / "index.html").as_uri())
        tab.page.fill(".md-search__input", "reinforce")
        until(tab.page.locator(".md-search-result__meta")).to_contain_text("matching")
        until(tab.page.locator(".md-search-result__item").first).to_be_attached()
        assert tab.complaints == []
        tab.close()


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", ["index", "rtpo", "algorithms/rtpo", "troubleshooting"])
def test_no_page_has_a_serious_accessibility_fault_of_ours(site, page, scheme):
    if not AXE.exists():
        pytest.skip("axe-core is not there; `make setup-ui`")
    with browsing() as browser:
        tab = Tab(browser, color_scheme=scheme)
        tab.page.goto((site / f"{page}.html").as_uri())
        tab.page.add_script_tag(content=AXE.read_text(encoding="utf-8"))
        found = tab.page.evaluate("axe.run('.md-content')")["violations"]
        serious = [
            (fault["id"], fault["nodes"][0]["html"])
            for fault in found
            if fault["impact"] in ("serious", "critical")
        ]
        assert serious == []
        tab.close()
