"""Offers and removals: what SPP clients are told of the services that there are.

Many services may appear and go at once, and each change is for every client. So changes are collected, and clients are
told a slice at a time (:mod:`bussrv.slices`): the first ones at once if the server has nothing else to do.

Each client is given:

1. Every offer, removal and update of a service in the order in which they happened. An update that is sent to a client
   follows all offers and removals before it.
2. The offers of different services in the order in which these appeared.
3. The result of what changed since the client was last told: a service that came and went is not mentioned. A service
   that went and came back is removed and offered once, because its state is another one now.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from bussrv.bus.interfaces import IBus
from bussrv.bus.outgoing import Bundle
from bussrv.formats.stream_link import StreamLink
from bussrv.wire import spp as wire


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


class Offers:
    """The offers and removals of services, and how far each client was told of them.

    A place is a number of packets since the server started.
    """

    def __init__(self, bus: IBus) -> None:
        self._slices = bus.slices
        self._service_names = bus.service_names
        self._services = bus.registry.state.services
        self._names: list[str] = []
        self._all = Bundle([])
        self._offered = set(bus.service_names())
        self._changed: dict[str, bool] = {}
        self._packets: list[bytes] = []
        self._begin = 0
        self._places: OrderedDict[SppLink, int] = OrderedDict()
        self._bundles: dict[int, Bundle] = {}
        self._is_telling = False

    def join(self, link: SppLink) -> None:
        """Offer a client every service that there is, and from now on every one that appears."""
        self._settle()
        self._places[link] = self._end
        names = self._service_names()
        if names is not self._names:
            self._names, self._all = names, Bundle([wire.offer(name) for name in names])
        if self._all:
            link.tell(self._all)

    def leave(self, link: SppLink) -> None:
        """A client is gone."""
        self._places.pop(link, None)

    def appeared(self, service: str) -> None:
        """A service has its first provider."""
        self._changed[service] = self._changed.pop(service, False)
        self._tell_all()

    def went(self, service: str) -> None:
        """A service has lost its last provider."""
        self._changed[service] = True
        self._tell_all()

    def catch_up(self, link: SppLink) -> None:
        """Tell a client of every change that it was not told of yet."""
        place = self._places.get(link)
        if place is None:
            return
        self._settle()
        if place < self._end:
            self._places[link] = self._end
            self._places.move_to_end(link)
            link.tell(self._since(place))

    @property
    def _end(self) -> int:
        return self._begin + len(self._packets)

    def _since(self, place: int) -> Bundle:
        """The packets since a place; made once for all clients that were told up to there."""
        bundle = self._bundles.get(place)
        if bundle is None:
            bundle = self._bundles[place] = Bundle(self._packets[place - self._begin :])
        return bundle

    def _settle(self) -> None:
        """Make packets of the changes. ``_changed`` has the services by their last change, and whether they went."""
        if not self._changed:
            return
        for service, went in self._changed.items():
            is_there = service in self._services
            if service in self._offered and (went or not is_there):
                self._offered.remove(service)
                self._packets.append(wire.removed(service))
            if is_there and service not in self._offered:
                self._offered.add(service)
                self._packets.append(wire.offer(service))
        self._changed.clear()
        self._bundles.clear()

    def _tell_all(self) -> None:
        if not self._is_telling:
            self._is_telling = True
            self._slices.do(self._slice)

    def _slice(self, until: float) -> bool:
        """Tell clients that were told least. :returns: whether others are left."""
        self._is_telling = False
        self._settle()
        told_least = self._least()
        while told_least < self._end:
            self.catch_up(next(iter(self._places)))
            told_least = self._least()
            if self._slices.is_over(until):
                break
        self._forget(told_least)
        self._is_telling = told_least < self._end
        return self._is_telling

    def _least(self) -> int:
        """How far the client was told that was told least: the first, because who is told goes to the end."""
        return next(iter(self._places.values()), self._end)

    def _forget(self, place: int) -> None:
        """Forget the packets before a place: everybody has them."""
        del self._packets[: place - self._begin]
        self._begin = place
        if not self._packets:
            self._bundles.clear()
