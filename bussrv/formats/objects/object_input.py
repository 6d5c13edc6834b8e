"""How objects of members are read: most are routed in batches, without being served one by one.

Most objects are routed by :mod:`bussrv.bus.routing.compiled`, if the compiled module is there. The others are read, in
batches. If nothing waits but the beginning of an object, the next chunk is routed as it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import length_hint
from typing import Literal

from twisted.python.failure import Failure

from bussrv.bus.flush_schedule import NEVER
from bussrv.bus.interest.vocabulary import EXCHANGED
from bussrv.bus.routing.compiled_result import CONTINUE, INCOMPLETE, ScanResult
from bussrv.net.session.input import LARGE_INPUT
from bussrv.net.session.input_states import State
from bussrv.plugin import IBus, StreamProtocol
from bussrv.wire.objects import BadObject, BusObject, ObjectReader

Route = Callable[[str, ObjectReader], ScanResult | None]
"""Routes objects of a session without reading each of them; ``None``: nothing was tried, they have to be read."""

RouteBatch = Callable[[str, Iterator[BusObject]], BusObject | None]
"""Routes objects of a session, up to one that has to be routed by itself. That one is taken from the batch."""

_EXCHANGE = b'"services/re'
_EARLY = 256

NextObject = BusObject | BadObject | Literal[State.READING_DIRECTLY] | None


class ObjectInput:
    """Reads the objects of one member, or of a linked server.

    :param reader: has them.
    :param route: routes them; so does ``route_batch``.
    :ivar has_partial: whether the beginning of an object waits, as far as is known.
    """

    __slots__ = ("_bus", "_exchanges", "_reader", "_route", "_route_batch", "has_partial")

    def __init__(self, reader: ObjectReader, bus: IBus, route: Route, route_batch: RouteBatch) -> None:
        self._reader = reader
        self._bus = bus
        self._route = route
        self._route_batch = route_batch
        self.has_partial = True
        self._exchanges = False

    def serve(self, sender: StreamProtocol, data: bytes) -> bool:
        """Route a chunk as it comes. :returns: whether that was done; otherwise it is to be read."""
        bus = self._bus
        if not bus.slices.is_free:
            return False
        begin = sender.reactor.seconds()
        if self._exchanges and data.find(_EXCHANGE, 0, _EARLY) >= 0:
            return self._serve_exchanges(sender, data, begin)
        if not self._reader.is_clear:
            return False
        try:
            routed = bus.compiled_router.route_chunk(sender.session_id, self._reader, data, self.has_partial)
        except Exception:
            sender.serving_failed(Failure())
            bus.flush(begin)
            return True
        if routed is None:
            return False
        size, (objects, verdict, has_partial), traffic = len(data), routed, sender.traffic
        traffic.bytes_in += size
        traffic.objects_in += objects
        if verdict != INCOMPLETE:
            bus.slices.spend(sender.reactor.seconds() - begin)
            sender.input.go_on(size, begin)
            return True
        has_partial, self.has_partial = has_partial or self.has_partial, has_partial
        sent_at = bus.flush_soon(sender.session_id, size, begin)
        bus.slices.spend((sender.reactor.seconds() if sent_at is NEVER else sent_at) - begin)
        if has_partial or size >= LARGE_INPUT:
            sender.input.was_routed(size)
        if bus.is_behind:
            sender.input.wait_until_sent()
        return True

    def _serve_exchanges(self, sender: StreamProtocol, data: bytes, begin: float) -> bool:
        """Route a chunk of requests and replies as it comes, after others."""
        bus, reader, size = self._bus, self._reader, len(data)
        if not reader.is_idle:
            return False
        sender.traffic.bytes_in += size
        try:
            end = self._route_exchanges(sender, data)
        except Exception:
            sender.serving_failed(Failure())
            bus.flush(begin)
            return True
        if end < size:
            reader.feed(data[end:] if end else data)
            bus.slices.spend(sender.reactor.seconds() - begin)
            sender.input.go_on(size, begin)
            return True
        sent_at = bus.flush_soon(sender.session_id, size, begin)
        bus.slices.spend((sender.reactor.seconds() if sent_at is NEVER else sent_at) - begin)
        if size >= LARGE_INPUT:
            sender.input.was_routed(size)
        return True

    def _route_exchanges(self, sender: StreamProtocol, data: bytes) -> int:
        """:returns: the place after the objects that were routed."""
        session_id = sender.session_id
        end, count = self._bus.route_exchanges(session_id, data, self._reader.limits)
        sender.traffic.objects_in += count
        if end == len(data):
            return end
        objs, after = self._reader.read_chunk(data[end:] if end else data)
        batch = iter(objs)
        left = self._route_batch(session_id, batch)
        unrouted = objs[len(objs) - length_hint(batch) - (left is not None) :]
        sender.traffic.objects_in += len(objs) - len(unrouted)
        # Those are read again, which is rare.
        return end + after - sum(len(each.metadata) + 1 + len(each.payload) for each in unrouted)

    def next_event(self, sender: StreamProtocol) -> NextObject:
        """The next object to be served or routed by itself; objects before it are routed in batches."""
        reader, read, session_id = self._reader, sender.input, sender.session_id
        while True:
            scanned = self._route(session_id, reader)
            if scanned is not None:
                sender.traffic.objects_in += scanned.objects
                if scanned.verdict == INCOMPLETE or read.serves_no_more():
                    self.has_partial = True
                    return State.READING_DIRECTLY if reader.is_clear and sender.factory.in_turns else None
                if scanned.verdict == CONTINUE:
                    continue
            batch = reader.batch()
            if not length_hint(batch):
                event = reader.next_event()
                if event is None and self._exchanges and reader.is_idle and sender.factory.in_turns:
                    return State.READING_DIRECTLY
                if not isinstance(event, BusObject) or event.head.event not in EXCHANGED:
                    return event
                # Its payload came in several chunks. It has a plan, too.
                batch = iter((event,))
            before = length_hint(batch)
            obj = self._route_batch(session_id, batch)
            sender.traffic.objects_in += before - length_hint(batch) - (obj is not None)
            self._exchanges = obj is None and reader.last_event in EXCHANGED
            if obj is not None or read.serves_no_more():
                return obj
