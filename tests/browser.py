"""A real Chromium for tests of web pages, driven by Playwright, and axe for what a screen reader needs.

Debian's Chromium is used: Playwright's wheel brings the driver, but no browser. Where there is none, tests are skipped.
A run has one browser with one profile, and each test a page of its own: to start a browser takes three seconds of CPU.
A profile for each test, and a process for each page, would take twice the time.
"""

from __future__ import annotations

import asyncio
import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.size import FULL

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")

HERE = "http://127.0.0.1/"
"""All servers of tests are of the site of this address, whatever their ports."""

SERIOUS = ("serious", "critical")
"""Findings of axe that no page may have."""

_REFUSED = "Failed to load resource"
"""How the console tells of each answer that is an error: tests that provoke one look at what the page makes of it."""

# How much an element stands out from its background takes nearly all of the time, and that by the number of elements.
_AXE = """(isWhole) => {
  const exclude = [];
  for (const table of isWhole ? [] : document.querySelectorAll("tbody")) {
    const seen = new Map();
    for (const row of table.rows) {
      const elements = [row, ...row.querySelectorAll("*")];
      const kinds = [...new Set(elements.map(each => `${each.tagName} ${each.getAttribute("class")}`))];
      if (kinds.every(each => seen.get(each) > 1)) exclude.push(row);
      kinds.forEach(each => seen.set(each, (seen.get(each) ?? 0) + 1));
    }
  }
  return axe.run({ include: document, exclude }, { resultTypes: ["violations"] });
}"""


def program() -> str | None:
    """The path of Chromium; ``None``: there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def opened() -> Iterator[Browser]:
    """A Chromium."""
    from playwright.sync_api import sync_playwright

    # Root has no sandbox, and /dev/shm of a container is too small for a browser.
    options = ["--disable-dev-shm-usage", "--disable-lcd-text", "--process-per-site"]
    options += ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program(), args=options)
        yield browser
        browser.close()


@dataclass
class Running:
    """:ivar loop: of the driver."""

    browser: Browser
    profile: BrowserContext
    loop: asyncio.AbstractEventLoop

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """The loop is the one of this thread. Otherwise a test may run another one."""
        asyncio._set_running_loop(self.loop)
        yield
        asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def running_chromium() -> Iterator[Running]:
    """The one Chromium, and a profile. An empty page of this machine is open in it all the time, since the process of a
    site ends with its last page."""
    if program() is None:
        pytest.skip("Chromium is not installed; on Debian it is the package chromium")
    with opened() as browser, browser.new_context() as profile:
        empty = profile.new_page()
        empty.route(HERE, lambda route: route.fulfill(content_type="text/html", body="<link rel=icon href='data:,'>"))
        empty.goto(HERE)
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield Running(browser, profile, loop)
        asyncio._set_running_loop(loop)


@pytest.fixture
def chromium(running_chromium: Running) -> Iterator[Browser]:
    """The Chromium of this process; tests that use it are marked ``processes``."""
    with running_chromium.in_use():
        yield running_chromium.browser


@pytest.fixture
def profile(running_chromium: Running, chromium: Browser) -> BrowserContext:
    """The profile that pages have unless they need settings of their own."""
    return running_chromium.profile


@pytest.fixture
def page(profile: BrowserContext) -> Iterator[Page]:
    """A page that knows nothing of others: see :func:`fresh_page`. The test fails if a script fails, logs an error, or
    breaks the page's own policy."""
    with fresh_page(profile) as fresh:
        faults = watch(fresh)
        yield fresh
    assert not faults, faults


@contextmanager
def fresh_page(profile: BrowserContext) -> Iterator[Page]:
    """A new page. Afterwards it is closed, and those that it has opened; what it has stored is removed."""
    before = profile.pages
    with profile.new_page() as page:
        yield page
        if page.url.startswith("http"):
            page.evaluate("localStorage.clear()")
    for each in profile.pages:
        if each not in before:
            each.close()
    profile.clear_cookies()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(directory: Path) -> Iterator[int]:
    """The files of a directory at a port of this machine. A page that a test fulfils may not open a WebSocket."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=directory)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


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
    """What axe finds in the page as it is now that keeps people from using it: rule, what it asks for, and elements.

    At less than full size, it is not asked of rows that only have elements, by name and class, that two earlier rows of
    the table have, too.
    """
    page.evaluate(resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found: dict[str, Any] = page.evaluate(_AXE, FULL)
    return [
        f"{each['id']}: {each['help']}: {[node['target'] for node in each['nodes'][:3]]}"
        for each in found["violations"]
        if each["impact"] in SERIOUS
    ]
