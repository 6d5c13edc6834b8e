"""The whole server in this process: a real reactor, real ports, a real journal."""

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred, fail
from twisted.internet.endpoints import clientFromString, connectProtocol
from twisted.internet.protocol import Protocol
from twisted.logger import LogEvent, capturedLogs, globalLogPublisher

from bussrv import events as ev
from bussrv.errors import ConfigError
from bussrv.interfaces import IHostedService
from bussrv.journal.files import Files
from bussrv.journal.reading import read_journal
from bussrv.server.configuration import config
from bussrv.server.configuration.options import StartError
from bussrv.server.configuration.sources import of_command_line
from bussrv.server.running import service as module
from bussrv.server.running.service import BusService
from bussrv.server.running.twistd import ProcessService
from bussrv.spool.entries import Append, Claim
from bussrv.wire.objects import BusObject, ObjectReader, encode
from tests.server.configs import FORMATS, SERVICES

FREE = dict.fromkeys(("objects", "business", "inbus", "spp"), "0")


class Client(Protocol):
    """Waits for objects."""

    def __init__(self) -> None:
        self._reader = ObjectReader()
        self._waiting: Deferred[BusObject] | None = None
        self.gone: Deferred[None] = Deferred()

    def ask(self, fields: dict[str, object]) -> "Deferred[BusObject]":
        self._waiting = Deferred()
        self.transport.write(encode(fields))
        return self._waiting

    def dataReceived(self, data: bytes) -> None:
        self._reader.feed(data)
        while (event := self._reader.next_event()) is not None:
            assert isinstance(event, BusObject)
            waiting, self._waiting = self._waiting, None
            if waiting is not None:
                waiting.callback(event)

    def connectionLost(self, reason: object = None) -> None:
        self.gone.callback(None)


def service(
    journal: Path | str, services: Sequence[IHostedService] = (), kind: type[BusService] = BusService, **options: str
) -> BusService:
    values = of_command_line({**FREE, "journal": str(journal), **options})
    return kind(config.build(values, FORMATS, services), FORMATS, reactor, services=services)


@pytest_twisted.ensureDeferred
async def test_the_spool_is_beside_the_journal_and_outlives_the_server(tmp_path: Path) -> None:
    server = service(tmp_path / "journal")
    server.startService()
    kept = Append(owner="ann", kind="queue", payload=b"kept")
    written = server.bus.spool.write([Claim(owner="ann", address="10.0.0.1:7"), kept])
    # It is written, although the server stops.
    await server.stopService()
    assert (await written).numbers == (1,)
    assert sorted(each.name for each in tmp_path.iterdir() if each.name.startswith("journal.spool")) == [
        "journal.spool"
    ]
    again = service(tmp_path / "journal")
    again.startService()
    assert [each.payload for each in (await again.bus.spool.page("ann", "queue")).entries] == [b"kept"]
    await again.stopService()


@pytest_twisted.ensureDeferred
async def test_without_a_journal_the_spool_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    server = service("off")
    server.startService()
    await server.bus.spool.write([Claim(owner="ann", address="10.0.0.1:7")])
    assert await server.bus.spool.owners() == ("ann",)
    await server.stopService()
    assert list(tmp_path.iterdir()) == []


@pytest_twisted.ensureDeferred
async def test_it_starts_serves_and_stops(tmp_path: Path) -> None:
    server = service(tmp_path / "journal")
    server.startService()
    address = server.listeners["objects"].address.removeprefix("tcp ")
    client = await connectProtocol(clientFromString(reactor, f"tcp:{address}"), Client())
    subscribed = await client.ask({"event": "routing/subscribe", "id": 1})
    assert subscribed.fields()["in-reply-to"] == 1
    registered = await client.ask({"event": "services/register", "name": "tv"})
    assert registered.fields()["event"] == "services/register/reply"
    assert list(server.registry.state.services) == ["tv"]
    await server.stopService()
    await client.gone
    records = [record.event for record in read_journal(tmp_path / "journal")]
    assert [type(event) for event in records] == [
        ev.ServerStarted,
        ev.SessionOpened,
        ev.SessionIdentified,
        ev.SubscriptionAdded,
        ev.ServiceRegistered,
        ev.ServiceUnregistered,
        ev.SessionClosed,
        ev.ServerStopped,
    ]


@pytest_twisted.ensureDeferred
async def test_it_is_ready_when_its_own_services_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the disk is: a client that subscribes over SPP before that would never be answered."""
    goes_on, waits = threading.Event(), Deferred[None]()
    sync = Files.sync

    def slow_sync(files: Files, descriptor: int) -> None:
        if not goes_on.is_set():
            reactor.callFromThread(reactor.callLater, 0, waits.callback, None)
        goes_on.wait(20)
        sync(files, descriptor)

    monkeypatch.setattr(Files, "sync", slow_sync)
    server = service(tmp_path / "journal", SERVICES)
    is_ready: Deferred[set[str]] = Deferred()

    def note(event: LogEvent) -> None:
        if event.get("event") == "server.ready":
            is_ready.callback({*server.registry.state.services})

    globalLogPublisher.addObserver(note)
    try:
        server.startService()
        await waits
        assert not is_ready.called
        goes_on.set()
        assert await is_ready == {each.name for each in SERVICES}
    finally:
        goes_on.set()
        globalLogPublisher.removeObserver(note)
        await server.stopService()


class Stuck:
    """A port of a plugin that never closes, or fails to."""

    address = "stuck"

    def __init__(self, closing: Deferred[None]) -> None:
        self._closing = closing

    def stopService(self) -> Deferred[None]:
        return self._closing


@pytest_twisted.ensureDeferred
async def test_no_port_keeps_the_server_from_ending_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_SECONDS_TO_STOP", 0.05)
    server = service(tmp_path / "journal", admin="off")
    server.startService()
    server.listeners["stuck"] = Stuck(Deferred())
    server.listeners["broken"] = Stuck(fail(OSError("no such port")))
    with capturedLogs() as said:
        await server.stopService()
    assert isinstance(list(read_journal(tmp_path / "journal"))[-1].event, ev.ServerStopped)
    late = [
        (each["protocol"], each["log_level"].name) for each in said if each.get("event") == "server.port-not-closed"
    ]
    assert late == [("broken", "critical"), ("stuck", "error")]


def test_no_port_is_opened_if_a_file_of_another_is_unusable(tmp_path: Path) -> None:
    failed = service("off", objects=f"unix:{tmp_path}/socket", spp="ssl:0:privateKey=none")
    with pytest.raises(ConfigError, match="none: cannot be read"):
        failed.startService()
    assert (failed.listeners, list(tmp_path.iterdir())) == ({}, [])


@pytest_twisted.ensureDeferred
async def test_a_start_that_fails_leaves_nothing_open(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first = service("off")
    first.startService()
    busy = first.listeners["spp"].address.rpartition(":")[2]
    second = service(tmp_path / "journal", kind=ProcessService, spp=busy)
    with pytest.raises(StartError, match=f"port {busy}: Address already in use"):
        second.startService()
    assert capfd.readouterr().err.count("\n") == 1
    third = service(tmp_path / "journal")
    third.startService()
    await third.stopService()
    await first.stopService()
