"""Input of members: objects are routed in batches, except those that the vocabulary serves.

Most objects are routed by :mod:`bussrv.bus.routing.compiled`, if the compiled module is there. The others are read, in
batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import length_hint
from typing import ClassVar

from twisted.python.failure import Failure

from bussrv.bus.flush_schedule import NEVER
from bussrv.bus.interest.vocabulary import EXCHANGED
from bussrv.bus.routing.compiled_result import CONTINUE, INCOMPLETE, ScanResult
from bussrv.net.session.protocol import LARGE_INPUT, StreamProtocol
from bussrv.wire.objects import BadObject, BusObject, ObjectReader

UNSUBSCRIBED_PAYLOAD = 64 << 10
"""The most bytes of a payload that are kept before the session is a member: such objects are dropped anyway."""


class ObjectInput(StreamProtocol):
    """One connection whose client sends objects.

    :cvar SERVED: the events that the subclass serves, save requests and replies, which are exchanged.
    :cvar READER: reads the objects of the client.
    """

    SERVED: ClassVar[frozenset[str]] = frozenset()
    READER: ClassVar[type[ObjectReader]] = ObjectReader

    _member = False
    _is_clear = False  # whether at most the beginning of an object waits, and chunks are routed as they come
    _has_rest = True  # whether such a beginning waits, as far as is known

    def make_reader(self) -> ObjectReader:
        """Reads objects, within the limits that are set."""
        settings = self._bus.settings
        self._objects = self.READER(settings.max_metadata, settings.max_payload, settings.max_nesting)
        self._objects.gather(UNSUBSCRIBED_PAYLOAD)
        self._objects.end_batches_at(self.SERVED)
        return self._objects

    def dataReceived(self, data: bytes) -> None:
        """Read a chunk. If nothing waits, its objects are routed at once: most chunks are small, and a call is felt."""
        is_ready = self._is_clear and not (self.is_busy or self._waits_for_slice or self.has_ended)
        self._is_clear = False
        if not is_ready or self.link.is_closing or not self._bus.slices.is_free:
            super().dataReceived(data)
            return
        begin = self.reactor.seconds()
        try:
            routed = self._bus.compiled_router.route_chunk(self.session_id, self._objects, data, self._has_rest)
        except Exception:
            self.serving_failed(Failure())
            self._bus.flush(begin)
            return
        if routed is None:
            super().dataReceived(data)
        else:
            self._routed(len(data), *routed, begin)

    def _routed(self, size: int, objects: int, verdict: int, has_rest: bool, begin: float) -> None:
        """Objects of a chunk were routed since ``begin``. The rest waits, if there is one."""
        self.traffic.bytes_in += size
        self.traffic.objects_in += objects
        if verdict != INCOMPLETE:
            self._bus.slices.spend(self.reactor.seconds() - begin)
            self._unflushed += size
            self._read_at = begin
            self._serve_soon()
            return
        self._is_clear = True
        sent_at = self._bus.flush_soon(self.session_id, size, begin)
        self._bus.slices.spend((self.reactor.seconds() if sent_at is NEVER else sent_at) - begin)
        had_rest, self._has_rest = self._has_rest, has_rest
        if (had_rest or has_rest) and not self.has_ended:
            self._unread.count()
        if size >= LARGE_INPUT:
            self._wait_for_outflow()

    def expect_server(self, events: frozenset[str]) -> None:
        """Read from now on what a server sends: more metadata than a client may, and other ``events`` of its own."""
        self._objects.expect_server()
        self._objects.end_batches_at(events)

    def next_event(self) -> BusObject | BadObject | None:
        """The next object to be served or routed by itself; objects before it are routed in batches."""
        while self.sends_batches():
            result = self.splice(self._objects)
            if result is not None:
                self.traffic.objects_in += result.objects
                if result.verdict == INCOMPLETE or self.link.is_closing or self.slice_is_over():
                    self._is_clear = self._objects.is_clear and self.factory.in_turns
                    self._has_rest = True
                    return None
                if result.verdict == CONTINUE:
                    continue
            batch = self._objects.batch()
            if not length_hint(batch):
                event = self._objects.next_event()
                if not isinstance(event, BusObject) or event.head.event not in EXCHANGED:
                    return event
                # Its payload came in several chunks. It has a plan, too.
                batch = iter((event,))
            before = length_hint(batch)
            obj = self.route_batch(batch)
            self.traffic.objects_in += before - length_hint(batch) - (obj is not None)
            if obj is not None or self.link.is_closing or self.slice_is_over():
                return obj
        return self._objects.next_event()

    def has_input(self) -> bool:
        """Whether something that the client sent may be left."""
        return not self._objects.is_empty

    def splice(self, reader: ObjectReader) -> ScanResult | None:
        """Route objects without reading each of them; ``None``: nothing was tried, they have to be read."""
        return self._bus.compiled_router.route_input(self.session_id, reader)

    def sends_batches(self) -> bool:
        """Whether objects are routed in batches: those of members are."""
        return self._member

    def route_batch(self, batch: Iterator[BusObject]) -> BusObject | None:
        """Route objects that the vocabulary does not serve, up to one that has to be routed by itself.

        :returns: that object, taken from the batch.
        """
        obj: BusObject | None = self._bus.route_batch(self.session_id, batch)
        return obj
