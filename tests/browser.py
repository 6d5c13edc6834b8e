"""A real Chromium for tests of web pages, driven by Playwright, and axe for what a screen reader needs.

Debian's Chromium is used: Playwright's wheel brings the driver, but no browser. Where there is none, tests are skipped.
A module has one browser process and each test a profile of its own. The browser ends with the module, because the
driver runs an asyncio loop in this thread, and later tests could not run one of theirs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")

SERIOUS = ("serious", "critical")
"""Findings of axe that no page may have."""

_REFUSED = "Failed to load resource"
"""How the console tells of each answer that is an error: tests that provoke one look at what the page makes of it."""


def program() -> str | None:
    """The path of Chromium; ``None``: there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def opened() -> Iterator[Browser]:
    """A Chromium."""
    from playwright.sync_api import sync_playwright

    # Root has no sandbox, and /dev/shm of a container is too small for a browser.
    options = ["--disable-dev-shm-usage", "--disable-lcd-text", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program(), args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One Chromium for the tests of a module; they are marked ``processes``."""
    if program() is None:
        pytest.skip("Chromium is not installed; on Debian it is the package chromium")
    with opened() as browser:
        yield browser


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page in a fresh profile. The test fails if a script fails, logs an error, or breaks the page's own policy."""
    with chromium.new_context() as context:
        fresh = context.new_page()
        faults = watch(fresh)
        yield fresh
    assert not faults, faults


def watch(page: Page) -> list[str]:
    """What goes wrong in a page from now on, in the order of time."""
    faults: list[str] = []

    def logged(message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(_REFUSED):
            faults.append(message.text)

    page.on("console", logged)
    page.on("pageerror", lambda error: faults.append(str(error)))
    return faults


def serious_findings(page: Page) -> list[str]:
    """What axe finds in the page as it is now that keeps people from using it: rule, what it asks for, and elements."""
    page.evaluate(resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {each['help']}: {[node['target'] for node in each['nodes'][:3]]}"
        for each in found["violations"]
        if each["impact"] in SERIOUS
    ]
