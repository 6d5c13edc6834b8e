"""Two servers that do the same, side by side: one with the compiled module, one without it. And each object that the
module takes, beside what Python makes of it.

What comes of a history is every byte that anybody is given, how many bytes wait for whom, the counters, the totals, the
times from input to output, what taps show, and what the journal says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from ipaddress import ip_network
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from bussrv import events
from bussrv.bus import uses
from bussrv.bus.routing.compiled import A_PASS, MOST_PLANS
from bussrv.bus.routing.compiled_result import CONTINUE, INCOMPLETE, MUST_OPEN, NEEDS_PYTHON, NO_PLAN, ROUTE_CHANGED
from bussrv.bus.routing.object_ids import ObjectIds
from bussrv.bus.routing.route_cache import RouteCache
from bussrv.bus.routing.seen import CompiledSeen, Seen
from bussrv.bus.taps.tap import TapFilter
from bussrv.compiled import SPEEDUPS
from bussrv.errors import Refused, RemoteProtocolError
from bussrv.policy.permissions.permissions import EVERYTHING
from bussrv.wire import spp
from bussrv.wire.forwarded import route_ending, with_route
from bussrv.wire.head import Fault, read_head
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
    {"max_seen": 3},
)
INTERESTS: tuple[dict[str, Any], ...] = (
    {"anew": True, "events": False, "types": "none"},
    {"anew": True, "events": False, "types": "none", "added": ["tv"]},
    {"anew": True, "events": True, "types": ["text/*"], "added": ["+"]},
    {"anew": True},
    {"added": ["radio"], "removed": ["tv"]},
    {"events": True, "types": "all"},
    {"types": "none"},
)
MOST_CLIENTS = 9

Op = tuple[Any, ...]


class Compiled(Network):
    """A server as it is."""

    is_compiled = True

    def __init__(self, **settings: Any) -> None:
        super().__init__(link_allow=(ip_network("10.0.0.0/8"),), **settings)
        if not self.is_compiled:
            self.bus.compiled_router.make = None
            self.bus._seen = self.bus._forwarder._seen = Seen(self.bus.settings.max_seen)


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
    if draw.chance(100):
        ops += [("link", "cellar", not draw.chance(24)), ("link", "attic", not draw.chance(80))]
    while not draw.is_over and len(ops) < 40:
        ops.append(_op(draw))
    return ops


def _op(draw: Draw) -> Op:
    kind = draw.byte() % 32
    if kind < 12:
        return ("say", draw.byte(), plain.stream(draw, 20), [draw.byte() * 7 for _ in range(draw.byte() % 4)])
    if kind < 18:
        stream = plain.stream(draw, 20, is_forwarded=True)
        names = draw.one((("cellar",), ("attic",), ("cellar", "attic")))
        return ("forward", names, stream, [draw.byte() * 7 for _ in range(draw.byte() % 4)])
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
        ("link", draw.one(("cellar", "attic")), not draw.chance(80)),
        ("advertise", draw.one(("cellar", "attic")), not draw.chance(56), name),
        ("advertise server", not draw.chance(56)),
        ("interest", draw.one(("cellar", "attic")), draw.one(INTERESTS)),
        ("interest", draw.one(("cellar", "attic")), draw.one(INTERESTS)),
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
        self.network.bus.uses.start(self.network.reactor)
        for name in ("objects", "business", "spp", "websocket"):
            self.network.factory(name).in_turns = in_turns
        self.clients: list[Connection] = []
        self.servers: dict[str, Connection] = {}
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

    def do_link(self, name: str, tells_all: bool) -> None:
        about = {"role": "server", "routing-id": name, "subscriptions": ["*"], "directory": tells_all}
        self.open("objects", encode({"event": "routing/subscribe", **about}))
        self.servers[name] = self.clients[-1]

    def do_forward(self, names: tuple[str, ...], stream: bytes, places: list[int]) -> None:
        """``attic`` has everything from ``cellar``."""
        for name in names:
            if name in self.servers:
                said = stream if name == "cellar" else stream.replace(b'"cellar"', b'"cellar","attic"')
                self.say(self.servers[name], said, places)

    def do_advertise(self, name: str, is_there: bool, service: bytes) -> None:
        """A session of ``cellar`` provides something, or does no longer."""
        event = "services/register" if is_there else "services/unregister"
        fields = {"event": event, "name": service.decode(), "routing-id": "c1", "route": ["c1", "cellar"]}
        if name in self.servers:
            self.servers[name].send_bytes(encode(fields))

    def do_interest(self, name: str, said: dict[str, Any]) -> None:
        """What a linked server wants."""
        if name in self.servers:
            fields = {"event": "routing/announcement/interest", **said, "route": [name]}
            self.servers[name].send_bytes(encode(fields))
            self.network.reactor.advance(0)

    def do_advertise_server(self, is_there: bool) -> None:
        """``cellar`` is linked with ``attic``, or no longer."""
        event = "routing/subscribe/notify" if is_there else "routing/disconnect"
        fields = {"event": event, "routing-id": "attic", "role": "server", "route": ["attic", "cellar"]}
        if "cellar" in self.servers:
            self.servers["cellar"].send_bytes(encode(fields))

    def do_join_again(self, number: int, subscription: dict[str, Any]) -> None:
        self.one(number).send_bytes(encode({"event": "routing/subscribe", **subscription}))

    def do_provide(self, number: int, name: bytes) -> None:
        self.one(number).send_bytes(encode({"event": "services/register", "name": name.decode()}))

    def do_leave(self, number: int) -> None:
        self.one(number).close()

    def do_stall(self, number: int) -> None:
        client = self.one(number)
        if client.is_open:
            client.protocol.link.pauseProducing()

    def do_read(self, number: int) -> None:
        client = self.one(number)
        if client.is_open:
            client.protocol.link.resumeProducing()

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
        self.say(self.one(number), stream, places)

    def say(self, client: Connection, stream: bytes, places: list[int]) -> None:
        cuts = sorted(place % (len(stream) + 1) for place in places)
        for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            client.send_bytes(stream[begin:end])

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
        waiting = [client.protocol.link.waiting for client in self.clients if client.is_open]
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
        return [*sent, journal, aborted, self.shown, network.udp.sent, self.used()]

    def used(self) -> set[tuple[str, str]]:
        """The rights that were used, as the journal sums them up; how often each was depends on what is remembered."""
        before = len(self.network.journal.records)
        self.network.reactor.advance(uses.HOUR)
        written = [record.event for record in self.network.journal.records[before:]]
        return {(each.action, each.target) for each in written if isinstance(each, events.AccessUsed)}


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


ROUTE_OF_C1 = b'["c1","hall"]'
TAIL_OF_C1 = route_ending(ROUTE_OF_C1) + NUL
IDS = ObjectIds("made", 3)
LIMITS_OF_TEXT = (2000, 40, 8)
LONGEST_FORWARDED = 400


class OneByOne(ObjectReader):
    """Reads nothing ahead."""

    def batch(self) -> Iterator[BusObject]:
        return iter(())


def compare(stream: bytes) -> tuple[int, int]:
    """Each object of a stream that the module takes is one that Python takes, forwarded with the same bytes.

    :returns: how many objects the module took, and how many Python did.
    """
    took = 0
    known: dict[bytes, object] = {}
    singles: dict[int, Single] = {}
    for begin, event, taken in _side_by_side(stream, lambda begin, number: _take(stream, begin, number * 97)):
        if taken.verdict == NEEDS_PYTHON:
            singles[begin] = Single(taken.end, event, None)
            continue
        made = 97 * len(singles) + 1
        took += 1
        _check(event, taken, known)
        forward = partial(_forwarded_with, event)
        assert taken.piece == forward(made)
        singles[begin] = Single(taken.end, event, forward)
    _check_passes(singles, partial(_pass, stream))
    return took, len(singles)


def _forwarded_with(event: BusObject, made: int) -> bytes:
    return encode(with_route(event, ROUTE_OF_C1, lambda: f"made{made:03}"), event.payload)


def compare_forwarded(stream: bytes) -> tuple[int, int]:
    """The same of objects that the server ``cellar`` forwards. What came before is left out by both.

    :returns: as :func:`compare`.
    """
    took = 0
    known: dict[bytes, object] = {}
    singles: dict[int, Single] = {}
    routes = RouteCache("link", "cellar", "hall", LONGEST_FORWARDED, keeps_marks=True)
    seen, compiled, passed = Seen(4), CompiledSeen(4), CompiledSeen(4)
    for begin, event, taken in _side_by_side(stream, lambda begin, _: _take_forwarded(stream, begin, routes, compiled)):
        if taken.verdict == NEEDS_PYTHON:
            singles[begin] = Single(taken.end, event, None)
            if _has_id(event):
                assert seen.add(1, event.head.id) == compiled.add(1, event.head.id)
            continue
        took += 1
        _check(event, taken, known)
        facts = routes.of(event.head.route)
        assert facts.refusal is None
        assert not facts.is_from_neighbour
        assert event.head.id not in (None, UNSET)
        assert event.metadata.endswith(facts.ending)
        expected = encode(with_route(event, facts.source.route, str), event.payload)
        assert expected.index(NUL) <= LONGEST_FORWARDED
        piece = expected if seen.add(facts.origin_key, event.head.id) else b""
        assert taken.piece == piece
        assert len(seen) == len(compiled)
        singles[begin] = Single(taken.end, event, lambda _, piece=piece: piece)  # type: ignore[misc]
    _check_passes(singles, partial(_pass_forwarded, stream, routes, passed), passed)
    return took, len(singles)


def _has_id(event: Any) -> bool:
    return isinstance(event, BusObject) and event.head.id not in (None, UNSET)


class Single(NamedTuple):
    """An object that is taken by itself.

    :ivar end: its place in the stream.
    :ivar forward: its bytes as it is forwarded, for the number of an id that it may be given; ``None``: Python does it.
    """

    end: int
    event: Any
    forward: Callable[[int], bytes] | None


def _check_passes(
    singles: dict[int, Single], splice: Callable[[Any, int, int], tuple[Any, ...]], seen: CompiledSeen | None = None
) -> None:
    """Objects that are taken many at a time come to the same as each by itself."""
    assert SPEEDUPS is not None
    plans = SPEEDUPS.Plans(True)
    place = made = 0
    while True:
        end, count, verdict, key, pieces, *_ = splice(plans, place, made)
        expected = b""
        for _ in range(count):
            place, _, forward = singles[place]
            assert forward is not None
            piece = forward(made + 1)
            made += f'"made{made + 1:03}"'.encode() in piece
            expected += piece
        assert (place, b"".join(piece for _, piece, _ in pieces)) == (end, expected)
        if verdict == NO_PLAN:
            plans = SPEEDUPS.Plans(True) if plans.add(key, 1, False, False, 0) == MOST_PLANS - 1 else plans
        elif verdict == NEEDS_PYTHON or (verdict == ROUTE_CHANGED and not count):
            if place not in singles:
                return  # It is malformed.
            place, event, forward = singles[place]
            assert forward is None
            if seen is not None and _has_id(event):
                seen.add(1, event.head.id)
        elif verdict == INCOMPLETE:
            assert place not in singles
            return


class Taken(NamedTuple):
    """What the module makes of an object: its key, its end, and its bytes as it is forwarded."""

    verdict: int
    key: bytes = b""
    end: int = 0
    piece: bytes = b""


def _side_by_side(stream: bytes, take: Callable[[int, int], Taken]) -> Iterator[tuple[int, Any, Taken]]:
    """The beginning of each object of a stream, the object, and what the module makes of it."""
    reader = OneByOne(*LIMITS_OF_TEXT)
    reader.feed(stream)
    begin = number = 0
    while True:
        taken = take(begin, number)
        try:
            event = reader.next_event()
        except RemoteProtocolError:
            assert taken.verdict == NEEDS_PYTHON, (taken, stream[begin:])
            return
        if event is None:
            assert taken.verdict in (INCOMPLETE, NEEDS_PYTHON), (taken, stream[begin:])
            return
        assert taken.verdict != INCOMPLETE, stream[begin:]
        end = len(stream) - len(reader)
        assert taken.end in (0, end), "the end of the object is somewhere else"
        yield begin, event, taken._replace(end=end)
        begin = end
        number += 1


def _check(event: Any, taken: Taken, known: dict[bytes, object]) -> None:
    assert isinstance(event, BusObject), event
    head = event.head
    about = (head.event, head.type, head.sender, tuple(head.natures or ()), head.size > 0)
    assert head.to is None
    assert known.setdefault(taken.key, about) == about, "objects that are routed otherwise have the same key"


def _take(stream: bytes, begin: int, made: int) -> Taken:
    """What the module makes of an object of a member."""
    assert SPEEDUPS is not None
    plans = SPEEDUPS.Plans(True)
    sender = SPEEDUPS.Sender(LIMITS_OF_TEXT, TAIL_OF_C1, IDS.opening, IDS.digits, None)
    arguments = (sender, stream, begin, 1, 1, 1, made)
    end, count, verdict, key, *rest = plans.splice(*arguments)
    assert (end, count, rest) == (begin, 0, [[], 0, [], 0])
    if verdict != NO_PLAN:
        return Taken(verdict)
    number = plans.add(key, 1, False, False, 0)
    assert plans.splice(*arguments) == (begin, 0, MUST_OPEN, number, [], 0, [], 0)
    plans.open(number, 1, 1)
    end, count, verdict, _, [(outlet, piece, pieces_count)], new, *_ = plans.splice(*arguments)
    assert new == (f'"made{made + 1:03}"'.encode() in piece)
    assert (count, verdict, outlet, pieces_count) == (1, CONTINUE, 0, 1)
    return Taken(NO_PLAN, key, end, piece)


def _pass(stream: bytes, plans: Any, begin: int, made: int) -> tuple[Any, ...]:
    """Take objects of a member, as many as can be."""
    assert SPEEDUPS is not None
    sender = SPEEDUPS.Sender(LIMITS_OF_TEXT, TAIL_OF_C1, IDS.opening, IDS.digits, None)
    found: tuple[Any, ...] = plans.splice(sender, stream, begin, 0, 0, A_PASS, made)
    return found


Way = tuple[CompiledSeen, bytes, bytes, int, int]
"""By which objects come: what came before, the end of their metadata, how that is forwarded, their origin, a limit."""


def _splice_way(stream: bytes, plans: Any, begin: int, turn: int, most: int, way: Way) -> tuple[Any, ...]:
    seen, ending, tail, origin, longest = way
    about = (seen.table, ending, origin % (1 << 64), longest)
    assert SPEEDUPS is not None
    sender = SPEEDUPS.Sender(LIMITS_OF_TEXT, tail, b"", 0, about)
    found: tuple[Any, ...] = plans.splice(sender, stream, begin, turn, turn, most, 0)
    return found


def _way_of(stream: bytes, begin: int, routes: RouteCache, seen: CompiledSeen) -> Way | int:
    """The way by which an object comes; or a verdict: it is not taken."""
    assert SPEEDUPS is not None
    other = (seen, route_ending(b'["another"]'), b"", 0, 0)
    verdict: int = _splice_way(stream, SPEEDUPS.Plans(True), begin, 1, 1, other)[2]
    if verdict != ROUTE_CHANGED:
        return verdict
    end = stream.find(NUL, begin)
    if end < 0:
        return INCOMPLETE if len(stream) - begin <= LIMITS_OF_TEXT[0] else NEEDS_PYTHON
    try:
        route = read_head(stream[begin:end]).route
        facts = routes.of(route)
    except (RemoteProtocolError, Refused, Fault):
        return NEEDS_PYTHON
    if facts.refusal is not None or facts.is_from_neighbour:
        return NEEDS_PYTHON
    return seen, facts.ending, route_ending(facts.source.route) + NUL, facts.origin_key, facts.longest


def _pass_forwarded(
    stream: bytes, routes: RouteCache, seen: CompiledSeen, plans: Any, begin: int, _: int
) -> tuple[Any, ...]:
    """Take objects that come by the same way, as many as can be."""
    way = _way_of(stream, begin, routes, seen)
    if isinstance(way, int):
        return (begin, 0, way, None, [])
    return _splice_way(stream, plans, begin, 0, A_PASS, way)


def _take_forwarded(stream: bytes, begin: int, routes: RouteCache, seen: CompiledSeen) -> Taken:
    """Take an object of a linked server."""
    assert SPEEDUPS is not None
    plans = SPEEDUPS.Plans(True)
    way = _way_of(stream, begin, routes, seen)
    if isinstance(way, int):
        return Taken(way)
    splice = partial(_splice_way, stream, plans, begin, 1, 1)
    end, count, verdict, key, *rest = splice(way)
    assert (end, count, rest) == (begin, 0, [[], 0, [], 0])
    if verdict != NO_PLAN:
        return Taken(NEEDS_PYTHON if verdict == ROUTE_CHANGED else verdict)  # It has two routes.
    plans.open(plans.add(key, 1, False, False, 0), 1, 1)
    end, count, verdict, _, pieces, made, published, duplicates = splice(way)
    assert (count, verdict, made, published, len(pieces)) == (1, CONTINUE, 0, [], 1 - duplicates)
    return Taken(NO_PLAN, key, end, b"".join(piece for _, piece, _ in pieces))
