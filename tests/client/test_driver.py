"""What the driver of a core does with a connection, at a transport in memory."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from bussrv.client.address import Address
from bussrv.client.aio import connect
from bussrv.client.core.inbox import Inbox
from bussrv.client.events import Message, State
from bussrv.client.settings import Backoff, Buffer, OfflinePolicy, Settings
from bussrv.client.shell.driver import MOST_UNSENT, Driver, _Stream
from bussrv.wire.objects import encode
from tests.client.shells import run

HALL = Address.parse("bus://hall")
PUBLICATION = b'{"sender":"tv","type":"text/plain","size":2}\0on'


class Transport:
    """A connection whose other end takes nothing."""

    def __init__(self) -> None:
        self.sent = b""
        self.unsent = 0
        self.reads = True
        self.is_over = False

    def get_extra_info(self, _: str) -> None:
        """There is no socket."""

    def write(self, data: bytes) -> None:
        self.sent += data
        self.unsent += len(data)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_reading(self) -> bool:
        return self.reads

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return self.is_over

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.is_over = True

    def abort(self) -> None:
        self.is_over = True


def opened() -> tuple[Driver, Transport]:
    driver = Driver([HALL], Settings(), None, None)
    driver.loop = asyncio.get_running_loop()
    transport = Transport()
    _Stream(driver, "hall").connection_made(transport)
    asked = json.loads(transport.sent.split(b"\0")[0])
    driver.received(encode({"event": "routing/subscribe/reply", "in-reply-to": asked["id"]}))
    assert driver.core.is_up
    return driver, transport


def test_a_server_that_takes_nothing_is_not_read_for_ever() -> None:
    async def check() -> None:
        driver, transport = opened()
        driver.pause_writing()
        driver.received(b"{}\0")
        assert transport.reads
        transport.unsent = MOST_UNSENT + 1
        driver.received(b"{}\0")
        assert not transport.reads
        driver.core.resume()
        assert not transport.reads
        transport.unsent = 0
        driver.write_on()
        assert transport.reads

    run(check())


def test_a_client_that_wants_no_more_reads_no_more() -> None:
    async def check() -> None:
        driver, transport = opened()
        inbox: Inbox[Message] = Inbox(1, "pause")
        driver.core.subscribe(inbox, ["tv"], lambda _: None)
        driver.received(PUBLICATION * 2)
        assert not transport.reads
        driver.write_on()
        assert not transport.reads
        inbox.take_many(2)
        assert transport.reads

    run(check())


def test_what_follows_something_malformed_is_not_read() -> None:
    async def check() -> None:
        driver, transport = opened()
        inbox: Inbox[Any] = Inbox()
        driver.core.subscribe(inbox, ["tv"], lambda _: None)
        for chunk in (PUBLICATION[:9], PUBLICATION[9:] + b"[\0", PUBLICATION, PUBLICATION):
            driver.received(chunk)
        assert transport.is_over
        assert [each.payload for each in inbox.take_many(5)] == [b"on"]
        _Stream(driver, "hall").connection_made(Transport())
        driver.received(PUBLICATION)
        assert len(inbox) == 1

    run(check())


def test_a_request_alone_is_sent_at_once_and_others_together() -> None:
    async def check() -> None:
        driver, transport = opened()
        ids = []

        def ask() -> int:
            """Ask, and return how many requests have been sent so far."""
            ids.append(driver.core.request("clock", b"", "a/b", {}, lambda _: None, None))
            driver.commanded()
            return transport.sent.count(b"services/request")

        assert [ask() for _ in range(3)] == [1, 1, 1]
        await asyncio.sleep(0)
        assert transport.sent.count(b"services/request") == 3
        for each in ids:
            driver.received(encode({"event": "services/reply", "in-reply-to": each}))
        assert ask() == 4

    run(check())


def test_one_that_waits_for_its_server_says_so_once(closed_port: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "bussrv.client")

    async def work(offline: OfflinePolicy) -> None:
        tried: list[State] = []
        third = asyncio.Event()

        def observe(state: State) -> None:
            tried.append(state)
            if len(tried) == 3:
                third.set()

        quick = Backoff(0.001, 0.001)
        bus = connect(f"bus://127.0.0.1:{closed_port}", offline=offline, reconnect=quick, on_state=observe)
        entering = asyncio.create_task(bus.__aenter__())
        await third.wait()
        entering.cancel()
        await asyncio.wait([entering])
        if not entering.cancelled():
            await bus.close()

    for offline in ("wait", Buffer()):
        caplog.clear()
        run(work(offline))
        (said,) = (each.getMessage() for each in caplog.records)
        assert said.startswith(f"not connected: cannot connect to 127.0.0.1 port {closed_port}: ")
