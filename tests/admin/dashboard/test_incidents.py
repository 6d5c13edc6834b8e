"""What needs a look, grouped denials, and the past, in a real browser at a real server that is under attack."""

from __future__ import annotations

import base64
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from bussrv.client.objects import ObjectsClient
from tests.admin.dashboard.conftest import MARKUP, OPTIONS, address
from tests.admin.dashboard.test_dashboard import go
from tests.browser import serious_findings
from tests.forked import ForkedServer

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from bussrv.testing.server import RunningServer

pytestmark = pytest.mark.processes

POLICY = '[[rule]]\nusers = ["anonymous"]\nobserve = ["*"]\nprovide = ["*"]\nwatch = ["*"]\nadmin = "write"\n'


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server at which somebody guesses secrets, under two names."""
    place = tmp_path_factory.mktemp("attacked")
    (place / "policy.toml").write_text(POLICY)
    with ForkedServer(place / "journal", [*OPTIONS, "--policy", str(place / "policy.toml")]) as server:
        with ObjectsClient(port=server.port("objects")) as client:
            client.subscribe(routing_id="hall-door", user="carl")
            client.register("doorbell")
            url = f"{address(server)}api/v1/server"
            for number in range(12):
                pair = f"{MARKUP if number < 9 else 'ben'}:wrong-{number}".encode()
                header = f"Basic {base64.b64encode(pair).decode()}"
                with pytest.raises(urllib.error.HTTPError):
                    urllib.request.urlopen(urllib.request.Request(url, headers={"Authorization": header}), timeout=20)
        yield server


def test_an_incident_is_seen_and_noted(page: Page, attacked: RunningServer) -> None:
    page.goto(address(attacked))
    page.get_by_text("One incident needs a look: an address failed to log in again and again.").wait_for()
    badge = page.get_by_role("navigation").get_by_role("link", name="Incidents 1")
    badge.wait_for()
    page.get_by_role("banner").get_by_role("link", name="1 incident").click()
    page.get_by_role("heading", name="An address failed to log in again and again").wait_for()
    page.get_by_text("12 failed logins").wait_for()
    assert serious_findings(page) == []
    page.get_by_role("button", name="Take note…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Note").fill(MARKUP)
    dialog.get_by_role("button", name="Take note").click()
    page.get_by_text("Nothing needs a look.").wait_for()
    page.get_by_label("Which ones").select_option("All")
    page.get_by_text(MARKUP).wait_for()
    assert page.locator("main img").count() == 0
    go(page, "Overview")
    page.get_by_role("link", name="Nothing needs a look.").wait_for()
    page.get_by_role("banner").get_by_role("link", name="All is well").wait_for()


def test_denials_are_grouped(page: Page, attacked: RunningServer) -> None:
    page.goto(address(attacked, "denied"))
    page.get_by_label("Grouped", exact=True).select_option("By user")
    table = page.get_by_role("grid", name="Denied, grouped")
    table.get_by_role("row", name="ben (claimed) 3").wait_for()
    # The largest group comes first, after the head.
    assert table.get_by_role("row").nth(1).inner_text().startswith(f"{MARKUP[:29]}… (claimed)\t9\t")
    page.get_by_label("Grouped", exact=True).select_option("By address")
    table.get_by_role("row", name="127.0.0.1 12").click()
    # The group is opened: its single rows are shown.
    page.get_by_role("grid", name="Denied", exact=True).get_by_role("row").nth(11).wait_for()
    assert page.get_by_label("Filter denials").input_value() == "127.0.0.1"
    assert page.locator("main img").count() == 0


def test_the_past_is_shown(page: Page, attacked: RunningServer) -> None:
    page.goto(address(attacked, "past"))
    moment = page.get_by_label("Time in UTC, or number of a record")
    # The client is gone by now; it was there until its last record.
    moment.fill("12")
    page.get_by_role("button", name="Show", exact=True).click()
    page.get_by_role("row", name="carl (claimed)").wait_for()
    page.get_by_label("What", exact=True).select_option("Services")
    page.get_by_role("row", name="doorbell 1 carl (claimed)").wait_for()
    moment.fill("999999")
    page.get_by_role("button", name="Show", exact=True).click()
    page.get_by_text("That moment cannot be shown").wait_for()
