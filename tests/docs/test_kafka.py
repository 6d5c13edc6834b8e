"""The page on Kafka: its commands run at a broker, and its tables are those of the code."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bussrv.cli.commands.operate.uplink import uplink
from bussrv.testing.uplink import RunningUplink
from bussrv.uplink.figures import PREFIX, Figures
from bussrv.uplink.kafka.events import EventsFigures
from bussrv.uplink.kafka.incoming import IncomingFigures
from bussrv.uplink.kafka.outgoing import QUEUE, QUEUE_BYTES, OutgoingFigures
from bussrv.uplink.kafka.position import headers_of
from bussrv.uplink.kafka.publications import CONTENT_TYPE, OBJECT_ID, UPLINK
from bussrv.uplink.kafka.sealed import PAGE_BYTES, PAGE_RECORDS, SealedRecord
from bussrv.uplink.kafka.settings import PASSWORD
from bussrv.uplink.kafka.topics import topic_of
from bussrv.uplink.kafka.topics_there import AGAIN_SECONDS
from tests.docs.commands import examples, prepare, says
from tests.docs.pages import page, rows
from tests.forked import ForkedServer
from tests.uplink.kafka.broker import Broker

pytestmark = [pytest.mark.processes, pytest.mark.timeout(60)]

PAGE = "docs/how-to/kafka.md"
PORT = "127.0.0.1:9092"
BUS = "bus://127.0.0.1"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """One that has nothing yet, as the page has it."""
    with Broker(tmp_path / "broker.log") as found:
        yield found


def started(command: str, broker: Broker) -> RunningUplink:
    return RunningUplink(*shlex.split(command.replace(PORT, broker.address))[1:])


@pytest.fixture(scope="module")
def server() -> Iterator[ForkedServer]:
    with ForkedServer("off") as found:
        yield found


EXAMPLES = [(each[7:], "") for each in uplink.examples if "kafka:" in each]


@pytest.mark.parametrize(("command", "wanted"), [*examples(PAGE), *EXAMPLES])
def test_the_commands(
    command: str, wanted: str, broker: Broker, server: ForkedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    broker.create("bussrv.events")
    with started(command.replace(BUS, f"{BUS}:{server.port('objects')}"), broker) as running:
        line = running.wait_for("go to topic")
        assert says(f"{line}\n".replace(broker.address, PORT), wanted or "…")
        assert running.stop(signal.SIGINT) == 0


def test_the_tables_are_those_of_the_code() -> None:
    figures = Figures()
    for each in (EventsFigures, OutgoingFigures, IncomingFigures):
        each(figures)
    told = {row[0].strip("`"): row[1] for row in rows(PAGE) if row[0].startswith(f"`{PREFIX}")}
    known = {each.name + "_total" * (each.type == "counter"): each.documentation for each in figures.registry.collect()}
    assert told == known
    record = SealedRecord(7, "boot", b"{}", "0" * 64, (5, 6))
    listed = re.findall(r"^\| header `([\w-]+)`", page(PAGE), re.MULTILINE)
    assert listed == [*(name for name, _ in headers_of(record)), CONTENT_TYPE, OBJECT_ID, UPLINK]
    for service, topic in ((row[0].strip("`"), row[1].strip("`")) for row in rows(PAGE) if row[1].startswith("`bus.")):
        assert topic_of("bus.", service) == topic
    assert f"At most {QUEUE} publications or {QUEUE_BYTES >> 20} MiB wait" in page(PAGE)
    assert f"asked for again after {AGAIN_SECONDS:g} seconds" in page(PAGE)
    assert f"{PAGE_RECORDS} records or\n{PAGE_BYTES >> 10} KiB" in page(PAGE)
    assert PASSWORD in page(PAGE)
