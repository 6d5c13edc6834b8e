"""Offers and removals: what SPP clients are told of the services that there are.

Many services may appear and go at once, and each change is for every client. So changes are collected, and clients are
told a slice at a time (:mod:`bussrv.turns.slices`): the first ones at once if the server has nothing else to do.

Each client is given:

1. Every offer, removal and update of a service in the order in which they happened. An update that is sent to a client
   follows all offers and removals before it.
2. The offers of different services in the order in which these appeared.
3. The result of what changed since the client was last told: a service that came and went is not mentioned. A service
   that went and came back is removed and offered once, because its state is another one now.

Clients with the same permissions share a *view*: the services that they may know of, and one sequence of packets. A
client that has other permissions from now on is told the difference between two views.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterator
from typing import Any
from weakref import ref

from bussrv.memory.bundle import KeptBundle
from bussrv.plugin import EVERYTHING, Bundle, IBus, Permissions, StreamLink
from bussrv.turns.slices import Work
from bussrv.wire import spp as wire

STEP = 100
"""How many services a new view looks at before it looks at the clock."""

MOST_UNUSED = 16
"""How many views are kept that no client has: the next client with such permissions is offered services at once."""


class SppLink(StreamLink):
    """The link to an SPP client. Frames are sent after all offers and removals before them."""

    def __init__(self, offers: Offers, *about: Any) -> None:
        super().__init__(*about)
        self._offers = offers

    def send(self, bundle: Bundle) -> None:
        """Send frames, after everything sent before."""
        self._offers.catch_up(self)
        super().send(bundle)

    def tell(self, offers: Bundle) -> None:
        """Send offers and removals."""
        super().send(offers)


class View:
    """The services that clients with the same permissions may know of, and how far each client was told of them.

    A place is a number of packets since the view began.

    :param services: all services, by name; they change.
    :param names: the names of all services, sorted.
    :ivar places: the place of each client, the smallest first.
    :ivar is_ready: whether it is decided which services these clients may know of.
    :ivar waiting: clients that join when it is ready.
    """

    def __init__(self, permissions: Permissions, services: Container[str], names: list[str]) -> None:
        self.permissions = permissions
        self._services = services
        self._offered: set[str] = set()
        self._changed: dict[str, bool] = {}
        self._packets: list[bytes] = []
        self._begin = 0
        self._bundles: dict[int, Bundle] = {}
        self._names: list[str] = []
        self._all = KeptBundle([])
        self._differs: tuple[tuple[ref[View], int, int], Bundle] | None = None
        self.places: OrderedDict[SppLink, int] = OrderedDict()
        self.waiting: dict[SppLink, None] = {}
        self.is_ready = permissions is EVERYTHING
        self._left: Iterator[str] = iter(())
        if self.is_ready:
            self._offered.update(names)
        else:
            self._left = iter(names)

    def prepare(self) -> bool:
        """Look at some services. :returns: whether others are left."""
        sees = self.permissions.sees_service
        for _ in range(STEP):
            name = next(self._left, None)
            if name is None:
                self.is_ready = True
                return False
            if sees(name):
                self._offered.add(name)
        return True

    def changed(self, service: str, *, went: bool) -> None:
        """A service appeared, or went."""
        self._changed[service] = went or self._changed.pop(service, False)

    def join(self, link: SppLink, names: list[str]) -> None:
        """Offer a client every service that it may know of.

        :param names: the names of all services, sorted.
        """
        self.settle()
        self.places[link] = self.end
        if names is not self._names:
            self._names = names
            self._all = KeptBundle([wire.offer(name) for name in names if name in self._offered])
        if self._all.count:
            link.tell(self._all)

    def take_over(self, link: SppLink, before: View) -> None:
        """A client of another view, which was told everything there, belongs to this one from now on."""
        self.settle()
        self.places[link] = self.end
        difference = self._difference(before)
        if difference.count:
            link.tell(difference)

    def _difference(self, before: View) -> Bundle:
        """The packets from what another view offers to what this one does; made once for many clients."""
        # The offers of a view change only with a packet. Each view would keep all views before it if it kept this one.
        key = (ref(before), before.end, self.end)
        if self._differs is None or self._differs[0] != key:
            gone, new = sorted(before._offered - self._offered), sorted(self._offered - before._offered)
            self._differs = key, KeptBundle([*map(wire.removed, gone), *map(wire.offer, new)])
        return self._differs[1]

    def catch_up(self, link: SppLink) -> None:
        """Tell a client of every change that it was not told of yet."""
        self.settle()
        place = self.places[link]
        if place < self.end:
            self.places[link] = self.end
            self.places.move_to_end(link)
            link.tell(self._since(place))

    @property
    def end(self) -> int:
        """The place after all packets."""
        return self._begin + len(self._packets)

    @property
    def least(self) -> int:
        """How far the client was told that was told least: the first, because who is told goes to the end."""
        return next(iter(self.places.values()), self.end)

    @property
    def is_done(self) -> bool:
        """Whether every client was told of every change. Until the view is ready, no client is told."""
        return self.least == self.end and not (self._changed and self.is_ready)

    def _since(self, place: int) -> Bundle:
        """The packets since a place; made once for all clients that were told up to there."""
        bundle = self._bundles.get(place)
        if bundle is None:
            bundle = self._bundles[place] = KeptBundle(self._packets[place - self._begin :])
        return bundle

    def settle(self) -> None:
        """Make packets of the changes. ``_changed`` has the services by their last change, and whether they went."""
        if not self._changed or not self.is_ready:
            return
        for service, went in self._changed.items():
            is_there = service in self._services
            if service in self._offered and (went or not is_there):
                self._offered.remove(service)
                self._packets.append(wire.removed(service))
            if is_there and service not in self._offered and self.permissions.sees_service(service):
                self._offered.add(service)
                self._packets.append(wire.offer(service))
        self._changed.clear()
        self._bundles.clear()

    def forget(self) -> None:
        """Forget the packets that everybody has."""
        place = self.least
        del self._packets[: place - self._begin]
        self._begin = place
        if not self._packets:
            self._bundles.clear()


class Offers:
    """The offers and removals of services to all clients, by the permissions of these."""

    def __init__(self, bus: IBus) -> None:
        self._slices = bus.slices
        self._service_names = bus.service_names
        self._services = bus.registry.state.services
        self._views: dict[Permissions, View] = {}
        self._unused: OrderedDict[Permissions, None] = OrderedDict()
        self._unsettled: dict[View, None] = {}
        self._view_of: dict[SppLink, View] = {}
        self._awaited_by: dict[SppLink, View] = {}
        self._is_telling = False

    def join(self, link: SppLink, permissions: Permissions = EVERYTHING) -> None:
        """Offer a client every service that it may know of, and from now on every one that appears."""
        view = self._view(permissions)
        former = self._awaited_by.pop(link, None)
        if former is not None:
            del former.waiting[link]
            self._look(former)
        if view.is_ready:
            self._move(link, view)
        else:
            view.waiting[link] = None
            self._awaited_by[link] = view

    def permit(self, link: SppLink, permissions: Permissions) -> None:
        """A client has these permissions from now on: tell it which services it may know of now, and which not."""
        if link in self._view_of or link in self._awaited_by:
            self.join(link, permissions)

    def leave(self, link: SppLink) -> None:
        """A client is gone."""
        view, awaited = self._view_of.pop(link, None), self._awaited_by.pop(link, None)
        if view is not None:
            del view.places[link]
            self._look(view)
        if awaited is not None:
            del awaited.waiting[link]
            self._look(awaited)

    def appeared(self, service: str) -> None:
        """A service has its first provider."""
        self._changed(service, went=False)

    def went(self, service: str) -> None:
        """A service has lost its last provider."""
        self._changed(service, went=True)

    def catch_up(self, link: SppLink) -> None:
        """Tell a client of every change that it was not told of yet."""
        view = self._view_of.get(link)
        if view is not None:
            view.catch_up(link)

    # Views.

    def _view(self, permissions: Permissions) -> View:
        view = self._views.get(permissions)
        if view is None:
            view = self._views[permissions] = View(permissions, self._services, self._service_names())
            if not view.is_ready:
                self._slices.do(self._preparing(view))
        self._unused.pop(permissions, None)
        return view

    def _look(self, view: View) -> None:
        """Keep few views that no client has. That of everything is always kept."""
        if view.places or view.waiting or view.permissions is EVERYTHING:
            return
        self._unused[view.permissions] = None
        if len(self._unused) > MOST_UNUSED:
            gone = self._views.pop(self._unused.popitem(last=False)[0])
            self._unsettled.pop(gone, None)

    def _preparing(self, view: View) -> Work:
        def work(until: float) -> bool:
            if self._views.get(view.permissions) is not view:
                return False
            while view.prepare():
                if self._slices.is_over(until):
                    return True
            while view.waiting:
                link = next(iter(view.waiting))
                del view.waiting[link], self._awaited_by[link]
                self._move(link, view)
                if self._slices.is_over(until):
                    break
            return bool(view.waiting)

        return work

    def _move(self, link: SppLink, view: View) -> None:
        """Let a client have a view that is ready."""
        before = self._view_of.get(link)
        if before is view:
            return
        if before is None:
            self._view_of[link] = view
            view.join(link, self._service_names())
            return
        before.catch_up(link)
        if self._view_of.get(link) is before:
            del before.places[link]
            self._view_of[link] = view
            view.take_over(link, before)
            self._look(before)

    # Telling.

    def _changed(self, service: str, *, went: bool) -> None:
        for view in self._views.values():
            view.changed(service, went=went)
            self._unsettled[view] = None
        if self._unsettled and not self._is_telling:
            self._is_telling = True
            self._slices.do(self._slice)

    def _slice(self, until: float) -> bool:
        """Tell clients that were told least. :returns: whether others are left."""
        self._is_telling = False
        for view in tuple(self._unsettled):
            is_over = self._tell_some(view, until)
            if view.is_done:
                self._unsettled.pop(view, None)
            if is_over:
                break
        self._is_telling = bool(self._unsettled)
        return self._is_telling

    def _tell_some(self, view: View, until: float) -> bool:
        """Tell clients of one view. :returns: whether the slice is over."""
        view.settle()
        is_over = self._slices.is_over(until)
        while view.least < view.end and not is_over:
            view.catch_up(next(iter(view.places)))
            is_over = self._slices.is_over(until)
        view.forget()
        return is_over
