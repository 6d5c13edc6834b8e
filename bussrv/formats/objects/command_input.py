"""How members are read that ask for changes of the registry, one after the other, and wait for each answer.

Such a client sends one small object in each chunk. It is served without what other input needs: a reader that keeps
the rest, batches, a slice of its own, and a flush. That is the *short way*. It is taken only if the chunk holds one
object, and nothing about that is unusual. Otherwise the chunk is read as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from twisted.python.failure import Failure

from bussrv.net.session.input_states import TRANSITIONS, InputEvent, State
from bussrv.plugin import IBus, StreamProtocol
from bussrv.wire.head import decode_command
from bussrv.wire.objects import NUL, BusObject

SHORT = frozenset({"services/register", "services/unregister"})
"""The events that are served in the short way: they collect no frames for others."""

MOST_SHORT = 1024
"""The most bytes of a chunk that is read in the short way."""

Serve = Callable[[Any, BusObject], None]
"""Serves an object of a member."""

_ALONE = State.SERVING_ALONE
_AT_COMMAND = TRANSITIONS[InputEvent.COMMAND]
_AT_ANSWERED = TRANSITIONS[InputEvent.ANSWERED]


class CommandInput:
    """Reads the commands of one member in the short way.

    :param events: the methods that serve commands.
    """

    __slots__ = ("_bus", "_events", "_most")

    def __init__(self, events: Mapping[str, Serve], bus: IBus) -> None:
        self._events = events
        self._bus = bus
        self._most = min(MOST_SHORT, bus.settings.max_metadata)

    def serve(self, asker: StreamProtocol, data: bytes) -> bool:
        """Serve a chunk in the short way. :returns: ``False``: it is to be read as any other."""
        obj = self._alone(data)
        if obj is None:
            return False
        read, begin = asker.input, asker.reactor.seconds()
        asker.traffic.bytes_in += len(data)
        asker.traffic.objects_in += 1
        read.state = _AT_COMMAND[read.state]
        try:
            self._events[obj.head.event or ""](asker, obj)
        except Exception:
            asker.serving_failed(Failure())
        if read.state is _ALONE:
            read.state = _AT_ANSWERED[read.state]
        self._bus.slices.spend(asker.reactor.seconds() - begin)
        return True

    def _alone(self, data: bytes) -> BusObject | None:
        """The object that a chunk holds, if it is to be served in the short way."""
        is_small = len(data) <= self._most and data.isascii()
        # One object that nests in nothing, and has no payload.
        if not is_small or data.find(NUL) != len(data) - 1 or data.count(b"{") != 1 or b"[" in data:
            return None
        if not self._bus.slices.is_free:
            return None
        metadata = data[:-1]
        try:
            head = decode_command(metadata)
        except msgspec.DecodeError:
            return None
        return BusObject(metadata, head) if head.event in SHORT and not head.size else None
