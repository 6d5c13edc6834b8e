"""A server with clients of several formats, and its dashboard in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.testing.server import RunningServer
from tests.browser import Running, fresh_page, watch
from tests.forked import ForkedServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

OPTIONS = ("--admin-max-rate", "1000")
"""A person does not open the page thirty times in a few seconds; tests do."""

MARKUP = "<img src=x onerror=alert(1)><b>bold</b>"
REVERSED = "\u202egpj.exe\u2066"
LONG = "long-" + "x" * 9_995


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dashboard") / "journal"


@pytest.fixture(scope="module")
def server(journal: Path) -> Iterator[RunningServer]:
    with ForkedServer(journal, [*OPTIONS, "--expect-link", "shed"]) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that asks who its clients are: joe is."""
    journal = tmp_path_factory.mktemp("guarded") / "journal"
    with ForkedServer(journal, [*OPTIONS, "--auth", "memory:joe:s3cret"]) as running:
        yield running


@pytest.fixture(scope="module")
def token(server: RunningServer, journal: Path) -> str:
    """The token that writing takes at a server without users."""
    return journal.with_name("journal.admin-token").read_text().strip()


@pytest.fixture(scope="module")
def clients(server: RunningServer) -> Iterator[dict[str, ObjectsClient]]:
    """Clients that are present, by routing id: ordinary ones, and one whose names are hostile."""
    with ExitStack() as stack:
        found = {}
        for name, service in [("hall-door", "doorbell"), ("cellar", "pump"), (MARKUP, MARKUP)]:
            client = stack.enter_context(ObjectsClient(port=server.port("objects")))
            client.subscribe(routing_id=name, user=LONG if name == MARKUP else "carl")
            client.register(service)
            found[name] = client
        watcher = stack.enter_context(SppClient(port=server.port("spp")))
        watcher.subscribe("doorbell")
        watcher.next_event(10)
        yield found


@pytest.fixture(scope="module")
def opened(running_chromium: Running, server: RunningServer, clients: object) -> Iterator[tuple[Page, list[str]]]:
    """The dashboard, opened once, and what went wrong in it. It loads nothing from anywhere else."""
    with ExitStack() as stack:
        with running_chromium.in_use():
            page = stack.enter_context(fresh_page(running_chromium.profile))
            requests = requested(page)
            faults = watch(page)
            page.goto(address(server))
        yield page, faults
        with running_chromium.in_use():
            stack.close()
    assert_all_from(server, requests)


@pytest.fixture
def dashboard(chromium: Browser, opened: tuple[Page, list[str]], server: RunningServer) -> Iterator[Page]:
    """The overview of a dashboard that other tests have looked at. To load it takes half a second of CPU."""
    page, faults = opened
    page.goto(address(server, "overview"))
    page.get_by_role("heading", name="Overview").wait_for()
    yield page
    assert not faults, faults


@pytest.fixture
def new_dashboard(page: Page, server: RunningServer, clients: object) -> Iterator[Page]:
    """The overview of one that nobody has looked at. It loads nothing from anywhere else."""
    requests = requested(page)
    page.goto(address(server))
    page.get_by_role("heading", name="Overview").wait_for()
    yield page
    assert_all_from(server, requests)


def requested(page: Page) -> list[str]:
    """The addresses of everything that the page loads from now on."""
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    return requests


def assert_all_from(server: RunningServer, requests: list[str]) -> None:
    assert requests
    assert [url for url in requests if not url.startswith(address(server))] == []


def address(server: RunningServer, view: str = "") -> str:
    """The address of the dashboard, or of a view of it."""
    host, port = server.addresses["admin"]
    return f"http://{host}:{port}/" + (f"#/{view}" if view else "")
