"""Two servers that do the same, side by side: one with the compiled module, one without it. And each object that the
module takes, beside what Python makes of it.

What comes of a history is every byte that anybody is given, how many bytes wait for whom, the counters, the totals, the
times from input to output, what taps show, and what the journal says.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

import msgspec

from bussrv.bus.object_ids import ObjectIds
from bussrv.bus.spliced import LOOK, MORE, OPEN, PLAN, TAKEN
from bussrv.bus.tap import TapFilter
from bussrv.compiled import SPEEDUPS
from bussrv.errors import RemoteProtocolError
from bussrv.policy.permissions import EVERYTHING
from bussrv.wire import spp
from bussrv.wire.forwarded import route_ending, with_route
from bussrv.wire.objects import NUL, BusObject, ObjectReader, encode
from tests.equality import plain
from tests.formats.network import Connection, Network
from tests.fuzz.draw import Draw
from tests.wire.test_websocket import REQUEST, frame

SUBSCRIPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"receive_mode": "no_echo"},
    {"receive_mode": "events_only"},
    {"types": ["text/*"]},
    {"types": ["image/*"], "receive_mode": "no_echo"},
    {"subscriptions": ["*", "!#spam"]},
    {"subscriptions": ["@lamp/*"]},
    {"receive_mode": "none"},
)
LIMITS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {},
    {"max_outbound": 1500},
    {"max_metadata": 120},
    {"max_payload": 3, "strict": True},
    {"max_nesting": 4},
)
MOST_CLIENTS = 9

Op = tuple[Any, ...]


class Compiled(Network):
    """A server as it is."""

    is_compiled = True

    def __init__(self, **settings: Any) -> None:
        super().__init__(link_allow=(ip_network("10.0.0.0/8"),), **settings)
        if not self.is_compiled:
            self.bus.splicing.make = None


class Pure(Compiled):
    """A server without the compiled module."""

    is_compiled = False


def history(draw: Draw) -> list[Op]:
    """What happens, one after the other. The first ones let there be something to see."""
    ops: list[Op] = [("limits", draw.one(LIMITS), draw.chance(128))]
    ops += [("join", draw.one(SUBSCRIPTIONS)) for _ in range(3)]
    if draw.chance(100):
        ops += [("provide", 0, b"tv"), ("watch", b"tv")]
    if draw.chance(30):
        ops += [("provide", 0, b"radio"), ("watch", b"radio"), ("watch", b"tv")]
    while not draw.is_over and len(ops) < 40:
        ops.append(_op(draw))
    return ops


def _op(draw: Draw) -> Op:
    kind = draw.byte() % 32
    if kind < 18:
        return ("say", draw.byte(), plain.stream(draw, 20), [draw.byte() * 7 for _ in range(draw.byte() % 4)])
    name = draw.one((b"tv", b"radio"))
    ops: tuple[Op, ...] = (
        ("join", draw.one(SUBSCRIPTIONS)),
        ("join again", draw.byte(), draw.one(SUBSCRIPTIONS)),
        ("leave", draw.byte()),
        ("stall", draw.byte()),
        ("read", draw.byte()),
        ("turn",),
        ("turn",),
        ("provide", draw.byte(), name),
        ("link", draw.chance(128)),
        ("tap",),
        ("business",),
        ("websocket",),
        ("watch", name),
        ("device", name),
        ("two say", draw.byte(), draw.byte(), plain.stream(draw, 3)),
    )
    return draw.one(ops)


class Scene:
    """One of the servers, with its clients.

    :ivar given: every byte that anybody was given, by connection.
    """

    def __init__(self, make: type[Compiled], limits: dict[str, Any], in_turns: bool) -> None:
        self.network = make(**limits)
        for name in ("objects", "business", "spp", "websocket"):
            self.network.factory(name).in_turns = in_turns
        self.clients: list[Connection] = []
        self.tap: Any = None
        self.shown: list[Any] = []

    def open(self, kind: str, said: bytes) -> None:
        if len(self.clients) < MOST_CLIENTS:
            client = self.network.connect(kind)
            self.clients.append(client)
            client.send_bytes(said)
            self.network.reactor.advance(0)

    def one(self, number: int) -> Connection:
        return self.clients[number % len(self.clients)]

    def do(self, op: Op) -> None:
        getattr(self, f"do_{op[0].replace(' ', '_')}")(*op[1:])

    def do_join(self, subscription: dict[str, Any]) -> None:
        self.open("objects", encode({"event": "routing/subscribe", "routing-id": "r1", **subscription}))

    def do_business(self) -> None:
        self.open("business", encode({"event": "client/register", "receive": "no_echo"}))

    def do_websocket(self) -> None:
        self.open("websocket", REQUEST + frame(encode({"event": "routing/subscribe"})))

    def do_watch(self, name: bytes) -> None:
        self.open("spp", spp.subscribe(name.decode()))

    def do_device(self, name: bytes) -> None:
        self.network.udp.subscribe(name.decode())
        self.network.reactor.advance(0)

    def do_link(self, tells_all: bool) -> None:
        about = {"role": "server", "routing-id": "cellar", "subscriptions": ["*"], "directory": tells_all}
        self.open("objects", encode({"event": "routing/subscribe", **about}))

    def do_join_again(self, number: int, subscription: dict[str, Any]) -> None:
        self.one(number).send_bytes(encode({"event": "routing/subscribe", **subscription}))

    def do_provide(self, number: int, name: bytes) -> None:
        self.one(number).send_bytes(encode({"event": "services/register", "name": name.decode()}))

    def do_leave(self, number: int) -> None:
        self.one(number).close()

    def do_stall(self, number: int) -> None:
        link = self.one(number).protocol.link
        if link is not None:
            link.pauseProducing()

    def do_read(self, number: int) -> None:
        link = self.one(number).protocol.link
        if link is not None:
            link.resumeProducing()

    def do_turn(self) -> None:
        self.network.reactor.advance(0)

    def do_tap(self) -> None:
        if self.tap is None:
            about = {"actor": None, "peer": "10.0.0.9:1", "protocol": "http", "most": 1 << 20}
            self.tap = self.network.bus.taps.open(TapFilter(rate=1000, payload=True), **about)
        else:
            self.look()
            self.network.bus.taps.close(self.tap)
            self.tap = None

    def look(self) -> None:
        while self.tap is not None and (tapped := self.tap.take()) is not None:
            self.shown.append(tapped)

    def do_say(self, number: int, stream: bytes, places: list[int]) -> None:
        cuts = sorted(place % (len(stream) + 1) for place in places)
        for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            self.one(number).send_bytes(stream[begin:end])

    def do_two_say(self, one: int, other: int, stream: bytes) -> None:
        """In one turn of the reactor, if they are served in turns."""
        for number in (one, other, one):
            self.one(number).send_bytes(stream)

    def outcome(self) -> list[Any]:
        """Everything that came of it, after all have read on and have left."""
        network = self.network
        for number in range(len(self.clients)):
            self.do_read(number)
        self.do_turn()
        waiting = [client.protocol.link.waiting for client in self.clients if client.protocol.link is not None]
        given = [client.take() for client in self.clients]
        for client in self.clients:
            client.close()
        self.do_turn()
        self.look()
        bus = network.bus
        rest = [client.take() for client in self.clients]
        lasting = [bus.last(name, EVERYTHING) for name in ("tv", "radio")]
        totals = msgspec.to_builtins(bus.totals.by_format())
        journal = [record.event for record in network.journal.records]
        aborted = [client.transport.aborted for client in self.clients]
        sent = [given, waiting, rest, lasting, totals, dict(+bus.counters), bus.delivery.counts]
        return [*sent, journal, aborted, self.shown, network.udp.sent]


def played(make: type[Compiled], ops: list[Op]) -> list[Any]:
    """What comes of a history."""
    (_, limits, in_turns), *rest = ops
    scene = Scene(make, limits, in_turns)
    for op in rest:
        scene.do(op)
    return scene.outcome()


def play(data: bytes) -> None:
    """Both servers come to the same, whatever the bytes say that happens."""
    ops = history(Draw(data))
    compiled, pure = played(Compiled, ops), played(Pure, ops)
    assert compiled == pure


ROUTE = b'["c1","hall"]'
LIMITS_OF_TEXT = (2000, 40, 8)


class OneByOne(ObjectReader):
    """Reads nothing ahead."""

    def batch(self) -> Iterator[BusObject]:
        return iter(())


def compare(stream: bytes) -> tuple[int, int]:
    """Each object of a stream that the module takes is one that Python takes, forwarded with the same bytes.

    :returns: how many objects the module took, and how many Python did.
    """
    reader = OneByOne(*LIMITS_OF_TEXT)
    reader.feed(stream)
    known: dict[bytes, object] = {}
    took = total = begin = 0
    while True:
        made = total * 97
        verdict, key, end, piece = _take(stream, begin, made)
        try:
            event = reader.next_event()
        except RemoteProtocolError:
            assert verdict == LOOK, (verdict, stream[begin:])
            return took, total
        if event is None:
            assert verdict in (MORE, LOOK), (verdict, stream[begin:])
            return took, total
        assert verdict != MORE, stream[begin:]
        total += 1
        begin = len(stream) - len(reader)
        if verdict == LOOK:
            continue
        took += 1
        assert isinstance(event, BusObject), event
        assert end == begin, "the end of the object is somewhere else"
        assert piece == encode(with_route(event, ROUTE, lambda made=made: f"made{made + 1:03}"), event.payload)
        head = event.head
        about = (head.event, head.type, head.sender, tuple(head.natures or ()), head.size > 0)
        assert head.to is None
        assert known.setdefault(key, about) == about, "objects that are routed otherwise have the same key"


def _take(stream: bytes, begin: int, made: int) -> tuple[int, bytes, int, bytes]:
    """What the module makes of the first object: its key, its end, and its bytes as it is forwarded."""
    assert SPEEDUPS is not None
    plans = SPEEDUPS.Plans(True)
    ids = ObjectIds("made", 3)
    tail = route_ending(ROUTE) + NUL
    arguments = (stream, begin, *LIMITS_OF_TEXT, tail, 1, 1, 1, ids.opening, ids.digits, made)
    end, count, verdict, key, *rest = plans.splice(*arguments)
    assert (end, count, rest) == (begin, 0, [[], 0, []])
    if verdict != PLAN:
        return verdict, b"", begin, b""
    number = plans.add(key, 1, False, False, 0)
    assert plans.splice(*arguments) == (begin, 0, OPEN, number, [], 0, [])
    plans.open(number, 1, 1)
    end, count, verdict, _, [(outlet, piece, pieces_count)], new, _ = plans.splice(*arguments)
    assert new == (f'"made{made + 1:03}"'.encode() in piece)
    assert (count, verdict, outlet, pieces_count) == (1, TAKEN, 0, 1)
    return PLAN, key, end, piece
