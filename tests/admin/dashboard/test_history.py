"""The charts show what the server kept, and the busiest are found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bussrv.client.objects import ObjectsClient
from bussrv.testing.server import RunningServer
from tests.admin.dashboard.conftest import address

if TYPE_CHECKING:
    from playwright.sync_api import Page


def chart(page: Page, title: str) -> str:
    """The sentence about a chart, for those who do not see it."""
    found = page.locator("figure.chart", has=page.get_by_role("heading", name=title, exact=True)).locator("svg")
    return found.get_attribute("aria-label") or ""


def test_charts_begin_before_the_page_was_opened(new_dashboard: Page) -> None:
    """The start of the server is a mark in every chart, and the axis has the range that was asked for."""
    new_dashboard.locator(".chart .marks .started").first.wait_for(state="attached")
    assert "server started at" in chart(new_dashboard, "Sessions")
    assert chart(new_dashboard, "Sessions").startswith("Sessions, last 5 min:")
    new_dashboard.get_by_label("Time shown").select_option("86400")
    new_dashboard.locator(".chart svg[aria-label*='last 1 d']").first.wait_for()
    new_dashboard.locator(".chart .marks .started").first.wait_for(state="attached")


def test_dragging_over_a_chart_shows_that_range(new_dashboard: Page) -> None:
    new_dashboard.locator(".chart .line").first.wait_for(state="attached")
    box = new_dashboard.locator(".chart svg").first.bounding_box()
    assert box is not None
    height = box["y"] + box["height"] / 2
    new_dashboard.mouse.move(box["x"] + box["width"] * 0.5, height)
    new_dashboard.mouse.down()
    new_dashboard.mouse.move(box["x"] + box["width"] * 0.9, height, steps=3)
    assert new_dashboard.locator(".chosen").first.get_attribute("visibility") == "visible"
    new_dashboard.mouse.up()
    back = new_dashboard.get_by_role("button", name="Back to now")
    back.wait_for()
    new_dashboard.locator(".chart svg[aria-label*=' to ']").first.wait_for()
    assert "last 5 min" not in chart(new_dashboard, "Objects / s")
    back.click()
    new_dashboard.locator(".chart svg[aria-label*='last 5 min']").first.wait_for()


def test_the_busiest_are_listed(new_dashboard: Page, server: RunningServer, clients: dict[str, ObjectsClient]) -> None:
    clients["cellar"].send({"type": "text/plain", "sender": "pump"}, b"x" * 50_000)
    new_dashboard.goto(address(server, "busiest"))
    new_dashboard.get_by_role("row").filter(has_text="carl (claimed)").first.wait_for()
    new_dashboard.get_by_label("Of what").select_option("services")
    row = new_dashboard.get_by_role("row").filter(has_text="pump")
    row.wait_for()
    assert "49 KiB" in row.inner_text()
    row.click()
    new_dashboard.get_by_role("heading", name="Provided by").wait_for()
    new_dashboard.get_by_role("heading", name="Last 10 minutes").wait_for()
