"""Records of Kafka as publications. A real server, and the broker Tansu, whose limits
:mod:`tests.uplink.kafka.broker` tells."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from socket import socket

import pytest

from bussrv.client.aio import connect
from bussrv.client.events import Gap, Message
from bussrv.client.tls import Tls
from bussrv.uplink.figures import Figures
from bussrv.uplink.kafka import incoming
from bussrv.uplink.kafka.cluster import parse
from bussrv.uplink.kafka.incoming import Incoming, IncomingFigures
from bussrv.uplink.kafka.publications import Wanted
from bussrv.uplink.lines import Lines
from tests.end_to_end.cables import reserve_port
from tests.forked import ForkedServer
from tests.uplink.kafka.broker import Broker
from tests.uplink.kafka.talk import address, joined, take
from tests.uplink.kafka.waiting import until

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]


def test_records_come_in_as_publications(server: ForkedServer, broker: Broker) -> None:
    """Those that were there before the first start stay where they are."""
    broker.create("in.tv", 2)
    broker.create("in.radio")
    broker.put("in.tv", b"before")

    async def receive() -> list[Message | Gap]:
        async with connect(address(server)) as bus, bus.subscribe("tv", "radio") as events:
            broker.put("in.tv", b"news", headers=[("content-type", b"text/plain")])
            broker.put("in.radio", b"not wanted")
            broker.put("in.tv", b"own", headers=[("bussrv-uplink", b"hall")])
            first = await take(events, 1)
            broker.put("in.tv", b"\0")
            return first + await take(events, 1)

    with joined(server, broker, "in.", "--service", "tv", "--in") as uplink:
        uplink.wait_for("are published")
        news, other = asyncio.run(receive())
        assert uplink.stop() == 0
    assert isinstance(news, Message)
    assert isinstance(other, Message)
    assert (news.service, news.payload, news.type) == ("tv", b"news", "text/plain")
    assert news.metadata["kafka-uplink"] == "hall"
    assert (other.payload, other.type) == (b"\0", "application/octet-stream")
    assert "in published 2, in skipped 1, in refused 0" in uplink.wait_for("stopped")


def test_every_record_comes_in_though_the_uplink_is_killed(server: ForkedServer, broker: Broker) -> None:
    broker.create("killed.tv")
    arguments = ("--service", "tv", "--in")

    async def receive() -> list[bytes]:
        found: list[bytes] = []
        async with connect(address(server)) as bus, bus.subscribe("tv") as events:
            with joined(server, broker, "killed.", *arguments) as first:
                first.wait_for("are published")
                for number in range(300):
                    broker.put("killed.tv", b"%d" % number)
                    if number == 150:
                        first.kill()
            with joined(server, broker, "killed.", *arguments) as second:
                while not found or found[-1] != b"299":
                    found += [each.payload for each in await take(events, 1) if isinstance(each, Message)]
                assert second.stop() == 0
        return found

    found = asyncio.run(receive())
    assert list(dict.fromkeys(found)) == [b"%d" % number for number in range(300)]


def at_port(held: socket) -> list[str]:
    """The options of a server at a port that nobody else is given while it does not run."""
    return ["--max-payload", "2000", "--objects", str(held.getsockname()[1])]


def test_records_wait_for_a_server_that_is_away(broker: Broker, tmp_path: Path) -> None:
    broker.create("server.tv")
    journal = tmp_path / "journal"
    with (
        reserve_port() as held,
        ForkedServer(journal, options := at_port(held)) as server,
        joined(server, broker, "server.", "--service", "tv", "--in") as uplink,
    ):
        uplink.wait_for("are published")
        server.stop()
        uplink.wait_for("the server is lost")
        broker.put("server.tv", b"first")
        broker.put("server.tv", b"x" * 5000)
        broker.put("server.tv", b"last")
        with ForkedServer(journal, options):
            until(lambda: broker.committed("bussrv-hall", "server.tv") == 3)
            assert uplink.stop() == 0
    assert "in published 2, in skipped 0, in refused 1" in uplink.wait_for("stopped")


def test_a_topic_that_is_new_is_read_from_its_beginning(
    server: ForkedServer, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "REFRESH", 300)
    broker.create("new.hall.old")
    broker.put("new.hall.old", b"before")

    async def work() -> list[Message | Gap]:
        said, stop, figures = io.StringIO(), asyncio.Event(), IncomingFigures(Figures())
        cluster, wanted = parse(broker.url, None, Tls()), Wanted("new", ("hall/+",), "new.")
        async with connect(address(server)) as bus, bus.subscribe("hall/#") as events:
            running = asyncio.ensure_future(Incoming(cluster, wanted, figures, Lines(out=said), stop).run(bus))
            while "are published" not in said.getvalue():
                await asyncio.sleep(0.01)
            for topic in ("new.cellar", "new.hall.young", "new.hall.a.b"):
                broker.create(topic)
                broker.put(topic, topic.encode())
            found = await take(events, 1)
            broker.put("new.hall.old", b"after")
            found += await take(events, 1)
            stop.set()
            await running
        return found

    found = asyncio.run(asyncio.wait_for(work(), 60))
    assert [(each.service, each.payload) for each in found if isinstance(each, Message)] == [
        ("hall/young", b"new.hall.young"),
        ("hall/old", b"after"),
    ]
