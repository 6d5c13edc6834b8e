"""``bus/registry``: who is there and who wants what, as JSON; then every registry event, exactly as journaled.

::

    {"seq":812,"sessions":[{"id":"5f1c2ab94e07.3","protocol":"objects","routing_id":"ann",…}],
     "services":{"tv":["5f1c2ab94e07.3"]},"subscriptions":[{"session":"5f1c2ab94e07.3","interest":{…},…}]}

``seq`` is the number of the last record that the snapshot has taken in: the first update is the next one.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct
from zope.interface import implementer

from bussrv.interfaces import IServiceHost, IServiceObject
from bussrv.journal import record
from bussrv.journal.record import Record
from bussrv.registry.state import RegistryState, Session, Subscription

_encode = msgspec.json.Encoder().encode


class _Snapshot(Struct, omit_defaults=True):
    seq: int
    sessions: list[Session]
    services: dict[str, list[str]]
    subscriptions: list[Subscription]


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
        state = self._state
        services = {name: list(providers) for name, providers in state.services.items()}
        return _encode(_Snapshot(self._seq, list(state.sessions.values()), services, list(state.all_subscriptions())))

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
