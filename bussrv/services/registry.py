"""``bus/registry``: who is there and who wants what, as JSON; then every registry event, exactly as journaled.

The snapshot is that of :mod:`bussrv.registry.snapshot`. Its ``seq`` is the number of the last record that it has taken
in: the first update is the next one.
"""

from __future__ import annotations

from typing import Any

from zope.interface import implementer

from bussrv.interfaces import IServiceHost, IServiceObject
from bussrv.journal import record
from bussrv.journal.record import Record
from bussrv.registry.snapshot import encode, snapshot
from bussrv.registry.state import RegistryState


@implementer(IServiceObject)
class RegistryService:
    """The registry as a fold of what the journal said.

    What the registry knows already, but the journal does not yet, is in the updates behind the snapshot.
    """

    def __init__(self, host: IServiceHost) -> None:
        self._host = host
        self._state: RegistryState = host.bus.registry.state.copy()
        self._seq = 0
        self._is_watched = False
        host.journal.follow(self._written)

    def snapshot(self) -> bytes:
        """Every session, service and subscription."""
        return encode(snapshot(self._seq, self._state))

    def watched(self) -> None:
        """Tell of every record from now on."""
        self._is_watched = True

    def unwatched(self) -> None:
        """Tell no longer."""
        self._is_watched = False

    def _written(self, records: list[Record]) -> None:
        for each in records:
            self._seq = each.seq
            self._state.apply(each.event, each.time)
            if self._is_watched:
                self._host.publish(record.encode(each).rstrip(b"\n"))


def make(host: IServiceHost) -> Any:
    """See :meth:`bussrv.interfaces.IHostedService.make`."""
    return RegistryService(host)
