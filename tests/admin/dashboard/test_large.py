"""The dashboard at a server with thousands of sessions and hundreds of events a second."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from bussrv.testing.server import RunningServer
from tests.admin.dashboard.conftest import address
from tests.admin.dashboard.crowd import OPTIONS, Crowd
from tests.admin.dashboard.frames import Frames
from tests.forked import ForkedServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.processes, pytest.mark.long, pytest.mark.timeout(300)]

SESSIONS = 5_000
RATE = 500
FRAME = 100
"""Milliseconds that a frame may take."""

VIEWS = (
    *("overview", "sessions", "services", "busiest", "links", "servers", "incidents", "slow", "closed", "denied"),
    *("events", "why", "past", "journal", "limits", "server", "overview"),
)
SECONDS = 2
"""In each view."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with ForkedServer(tmp_path_factory.mktemp("large") / "journal", OPTIONS) as running:
        yield running


@pytest.fixture(scope="module")
def crowd(server: RunningServer) -> Iterator[Crowd]:
    with Crowd(server.port("objects"), SESSIONS) as present:
        yield present


def shown(server: RunningServer, path: str) -> Any:
    with urllib.request.urlopen(f"{address(server)}api/v1/{path}") as answer:
        return json.load(answer)


def scroll(page: Page, seconds: float) -> None:
    """Move the wheel all the time, as somebody does who looks for a row."""
    page.mouse.move(700, 500)
    for turn in range(int(seconds * 20)):
        page.mouse.wheel(0, 1_500 if turn % 10 < 7 else -2_000)
        page.wait_for_timeout(50)


def test_no_frame_takes_long(page: Page, server: RunningServer, crowd: Crowd) -> None:
    crowd.change(RATE)
    frames = Frames(page)
    page.goto(address(server))
    page.get_by_role("heading", name="Overview").wait_for()
    page.get_by_role("navigation").get_by_text(re.compile("^5,0..$")).first.wait_for()
    first = crowd.changes
    for view in VIEWS:
        page.evaluate("view => { location.hash = view; }", f"#/{view}")
        scroll(page, SECONDS)
    longest = frames.longest()
    assert crowd.changes - first > RATE * SECONDS * len(VIEWS) / 2
    assert longest[0] < FRAME, longest


def test_what_is_shown_is_what_is(page: Page, server: RunningServer, crowd: Crowd) -> None:
    """The page follows every event, so that its list is the server's, without asking for it again."""
    page.goto(address(server, "sessions"))
    grid = page.get_by_role("grid", name="Sessions")
    total = shown(server, "sessions?limit=1")["total"]
    page.locator(f"table[aria-rowcount='{total + 1}']").wait_for()
    with Crowd(server.port("objects"), 20):
        page.locator(f"table[aria-rowcount='{total + 21}']").wait_for()
    page.locator(f"table[aria-rowcount='{total + 1}']").wait_for()
    assert grid.get_by_role("row").count() < 100
