"""The snapshot of a changing registry: entries that did not change since the last one are not encoded again."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from bussrv import events as ev
from bussrv.registry.session import Subscription
from bussrv.registry.state import Change, RegistryState

SESSION_CHANGES = frozenset({ev.SessionOpened, ev.SessionIdentified, ev.AuthSucceeded})
SERVICE_CHANGES = frozenset({ev.ServiceRegistered, ev.ServiceUnregistered})
SUBSCRIPTION_CHANGES = frozenset({ev.SubscriptionAdded, ev.SubscriptionRenewed, ev.SubscriptionRemoved})

MOST_REMOVED = 1024
"""Notes of so many entries that were removed may be kept until the registry is encoded."""

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
            self._services.touch([event.service or ""])
            return
        session_id = event.session or ""
        if kind is ev.SessionClosed:
            self._end(session_id, event, time)
            return
        self._state.apply(event, time)
        if kind in SUBSCRIPTION_CHANGES:
            self._subscriptions.touch([session_id])
        elif kind in SESSION_CHANGES:
            self._sessions.touch([session_id])

    def apply_all(self, changes: Sequence[Change]) -> None:
        """Apply records in a row."""
        if SERVICE_CHANGES.issuperset([type(each.event) for each in changes]):
            self._state.apply_all(changes)
            self._services.touch([each.event.service or "" for each in changes])
            return
        for each in changes:
            self.apply(each.event, each.time)

    def _end(self, session_id: str, event: ev.Event, time: int) -> None:
        self._services.touch(self._state.provided_by(session_id))
        self._state.apply(event, time)
        self._sessions.touch([session_id])
        self._subscriptions.touch([session_id])

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
        self._stale: set[str] = set(entries)
        self._most_stale = 0
        self._forget_removed()

    def touch(self, keys: Iterable[str]) -> None:
        """Note that the entries of ``keys`` were changed, added or removed, or will be before the next call."""
        if len(self._stale) > self._most_stale:
            self._forget_removed()
        self._stale.update(keys)

    def _forget_removed(self) -> None:
        """Keep notes of entries that are there, so that their number is bounded though nobody asks for the entries."""
        for key in [key for key in self._stale if key not in self._entries]:
            self._stale.remove(key)
            self._texts.pop(key, None)
        self._most_stale = 2 * len(self._stale) + MOST_REMOVED

    def all(self) -> ItemsView[str, bytes]:
        """Every entry, encoded."""
        if self._stale:
            self._forget_removed()
            for key in self._stale:
                self._texts[key] = self._encode(self._entries[key])
            self._stale.clear()
            # An entry that was removed and added again is the last now.
            self._texts = dict(zip(self._entries, map(self._texts.__getitem__, self._entries), strict=True))
        return self._texts.items()
