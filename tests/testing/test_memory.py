"""A server in memory: what authors of wire formats and of programs test against."""

from __future__ import annotations

import threading

from bussrv import events as ev
from bussrv.testing.memory import Connection, MemoryServer
from bussrv.wire import inbus
from bussrv.wire.objects import BusObject, ObjectReader, encode


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
