"""A real browser, where there is one."""

import os
import shutil
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
AXE = Path(__file__).parents[2] / "ui/node_modules/axe-core/axe.min.js"


@lru_cache(maxsize=1)
def browser_path():
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


@contextmanager
def browsing():
    """A browser; the test is skipped, and says why, where it cannot be had."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if browser_path() is None:
        pytest.skip(f"no browser on the path ({', '.join(BROWSERS)}); `make setup-browser`")
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=browser_path(), args=["--no-sandbox"] if root else []
        )
        yield browser
        browser.close()


def until(locator):
    """Waits for what is expected of an element; the page's policy forbids to wait in scripts."""
    from playwright.sync_api import expect

    return expect(locator)


class Tab:
    """A page, and what it complained of."""

    def __init__(self, browser, **options):
        self.context = browser.new_context(
            **({"viewport": {"width": 1400, "height": 950}} | options)
        )
        self.page = self.context.new_page()
        self.complaints = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("requestfailed", lambda request: self.complaints.append(request.url))

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def close(self):
        self.context.close()
