"""``bus/registry``: the registry as JSON, then every journaled event, exactly as in the journal.

The snapshot is that of :mod:`bussrv.registry.state.snapshot`. Its ``seq`` is the number of the last record that was
applied: the first update is the next record.

With a policy, subscribers without ``admin = "read"`` are shown what they may know of
(:mod:`bussrv.services.registry_view`). Their records are numbered by themselves, and have no hash of the record before:
both would tell of records that are hidden.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from twisted.internet.defer import Deferred
from zope.interface import implementer

from bussrv.journal import record
from bussrv.journal.record import Record
from bussrv.plugin import EVERYTHING, IPreparedService, IServiceHost, Permissions
from bussrv.registry.state.live_snapshot import LiveSnapshot
from bussrv.services.live_views import LiveViews
from bussrv.services.registry_view import RecordChange, change, shown_events


@implementer(IPreparedService)
class RegistryService:
    """The fold of the records that its subscribers were told of.

    Facts that the server has applied, but not journaled yet, follow as updates.
    """

    def __init__(self, host: IServiceHost) -> None:
        self._host = host
        self._state = host.bus.registry.state.copy()
        self._registry = LiveSnapshot(self._state)
        self._seq = 0
        self._shown_seqs: WeakKeyDictionary[Permissions, int] = WeakKeyDictionary()
        self._views = LiveViews(self._registry, self._state, host.bus.slices, host.reactor)
        self._has_subscribers = False
        host.journal.follow(self._written)

    def snapshot(self) -> bytes:
        """Every session, service and subscription."""
        return self._registry.encode(self._seq)

    def snapshot_for(self, permissions: Permissions) -> bytes:
        """The part of the registry that sessions with these permissions may know of."""
        if permissions is EVERYTHING:
            return self.snapshot()
        return self._views.get(permissions).encode(self._shown_seqs.setdefault(permissions, 0))

    def ready_for(self, permissions: Permissions) -> Deferred[None] | None:
        """See :meth:`bussrv.interfaces.IPreparedService.ready_for`."""
        return self._views.ready(permissions)

    def first_subscriber_came(self) -> None:
        """Publish every record from now on."""
        self._has_subscribers = True

    def last_subscriber_left(self) -> None:
        """Publish no longer."""
        self._has_subscribers = False

    def _written(self, records: list[Record]) -> None:
        if not self._has_subscribers:
            self._views.touch(each.event for each in records)
            self._registry.apply_all(records)
            self._seq = records[-1].seq if records else self._seq
            return
        for each in records:
            self._seq = each.seq
            done = change(self._state, each.event, each.time)
            self._views.touch([each.event])
            self._registry.apply(each.event, each.time)
            self._publish(each, done._replace(after=self._state.sessions.get(each.event.session or "")))

    def _publish(self, written: Record, done: RecordChange) -> None:
        def shown(permissions: Permissions) -> list[bytes]:
            if permissions is EVERYTHING:
                return [_line(written)]
            lines = []
            for time, event in shown_events(done, permissions):
                seq = self._shown_seqs[permissions] = self._shown_seqs.get(permissions, 0) + 1
                lines.append(_line(Record(seq, time, written.mono, written.server, written.boot, event)))
            return lines

        self._host.publish_each(shown)


def _line(each: Record) -> bytes:
    return record.encode(each).rstrip(b"\n")


make = RegistryService
"""See :meth:`bussrv.interfaces.IHostedService.make`."""
