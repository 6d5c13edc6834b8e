"""The pictures of the dashboard in its how-to page: ``python -m tests.admin.dashboard.pictures`` makes them anew.

They show :class:`tests.admin.dashboard.scene.Scene` after a while. Look at them before you commit them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.admin.dashboard.conftest import address
from tests.admin.dashboard.scene import Scene
from tests.browser import opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from bussrv.testing.server import RunningServer

PLACE = Path(__file__).parents[3] / "docs" / "how-to"

WHILE = 75
"""Seconds after which the charts have something to show."""

SIZE = {"width": 1200, "height": 780}


def take(browser: Browser, server: RunningServer, place: Path, seconds: float = WHILE) -> list[Path]:
    """Make every picture. :returns: their files."""
    files = [place / f"dashboard-{name}.png" for name in ("overview", "gone", "links")]
    with browser.new_context(viewport=SIZE, color_scheme="light") as light:
        page = light.new_page()
        page.goto(address(server))
        page.wait_for_timeout(seconds * 1000)
        page.screenshot(path=files[0])
        _show_why(page)
        page.screenshot(path=files[1])
    with browser.new_context(viewport={**SIZE, "height": 560}, color_scheme="dark") as dark:
        page = dark.new_page()
        page.goto(address(server, "links"))
        page.get_by_role("row", name="barn up").wait_for()
        page.get_by_text("Degraded").wait_for()
        page.get_by_text("Live", exact=True).wait_for()
        page.screenshot(path=files[2])
    return files


def _show_why(page: Page) -> None:
    """A session that ended in an unusual way, and what became of it."""
    page.get_by_role("navigation").get_by_role("link", name="Closed").click()
    page.get_by_role("row", name="bad-json").first.wait_for()
    # At once: rows move down as further sessions end.
    page.evaluate("[...document.querySelectorAll('tr')].find(row => row.textContent.includes('bad-json')).click()")
    details = page.get_by_role("complementary", name="Details")
    details.get_by_text("Gone: bad-json").wait_for()
    details.get_by_text("Connected").wait_for()


def main() -> None:
    with TemporaryDirectory() as directory, Scene(Path(directory)) as scene, opened() as browser:
        for each in take(browser, scene.server, PLACE):
            sys.stdout.write(f"{each}\n")


if __name__ == "__main__":
    main()
