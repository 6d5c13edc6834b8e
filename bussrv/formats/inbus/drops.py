"""Inbus: dropped datagrams are counted, logged and journaled; the last two at a limited rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.logger import Logger
from twisted.python.failure import Failure

from bussrv import events as ev
from bussrv.counts.throttle import Throttle
from bussrv.plugin import MAX_SERVICE_NAME, IBus, Refused
from bussrv.wire import inbus as wire

FORMAT = "inbus"

LOG_RATE = 1.0
"""How many lines a second the log gets about one address, once its burst is used up."""

LOG_BURST = 5

LOG_RATE_OF_ALL = 10.0
"""The lines a second of all addresses together, for each kind of warning: a forger can use any number of addresses."""

LOG_BURST_OF_ALL = 100

_MAX_SAID = 200

log = Logger()


class Drops:
    """Counts, logs and journals dropped datagrams.

    :param seconds: a clock, in seconds.
    """

    def __init__(self, bus: IBus, seconds: Callable[[], float]) -> None:
        self._bus = bus
        self._each = Throttle(LOG_RATE, LOG_BURST, seconds)
        self._all = Throttle(LOG_RATE_OF_ALL, LOG_BURST_OF_ALL, seconds)

    def drop(self, reason: str, message: str, host: str) -> None:
        """A datagram of ``host`` is dropped."""
        self._bus.counters[reason] += 1
        self.warn(
            host,
            "inbus: dropped a datagram from {peer}: {message}",
            event="inbus.dropped",
            peer=host,
            message=message[:_MAX_SAID],
        )

    def failed(self, host: str, failure: Failure) -> None:
        """Serving a datagram of ``host`` failed. That is a fault of the server or of a plugin, not of the sender."""
        self._bus.counters["internal-error"] += 1
        suppressed = self._all.admit("failed")
        if suppressed is not None:
            log.failure(
                "inbus: serving {peer} failed ({suppressed} more not logged)",
                failure,
                event="inbus.failed",
                peer=host,
                suppressed=suppressed,
            )

    def warn(self, key: str, text: str, times: int = 1, **fields: Any) -> None:
        """Log a warning, unless there were too many of the same ``key``, such as an address, or of that ``text``.

        :param times: how often there was a reason for it.
        """
        of_this = self._each.admit(key, times)
        if of_this is None:
            return
        of_all = self._all.admit(text)
        if of_all is not None:
            log.warn(f"{text} ({{suppressed}} more not logged)", suppressed=of_this + of_all, **fields)

    def check_name(
        self,
        check: Callable[[str], Any],
        kind: type[ev.ServiceRefused | ev.SubscriptionRefused],
        message: wire.Datagram,
        host: str,
    ) -> None:
        """Refuse what the registry would, before a session is opened for it: strangers must not fill the journal.

        :raises Refused: as ``check``.
        """
        try:
            check(message.app_key)
        except Refused as refusal:
            self.note_refusal(kind, message, host, refusal.reason)
            raise

    def note_refusal(
        self, kind: type[ev.ServiceRefused | ev.SubscriptionRefused], message: wire.Datagram, host: str, reason: str
    ) -> None:
        """Journal that something was refused to a host that has no session for it."""
        service = message.app_key[:MAX_SERVICE_NAME]
        self._bus.registry.note_from_stranger(kind(protocol=FORMAT, peer=host, service=service, reason=reason))
