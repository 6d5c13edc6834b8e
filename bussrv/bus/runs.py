"""Runs: what one session sent in one go and goes to everybody who wants it.

Where an object goes that is addressed to nobody, and neither asks nor answers, follows from its sender and from what
interests look at. So that is looked up once for all objects of a run that are alike in this: they share a *lane*. What
is left to do for each of them is to make its frame, and to put that on the lists of the lane's groups.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Set

from msgspec import Struct

from bussrv.bus.audience import Audience
from bussrv.bus.bridge import as_publication
from bussrv.bus.delivery import OBJECT_FRAMES, Delivery, Fanout, Group
from bussrv.bus.interest import kind_of
from bussrv.bus.links import Links
from bussrv.bus.router import ASKING, Origin, no_echo
from bussrv.values import Publication
from bussrv.wire.objects import BusObject, Head, encode, plain_frame, with_route


class Lane(Struct):
    """Where all objects of a run go that are alike to interests.

    :ivar said: how many attributes all of them have for certain, counting an id.
    :ivar lists: each puts a frame on the list of a group.
    :ivar ends_run: whether something was sent to make room on a list, so that the sender may be over a limit by now.
    """

    said: int
    lists: tuple[Callable[[bytes], None], ...]
    ends_run: bool


Lanes = dict[tuple[object, ...], Lane]


class Runs:
    """Routes runs. Lanes are shared by senders that provide nothing, for as long as nothing is sent.

    :param to_watchers: gives a publication to those who subscribed to its service.
    :param new_id: as for :func:`bussrv.wire.objects.with_route`.
    """

    def __init__(
        self,
        audience: Audience,
        fanout: Fanout,
        links: Links,
        to_watchers: Callable[[Delivery, Publication], None],
        new_id: Callable[[], str],
    ) -> None:
        self._audience = audience
        self._fanout = fanout
        self._links = links
        self._to_watchers = to_watchers
        self._new_id = new_id
        self._lanes: Lanes = {}
        self._epoch = 0
        self._served: Container[str | None] | None = None

    def route(
        self, origin: Origin, route: bytes, provided: Set[str], run: Iterator[BusObject], served: Container[str | None]
    ) -> BusObject | None:
        """Route the objects of a run, up to the first that has to go its own way.

        :param route: that of ``origin``, as JSON.
        :param provided: the services that the sender provides.
        :param served: the events that somebody else serves.
        :returns: that object, taken from the run but not routed; ``None`` when the run came to its end, or had to be
            interrupted: go on with what is left of it, unless the sender is over a limit now.
        """
        tail = b',"route":%b}\0' % route
        lanes = {} if provided or self._links else self._shared_lanes(served)
        for obj in run:
            head = obj.head
            if head.to is not None:
                return obj
            key: tuple[object, ...] = (head.event, head.type, head.size > 0)
            if head.natures:
                key = (*key, *head.natures)
            lane = lanes.get(key)
            if lane is None:
                groups = self._groups(obj, origin, served)
                if groups is None:
                    return obj
                lane = lanes[key] = self._open(head, groups, origin.sender)
            frame = plain_frame(obj, lane.said, tail)
            if frame is None:
                frame = encode(with_route(obj, route, self._new_id), obj.payload)
            if provided:
                self._publish(obj, frame, provided)
            for put in lane.lists:
                put(frame)
            if lane.ends_run:
                break
        return None

    def _shared_lanes(self, served: Container[str | None]) -> Lanes:
        """Lanes that are open: none, once something was sent, or the audience has changed."""
        if self._epoch != self._fanout.epoch or self._served is not served:
            self._epoch, self._served, self._lanes = self._fanout.epoch, served, {}
        return self._lanes

    def _groups(self, obj: BusObject, origin: Origin, served: Container[str | None]) -> list[Group] | None:
        """The groups that are given objects like this one; ``None`` if such objects have to go their own way."""
        head = obj.head
        if head.event in served or head.event in ASKING or (head.size and not head.type):
            return None
        kind = kind_of(obj)
        groups = [*self._audience.wanting(kind), *self._links.taking(kind, origin.route)]
        return groups if all(group.encoding is OBJECT_FRAMES for group in groups) else None

    def _open(self, head: Head, groups: list[Group], sender: str) -> Lane:
        said = 1 + (head.event is not None) + (head.type is not None) + (head.size > 0) + bool(head.natures)
        sent = [self._fanout.open(group, sender if no_echo(group) else None) for group in groups]
        if any(map(no_echo, groups)):
            self._served = None  # The lanes are this sender's alone.
        return Lane(said, tuple(group.pending.append for group in groups), any(sent))

    def _publish(self, obj: BusObject, frame: bytes, provided: Set[str]) -> None:
        publication = as_publication(obj, provided)
        if publication is not None:
            metadata = frame[: len(frame) - len(obj.payload) - 1]
            self._to_watchers(Delivery(metadata, obj.payload, publication), publication)
