"""The views of the registry that are kept up to date: the whole, and one for each of some sets of permissions.

A view has the registry as sessions with some permissions see it (:mod:`bussrv.services.registry_view`), as JSON. Made
anew for each change, that would take longer the larger the registry is. Here only entries that changed are judged and
encoded again, and many of them in steps. The entries are kept in buckets, so that few of them are joined again.

A view that is asked for the first time, or after many changes, is made ready in slices: one at a time, and once for all
who ask. One that is given up, because others were asked for since, is made again once a second at most.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from twisted.internet.defer import Deferred

from bussrv import events as ev
from bussrv.plugin import EVERYTHING, Permissions, RegistryState, Session, Slices, Subscription, by_steps
from bussrv.registry.state.live_snapshot import (
    FEW,
    SERVICE_CHANGES,
    SESSION_CHANGES,
    STEP,
    SUBSCRIPTION_CHANGES,
    LiveSnapshot,
    json_of,
)
from bussrv.services.registry_view import is_visible, visible_ids

MOST_KEPT = 16
"""For how many sets of permissions a view is kept."""

KEPT_SECONDS = 60.0
"""A view that nobody asks for is given up after so long: each change costs a little for every view."""

MADE_EVERY = 1.0
"""The least seconds between two times that the view of a set of permissions is made."""


BUCKETS = 512
"""Into so many parts the entries of a kind are divided. A bucket is joined again when one of its entries changed."""

_encode = msgspec.json.Encoder().encode


class LiveView:
    """The part of a changing registry that is shown with some permissions.

    :param state: the registry. Each event is given to :meth:`touch` before it is applied.
    """

    def __init__(self, state: RegistryState, permissions: Permissions) -> None:
        self._state = state
        self._permissions = permissions
        self._sessions = _Buckets(state.sessions, self._session)
        self._services = _Buckets(state.services, self._service)
        self._subscriptions = _Buckets(state.subscriptions, self._held)
        self._parts = (self._sessions, self._services, self._subscriptions)
        self._unseen = [(part, iter(tuple(part.entries))) for part in self._parts]
        self._seq = -1
        self._shown = b""

    def touch(self, event: ev.Event) -> None:
        """Note the entries that an event is about, before it is applied."""
        kind, session_id = type(event), event.session or ""
        if kind in SERVICE_CHANGES:
            self._services.changed.add(event.service or "")
        elif kind in SUBSCRIPTION_CHANGES:
            self._subscriptions.changed.add(session_id)
        elif kind in SESSION_CHANGES:
            self._sessions.changed.add(session_id)
            if isinstance(event, ev.SessionIdentified):
                self._moves(session_id, event.routing_id)
        elif kind is ev.SessionClosed:
            self._sessions.changed.add(session_id)
            self._moves(session_id, None)

    def _moves(self, session_id: str, routing_id: str | None) -> None:
        """A session has another routing id, or ends: what it has may be shown or hidden from then on."""
        session = self._state.sessions.get(session_id)
        if session is None or session.routing_id != routing_id:
            self._subscriptions.changed.add(session_id)
            self._services.changed |= self._state.provided_by(session_id)

    @property
    def is_ready(self) -> bool:
        """Whether :meth:`encode` takes little time."""
        return not self._unseen and sum(len(part.changed) for part in self._parts) <= FEW

    def refresh(self) -> Iterator[None]:
        """Judge and encode the entries that changed, some in each step, until the view is ready."""
        while self._unseen:
            # Several may do this in turns, so that the place is kept here.
            part, keys = self._unseen[-1]
            some = tuple(islice(keys, STEP))
            if not some:
                self._unseen.pop()
            part.changed.update(some)
            part.refresh(STEP)
            yield
        while not self.is_ready:
            for part in self._parts:
                part.refresh(STEP)
            yield

    def encode(self, seq: int) -> bytes:
        """The JSON of what is shown, without a newline; the same bytes until something changes.

        :param seq: the number of the last record that was shown.
        """
        for _ in self.refresh():
            pass
        for part in self._parts:
            part.refresh(len(part.changed))
        if seq != self._seq or any(part.is_stale for part in self._parts):
            self._shown = json_of(seq, *(part.joined() for part in self._parts))
            self._seq = seq
        return self._shown

    def _sees(self, session_id: str) -> bool:
        session = self._state.sessions.get(session_id)
        return session is not None and self._permissions.sees_session(session.routing_id)

    def _session(self, session_id: str, session: Session) -> bytes:
        if not self._sees(session_id):
            return b""
        return _encode(replace(session, routing_ids=visible_ids(session.routing_ids, self._permissions)))

    def _service(self, name: str, providers: Mapping[str, int]) -> bytes:
        if not self._permissions.sees_service(name):
            return b""
        visible = [each for each in providers if self._sees(each)]
        return b"%b:%b" % (_encode(name), _encode(visible)) if visible else b""

    def _held(self, session_id: str, held: Mapping[str | None, Subscription]) -> bytes:
        if not self._sees(session_id):
            return b""
        return _encode([each for each in held.values() if is_visible(each, self._permissions)])[1:-1]


class _Buckets:
    """The entries of a mapping that are shown, as JSON.

    :param entries: the mapping, which may change.
    :param encode: makes the JSON of an entry; empty: it is hidden.
    :ivar changed: the keys of entries that are to be looked at again.
    """

    def __init__(self, entries: Mapping[str, Any], encode: Callable[[str, Any], bytes]) -> None:
        self.entries = entries
        self.changed: set[str] = set()
        self._encode = encode
        self._texts: list[dict[str, bytes]] = [{} for _ in range(BUCKETS)]
        self._joined = [b""] * BUCKETS
        self._stale: set[int] = set()

    @property
    def is_stale(self) -> bool:
        """Whether :meth:`joined` may be another one than the last time."""
        return bool(self._stale)

    def refresh(self, most: int) -> None:
        """Look at changed entries again, ``most`` of them at most."""
        for _ in range(min(most, len(self.changed))):
            key = self.changed.pop()
            number = hash(key) % BUCKETS
            entry = self.entries.get(key)
            text = b"" if entry is None else self._encode(key, entry)
            texts = self._texts[number]
            if text == texts.get(key, b""):
                continue
            if text:
                texts[key] = text
            else:
                del texts[key]
            self._stale.add(number)

    def joined(self) -> bytes:
        """Every entry that is shown, with commas between them."""
        for number in self._stale:
            self._joined[number] = b",".join(self._texts[number].values())
        self._stale.clear()
        return b",".join(filter(None, self._joined))


class _Kept(Struct):
    """A view, and when it was asked for, in seconds of the reactor."""

    view: LiveView
    asked: float


class LiveViews:
    """Views of one registry.

    :param whole: the view for those who see everything.
    :param state: the registry. Each event is given to :meth:`touch` before it is applied.
    """

    def __init__(self, whole: LiveSnapshot, state: RegistryState, slices: Slices, reactor: Any) -> None:
        self._whole = whole
        self._state = state
        self._slices = slices
        self._reactor = reactor
        self._kept: OrderedDict[Permissions, _Kept] = OrderedDict()
        self._made: WeakKeyDictionary[Permissions, float] = WeakKeyDictionary()
        self._asked: dict[Permissions, deque[Deferred[None]]] = {}
        self._is_working = False

    def touch(self, events: Iterable[ev.Event]) -> None:
        """Note what is about to change, in every view except the whole."""
        before = self._reactor.seconds() - KEPT_SECONDS
        while self._kept and next(iter(self._kept.values())).asked < before:
            self._kept.popitem(last=False)
        if self._kept:
            views = [each.view for each in self._kept.values()]
            for event in events:
                for view in views:
                    view.touch(event)

    def get(self, permissions: Permissions) -> LiveSnapshot | LiveView:
        """The view of sessions with these permissions."""
        if permissions is EVERYTHING:
            return self._whole
        now = self._reactor.seconds()
        kept = self._kept.get(permissions)
        if kept is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.popitem(last=False)
            kept = self._kept[permissions] = _Kept(LiveView(self._state, permissions), now)
            self._made[permissions] = now
        self._kept.move_to_end(permissions)
        kept.asked = now
        return kept.view

    def ready(self, permissions: Permissions) -> Deferred[None] | None:
        """Fires when a view is ready, so that its snapshot takes little time; ``None``: it is."""
        if permissions not in self._asked and self._is_kept(permissions) and self.get(permissions).is_ready:
            return None
        ready: Deferred[None] = Deferred()
        self._asked.setdefault(permissions, deque()).append(ready)
        self._go_on()
        return ready

    def _is_kept(self, permissions: Permissions) -> bool:
        return permissions is EVERYTHING or permissions in self._kept

    def _go_on(self) -> None:
        if self._asked and not self._is_working:
            self._is_working = True
            self._slices.do(by_steps(self._make_ready(), self._reactor.seconds))

    def _make_ready(self) -> Iterator[None]:
        try:
            while self._asked:
                permissions = min(self._asked, key=self._wait)
                if self._wait(permissions) > 0:
                    break
                yield from self.get(permissions).refresh()
                asked = self._asked[permissions]
                while asked:
                    asked.popleft().callback(None)
                    yield
                del self._asked[permissions]
        finally:
            self._is_working = False
        if self._asked:
            self._reactor.callLater(min(map(self._wait, self._asked)), self._go_on)

    def _wait(self, permissions: Permissions) -> float:
        """How many seconds it takes until a view may be made."""
        if self._is_kept(permissions):
            return 0.0
        made = self._made.get(permissions)
        return 0.0 if made is None else max(0.0, made + MADE_EVERY - self._reactor.seconds())
