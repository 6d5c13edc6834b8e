"""The views of the registry that are kept up to date: the whole, and one for each of some sets of permissions.

A view that is asked for the first time, or after many changes, is made ready in slices: one at a time, and once for all
who ask. One that is given up, because others were asked for since, is made again once a second at most.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct
from twisted.internet.defer import Deferred

from bussrv import events as ev
from bussrv.policy.permissions.permissions import EVERYTHING, Permissions
from bussrv.registry.state.live_snapshot import LiveSnapshot
from bussrv.registry.state.state import RegistryState
from bussrv.services.live_view import LiveView
from bussrv.turns.slices import Slices, by_steps

MOST_KEPT = 16
"""For how many sets of permissions a view is kept."""

KEPT_SECONDS = 60.0
"""A view that nobody asks for is given up after so long: each change costs a little for every view."""

MADE_EVERY = 1.0
"""The least seconds between two times that the view of a set of permissions is made."""


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
