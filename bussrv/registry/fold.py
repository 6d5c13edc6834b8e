"""The registry as the journal keeps it: folded from records, written down as a snapshot, and read again.

A snapshot is one JSON text or more, none of them much larger than ``STATE_BYTES``; times are UTC microseconds::

    {"sessions":[{"id":"5f1c2ab94e07.3","protocol":"objects","routing_id":"ann","opened":1795270923123456,…}],
     "services":{"tv":{"5f1c2ab94e07.3":1795270925000001}},
     "subscriptions":[{"session":"5f1c2ab94e07.3","service":null,"interest":{…},"added":…,"renewed":…}]}
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec
from msgspec import Raw, Struct

from bussrv.events import Event
from bussrv.registry.state import RegistryState, Session, Subscription

STATE_BYTES = 1 << 18
"""A text of a snapshot ends when it has grown so large."""

PORTION = 4096
"""So many providers of a service are in one text."""


class _State(Struct, omit_defaults=True):
    sessions: list[Session] = []
    services: dict[str, dict[str, int]] = {}
    subscriptions: list[Subscription] = []


class _Texts(Struct, omit_defaults=True):
    sessions: list[Raw] = []
    services: dict[str, Raw] = {}
    subscriptions: list[Raw] = []


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_State).decode


class RegistryFold:
    """See :class:`bussrv.journal.reading.Fold`.

    :ivar state: what was taken in up to now.
    """

    def __init__(self) -> None:
        self.state = RegistryState()

    def apply(self, event: Event, time: int) -> None:
        """Take in a record; ``time`` is UTC microseconds."""
        self.state.apply(event, time)

    def take(self, state: Raw) -> None:
        """Take in one text of a snapshot.

        :raises ValueError: if it is none.
        """
        found = _decode(state)
        self.state.restore(found.sessions, found.services, found.subscriptions)

    def states(self) -> list[bytes]:
        """The texts of a snapshot; none for an empty registry."""
        return list(self._states())

    def _states(self) -> Iterator[bytes]:
        texts, size = _Texts(), 0
        for kind, name, text in self._entries():
            if size >= STATE_BYTES or (kind == "services" and name in texts.services):
                yield _encode(texts)
                texts, size = _Texts(), 0
            if kind == "services":
                texts.services[name] = Raw(text)
            else:
                getattr(texts, kind).append(Raw(text))
            size += len(name) + len(text)
        if size:
            yield _encode(texts)

    def _entries(self) -> Iterator[tuple[str, str, bytes]]:
        """Each with the member that it goes into; sessions first, since the others need them."""
        for session in self.state.sessions.values():
            yield "sessions", "", _encode(session)
        for name, providers in self.state.services.items():
            for some in _portions(providers):
                yield "services", name, _encode(some)
        for subscription in self.state.all_subscriptions():
            yield "subscriptions", "", _encode(subscription)


def _portions(providers: dict[str, int]) -> Iterator[dict[str, int]]:
    """A service that very many sessions provide is told of in several texts."""
    left = iter(providers.items())
    while some := dict(islice(left, PORTION)):
        yield some
