"""Inbus: publications that a subscriber sends back, which would circulate for ever.

Datagrams to subscribers have the opcode of a publication. If two servers are subscribers of each other, each takes what
the other sends it for a publication, and sends it back. So a payload that a subscriber publishes on its own app-key
again and again, without a pause, is dropped: then it stops.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from bussrv import events as ev
from bussrv.bus.interfaces import IBus
from bussrv.errors import Refused
from bussrv.formats.inbus.subscribers import Subscribers
from bussrv.wire import inbus as wire

PAUSE = 2.0
"""Seconds. A payload that comes again after a longer time did not circulate in between."""

MOST_REMEMBERED = 10_000
"""The most payloads that are counted at a time."""

Address = tuple[str, int]


class Echoes:
    """Counts what subscribers publish on their own app-keys.

    :param subscribers: those of the port.
    :param seconds: the clock of the reactor.
    """

    def __init__(self, bus: IBus, subscribers: Subscribers, seconds: Callable[[], float]) -> None:
        self._bus = bus
        self._subscribers = subscribers
        self._seconds = seconds
        # How often each payload came, and when it came last; the one that came last is at the end.
        self._counts: OrderedDict[tuple[Address, str, int], tuple[int, float]] = OrderedDict()

    def check(self, message: wire.Datagram, source: Address) -> None:
        """Check that a publication does not circulate.

        :param source: the address that sent it.
        :raises Refused: ``inbus-echo``.
        """
        session_id = self._subscribers.session_of(source, message.app_key)
        if session_id is None:
            return
        key, now = (source, message.app_key, hash(message.payload)), self._seconds()
        count, last = self._counts.pop(key, (0, now))
        count = count + 1 if now - last <= PAUSE else 1
        self._counts[key] = count, now
        if len(self._counts) > MOST_REMEMBERED:
            self._counts.popitem(last=False)
        most = self._bus.settings.inbus_max_echoes
        if count > most:
            self._stop(session_id, message.app_key, most)

    def _stop(self, session_id: str, app_key: str, most: int) -> None:
        about = self._bus.registry.state.sessions[session_id].about()
        reached = ev.LimitReached(
            limit="inbus-max-echoes", value=most, reason="inbus-echo", **{**about, "service": app_key}
        )
        self._bus.registry.note_from_stranger(reached)
        raise Refused(
            "inbus-echo",
            f"the subscriber sent back the same payload on {app_key!r} more than {most} times; two servers must not be "
            "subscribers of each other",
        )
