"""A registry at one moment, as JSON: what ``bus/registry`` and ``bussrv journal state`` show.

::

    {"seq":812,"sessions":[{"id":"5f1c2ab94e07.3","protocol":"objects","routing_id":"ann",…}],
     "services":{"tv":["5f1c2ab94e07.3"]},"subscriptions":[{"session":"5f1c2ab94e07.3","interest":{…},…}]}

``seq`` is the number of the last record that it has taken in.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from bussrv.registry.state import RegistryState, Session, Subscription

_encode = msgspec.json.Encoder().encode


class Snapshot(Struct, frozen=True):
    """Every session, service and subscription.

    :ivar seq: the number of the last record taken in, 0 before the first.
    :ivar services: by name, the ids of the sessions that provide each.
    """

    seq: int
    sessions: list[Session]
    services: dict[str, list[str]]
    subscriptions: list[Subscription]


def snapshot(seq: int, state: RegistryState) -> Snapshot:
    """What ``state`` holds once record ``seq`` is applied; what becomes of the state later does not change it."""
    services = {name: list(providers) for name, providers in state.services.items()}
    return Snapshot(seq, list(state.sessions.values()), services, list(state.all_subscriptions()))


def encode(shown: Snapshot) -> bytes:
    """The JSON of a snapshot, without a newline."""
    return _encode(shown)
