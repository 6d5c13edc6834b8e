"""Runs: what one session sent in one go and goes to everybody who wants it.

Where an object goes that is addressed to nobody, and neither asks nor answers, follows from its sender and from what
interests look at. So that is looked up once for all objects of a run that are alike in this: they share a *lane*. What
is left to do for each of them is to make its frame, and to put that on the lists of the lane's groups.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Set

from msgspec import Struct

from bussrv.bus.audience import Audience
from bussrv.bus.delivery import OBJECT_FRAMES, Fanout
from bussrv.bus.interest import kind_of
from bussrv.bus.links import Links
from bussrv.bus.publishing import Publisher
from bussrv.bus.router import ASKING, Origin, no_echo
from bussrv.wire.objects import NUL, BusObject, encode
from bussrv.wire.onward import PLAIN_ENDING, plain_frame, route_ending, with_route


class Source(Struct, frozen=True):
    """Where the objects of a run come from.

    :ivar route: the route of ``origin``, as JSON.
    :ivar cut: how many bytes metadata ends with that make way for that: more than the brace, where each of them
        certainly has a route already.
    """

    origin: Origin
    route: bytes
    cut: int = len(PLAIN_ENDING)


class Lane(Struct):
    """Where all objects of a run go that are alike to interests.

    :ivar said: how many attributes all of them have for certain, counting an id, and a route that is cut off.
    :ivar lists: each puts a frame on the list of a group.
    :ivar ends_run: whether something was sent to make room on a list, so that the sender may be over a limit by now.
    :ivar service: what they are published on, where watchers are given runs; see :class:`Publisher`.
    """

    said: int
    lists: tuple[Callable[[bytes], None], ...]
    ends_run: bool
    service: str | None = None


Lanes = dict[tuple[object, ...], Lane]


class Runs:
    """Routes runs. Lanes are shared by senders that provide nothing, for as long as nothing is sent.

    :param new_id: as for :func:`bussrv.wire.onward.with_route`.
    """

    def __init__(
        self,
        audience: Audience,
        fanout: Fanout,
        links: Links,
        publisher: Publisher,
        new_id: Callable[[], str],
    ) -> None:
        self._audience = audience
        self._fanout = fanout
        self._links = links
        self._publisher = publisher
        self._new_id = new_id
        self._shared: dict[tuple[int, bool, frozenset[str]], Lanes] = {}
        self._epoch: int | None = None

    def route(
        self, source: Source, provided: Set[str], run: Iterator[BusObject], served: Container[str | None]
    ) -> BusObject | None:
        """Route the objects of a run, up to the first that has to go its own way.

        :param provided: the services that the sender provides.
        :param served: the events that somebody else serves; the same container for all senders of a kind.
        :returns: that object, taken from the run but not routed; ``None`` when the run came to its end, or had to be
            interrupted: go on with what is left of it, unless the sender is over a limit now.
        """
        try:
            return self._route(source, provided, run, served)
        finally:
            self._publisher.settle()

    def _route(
        self, source: Source, provided: Set[str], run: Iterator[BusObject], served: Container[str | None]
    ) -> BusObject | None:
        route, cut = source.route, source.cut
        tail = route_ending(route) + NUL
        lanes = {} if provided else self._shared_lanes(source, served)
        for obj in run:
            head = obj.head
            if head.to is not None:
                return obj
            key: tuple[object, ...] = (head.event, head.type, head.size > 0)
            if provided or head.natures:
                key = (*key, head.sender if provided else None, *(head.natures or ()))
            lane = lanes.get(key)
            if lane is None:
                lane = self._lane(obj, source, served, provided)
                if lane is None:
                    return obj
                lanes[key] = lane
            frame = plain_frame(obj, lane.said, cut, tail) or encode(with_route(obj, route, self._new_id), obj.payload)
            if provided:
                self._publish(obj, frame, lane, provided)
            for put in lane.lists:
                put(frame)
            if lane.ends_run:
                break
        return None

    def _shared_lanes(self, source: Source, served: Container[str | None]) -> Lanes:
        """Lanes that are open: none, once something was sent, or the audience has changed.

        They are the same for all whose events are served by the same, and who passed the same of the linked servers.
        """
        if self._epoch != self._fanout.epoch:
            self._epoch = self._fanout.epoch
            self._shared.clear()
        passed = self._links.passed(source.origin.route)
        return self._shared.setdefault((id(served), source.cut > 1, passed), {})

    def _lane(self, obj: BusObject, source: Source, served: Container[str | None], provided: Set[str]) -> Lane | None:
        """The lane of objects like this one; ``None`` if such objects have to go their own way."""
        head, origin = obj.head, source.origin
        if head.event in served or head.event in ASKING or (head.size and not head.type):
            return None
        kind = kind_of(obj)
        groups = [*self._audience.wanting(kind), *self._links.taking(kind, origin.route)]
        if any(group.encoding is not OBJECT_FRAMES for group in groups):
            return None
        if origin.sender and any(map(no_echo, groups)):
            self._epoch = None  # The lanes are this sender's alone.
        sent = [self._fanout.open(group, origin.sender if no_echo(group) else None) for group in groups]
        said = 1 + (head.event is not None) + (head.type is not None) + (head.size > 0) + bool(head.natures)
        said += source.cut > 1
        service = self._publisher.collects(obj, provided) if provided else None
        return Lane(said, tuple(group.pending.append for group in groups), any(sent), service)

    def _publish(self, obj: BusObject, frame: bytes, lane: Lane, provided: Set[str]) -> None:
        if lane.service is not None:
            self._publisher.collect(lane.service, obj.payload)
        else:
            self._publisher.publish(obj, frame, provided)
