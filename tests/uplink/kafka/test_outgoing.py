"""Publications of chosen services to Kafka. A real server, and the broker Tansu, whose limits
:mod:`tests.uplink.kafka.broker` tells."""

from __future__ import annotations

import asyncio
import io
import signal
from functools import partial

import pytest

from bussrv.client.aio import connect
from bussrv.client.tls import Tls
from bussrv.uplink.figures import Figures
from bussrv.uplink.kafka import outgoing
from bussrv.uplink.kafka.cluster import Cluster, parse
from bussrv.uplink.kafka.outgoing import Outgoing, OutgoingFigures
from bussrv.uplink.kafka.publications import Wanted
from bussrv.uplink.lines import Lines
from bussrv.uplink.stopping import run_jobs
from tests.forked import ForkedServer
from tests.uplink.kafka.broker import PRODUCE, Broker
from tests.uplink.kafka.talk import address, headers_of, joined
from tests.uplink.kafka.waiting import until

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]


def test_publications_go_out_in_order(server: ForkedServer, broker: Broker) -> None:
    broker.create("out.hall.lamp")
    with joined(server, broker, "out.", "--service", "hall/#", "--out") as uplink:
        uplink.wait_for("publications go")

        async def publish() -> str:
            async with connect(address(server)) as bus:
                for number in range(700):
                    await bus.publish("hall/lamp", b"%d" % number, type="text/plain")
                    await bus.publish("cellar/lamp", b"not wanted")
                await bus.flush()
                return bus.routing_id or ""

        publisher = asyncio.run(publish())
        until(lambda: len(broker.read("out.hall.lamp")) == 700)
        assert uplink.stop() == 0
    records = broker.read("out.hall.lamp")
    assert [each.value for each in records] == [b"%d" % number for number in range(700)]
    first = records[0]
    assert (first.key, headers_of(first)["content-type"]) == (publisher.encode(), b"text/plain")
    assert headers_of(first)["bussrv-uplink"] == b"hall"
    assert len({headers_of(each)["bussrv-id"] for each in records}) == 700
    assert uplink.wait_for("stopped").endswith("out sent 700, out skipped 0, out lost 0, out refused 0, out failures 0")


def test_what_waits_is_sent_before_the_end(server: ForkedServer, broker: Broker) -> None:
    broker.create("end.tv")
    with joined(server, broker, "end.", "--service", "tv", "--out") as uplink:
        uplink.wait_for("publications go")

        async def publish() -> None:
            async with connect(address(server)) as bus:
                for number in range(3000):
                    await bus.publish("tv", b"%d" % number)
                await bus.flush()
                stopping = asyncio.ensure_future(asyncio.to_thread(uplink.stop, signal.SIGINT))
                while not stopping.done():
                    await bus.publish("tv", b"on and on")
                    await bus.flush()
                assert await stopping == 0

        asyncio.run(publish())
    said = uplink.wait_for("stopped")
    count = len(broker.read("end.tv"))
    assert f"out sent {count}, out skipped 0, out lost 0" in said


def test_publications_wait_for_a_broker_that_is_away(server: ForkedServer, broker: Broker) -> None:
    broker.create("wait.tv")
    broker.relay.swallow = PRODUCE
    with joined(server, broker, "wait.", "--service", "tv", "--out") as uplink:
        uplink.wait_for("publications go")

        async def publish(first: int) -> None:
            async with connect(address(server)) as bus:
                for number in range(first, first + 100):
                    await bus.publish("tv", b"%d" % number)
                await bus.flush()

        asyncio.run(publish(0))
        until(lambda: len(broker.read("wait.tv")) == 100)
        broker.cut()
        asyncio.run(publish(100))
        uplink.wait_for("is lost")
        broker.mend()
        uplink.wait_for("is back")
        until(lambda: len(broker.read("wait.tv")) == 200)
        uplink.stop()
    assert [each.value for each in broker.read("wait.tv")] == [b"%d" % number for number in range(200)]


def test_one_publication_that_is_refused_holds_up_no_other(server: ForkedServer, broker: Broker) -> None:
    for topic in ("large.tv", "large.radio"):
        broker.create(topic)
    arguments = ("--service", "#", "--out", "--max-bytes", "2000")
    with joined(server, broker, "large.", *arguments) as uplink:
        uplink.wait_for("publications go")

        async def publish() -> None:
            async with connect(address(server)) as bus:
                await bus.publish("tv", b"x" * 3000)
                await bus.publish("/".join("abcdefgh" * 16), b"too long" * 8)
                await bus.publish("radio", b"small")
                await bus.publish("tv", b"small")
                await bus.flush()

        asyncio.run(publish())
        until(lambda: len(broker.read("large.tv")) == len(broker.read("large.radio")) == 1)
        assert uplink.stop() == 0
    assert "out sent 2, out skipped 0, out lost 0, out refused 2" in uplink.wait_for("stopped")
    assert "would have 261 characters" in uplink.wait_for("is not sent: the topic of")
    assert "larger than the maximum" in uplink.wait_for("is not sent: topic large.tv")


def outgoing_to(broker: Broker, prefix: str) -> tuple[Outgoing, Figures, io.StringIO, asyncio.Event]:
    """The part of an uplink that sends publications on ``tv``, in this process."""
    figures, said, stop = Figures(), io.StringIO(), asyncio.Event()
    cluster, wanted = parse(broker.url, None, Tls()), Wanted("hall", ("tv",), prefix)
    made = Outgoing(cluster, wanted, OutgoingFigures(figures), Lines(out=said), stop, max_bytes=10_000)
    return made, figures, said, stop


def test_what_cannot_be_sent_in_time_is_counted(
    server: ForkedServer, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is what was dropped before, since too many waited."""
    monkeypatch.setattr(outgoing, "QUEUE", 50)
    broker.create("late.tv")

    async def work() -> None:
        sender, figures, said, stop = outgoing_to(broker, "late.")
        async with connect(address(server)) as bus, connect(address(server)) as other:
            running = asyncio.ensure_future(run_jobs([partial(sender.run, bus)], stop, 0.5))
            while "publications go" not in said.getvalue():
                await asyncio.sleep(0.01)
            await other.publish("tv", b"first", confirm=True)
            while not figures.value("out_sent"):
                await asyncio.sleep(0.01)
            broker.cut()
            for number in range(600):
                await other.publish("tv", b"%d" % number, confirm=True)
            stop.set()
            await running
        assert (figures.value("out_sent"), figures.value("out_lost")) == (1, 600)

    try:
        asyncio.run(asyncio.wait_for(work(), 60))
    finally:
        broker.mend()


def test_a_slow_broker_costs_no_more_than_the_queue(
    server: ForkedServer, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing, "QUEUE", 50)
    broker.create("slow.tv")

    async def work() -> Figures:
        sender, figures, said, stop = outgoing_to(broker, "slow.")
        async with connect(address(server)) as bus, connect(address(server)) as other:
            running = asyncio.ensure_future(sender.run(bus))
            while "publications go" not in said.getvalue():
                await asyncio.sleep(0.01)
            await other.publish("tv", b"first", confirm=True)
            while not figures.value("out_sent"):
                await asyncio.sleep(0.01)
            broker.cut()
            for number in range(600):
                await other.publish("tv", b"%d" % number, confirm=True)
            broker.mend()
            await other.publish("tv", b"last", confirm=True)
            stop.set()
            await running
        assert "publications are lost: overflow" in said.getvalue()
        return figures

    figures = asyncio.run(asyncio.wait_for(work(), 60))
    values = [each.value for each in broker.read("slow.tv")]
    assert (values[0], values[-1]) == (b"first", b"last")
    assert len(values) == figures.value("out_sent") == 602 - figures.value("out_lost")
    assert len(values) < 600


def test_a_full_queue_is_sent_before_the_end(
    server: ForkedServer, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a gap besides, since it was more than full. The stop comes while Kafka is asked whether it is there."""
    monkeypatch.setattr(outgoing, "QUEUE", 50)
    broker.create("full.tv")

    async def work() -> Figures:
        sender, figures, _, stop = outgoing_to(broker, "full.")

        async def fill(_: Cluster) -> None:
            for number in range(60):
                await other.publish("tv", b"%d" % number, confirm=True)
            stop.set()

        monkeypatch.setattr(Cluster, "check", fill)
        async with connect(address(server)) as bus, connect(address(server)) as other:
            await sender.run(bus)
        return figures

    figures = asyncio.run(asyncio.wait_for(work(), 60))
    assert [each.value for each in broker.read("full.tv")] == [b"%d" % number for number in range(10, 60)]
    assert (figures.value("out_sent"), figures.value("out_lost")) == (50, 10)
