"""Publications of chosen services to Kafka and back: a real server, and the broker Tansu, whose limits
:mod:`tests.uplink.kafka.broker` tells."""

from __future__ import annotations

import asyncio
import io
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from aiokafka.structs import ConsumerRecord

from bussrv.client.aio import Subscription, connect
from bussrv.client.events import Gap, Message
from bussrv.policy.logins.users import user_line
from bussrv.uplink.figures import Figures
from bussrv.uplink.kafka import incoming, outgoing
from bussrv.uplink.kafka.cluster import TlsFiles, parse
from bussrv.uplink.kafka.incoming import Incoming, IncomingFigures
from bussrv.uplink.kafka.outgoing import Outgoing, OutgoingFigures
from bussrv.uplink.kafka.publications import Wanted
from bussrv.uplink.lines import Lines
from bussrv.uplink.stopping import run_jobs
from tests.forked import ForkedServer
from tests.uplink.kafka.broker import PRODUCE, Broker
from tests.uplink.kafka.program import Uplink, until

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

PATIENCE = 30.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedServer]:
    with ForkedServer(tmp_path_factory.mktemp("server") / "journal") as found:
        yield found


def address(server: ForkedServer) -> str:
    return f"bus://127.0.0.1:{server.port('objects')}"


def joined(server: ForkedServer, broker: Broker, prefix: str, *arguments: str) -> Uplink:
    """An uplink that runs, and has subscribed."""
    return Uplink(broker.url, "--bus", address(server), "--id", "hall", "--prefix", prefix, *arguments)


def headers_of(record: ConsumerRecord) -> dict[str, bytes]:
    return dict(record.headers)


async def take(events: Subscription[Message], count: int) -> list[Message | Gap]:
    found: list[Message | Gap] = []
    while len(found) < count:
        taken = await events.take(count - len(found), PATIENCE)
        assert taken, found
        found += taken
    return found


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


def test_two_servers_joined_both_ways_make_no_loop(broker: Broker, server: ForkedServer, tmp_path: Path) -> None:
    broker.create("both.tv")
    with (
        ForkedServer(tmp_path / "journal") as cellar,
        joined(server, broker, "both.", "--service", "tv", "--out", "--in") as one,
        joined(cellar, broker, "both.", "--id", "cellar", "--service", "tv", "--out", "--in") as other,
    ):
        for each in (one, other):
            each.wait_for("publications go")
            each.wait_for("are published")

        async def talk() -> None:
            async with (
                connect(address(server)) as here,
                connect(address(cellar)) as there,
                here.subscribe("tv") as heard_here,
                there.subscribe("tv") as heard_there,
            ):
                for number in range(20):
                    await here.publish("tv", b"from hall %d" % number)
                    await there.publish("tv", b"from cellar %d" % number)
                for events in (heard_here, heard_there):
                    # A client hears its own publications, too.
                    assert len({each.payload for each in await take(events, 40) if isinstance(each, Message)}) == 40
                broker.put("both.tv", b"the end")
                for events in (heard_here, heard_there):
                    (last,) = await take(events, 1)
                    assert isinstance(last, Message)
                    assert last.payload == b"the end"

        asyncio.run(talk())
        assert (one.stop(), other.stop()) == (0, 0)
    records = [each.value for each in broker.read("both.tv")]
    assert sorted(records) == sorted(
        [b"the end", *(b"from %s %d" % (place, number) for place in (b"hall", b"cellar") for number in range(20))]
    )


def test_what_waits_is_sent_before_the_end(server: ForkedServer, broker: Broker) -> None:
    broker.create("end.tv")
    with joined(server, broker, "end.", "--service", "tv", "--out") as uplink:
        uplink.wait_for("publications go")

        async def publish() -> None:
            async with connect(address(server)) as bus:
                for number in range(3000):
                    await bus.publish("tv", b"%d" % number)
                await bus.flush()

        asyncio.run(publish())
        assert uplink.stop(signal.SIGINT) == 0
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


def test_records_wait_for_a_server_that_is_away(broker: Broker, tmp_path: Path) -> None:
    broker.create("server.tv")
    journal = tmp_path / "journal"
    with ForkedServer(journal, ["--max-payload", "2000"]) as server:
        port = server.port("objects")
        with joined(server, broker, "server.", "--service", "tv", "--in") as uplink:
            uplink.wait_for("are published")
            server.stop()
            uplink.wait_for("the server is lost")
            broker.put("server.tv", b"first")
            broker.put("server.tv", b"x" * 5000)
            broker.put("server.tv", b"last")
            options = ["--max-payload", "2000", "--objects", f"tcp:{port}:interface=127.0.0.1"]
            with ForkedServer(journal, options):
                until(lambda: broker.committed("bussrv-hall", "server.tv") == 3)
                assert uplink.stop() == 0
    assert "in published 2, in skipped 0, in refused 1" in uplink.wait_for("stopped")


POLICY = """
[[rule]]
users = ["ann"]
watch = ["tv"]
provide = ["tv"]
publish = ["tv"]

[[rule]]
users = ["bob"]
provide = ["*"]
publish = ["*"]
watch = ["*"]
"""


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[ForkedServer]:
    """A server that asks who clients are, and says what they may do."""
    (tmp_path / "policy.toml").write_text(POLICY)
    lines = [user_line(user, f"secret of {user}".encode()) for user in ("ann", "bob")]
    (tmp_path / "users").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "users").chmod(0o600)
    for name, text in (("ann", "secret of ann\n"), ("wrong", "another\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    options = ["--auth", f"users:{tmp_path}/users", "--policy", f"{tmp_path}/policy.toml"]
    with ForkedServer(tmp_path / "journal", options) as found:
        yield found


def test_what_the_policy_denies_is_refused_and_counted(guarded: ForkedServer, broker: Broker, tmp_path: Path) -> None:
    for topic in ("policy.tv", "policy.radio"):
        broker.create(topic)
    login = ("--bus-user", "ann", "--bus-secret-file", str(tmp_path / "ann"))
    services = ("--service", "tv", "--service", "radio", "--in")
    with joined(guarded, broker, "policy.", *services, *login) as uplink:
        uplink.wait_for("are published")

        async def receive() -> list[Message | Gap]:
            secret = {"user": "bob", "secret": "secret of bob"}
            async with connect(address(guarded), **secret) as bus, bus.subscribe("tv", "radio") as events:
                broker.put("policy.radio", b"denied")
                uplink.wait_for("not-allowed")
                broker.put("policy.tv", b"allowed")
                return await take(events, 1)

        (message,) = asyncio.run(receive())
        assert message == Message("tv", b"allowed", "application/octet-stream", message.raw)
        assert uplink.stop() == 0
    assert "in published 1, in skipped 0, in refused 1" in uplink.wait_for("stopped")


@pytest.mark.parametrize(
    ("service", "user", "secret", "sentence"),
    [
        ("radio", "ann", "ann", "not-allowed"),
        ("tv", "ann", "wrong", "the server does not take the uplink: "),
    ],
)
def test_an_uplink_that_may_not_subscribe_ends(
    guarded: ForkedServer, broker: Broker, tmp_path: Path, service: str, user: str, secret: str, sentence: str
) -> None:
    login = ("--bus-user", user, "--bus-secret-file", str(tmp_path / secret))
    with joined(guarded, broker, "denied.", "--service", service, "--out", *login) as uplink:
        assert uplink.wait() != 0
        assert sentence in uplink.lines[-1]


def outgoing_to(broker: Broker, prefix: str) -> tuple[Outgoing, Figures, io.StringIO, asyncio.Event]:
    """The part of an uplink that sends publications on ``tv``, in this process."""
    figures, said, stop = Figures(), io.StringIO(), asyncio.Event()
    cluster, wanted = parse(broker.url, None, TlsFiles()), Wanted("hall", ("tv",), prefix)
    made = Outgoing(cluster, wanted, OutgoingFigures.of(figures), Lines(out=said), stop, max_bytes=10_000)
    return made, figures, said, stop


def test_what_cannot_be_sent_in_time_is_counted(server: ForkedServer, broker: Broker) -> None:
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


def test_a_topic_that_is_new_is_read_from_its_beginning(
    server: ForkedServer, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "REFRESH", 300)
    broker.create("new.hall.old")
    broker.put("new.hall.old", b"before")

    async def work() -> list[Message | Gap]:
        said, stop, figures = io.StringIO(), asyncio.Event(), IncomingFigures.of(Figures())
        cluster, wanted = parse(broker.url, None, TlsFiles()), Wanted("new", ("hall/+",), "new.")
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
