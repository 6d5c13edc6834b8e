"""A registry at one moment, as JSON: what ``bus/registry`` and ``bussrv journal state`` show.

::

    {"seq":812,"sessions":[{"id":"5f1c2ab94e07.3","protocol":"objects","routing_id":"ann",…}],
     "services":{"tv":["5f1c2ab94e07.3"]},"subscriptions":[{"session":"5f1c2ab94e07.3","interest":{…},…}]}

``seq`` is the number of the last record that was applied.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from bussrv.registry.session import Session, Subscription
from bussrv.registry.state import RegistryState

_encode = msgspec.json.Encoder().encode


class Snapshot(Struct, frozen=True):
    """Every session, service and subscription.

    :ivar seq: the number of the last record that was applied, 0 before the first.
    :ivar services: by name, the ids of the sessions that provide each.
    """

    seq: int
    sessions: list[Session]
    services: dict[str, list[str]]
    subscriptions: list[Subscription]


def snapshot(seq: int, state: RegistryState) -> Snapshot:
    """A snapshot of ``state``, to which record ``seq`` was applied last; later changes of the state do not alter it."""
    services = {name: list(providers) for name, providers in state.services.items()}
    return Snapshot(seq, list(state.sessions.values()), services, list(state.all_subscriptions()))


def encode(shown: Snapshot) -> bytes:
    """The JSON of a snapshot, without a newline."""
    return _encode(shown)
