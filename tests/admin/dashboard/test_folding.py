"""Long lists of services are folded, and times say how long ago they were."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from bussrv.client.objects import ObjectsClient
from bussrv.testing.server import RunningServer
from tests.admin.dashboard.conftest import address
from tests.browser import serious_findings

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.processes

NUMBERS = range(1, 22)
NAMES = [
    *(f"attic-{number}" for number in NUMBERS),
    *(f"sensors/{site}/{number}" for site in ("north", "south", "west") for number in range(1, 13)),
    "bell",
]


@pytest.fixture(scope="module")
def clients(server: RunningServer) -> Iterator[object]:
    """One provides many services, and another one has left."""
    with ObjectsClient(port=server.port("objects")) as client:
        client.subscribe(name="building")
        for name in NAMES:
            client.register(name)
        with ObjectsClient(port=server.port("objects")) as guest:
            guest.subscribe(name="guest")
        yield client


def shown(page: Page, text: str) -> list[str]:
    """The texts of the services in sight that have a text, in their order."""
    cells = page.locator("[aria-label=Services] tbody tr:not(.space) td:first-child").all_inner_texts()
    return [each.strip() for each in cells if text in each]


def test_services_are_folded_by_their_names(page: Page, server: RunningServer, clients: object) -> None:
    page.goto(address(server, "services"))
    row = page.get_by_role("row", name=re.compile(r"attic-\* \(21 services\)"))
    row.wait_for()
    assert row.get_attribute("aria-expanded") == "false"
    # Three have room.
    hosted = ["bus/clock", "bus/registry", "bus/statistics"]
    assert shown(page, "") == ["▸ attic-* (21 services)", "bell", *hosted, "▸ sensors/* (36 services)"]
    assert serious_findings(page) == []
    row.click()
    page.get_by_role("row", name=re.compile(r"^\s*attic-21 ")).wait_for()
    assert shown(page, "attic")[:4] == ["▾ attic-* (21 services)", "attic-1", "attic-2", "attic-3"]
    assert shown(page, "attic")[-1] == "attic-21"
    row.click()
    page.get_by_role("row", name=re.compile("sensors")).click()
    page.get_by_role("row", name=re.compile("sensors.north.. .12 services")).click()
    page.get_by_role("row", name=re.compile("sensors.north.12 ")).wait_for()
    assert shown(page, "attic") == ["▸ attic-* (21 services)"]
    assert shown(page, "sensors/")[1:3] == ["▾ sensors/north/* (12 services)", "sensors/north/1"]
    assert shown(page, "sensors/")[-1] == "▸ sensors/west/* (12 services)"
    page.get_by_role("row", name=re.compile("sensors.north.12 ")).click()
    page.get_by_role("complementary", name="Details").get_by_text("building").first.wait_for()


def test_who_looks_for_a_service_sees_it(page: Page, server: RunningServer, clients: object) -> None:
    page.goto(address(server, "services"))
    page.get_by_role("row", name=re.compile(r"attic-\*")).wait_for()
    page.get_by_label("Filter services").fill("c-2")
    page.get_by_role("row", name="attic-20").wait_for()
    assert shown(page, "") == ["attic-2", "attic-20", "attic-21"]
    page.get_by_label("Filter services").fill("")
    page.get_by_label("Grouped").select_option("By format")
    page.get_by_role("row", name=re.compile(r"objects \(58 services\)")).wait_for()
    page.get_by_label("Grouped").select_option("By provider")
    page.get_by_role("row", name=re.compile(r"building \(claimed\) \(58 services\)")).wait_for()
    page.get_by_label("Grouped").select_option("Each one")
    page.get_by_role("row", name="attic-12").wait_for()
    assert "▸" not in "".join(shown(page, ""))


def test_a_time_says_how_long_ago_it_was(page: Page, server: RunningServer, clients: object) -> None:
    page.goto(address(server, "closed"))
    row = page.get_by_role("row", name=re.compile("guest"))
    row.wait_for()
    time = row.get_by_role("gridcell").first
    assert re.fullmatch(r"\d+ (s|min) ago", time.inner_text())
    assert re.search(r"\d{4}, \d\d:\d\d:\d\d \S+\n\d{4}-\d\d-\d\dT[\d:.]+Z$", time.get_attribute("title") or "")
