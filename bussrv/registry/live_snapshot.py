"""The snapshot of a changing registry: entries that did not change since the last one are not encoded again."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Mapping
from typing import Any

import msgspec

from bussrv import events as ev
from bussrv.registry.session import Subscription
from bussrv.registry.state import RegistryState

SESSION_CHANGES = frozenset({ev.SessionOpened, ev.SessionIdentified, ev.AuthSucceeded})
SERVICE_CHANGES = frozenset({ev.ServiceRegistered, ev.ServiceUnregistered})
SUBSCRIPTION_CHANGES = frozenset({ev.SubscriptionAdded, ev.SubscriptionRenewed, ev.SubscriptionRemoved})

_encode = msgspec.json.Encoder().encode


class LiveSnapshot:
    """A registry, folded from events, that can be encoded as JSON at any moment.

    The JSON is that of :mod:`bussrv.registry.snapshot`.

    :param state: the registry to begin with; the snapshot owns it from now on.
    """

    def __init__(self, state: RegistryState) -> None:
        self._state = state
        self._sessions = _Pieces(state.sessions, _encode)
        self._services = _Pieces(state.services, _list_of_providers)
        self._subscriptions = _Pieces(state.subscriptions, _list_of_subscriptions)
        self._seq = -1
        self._shown = b""

    def apply(self, event: ev.Event, time: int) -> None:
        """Apply a record; ``time`` is UTC microseconds."""
        kind = type(event)
        if kind in SERVICE_CHANGES:
            self._state.apply(event, time)
            self._services.touch(event.service or "")
            return
        session_id = event.session or ""
        if kind is ev.SessionClosed:
            self._end(session_id, event, time)
            return
        self._state.apply(event, time)
        if kind in SUBSCRIPTION_CHANGES:
            self._subscriptions.touch(session_id)
        elif kind in SESSION_CHANGES:
            self._sessions.touch(session_id)

    def _end(self, session_id: str, event: ev.Event, time: int) -> None:
        provided = tuple(self._state.provided_by(session_id))
        self._state.apply(event, time)
        self._sessions.touch(session_id)
        self._subscriptions.touch(session_id)
        for name in provided:
            self._services.touch(name)

    def encode(self, seq: int) -> bytes:
        """The JSON of the registry, without a newline; the same bytes until ``seq`` is another.

        :param seq: the number of the last record that was applied.
        """
        if seq != self._seq:
            services = b",".join(b"%b:%b" % (_encode(name), ids) for name, ids in self._services.all())
            sessions, subscriptions = (
                b",".join(text for _, text in pieces.all()) for pieces in (self._sessions, self._subscriptions)
            )
            self._shown = b'{"seq":%d,"sessions":[%b],"services":{%b},"subscriptions":[%b]}' % (
                seq,
                sessions,
                services,
                subscriptions,
            )
            self._seq = seq
        return self._shown


def _list_of_providers(providers: Mapping[str, int]) -> bytes:
    """The ids of the sessions that provide a service."""
    return _encode(list(providers))


def _list_of_subscriptions(held: Mapping[str | None, Subscription]) -> bytes:
    """The subscriptions of a session, without brackets."""
    return _encode(list(held.values()))[1:-1]


class _Pieces:
    """The entries of a mapping as JSON, in its order; entries that changed are encoded when they are needed.

    :param entries: the mapping, which may change.
    """

    def __init__(self, entries: Mapping[str, Any], encode: Callable[[Any], bytes]) -> None:
        self._entries = entries
        self._encode = encode
        self._texts: dict[str, bytes] = {}
        self._stale: dict[str, None] = dict.fromkeys(entries)

    def touch(self, key: str) -> None:
        """Note that the entry of ``key`` was changed, added or removed."""
        if key in self._entries:
            self._stale[key] = None
        else:
            self._stale.pop(key, None)
            self._texts.pop(key, None)

    def all(self) -> ItemsView[str, bytes]:
        """Every entry, encoded."""
        for key in self._stale:
            self._texts[key] = self._encode(self._entries[key])
        self._stale.clear()
        return self._texts.items()
