"""Long lists of services are folded, and times say how long ago they were."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from bussrv.client.inbus import InbusSubscriber
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
    """One provides many services, one waits for another service, and one has left."""
    inbus = ("127.0.0.1", server.port("inbus"))
    with ObjectsClient(port=server.port("objects")) as client, InbusSubscriber("absent", inbus):
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
    assert shown(page, "") == ["absent", "▸ attic-* (21 services)", "bell", *hosted, "▸ sensors/* (36 services)"]
    # As many as everywhere else; and what is waited for is seen, too.
    page.get_by_text("61, and 1 name that nobody provides").wait_for()
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


def test_ages_and_rates_are_short_and_calm(page: Page, server: RunningServer) -> None:
    """An age in a column takes one unit, and a rate in a minute is that of the last minute. Nobody is no user."""
    page.goto(address(server))
    ages, rates, (users, addresses) = page.evaluate(
        """async () => {
            const { agoBriefly, setServerTime } = await import("/static/js/format.js");
            const { addMinute } = await import("/static/js/history.js");
            const { groups } = await import("/static/js/grouping.js");
            setServerTime(new Date().toISOString());
            const ages = [59, 60, 5999, 6000, 172799, 172800].map((age) =>
              agoBriefly(new Date(Date.now() - age * 1000 - 400).toISOString()));
            const entries = [];
            const rates = Array.from({ length: 90 }, (_, second) => {
              entries.push({ time: second * 1000, denials: second % 2 });
              addMinute(entries);
              return entries.at(-1).denials_a_minute;
            });
            entries.push({ time: 90_001, isGap: true }, { time: 400_000, seconds: 300, denials: 0.5 });
            addMinute(entries);
            const [group] = groups([{ peer: "192.0.2.1:5" }, { actor: "ann" }], () => "").values();
            return [ages, [rates[59], rates[89], entries.at(-1).denials_a_minute],
              [group.users.size, group.addresses.size]];
        }"""
    )
    assert ages == ["59 s", "1 min", "99 min", "1 h", "47 h", "2 d"]
    assert rates == [30, 30, 30]
    assert (users, addresses) == (1, 1)
