"""A fast publisher and clients that read nothing: what is kept for each is bounded, and nobody else notices."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from bussrv import events as ev
from tests.bus.reference import frame
from tests.equality.arena import Arena, Pipe
from tests.equality.words import everything, first_object, from_server, packet
from tests.wire.test_websocket import REQUEST
from tests.wire.test_websocket import frame as masked

MAX_OUTBOUND = 1 << 20
PAYLOAD = b"x" * 10_000
PER_TURN = 10
TURNS = 300
"""Thirty times the cap."""

SPARE = 1 << 20
"""For one turn's worth of objects, and all that the server has beside what waits."""

JOIN = {
    "objects": frame({"event": "routing/subscribe", "types": ["text/*"]}),
    "business": frame({"event": "client/register", "subscribe": ["text/*"]}),
    "spp": packet(1, "tv"),
    "websocket": REQUEST + masked(frame({"event": "routing/subscribe", "types": ["text/*"]})),
}
PROVIDE = frame({"event": "routing/subscribe", "receive_mode": "none"}) + frame(
    {"event": "services/register", "name": "tv"}
)


def publication(number: int) -> bytes:
    payload = b"%08d" % number + PAYLOAD
    return frame({"type": "text/plain", "sender": "tv", "id": number, "size": len(payload)}, payload)


def numbers_received(kind: str, pipe: Pipe) -> list[int]:
    """Which publications a client was given whole."""
    pieces, _ = everything({"spp": from_server, "websocket": first_frame}.get(kind, first_object), pipe.delivered)
    return [int(each[-len(PAYLOAD) - 8 : -len(PAYLOAD)]) for each in pieces if each.endswith(PAYLOAD)]


def first_frame(data: bytes) -> tuple[bytes | None, int]:
    """The frame that ``data`` begins with, or the response to the upgrade, and how many bytes it has."""
    if data.startswith(b"HTTP"):
        size = data.find(b"\r\n\r\n") + 4
    elif len(data) < 4:
        return None, 0
    else:
        length = data[1]
        size = 4 + int.from_bytes(data[2:4], "big") if length == 126 else 2 + length
    return (data[:size], size) if 4 <= size <= len(data) else (None, 0)


class Scene:
    """A publisher, a client that reads, and one that does not; what was read is forgotten, but for its numbers."""

    def __init__(self, kind: str, **settings: object) -> None:
        self.kind = kind
        self.arena = Arena(max_outbound=MAX_OUTBOUND, announce="off", **settings)
        self.publisher = self.arena.pipe("objects")
        self.publisher.protocol.dataReceived(PROVIDE)
        self.fast, self.slow = (self.arena.pipe(kind) for _ in range(2))
        for pipe in (self.fast, self.slow):
            pipe.protocol.dataReceived(JOIN[kind])
        self.arena.end_turn([self.publisher, self.fast, self.slow])
        self.published = 0
        self.fast_got: list[int] = []

    def turn(self) -> None:
        """A chunk of publications comes, and is delivered to who reads before the next one comes."""
        first, self.published = self.published, self.published + PER_TURN
        self.publisher.protocol.dataReceived(b"".join(map(publication, range(first, self.published))))
        self.arena.end_turn([self.publisher, self.fast])
        received = numbers_received(self.kind, self.fast)
        assert received == list(range(first, self.published))
        self.fast.delivered = b""

    def memory_of(self, turns: int) -> tuple[int, int]:
        """The bytes of memory that so many turns have taken when they are over, and the most at a time."""
        tracemalloc.start()
        try:
            for _ in range(turns):
                self.turn()
            return tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("kind", JOIN)
def test_who_does_not_read_is_disconnected_at_the_cap(kind: str) -> None:
    scene = Scene(kind)
    kept, peak = scene.memory_of(TURNS)
    assert peak < MAX_OUTBOUND + SPARE
    assert kept < SPARE // 2, "what waited for who is gone is still there"
    assert not scene.slow.connected
    assert scene.fast.connected
    assert scene.arena.cut == [scene.slow]
    (limit,) = scene.arena.events(ev.LimitReached)
    assert isinstance(limit, ev.LimitReached)
    assert (limit.limit, limit.value, limit.session) == ("max-outbound", MAX_OUTBOUND, scene.slow.protocol.session_id)
    (closed,) = scene.arena.events(ev.SessionClosed)
    assert (closed.session, closed.reason) == (scene.slow.protocol.session_id, "slow-consumer")


@pytest.mark.parametrize("kind", JOIN)
def test_below_the_cap_nothing_is_lost_however_late_it_is_read(kind: str) -> None:
    scene = Scene(kind)
    for _ in range(MAX_OUTBOUND // (PER_TURN * len(publication(0)))):
        scene.turn()
    assert scene.slow.connected
    while scene.slow.deliver(4_099):
        pass
    assert numbers_received(kind, scene.slow) == list(range(scene.published))


@pytest.mark.dear
def test_coalescing_keeps_the_newest_state_and_no_more() -> None:
    scene = Scene("spp", slow_spp="coalesce")
    assert scene.memory_of(TURNS)[1] < SPARE
    scene.arena.end_turn([scene.slow])
    received = numbers_received("spp", scene.slow)
    assert received == sorted(set(received))
    assert received[-1] == scene.published - 1
    assert len(received) <= PER_TURN + 1
    assert scene.arena.events(ev.SessionClosed) == []


def test_a_client_that_reads_too_little_is_not_kept_for_ever() -> None:
    """It takes half of what comes, so the cap is reached after twice as many turns."""
    scene = Scene("objects")
    turns = 0
    while scene.slow.connected:
        scene.turn()
        for _ in range(PER_TURN):
            scene.slow.deliver(len(publication(0)) // 2)
        turns += 1
        assert turns < TURNS
    assert turns * PER_TURN * len(publication(0)) // 2 >= MAX_OUTBOUND * 3 // 4
    received = numbers_received("objects", scene.slow)
    assert received == list(range(len(received)))


def test_answers_to_a_client_that_reads_none_are_bounded_too() -> None:
    arena = Arena(max_outbound=10_000)
    asker, other = arena.pipe("objects"), arena.pipe("objects")
    for pipe in (asker, other):
        pipe.protocol.dataReceived(JOIN["objects"])
    arena.end_turn([asker, other])
    tracemalloc.start()
    try:
        for _ in range(2000):
            asker.protocol.dataReceived(frame({"event": "ping", "id": "p"}) * 10)
            arena.end_turn([other])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 500_000
    assert not asker.connected
    gone = json.loads(everything(first_object, other.delivered)[0][-1].partition(b"\0")[0])
    assert (gone["event"], other.connected) == ("routing/disconnect", True)


def test_a_device_is_sent_its_limit_and_others_everything() -> None:
    """Nothing waits for a device: what is over the rate is dropped and counted."""
    arena = Arena(inbus_max_rate=50)
    arena.udp.subscribe("tv", port=5000)
    client = arena.pipe("spp")
    arena.udp.publish("tv", b"first")
    client.protocol.dataReceived(packet(1, "tv"))
    for number in range(1000):
        arena.udp.publish("tv", b"%d" % number)
        arena.end_turn([client])
    assert len(arena.udp.sent) == 50
    assert arena.bus.counters["inbus-rate"] == 951
    packets, _ = everything(from_server, client.delivered)
    assert len(packets) == 2 + 1000
