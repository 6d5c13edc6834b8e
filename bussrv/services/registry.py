"""``bus/registry``: the registry as JSON, then every journaled event, exactly as in the journal.

The snapshot is that of :mod:`bussrv.registry.snapshot`. Its ``seq`` is the number of the last record that was applied:
the first update is the next record.
"""

from __future__ import annotations

from typing import Any

from zope.interface import implementer

from bussrv.interfaces import IServiceHost, IServiceObject
from bussrv.journal import record
from bussrv.journal.record import Record
from bussrv.registry.live_snapshot import LiveSnapshot


@implementer(IServiceObject)
class RegistryService:
    """The fold of the records that its subscribers were told of.

    Facts that the server has applied, but not journaled yet, follow as updates.
    """

    def __init__(self, host: IServiceHost) -> None:
        self._host = host
        self._registry = LiveSnapshot(host.bus.registry.state.copy())
        self._seq = 0
        self._has_subscribers = False
        host.journal.follow(self._written)

    def snapshot(self) -> bytes:
        """Every session, service and subscription."""
        return self._registry.encode(self._seq)

    def first_subscriber_came(self) -> None:
        """Publish every record from now on."""
        self._has_subscribers = True

    def last_subscriber_left(self) -> None:
        """Publish no longer."""
        self._has_subscribers = False

    def _written(self, records: list[Record]) -> None:
        for each in records:
            self._seq = each.seq
            self._registry.apply(each.event, each.time)
            if self._has_subscribers:
                self._host.publish(record.encode(each).rstrip(b"\n"))


def make(host: IServiceHost) -> Any:
    """See :meth:`bussrv.interfaces.IHostedService.make`."""
    return RegistryService(host)
