"""A server in memory: what authors of wire formats and of programs test against."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from twisted.internet.task import LoopingCall, deferLater

from bussrv import events as ev
from bussrv.audit.job import audit
from bussrv.client.errors import TimedOut
from bussrv.client.events import Message
from bussrv.errors import ConfigError
from bussrv.journal.verify import verify
from bussrv.plugin import WireFormat
from bussrv.testing.memory import Connection, MemoryServer
from bussrv.testing.reactor import MemoryReactor
from bussrv.wire import inbus, spp
from bussrv.wire.mqtt.packets import Puback, Publish
from bussrv.wire.objects import BusObject, ObjectReader, encode
from tests.docs.pages import blocks
from tests.tables import each_row


def told(connection: Connection) -> list[dict[str, object]]:
    """The metadata of all objects that came."""
    reader, found = ObjectReader(), []
    reader.expect_server()
    reader.feed(connection.take())
    while isinstance(event := reader.next_event(), BusObject):
        found.append(event.fields())
    return found


def joined(server: MemoryServer) -> Connection:
    member = server.connect("objects")
    member.send(encode({"event": "routing/subscribe"}))
    told(member)
    return member


def test_every_format_is_served_and_a_stop_leaves_nothing() -> None:
    threads = set(threading.enumerate())
    with MemoryServer() as server:
        formats = ("business", "mqtt", "objects", "servers", "spp", "websocket")
        connections = [server.connect(each) for each in formats]
        server.device().send(inbus.publish("door", 1, b"open", 2))
        assert "door" in server.state.services
        opened = {each.protocol for each in server.state.sessions.values()}
        assert opened == {"bus", "business", "inbus", "mqtt", "objects", "spp"}
    assert not any(each.is_open for each in connections)
    assert (server.clock.getDelayedCalls(), server.clock.ports) == ([], {})
    assert set(threading.enumerate()) == threads
    assert isinstance(server.events()[-1], ev.ServerStopped)


def test_nothing_is_answered_before_it_is_durable() -> None:
    with MemoryServer() as server:
        member = joined(server)
        server.journal.hold()
        member.send(encode({"event": "services/register", "name": "tv"}))
        assert (told(member), server.journal.held) == ([], 1)
        server.journal.release()
        assert [each["event"] for each in told(member)] == ["services/register/reply"]


def test_a_slow_disk_takes_its_time_on_the_clock() -> None:
    with MemoryServer() as server:
        member = joined(server)
        server.journal.delay = 0.5
        member.send(encode({"event": "services/register", "name": "tv"}))
        server.advance(0.4)
        assert told(member) == []
        server.journal.delay = 0.0
        member.send(encode({"event": "services/register", "name": "radio"}))
        server.advance(0.1)
        assert [each["name"] for each in told(member)] == ["tv", "radio"]


def test_a_full_disk_refuses_changes_and_objects_flow() -> None:
    with MemoryServer() as server:
        member = joined(server)
        server.journal.fail("no space left")
        member.send(encode({"event": "services/register", "name": "tv", "id": 1}))
        assert [each["reason"] for each in told(member)] == ["journal-unavailable"]
        member.send(encode({"type": "text/plain"}, b"hello"))
        assert [each["type"] for each in told(member)] == ["text/plain"]
        server.journal.fail(None)
        member.send(encode({"event": "services/register", "name": "tv"}))
        assert [each["event"] for each in told(member)] == ["services/register/reply"]


def test_a_crash_loses_what_is_not_durable_and_nothing_else() -> None:
    with MemoryServer() as server:
        device = server.device(port=5000)
        device.send(inbus.subscribe("tv", *device.address, 2))
        server.journal.hold()
        device.send(inbus.subscribe("radio", *device.address, 2))
        member = server.connect("objects")
        server.crash()
        assert not member.is_open
        server.restart()
        assert [each.service for each in server.state.all_subscriptions()] == ["tv"]
        server.device(host="10.0.0.3").send(inbus.publish("tv", 1, b"on", 2))
        assert [inbus.decode(each).payload for each in device.take()] == [b"on"]


@each_row("publishing", ["objects", "business", "websocket", "inbus"])
@each_row("watching", ["objects", "business", "websocket", "inbus", "spp"])
def test_clients_of_every_format_reach_each_other(publishing: str, watching: str) -> None:
    with MemoryServer() as server:
        publisher, watcher = server.client(publishing, "10.0.0.2"), server.client(watching)
        publisher.publish("tv", b"news", type="text/plain")
        events = watcher.subscribe("tv")
        before = len(events.take())  # SPP has the last one.
        publisher.publish("tv", b"on", type="text/plain")
        assert [each.payload for each in events.take() if isinstance(each, Message)] == [b"on"]
        assert before == (watching == "spp")
        watcher.close()
        assert not watcher.is_up


def test_mqtt_reaches_the_others() -> None:
    with MemoryServer() as server:
        ann, events = server.mqtt("ann"), server.client().subscribe("tv")
        ann.subscribe("#")
        came = ann.publish("tv", b"on", qos=1)
        assert [each.payload for each in events.take() if isinstance(each, Message)] == [b"on"]
        assert {type(each) for each in came} == {Puback, Publish}


def test_requests_take_their_time_on_the_clock() -> None:
    with MemoryServer() as server:
        provider, asker = server.client(), server.client()
        provider.serve("slow", lambda request: deferLater(server.clock, 3.0, lambda: request.payload[::-1]))
        began = server.clock.seconds()
        assert asker.request("slow", b"abc").payload == b"cba"
        assert server.clock.seconds() == began + 3.0
        with pytest.raises(TimedOut):
            asker.request("slow", b"abc", timeout=2.0)


def test_a_client_that_reads_nothing_is_cut_alone() -> None:
    with MemoryServer({"max-outbound": 100_000}) as server:
        slow, publisher = server.connect("spp", room=1000), server.client()
        publisher.publish("tv", b"")
        slow.send(spp.subscribe("tv"))
        other = server.client("spp").subscribe("tv")
        for _ in range(30):
            publisher.publish("tv", bytes(10_000))
        assert len(other.take()) == 31
        assert slow.pipe.is_cut
        assert not slow.is_open
        assert [each.reason for each in server.events(ev.SessionClosed)] == ["slow-consumer"]


def test_a_format_of_ones_own_is_served_without_an_installation() -> None:
    module = ModuleType("made_up_lines")
    exec(blocks("docs/how-to/plugins.md", "python")[0], module.__dict__)
    sys.modules[module.__name__] = module
    lines = WireFormat("lines", module=module.__name__, default_endpoint="tcp:7000", summary="lines of text")
    with MemoryServer(formats=[lines]) as server:
        client, events = server.connect("lines"), server.client().subscribe("door")
        client.send_each(b"PUB door open\n")
        assert [each.payload for each in events.take() if isinstance(each, Message)] == [b"open"]


@pytest.mark.dear
def test_linked_servers_crash_link_again_and_pass_the_audit(tmp_path: Path) -> None:
    hall = MemoryServer({"objects": 7890, "link-allow": ["127.0.0.1"]})
    cellar = MemoryServer({"server-id": "cellar", "link": ["tcp:hall:7890"]}, beside=hall)
    hall.advance(1)
    hall.client().publish("lamp", b"on")
    cellar.client("spp")
    hall.advance(1)
    assert "lamp" in cellar.state.services
    cellar.crash()
    hall.advance(1)
    cellar.restart()
    hall.advance(5)
    assert [type(each) for each in hall.events(ev.LinkUp, ev.LinkDown)] == [ev.LinkUp, ev.LinkDown, ev.LinkUp]
    assert "lamp" in cellar.state.services
    hall.crash()
    cellar.advance(1)
    assert "lamp" not in cellar.state.services
    hall.restart()
    cellar.advance(30)
    assert isinstance(hall.events()[-1], ev.LinkUp)
    journals = []
    for each in (hall, cellar):
        each.stop()
        journals.append(tmp_path / str(each.settings["server-id"]))
        each.write_journal(journals[-1])
        assert verify(journals[-1], to_the_end=True).faults == []
    found = audit(None, journals, tmp_path / "audit")
    assert (found.is_intact, found.summary["records"]) == (True, sum(len(each.events()) for each in (hall, cellar)))


def test_nobody_listens_where_a_server_dials() -> None:
    with MemoryServer({"link": ["tcp:nowhere:7890"], "max-link-delay": 2.0}) as server:
        server.advance(60)
        assert server.events(ev.LinkUp) == []


def test_what_never_ends_is_an_error_of_the_test() -> None:
    clock = MemoryReactor()

    def again() -> None:
        clock.callLater(0, again)

    again()
    with pytest.raises(RuntimeError, match="without a pause"):
        clock.advance(1)


def test_time_passes_step_by_step() -> None:
    clock, seen = MemoryReactor(), list[float]()
    ticking = LoopingCall(lambda: seen.append(clock.seconds()))
    ticking.clock = clock
    ticking.start(1.0)
    clock.advance(3.5)
    assert (seen, clock.seconds()) == ([0.0, 1.0, 2.0, 3.0], 3.5)


def test_what_a_test_cannot_ask_for_is_said() -> None:
    with MemoryServer({"spp": "off"}) as server:
        asked: list[tuple[Callable[[], object], str]] = [
            (lambda: server.connect("spp"), "spp is off; there are business, inbus"),
            (lambda: server.connect("lines"), "no wire format 'lines', only business, inbus"),
            (lambda: server.connect("lines"), "or make_bus_server(formats=[plugin])"),
            (lambda: server.connect("inbus"), "say device()"),
            (lambda: server.device("objects"), "say connect()"),
            (lambda: server.client("mqtt"), "say connect()"),
        ]
        for ask, said in asked:
            with pytest.raises(ValueError, match=re.escape(said)):
                ask()
    with pytest.raises(ConfigError, match="settings: spp: "):
        MemoryServer({"spp": "tcp"})
