"""Sealed records in a topic, each once. The broker is Tansu: see :mod:`tests.uplink.kafka.broker` for its limits."""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError, OutOfOrderSequenceNumber

from bussrv.client.objects import ObjectsClient
from bussrv.errors import BussrvError
from bussrv.journal.batch import Rotation
from bussrv.journal.chain import line_hash
from bussrv.journal.reading import read_end
from bussrv.journal.upkeep import UpkeepPolicy
from bussrv.uplink.figures import Figures
from bussrv.uplink.kafka import events
from bussrv.uplink.kafka.cluster import Cluster
from bussrv.uplink.kafka.events import Destination, EventsFigures, EventsSender
from bussrv.uplink.kafka.sealed import SealedJournal
from bussrv.uplink.lines import Lines
from tests.forked import ForkedServer
from tests.forked_uplink import ForkedUplink
from tests.journal.kept import Kept
from tests.size import sized
from tests.uplink.kafka.broker import END_TRANSACTION, PRODUCE, Broker
from tests.uplink.kafka.test_sealed import lines_of
from tests.uplink.kafka.waiting import until

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

INTERVAL = UpkeepPolicy().seal_interval
SMALL = Rotation(bytes=4000)
KILLS = sized(5, 2)


def write(server: Kept, count: int) -> None:
    for number in range(count):
        server.write(f"ann{number}")
    server.idle(INTERVAL)


def values(broker: Broker, topic: str, partitions: int = 1) -> list[bytes]:
    return [each.value for each in broker.read(topic, partitions)]


class Run:
    """A sender in this process, for as long as it takes."""

    def __init__(self, broker: Broker, topic: str, directory: Path, **options: Any) -> None:
        self.figures, self.said = Figures(), io.StringIO()
        self.stop = asyncio.Event()
        self._of_figures = EventsFigures(self.figures)
        max_bytes = options.pop("max_bytes", 1 << 20)
        cluster = Cluster((("127.0.0.1", broker.relay.port),))
        journal = SealedJournal(directory, skips_missing=options.get("from_oldest", False))
        to = Destination(cluster, topic, max_bytes)
        self.sender = EventsSender(to, journal, self._of_figures, Lines(out=self.said), self.stop, **options)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Run until something is so."""
        task = asyncio.ensure_future(self.sender.run())
        try:
            while not (is_so() or task.done()):
                await asyncio.sleep(0.02)
        finally:
            self.stop.set()
            await task

    async def until_sent(self, count: int) -> None:
        await self.until(lambda: self.figures.value("events_sent") >= count)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def sent(broker: Broker, topic: str, directory: Path, count: int, **options: Any) -> Run:
    """Let a sender send so many records."""

    async def work() -> Run:
        found = Run(broker, topic, directory, **options)
        await found.until_sent(count)
        return found

    return asyncio.run(asyncio.wait_for(work(), 60))


def refused(broker: Broker, topic: str, directory: Path, **options: Any) -> str:
    """The sentence with which a sender ends."""
    with pytest.raises(BussrvError) as caught:
        sent(broker, topic, directory, 1 << 30, **options)
    return str(caught.value)


def test_each_sealed_record_is_there_as_journaled(broker: Broker, journal: Path) -> None:
    broker.create("as-journaled", 3)
    server = Kept(journal, rotation=SMALL)
    # The next record is not the first one of a segment, which would be sealed at once.
    write(server, 1203)
    server.write("not sealed yet")
    done = sent(broker, "as-journaled", journal, 1203)
    records = broker.read("as-journaled", 3)
    assert [each.value for each in records] == lines_of(journal)[:1203]
    assert {(each.key, each.partition) for each in records} == {(b"server", records[0].partition)}
    last = records[-1]
    assert dict(last.headers) == {"seq": b"1203", "hash": line_hash(last.value).encode(), "boot": b"boot"}
    assert done.figures.registry.get_sample_value("bussrv_uplink_events_last_sent") == 1203
    assert done.figures.registry.get_sample_value("bussrv_uplink_events_last_sealed") == 1203


def test_it_goes_on_after_the_last_record_in_the_topic(broker: Broker, journal: Path) -> None:
    """Also if the topic has got more partitions meanwhile, so that the key belongs to another one."""
    broker.create("goes-on", 2)
    server = Kept(journal, rotation=SMALL)
    write(server, 20)
    sent(broker, "goes-on", journal, 20)
    for number in range(30):
        broker.put("goes-on", b"of another server", key=f"other{number}".encode(), headers=[("seq", b"1000")])
    write(server, 20)
    sent(broker, "goes-on", journal, 20)
    sent(broker, "goes-on", journal, 0)
    assert [each.value for each in broker.read("goes-on", 2) if each.key == b"server"] == lines_of(journal)[:40]


def test_an_uplink_that_is_killed_leaves_no_gap(broker: Broker, journal: Path) -> None:
    broker.create("killed")
    server = Kept(journal, rotation=Rotation(bytes=100_000))
    write(server, 3000)
    draw = random.Random(40)
    for _ in range(KILLS):
        before = len(values(broker, "killed"))
        with ForkedUplink(broker.url, "--events", "--journal", str(journal), "--topic", "killed") as uplink:
            until(lambda before=before: len(values(broker, "killed")) > before)
            until(lambda: draw.random() < 0.3)
            uplink.kill()
        write(server, 300)
    written = 3000 + 300 * KILLS
    sealed = lines_of(journal)[:written]
    with ForkedUplink(broker.url, "--events", "--journal", str(journal), "--topic", "killed") as uplink:
        until(lambda: len(values(broker, "killed")) >= written)
        assert uplink.stop() == 0
    assert values(broker, "killed") == sealed


@pytest.mark.parametrize("request_key", [PRODUCE, END_TRANSACTION])
def test_a_lost_answer_makes_no_duplicate(broker: Broker, journal: Path, request_key: int) -> None:
    topic = f"lost-answer-{request_key}"
    broker.create(topic)
    write(Kept(journal), 1200)
    broker.relay.swallow, before = request_key, broker.relay.swallowed
    sent(broker, topic, journal, 700)
    assert broker.relay.swallowed == before + 1
    sent(broker, topic, journal, 0)
    assert values(broker, topic) == lines_of(journal)[:1200]


def test_a_broker_that_is_away_is_tried_again(broker: Broker, journal: Path) -> None:
    broker.create("away")
    server = Kept(journal)
    write(server, 10)

    async def work() -> None:
        found = Run(broker, "away", journal)
        broker.cut()
        loop = asyncio.get_running_loop()
        loop.call_later(0.7, broker.mend)
        await found.until_sent(10)
        assert found.figures.value("events_failures") >= 2
        assert [line.partition("] ")[2].partition(",")[0] for line in found.said.getvalue().splitlines()] == [
            f"uplink: kafka://{broker.address} is lost",
            f"uplink: kafka://{broker.address} is back after {found.figures.value('events_failures')} attempts",
            "uplink: records of server server go to topic away of kafka://" + broker.address,
        ]

    run(work())
    assert values(broker, "away") == lines_of(journal)[:10]


def test_another_journal_is_refused(broker: Broker, journal: Path, tmp_path: Path) -> None:
    broker.create("another")
    write(Kept(journal), 3)
    sent(broker, "another", journal, 3)
    other = tmp_path / "other"
    other.mkdir()
    server = Kept(other)
    server.write("somebody else")
    write(server, 5)
    assert "record 3 of server server at topic another, partition 0, offset" in refused(broker, "another", other)
    broker.create("foreign")
    broker.put("foreign", b"no record", key=b"server")
    assert "offset 0 has the key of this server, and is no record of an uplink" in refused(broker, "foreign", journal)


def test_a_record_that_is_too_large_stops_the_uplink(broker: Broker, journal: Path) -> None:
    """All records before it are sent."""
    broker.create("too-large")
    server = Kept(journal)
    write(server, 5)
    server.write("a" * 3000)
    write(server, 5)
    said = refused(broker, "too-large", journal, max_bytes=4096)
    assert said.startswith("record 6 of server server has 3")
    assert "more than --max-bytes 4096 takes, and is not left out" in said
    assert values(broker, "too-large") == lines_of(journal)[:5]
    sent(broker, "too-large", journal, 6)
    assert values(broker, "too-large") == lines_of(journal)[:11]


def test_records_that_are_gone_stop_the_uplink(broker: Broker, journal: Path) -> None:
    broker.create("gone")
    server = Kept(journal, rotation=Rotation(bytes=2000), policy=UpkeepPolicy(retain_bytes=6000))
    write(server, 3)
    sent(broker, "gone", journal, 3)
    write(server, 40)
    said = refused(broker, "gone", journal)
    assert "records 4 to " in said
    assert "cannot be sent: retention has removed them" in said
    done = sent(broker, "gone", journal, 3, from_oldest=True)
    (missing,) = [each for each in broker.read("gone") if "missing" in dict(each.headers)]
    first = int(dict(missing.headers)["seq"])
    assert dict(missing.headers)["missing"] == b"4-%d" % (first - 1)
    assert done.figures.value("events_missing") == first - 4
    assert f"records 4 to {first - 1} of server server are gone, and missing in topic gone" in done.said.getvalue()


def test_two_uplinks_of_one_server_make_no_duplicates(
    broker: Broker, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A producer of Kafka that was fenced may wait for its broker for ever. The uplink gives a page 60 seconds.
    monkeypatch.setattr(events, "SEND_SECONDS", 5.0)
    broker.create("twice")
    server = Kept(journal)
    write(server, 600)

    async def work() -> None:
        one, other = Run(broker, "twice", journal), Run(broker, "twice", journal)
        both = asyncio.gather(one.sender.run(), other.sender.run(), return_exceptions=True)
        for _ in range(20):
            write(server, 50)
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        one.stop.set()
        other.stop.set()
        outcomes = await both
        assert any("another uplink" in str(each) for each in outcomes)

    run(work())
    sent(broker, "twice", journal, 0)
    records = values(broker, "twice")
    assert records == lines_of(journal)[: len(records)]


def test_what_the_topic_refuses_as_too_large_stops_the_uplink(
    broker: Broker, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tansu takes records of any size. So the refusal is made up in the client, as Kafka answers: of the record, and of
    what the same producer sends after it."""
    broker.create("refuses")
    server = Kept(journal)
    write(server, 5)
    server.write("a" * 3000)
    write(server, 5)
    send, broken = AIOKafkaProducer.send, set[AIOKafkaProducer]()

    async def limited(self: AIOKafkaProducer, topic: str, value: bytes, *rest: Any, **named: Any) -> Any:
        if len(value) < 3000 and self not in broken:
            return await send(self, topic, value, *rest, **named)
        future = asyncio.get_running_loop().create_future()
        future.set_exception(OutOfOrderSequenceNumber() if self in broken else MessageSizeTooLargeError())
        broken.add(self)
        return future

    monkeypatch.setattr(AIOKafkaProducer, "send", limited)
    said = refused(broker, "refuses", journal)
    assert said.startswith("record 6 of server server has 3")
    assert "more than the topic takes, and is not left out" in said
    monkeypatch.undo()
    sent(broker, "refuses", journal, 6)
    assert values(broker, "refuses") == lines_of(journal)[:11]


def test_the_topic_follows_a_server_through_a_crash(broker: Broker, tmp_path: Path) -> None:
    """A real server: its segments end and are compressed, it is killed, and it is stopped."""
    broker.create("follows")
    journal = tmp_path / "journal"
    options = ["--journal-seal-interval", "0.2", "--journal-segment-bytes", "65536", "--journal-compress"]

    def talk(server: ForkedServer, number: int) -> None:
        with ObjectsClient(port=server.port("objects")) as client:
            client.subscribe()
            for each in range(200):
                client.register(f"service/{number}/{each}")

    uplink: ForkedUplink | None = None
    for number in range(3):
        with ForkedServer(journal, options) as server:
            if uplink is None:
                uplink = ForkedUplink(broker.url, "--events", "--journal", str(journal), "--topic", "follows")
            talk(server, number)
            if number == 1:
                server.process.kill()
            else:
                server.stop()
    assert uplink is not None
    with uplink:
        lines = [line.text.rstrip(b"\n") for line in read_end(journal, 1_000_000, lambda _: True).lines]
        assert len(lines) > 600
        until(lambda: len(broker.read("follows")) >= len(lines))
        assert uplink.stop() == 0
    assert values(broker, "follows") == lines
