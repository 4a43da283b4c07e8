"""The page in a real browser: from disk and served, by mouse and by keyboard."""

import json
import re

import pytest

from retrograde.report.page import report

from .browser import AXE, Tab, browsing, until
from .runs import HOSTILE, add_step, evaluation, made, metrics, write_lines
from .test_server import served

pytestmark = pytest.mark.browser
OPENS_MS = 3000
"""What a person waits for; pages of this size take a tenth of it."""


@pytest.fixture(scope="module")
def browser():
    with browsing() as browser:
        yield browser


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return made(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def written(run):
    path = run.parent / "report.html"
    path.write_text(report([run]), encoding="utf-8")
    return path


@pytest.fixture
def tab(browser):
    tab = Tab(browser)
    yield tab
    tab.close()
    assert tab.complaints == []


@pytest.fixture
def page(tab, written):
    tab.page.goto(written.as_uri())
    tab.page.wait_for_selector(".turn")
    return tab.page


def test_it_opens_from_disk(page):
    assert page.title() == "rtpo on hop, embedded \u2013 Retrograde"
    assert page.locator(".card .value").first.inner_text() == "20.0 % \u2192 60.0 %"
    page.wait_for_selector(".chart canvas")
    assert page.locator(".list li").count() == 14


def test_it_reaches_nothing_outside_itself(tab, written):
    asked = []
    tab.page.on("request", lambda request: asked.append(request.url))
    tab.page.goto(written.as_uri())
    tab.page.wait_for_selector(".turn")
    assert asked == [written.as_uri()]


def test_what_a_run_says_is_shown_and_never_obeyed(page):
    page.locator(".list input, .rollouts input[type=search]").fill("onerror")
    assert page.locator(".list .name").all_inner_texts() == [HOSTILE]
    page.locator(".list li button").click()
    until(page.locator(".trees strong")).to_have_text(HOSTILE)
    assert "<b>bold</b>" in page.locator(".tokens").first.inner_text()
    assert page.locator("main img, main b").count() == 0
    assert page.title() != "1"


def test_a_node_shows_its_exact_context_and_answer(page):
    page.locator('.list button[data-key="0-step-2-1"]').click()
    page.locator('[data-turn="0.5"]').click()  # the sibling of turn 4 that won
    turn = page.locator(".turn")
    assert turn.locator("h3").inner_text() == "Turn 4"
    assert "carried gradient in the update to version 4" in turn.inner_text()
    facts = dict(
        zip(turn.locator("dt").all_inner_texts(), turn.locator("dd").all_inner_texts(), strict=True)
    )
    assert facts["advantage"] == "+0.667"
    assert facts["return behind it"] == "1"
    assert facts["policy version"] == "3"
    answer = turn.locator(".tokens").first.locator(".token")
    assert answer.all_inner_texts() == ["open", "<b>bold</b>", "<|end|>"]
    assert answer.nth(2).evaluate("e => e.classList.contains('special')")
    assert answer.evaluate_all("e => e.every(t => t.classList.contains('carried'))")
    assert "log-probability \u22120.100 (90.5 %)" in answer.first.get_attribute("title")
    assert "ratio 1.010" in answer.first.get_attribute("title")  # exp(-0.09 + 0.1)
    answer.nth(1).click()
    assert "id 6; log-probability \u22121.500" in turn.locator("[role=status]").inner_text()
    turn.locator(".tokens").first.press("ArrowLeft")
    until(turn.locator("[role=status]")).to_contain_text("open: id 4; log-probability")
    # Three turns before: each was shown two tokens and said three.
    context = turn.locator(".tokens.context .token").all_inner_texts()
    assert context == ["look", "left", "right", "door", "<|end|>"] * 3 + ["look", "left"]
    rows = turn.locator(".siblings tbody tr")
    assert rows.count() == 4  # the first attempt and three siblings


def test_tokens_are_tinted_as_asked(page):
    page.locator('.list button[data-key="0-step-2-1"]').click()
    page.locator('[data-turn="0.5"]').click()
    token = page.locator(".turn .tokens .token").nth(1)
    seen = set()
    for tint in ("none", "logprob", "ratio", "entropy", "advantage"):
        page.locator(".turn select").select_option(tint)
        seen.add(token.evaluate("e => getComputedStyle(e).backgroundColor"))
    assert len(seen) == 5


def test_colours_say_what_is_chosen(page):
    page.locator('.list button[data-key="0-step-2-1"]').click()
    dots = page.locator(".node .dot")
    seen = set()
    for mode in ("advantage", "below", "entropy", "reward", "score", "critic", "version"):
        page.locator(".trees select").select_option(mode)
        fills = dots.evaluate_all("e => e.map(d => getComputedStyle(d).fill).join()")
        label = page.locator(".node").nth(4).get_attribute("aria-label")
        assert label.startswith("Turn 4, ")
        seen.add(fills)
    assert len(seen) >= 6  # one policy version sampled them all


def test_phases_are_stepped_through_the_last_turn_first(page):
    page.locator('.list button[data-key="0-step-2-1"]').click()
    until(page.locator(".trees strong")).to_have_text("train-2-1")
    after = page.get_by_role("button", name="Phase after")
    shown, turns = [], []
    for _ in range(5):
        after.click()
        shown.append(page.locator(".node").count())
        words = page.locator(".phases span").inner_text()
        turns += re.findall(r"at turn (\d)", words)
    # The trunk; three answers to turn 4; three to turn 3 with a turn behind each; and so on.
    assert shown == [4, 4 + 3, 7 + 6, 13 + 9, 22 + 12]
    assert turns == ["4", "3", "2", "1"]
    assert "update to version 7, 3 of 3" in words
    after.click()
    assert (
        page.get_by_role("button", name="all", exact=True).get_attribute("aria-pressed") == "true"
    )
    page.keyboard.press("[")
    assert (
        page.get_by_role("button", name="4", exact=True).first.get_attribute("aria-pressed")
        == "true"
    )


def test_filters_narrow_the_list_and_fade_the_rest_of_a_tree(page):
    def found():
        return page.locator(".list li").count()

    form = page.locator("form[aria-label=Filters]")
    form.get_by_label("played for").select_option("evaluation, greedy")
    assert found() == 6
    form.get_by_label("ended by").select_option("finished")
    assert found() == 0
    assert "No group passes" in page.locator(".list").inner_text()
    form.get_by_role("button", name="Clear").click()
    form.get_by_label("step").select_option("3")
    assert found() == 2
    form.get_by_label("task").fill("TRAIN-3-1")
    assert found() == 1
    form.get_by_label("with a rollout that").select_option("won")
    until(page.locator(".trees strong")).to_have_text("train-3-1")
    faded = page.locator(".node.faded").count()
    # Of 13 rollouts 4 won. They pass the first three turns of the trunk, and 4, 3, 2 and 1 own.
    assert page.locator(".node").count() - faded == 3 + 1 + 2 + 3 + 4
    form.get_by_role("button", name="Clear").click()
    assert found() == 14


def test_the_keyboard_walks_through_a_tree_and_between_groups(page):
    page.locator('.list button[data-key="0-step-2-0"]').click()
    page.locator('[data-turn="0.0"]').click()

    def at():
        return page.evaluate("document.activeElement.dataset.turn")

    page.locator('[data-turn="0.0"]').focus()
    walked = []
    for key in ("ArrowRight", "End", "ArrowDown", "ArrowLeft", "Home"):
        page.keyboard.press(key)
        page.wait_for_timeout(50)
        walked.append(at())
    assert walked == ["0.1", "0.3", "0.4", "0.2", "0.0"]
    assert page.locator(".node[aria-selected=true]").get_attribute("data-turn") == "0.0"
    assert page.locator(".node[tabindex='0']").count() == 1
    page.keyboard.press(".")
    until(page.locator(".trees strong")).to_have_text("train-2-1")
    assert page.url.endswith("#0-step-2-1")
    page.keyboard.press(",")
    until(page.locator(".trees strong")).to_have_text("train-2-0")


def test_an_address_leads_to_a_turn(tab, written):
    tab.page.goto(f"{written.as_uri()}#0-step-3-1/0.9")
    tab.page.wait_for_selector(".turn")
    assert tab.page.locator(".trees strong").inner_text() == "train-3-1"
    assert tab.page.locator(".node.selected").get_attribute("data-turn") == "0.9"


def test_tasks_that_changed_lead_to_their_rollouts(page):
    rows = page.locator(".flips tbody tr")
    assert rows.locator("th").all_inner_texts() == ["test-0", "test-1"]  # the failing first
    assert "1 now pass that failed before; 1 now fail" in page.locator("main").inner_text()
    rows.first.get_by_role("button", name="after").click()
    until(page.locator(".trees strong")).to_have_text("test-0")
    assert page.url.endswith("#0-evaluation-4-0")


def test_curves_can_be_smoothed_and_drawn_across_tokens(page):
    figure = page.locator("figure").first
    figure.scroll_into_view_if_needed()
    before = figure.locator("canvas").evaluate("c => c.toDataURL()")
    page.get_by_label("smoothing").fill("0.9")
    page.wait_for_timeout(100)
    smooth = page.locator("figure").first.locator("canvas").evaluate("c => c.toDataURL()")
    page.get_by_label("across").select_option("tokens/generated")
    page.wait_for_timeout(100)
    across = page.locator("figure").first.locator("canvas").evaluate("c => c.toDataURL()")
    assert len({before, smooth, across}) == 3


def test_several_seeds_are_one_line_with_a_band(tab, tmp_path):
    runs = [made(tmp_path / f"seed-{seed}", seed=seed) for seed in range(3)]
    line = metrics(4) | {"eval/success": 0.9}
    write_lines(runs[2] / "metrics.jsonl", [*map(metrics, range(4)), line])
    path = tmp_path / "report.html"
    path.write_text(report(runs), encoding="utf-8")
    tab.page.goto(path.as_uri())
    tab.page.wait_for_selector(".turn")
    assert "seeds 60.0 % to 90.0 %" in tab.page.locator(".cards").inner_text()
    assert tab.page.locator("figure").first.locator("li").count() == 2  # sampled and greedy
    tab.page.locator("form select").first.select_option("2")
    assert tab.page.locator(".list li").count() == 14


def test_a_served_page_follows_its_run_without_being_read_again(tab, tmp_path):
    run = made(tmp_path / "run")
    with served(run) as viewer:
        tab.page.goto(viewer.address)
        tab.page.wait_for_selector(".turn")
        tab.page.locator('[data-turn="0.5"]').click()
        tab.page.evaluate("window.same = true")
        with (run / "metrics.jsonl").open("a") as out:
            out.write(json.dumps(metrics(6)) + "\n")
        with (run / "evaluations.jsonl").open("a") as out:
            out.write(json.dumps(evaluation(6, [True, True, True])) + "\n")
        add_step(run, 5)
        until(tab.page.locator(".list li")).to_have_count(16)
        assert tab.page.locator(".card .value").first.inner_text() == "20.0 % \u2192 80.0 %"
        assert tab.page.evaluate("window.same")
        # What was being looked at still is.
        assert tab.page.locator(".node.selected").get_attribute("data-turn") == "0.5"
        tab.page.locator('.list button[data-key="0-step-5-1"]').click()
        until(tab.page.locator(".trees strong")).to_have_text("train-5-1")


def test_it_says_when_the_server_is_gone(tab, tmp_path):
    with served(made(tmp_path / "run")) as viewer:
        tab.page.goto(viewer.address)
        tab.page.wait_for_selector(".turn")
    until(tab.page.locator("header [role=status]")).to_contain_text("does not answer")
    tab.complaints.clear()  # it asked in vain


def test_a_run_of_ten_thousand_turns_opens_at_once(tab, tmp_path):
    # A tree of 6 turns with 9 siblings has 6 + 9 (1 + 2 + ... + 6) = 195 turns.
    run = made(tmp_path / "run", steps=13, groups=4, turns=6, siblings=9)
    path = tmp_path / "report.html"
    path.write_text(report([run]), encoding="utf-8")
    assert path.stat().st_size < 5e6
    tab.page.goto(path.as_uri())
    tab.page.wait_for_selector(".turn")
    took = tab.page.evaluate("performance.now()")
    turns = tab.page.evaluate("""() => JSON.parse(document.getElementById('head').textContent)
        .groups.reduce((sum, group) => sum + group.turns, 0)""")
    assert turns > 10_000
    assert took < OPENS_MS
    assert tab.page.locator(".node").count() == 195  # the shown group is all that is drawn


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_no_serious_fault_of_accessibility(browser, written, scheme, width):
    if not AXE.exists():
        pytest.skip("axe-core is not installed; `make setup-browser` with npm on the path")
    tab = Tab(browser, color_scheme=scheme, viewport={"width": width, "height": 900})
    tab.page.goto(written.as_uri())
    tab.page.wait_for_selector(".turn")
    tab.page.locator("details.settings summary").click()
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.page.evaluate(AXE.read_text())
    found = tab.page.evaluate("axe.run()")["violations"]
    faults = [
        (fault["id"], [node["html"][:200] for node in fault["nodes"][:3]])
        for fault in found
        if fault["impact"] in ("serious", "critical")
    ]
    tab.close()
    assert faults == []
    assert tab.complaints == []
