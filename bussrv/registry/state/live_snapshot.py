"""The snapshot of a changing registry: entries that did not change since the last one are not encoded again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from bussrv import events as ev
from bussrv.journal.record import Record
from bussrv.registry.state.session import Session, Subscription
from bussrv.registry.state.state import RegistryState

SESSION_CHANGES = frozenset(
    {ev.SessionOpened, ev.SessionIdentified, ev.AuthSucceeded, ev.SessionLeft, ev.SessionResumed}
)
SERVICE_CHANGES = frozenset({ev.ServiceRegistered, ev.ServiceUnregistered})
SUBSCRIPTION_CHANGES = frozenset({ev.SubscriptionAdded, ev.SubscriptionRenewed, ev.SubscriptionRemoved})

STEP = 100
"""How many entries are encoded in one step."""

FEW = 1000
"""So many entries are encoded at once, when the snapshot is asked for."""

_encode = msgspec.json.Encoder().encode


class LiveSnapshot:
    """A registry, folded from events, that can be encoded as JSON at any moment.

    The JSON is that of :mod:`bussrv.registry.state.snapshot`.

    :param state: the registry to begin with; the snapshot owns it from now on.
    """

    def __init__(self, state: RegistryState) -> None:
        self._state = state
        self._sessions = _Pieces(state.sessions, _session)
        self._services = _Pieces(state.services, _service)
        self._subscriptions = _Pieces(state.subscriptions, _held)
        self._seq = -1
        self._shown = b""

    def apply(self, event: ev.Event, time: int) -> None:
        """Apply a record; ``time`` is UTC microseconds."""
        self._touch(event)
        self._state.apply(event, time)

    def apply_all(self, records: Sequence[Record]) -> None:
        """Apply records, one after the other."""
        # Without an encoded entry, none is out of date: nobody has asked for the snapshot yet.
        if self._sessions.texts or self._services.texts or self._subscriptions.texts:
            touch_service = self._services.texts.pop
            for each in records:
                event = each.event
                if type(event) in SERVICE_CHANGES:
                    touch_service(event.service or "", None)
                else:
                    self._touch(event)
        self._state.apply_all(records)

    def _touch(self, event: ev.Event) -> None:
        """Forget the entries that an event is about, before it is applied.

        Services that a session registers before its end in the same batch are forgotten as they are registered.
        """
        kind, session_id = type(event), event.session or ""
        if kind in SERVICE_CHANGES:
            self._services.touch(event.service or "")
        elif kind in SUBSCRIPTION_CHANGES:
            self._subscriptions.touch(session_id)
        elif kind in SESSION_CHANGES:
            self._sessions.touch(session_id)
        elif kind is ev.SessionClosed:
            self._sessions.touch(session_id)
            self._subscriptions.touch(session_id)
            for name in self._state.provided_by(session_id):
                self._services.touch(name)

    @property
    def is_ready(self) -> bool:
        """Whether :meth:`encode` takes little time."""
        return self._sessions.missing + self._services.missing + self._subscriptions.missing <= FEW

    def refresh(self) -> Iterator[None]:
        """Encode the entries that changed, some in each step."""
        for part in (self._sessions, self._services, self._subscriptions):
            yield from part.refresh()

    def encode(self, seq: int) -> bytes:
        """The JSON of the registry, without a newline; the same bytes until ``seq`` is another.

        :param seq: the number of the last record that was applied.
        """
        if seq != self._seq:
            parts = (self._sessions, self._services, self._subscriptions)
            self._shown = json_of(seq, *(part.joined() for part in parts))
            self._seq = seq
        return self._shown


def json_of(seq: int, sessions: bytes, services: bytes, subscriptions: bytes) -> bytes:
    """The JSON of a snapshot.

    :param sessions: its parts, each without brackets.
    """
    return b'{"seq":%d,"sessions":[%b],"services":{%b},"subscriptions":[%b]}' % (seq, sessions, services, subscriptions)


def _session(_: str, session: Session) -> bytes:
    """A session."""
    return _encode(session)


def _service(name: str, providers: Mapping[str, int]) -> bytes:
    """The name of a service, and the ids of the sessions that provide it."""
    return b"%b:%b" % (_encode(name), _encode(list(providers)))


def _held(_: str, held: Mapping[str | None, Subscription]) -> bytes:
    """The subscriptions of a session, without brackets."""
    return _encode(list(held.values()))[1:-1]


class _Pieces:
    """The entries of a mapping as JSON, in its order; entries that changed are encoded when they are needed.

    :param entries: the mapping, which may change.
    :ivar texts: the entries that are encoded, without those that were changed, added or removed since.
    """

    def __init__(self, entries: Mapping[str, Any], encode: Callable[[str, Any], bytes]) -> None:
        self.texts: dict[str, bytes] = {}
        self._entries = entries
        self._encode = encode

    def touch(self, key: str) -> None:
        """Note that the entry of ``key`` is going to be changed, added or removed."""
        self.texts.pop(key, None)

    @property
    def missing(self) -> int:
        """How many entries are not encoded."""
        return len(self._entries) - len(self.texts)

    def refresh(self) -> Iterator[None]:
        """Encode the entries that are missing now, some in each step."""
        texts, entries = self.texts, self._entries
        missing = tuple(entries.keys() - texts.keys()) if self.missing else ()
        for begin in range(0, len(missing), STEP):
            for key in missing[begin : begin + STEP]:
                if key in entries:
                    texts[key] = self._encode(key, entries[key])
            yield

    def joined(self) -> bytes:
        """Every entry, encoded, with commas between them."""
        texts, entries = self.texts, self._entries
        if len(texts) < len(entries):
            for key in entries.keys() - texts.keys():
                texts[key] = self._encode(key, entries[key])
        return b",".join(map(texts.__getitem__, entries))
