"""The page on WebSocket: what it lets a web page do, in a real Chromium, and what it says of the messages."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bussrv.client import inbus
from bussrv.testing.server import RunningServer
from bussrv.wire.frames import CLOSE_CODES
from bussrv.wire.objects import encode
from tests.browser import served, watch
from tests.certificates import self_signed
from tests.docs.devices import wait_until_subscribed
from tests.docs.pages import blocks, rows
from tests.forked import ForkedServer
from tests.formats.network import Connection, Network
from tests.formats.websocket.browser import Browser
from tests.wire.test_websocket import TEXT, frame

if TYPE_CHECKING:
    from playwright.sync_api import Browser as ChromiumBrowser
    from playwright.sync_api import Page

NAME = "docs/reference/protocols/websocket.md"


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[int]:
    """The port at which the web page of the documentation is served."""
    place = tmp_path / "pages"
    place.mkdir()
    (place / "chat.html").write_text(*blocks(NAME, "html"))
    with served(place) as port:
        yield port


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with ForkedServer(tmp_path / "journal", ["--websocket", "0"]) as running:
        yield running


def lines(page: "Page", number: int) -> list[str]:
    """The lines that the page shows, once there are so many."""
    page.wait_for_function("number => document.querySelectorAll('li').length >= number", arg=number)
    return page.locator("li").all_inner_texts()


@pytest.mark.processes
def test_the_web_page_chats_with_an_inbus_device(server: RunningServer, pages: int, page: "Page") -> None:
    bus = server.addresses["inbus"]
    with inbus.InbusSubscriber("chat", server=bus) as device:
        wait_until_subscribed("chat", bus, device)
        page.goto(f"http://127.0.0.1:{pages}/chat.html?server=ws://127.0.0.1:{server.port('websocket')}")
        assert lines(page, 1) == ["connected"]
        page.get_by_label("Message").fill("Grüße, device 🙂")
        page.get_by_label("Message").press("Enter")
        assert device.receive(10).payload.decode() == "Grüße, device 🙂"
        inbus.publish("chat", "Grüße, page 🙂".encode(), server=bus)
        assert lines(page, 3) == ["connected", "me: Grüße, device 🙂", "Grüße, page 🙂"]
    server.stop()
    assert lines(page, 4)[-1] == "closed: 1001 server-stopped"


@pytest.mark.long
@pytest.mark.processes
def test_the_web_page_connects_over_tls(tmp_path: Path, pages: int, chromium: "ChromiumBrowser") -> None:
    key, certificate = self_signed(tmp_path / "hall")
    endpoint = f"ssl:0:interface=127.0.0.1:privateKey={key}:certKey={certificate}"
    with (
        ForkedServer(tmp_path / "journal", ["--websocket", endpoint]) as server,
        chromium.new_context(ignore_https_errors=True) as context,
    ):
        page = context.new_page()
        page.goto(f"http://localhost:{pages}/chat.html?server=wss://localhost:{server.port('websocket')}")
        assert lines(page, 1) == ["connected"]


@pytest.mark.processes
def test_the_page_of_a_stranger_gets_no_connection(server: RunningServer, pages: int, page: "Page") -> None:
    """Chromium has names under ``localhost`` point at this machine, as the owner of a name of the DNS may."""
    port = server.port("websocket")
    for own, host in (("stranger.localhost", "127.0.0.1"), ("stranger.localhost", "stranger.localhost")):
        with page.context.new_page() as stranger:
            faults = watch(stranger)
            stranger.goto(f"http://{own}:{pages}/chat.html?server=ws://{host}:{port}")
            assert lines(stranger, 1) == ["closed: 1006"]
            assert len(faults) == 1
            assert "403" in faults[0]


def said(line: str) -> bytes:
    return re.sub(r"^(->|<-) +(text or binary|binary) +", "", line).replace("\\0", "\0").encode()


def test_the_messages_of_the_page_mean_what_it_says() -> None:
    subscribe, reply, content = (line for each in blocks(NAME, "text") for line in each.splitlines())
    network = Network()
    browser, member = Browser(network), network.member()
    Connection.send_bytes(browser.connection, frame(said(subscribe), TEXT))
    told = browser.only_reply()
    assert encode({**told, "routing-id": "…"}) == said(reply)
    member.received()
    Connection.send_bytes(browser.connection, frame(said(content)))
    (got,) = member.received()
    assert (got[0]["type"], got[1]) == ("text/plain", b"hello")


def test_the_table_of_close_codes_is_that_in_the_code() -> None:
    found = {code: int(number) for number, codes in rows_of_codes() for code in re.findall(r"`([a-z0-9-]+)`", codes)}
    assert {code: number for code, number in found.items() if number != 1008} == CLOSE_CODES


def rows_of_codes() -> list[tuple[str, str]]:
    return [(each[0], each[1]) for each in rows(NAME) if re.fullmatch(r"1\d\d\d", each[0])]
