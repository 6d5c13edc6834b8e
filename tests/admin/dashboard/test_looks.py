"""How the dashboard looks: in light and dark, from a telephone to a large screen, and the pictures of its page."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bussrv.testing.server import RunningServer
from tests.admin.dashboard.conftest import address
from tests.admin.dashboard.pictures import PLACE, take
from tests.admin.dashboard.scene import Scene
from tests.browser import serious_findings, watch

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.processes, pytest.mark.long, pytest.mark.timeout(300)]

VIEWS = (
    *("overview", "sessions", "services", "busiest", "links", "servers", "tap", "incidents", "slow", "closed"),
    *("denied", "events", "why", "past", "journal", "limits", "server"),
    *("services?service=doorbell", "links?link=barn"),
)
WIDTHS = (390, 768, 1280, 1920, 2560)

MOST_BYTES = 200_000
"""Of a picture in the documentation."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with Scene(tmp_path_factory.mktemp("scene")) as scene:
        yield scene.server


def show(page: Page, view: str) -> None:
    page.evaluate("view => { location.hash = view; }", f"#/{view}")
    page.get_by_role("heading", level=1).wait_for()
    if "?" in view:
        page.get_by_role("complementary", name="Details").get_by_role("heading", level=3).first.wait_for()
    # Until everything that was asked for is there.
    page.wait_for_timeout(700)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_every_view(chromium: Browser, server: RunningServer, scheme: str) -> None:
    with chromium.new_context(color_scheme=scheme) as context:  # type: ignore[arg-type]
        page = context.new_page()
        faults = watch(page)
        page.goto(address(server))
        found = {}
        for view in VIEWS:
            show(page, view)
            found[view] = serious_findings(page)
        page.get_by_role("button", name="Sign in").click()
        found["the form"] = serious_findings(page)
    assert {view: each for view, each in found.items() if each} == {}
    assert faults == []


@pytest.mark.parametrize("width", WIDTHS)
def test_every_view_fits(chromium: Browser, server: RunningServer, width: int) -> None:
    """Nothing makes the page wider than the screen, and the first column of each table has room for a name."""
    with chromium.new_context(viewport={"width": width, "height": 844}) as context:
        page = context.new_page()
        page.goto(address(server))
        for view in VIEWS:
            show(page, view)
            assert page.evaluate("document.documentElement.scrollWidth") == width, view
            wide = page.evaluate(
                "[...document.querySelectorAll('.scroller')].map((e) => e.scrollWidth - e.clientWidth)"
            )
            assert max(wide, default=0) <= 0, view
            columns = page.evaluate("[...document.querySelectorAll('th:first-child')].map((e) => e.offsetWidth)")
            assert all(each == 0 or each >= 90 for each in columns), view
        page.close()


def test_the_pictures_of_the_documentation_can_be_made(
    chromium: Browser, server: RunningServer, tmp_path: Path
) -> None:
    for made in take(chromium, server, tmp_path, seconds=5):
        kept = PLACE / made.name
        assert size(made) == size(kept), made.name
        assert 10_000 < kept.stat().st_size < MOST_BYTES, made.name


def size(picture: Path) -> tuple[int, int]:
    """Width and height, as its header says."""
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return width, height
