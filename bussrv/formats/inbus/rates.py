"""Inbus: how many datagrams a second are sent where. Otherwise a stated address could be flooded by way of this server.

Three limits hold, and loopback addresses have only the first:

1. for a stated address, a host and a port: ``--inbus-max-rate``;
2. for a host, all its ports together: ``--inbus-max-host-rate``. An IPv6 host is a /64 network, for a flood of one of
   its addresses fills the line to all of them;
3. for a host, all its ports together that somebody else stated: ``--inbus-max-rate``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bussrv import events as ev
from bussrv.addresses import address_key, format_address, is_local
from bussrv.bus.copied_limits import CopiedLimits
from bussrv.bus.interfaces import IBus
from bussrv.counts.throttle import Throttle
from bussrv.formats.inbus.drops import FORMAT, Drops

MAX_TARGETS = 100_000
"""For how many addresses it is remembered what they were sent in the last second."""


class Target:
    """A stated address.

    :ivar address: host and port.
    :ivar is_foreign: whether only others have stated it, not its own host.
    """

    def __init__(self, address: tuple[str, int], *, is_foreign: bool = False) -> None:
        self.address = address
        self.is_foreign = is_foreign
        self.host = None if is_local(address[0]) else address_key(address[0])


class Rates:
    """The limits, and what is counted, logged and journaled of those that are hit.

    :param seconds: a clock, in seconds.
    """

    def __init__(self, bus: IBus, seconds: Callable[[], float], drops: Drops) -> None:
        self._bus = bus
        self._drops = drops
        most, of_host = bus.settings.inbus_max_rate, bus.settings.inbus_max_host_rate
        self._of_address = Throttle(most, most, seconds, MAX_TARGETS)
        self._of_host = Throttle(of_host, of_host, seconds, MAX_TARGETS)
        self._of_foreign = Throttle(most, most, seconds, MAX_TARGETS)
        self._copy_limits()
        bus.reloadables.append(CopiedLimits(self._copy_limits))

    def _copy_limits(self) -> None:
        self._most = most = self._bus.settings.inbus_max_rate
        self._most_of_host = of_host = self._bus.settings.inbus_max_host_rate
        self._of_address.limit(most, most)
        self._of_foreign.limit(most, most)
        self._of_host.limit(of_host, of_host)

    def admits(self, target: Target, session_id: str, wanted: int) -> int:
        """How many of the datagrams that are ``wanted`` may be sent there now."""
        admitted = wanted
        for throttle, key, reason, limit, most in self._limits(target):
            taken = throttle.take(key, admitted)
            if taken < admitted:
                self._note(target, session_id, reason, limit, most, admitted - taken)
            admitted = taken
        return admitted

    def _limits(self, target: Target) -> Iterator[tuple[Throttle, object, str, str, int]]:
        yield self._of_address, target.address, "inbus-rate", "inbus-max-rate", self._most
        if target.host is None:
            return
        if target.is_foreign:
            yield self._of_foreign, target.host, "inbus-host-rate", "inbus-max-rate", self._most
        yield self._of_host, target.host, "inbus-host-rate", "inbus-max-host-rate", self._most_of_host

    def _note(self, target: Target, session_id: str, reason: str, limit: str, most: int, times: int) -> None:
        peer = format_address(*target.address)
        self._bus.counters[reason] += times
        reached = ev.LimitReached(
            protocol=FORMAT, session=session_id, peer=peer, reason=reason, limit=limit, value=most
        )
        self._bus.registry.note_from_stranger(reached, times)
        where = peer if reason == "inbus-rate" else str(target.host)
        self._drops.warn(
            where,
            "inbus: more than {rate} datagrams a second to {peer}",
            times,
            event="inbus.rate",
            rate=most,
            peer=where,
        )
