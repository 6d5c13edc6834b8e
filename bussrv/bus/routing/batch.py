"""Objects that one session sent at once, for everybody who wants them.

The recipients of an object that has no address, asks nothing and answers nothing depend on two things: its sender, and
the attributes that interests look at. So they are looked up once for all objects of a batch that are alike in this;
such objects share a *route plan*. For each object, its frame is made and put on the lists of the plan's groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from typing import NamedTuple

from msgspec import Struct

from bussrv.bus.groups.fanout import OBJECT_FRAMES, Fanout, Group
from bussrv.bus.groups.receivers import Receivers
from bussrv.bus.interest.interests import kind_of
from bussrv.bus.interest.vocabulary import PARTED
from bussrv.bus.links.links import Links
from bussrv.bus.origins import Origin, Source
from bussrv.bus.send_rights import SendRights
from bussrv.bus.services.bridge import as_publication
from bussrv.bus.services.publishing import Publisher
from bussrv.bus.taps.taps import Taps
from bussrv.policy.permissions.permissions import Permissions
from bussrv.values import Publication
from bussrv.wire.forwarded import plain_frame, route_ending, with_marks, with_route
from bussrv.wire.objects import MAX_METADATA, NUL, BusObject, encode, max_relayed

MOST_NEW_PLANS = 16
"""A new plan takes a step for each group. After this many in one batch, the sender may have to wait for its next
slice."""

MOST_GROUPS_ASKED = 64
"""Groups are asked whether they want a new kind of object. After more answers than this in one batch, the sender may
have to wait for its next slice."""


class Audience(NamedTuple):
    """The groups that are given objects of a kind.

    :ivar publication: what the object is that they were found for, if it is one.
    :ivar marked: marks to add to the route for the groups of some servers.
    """

    groups: list[Group]
    publication: Publication | None
    marked: dict[Group, tuple[str, ...]]


class RoutePlan(Struct):
    """The recipients of all objects of a batch that are alike to interests.

    :ivar said: how many attributes all of them have for certain, counting an id, and a route that is cut off.
    :ivar lists: functions that put a frame on the list of a group.
    :ivar ends_batch: whether something was sent to make room on a list, so that the sender may be over a limit by now.
    :ivar service: the service that they are published on, if its subscribers are given batches; see :class:`Publisher`.
    :ivar marked: marks to add to the route for the groups of some servers, each with the function of its list.
    """

    said: int
    lists: tuple[Callable[[bytes], None], ...]
    ends_batch: bool
    service: str | None = None
    marked: tuple[tuple[tuple[str, ...], Callable[[bytes], None]], ...] = ()


RoutePlans = dict[tuple[object, ...], RoutePlan]


class BatchRouter:
    """Routes batches. RoutePlans are shared by senders that provide nothing, for as long as nothing is sent.

    :param new_id: as for :func:`bussrv.wire.forwarded.with_route`.
    :param longest: the most bytes of metadata that a linked server takes.
    """

    def __init__(
        self,
        *,
        receivers: Receivers,
        fanout: Fanout,
        links: Links,
        publisher: Publisher,
        judge: SendRights,
        new_id: Callable[[], str],
        taps: Taps,
        longest: int = max_relayed(MAX_METADATA),
    ) -> None:
        self._taps = taps
        self._longest = longest
        self._receivers = receivers
        self._fanout = fanout
        self._links = links
        self._publisher = publisher
        self._judge = judge
        self._new_id = new_id
        self._shared: dict[tuple[bool, frozenset[str], Permissions], RoutePlans] = {}
        self._generation: int | None = None

    @property
    def groups_asked(self) -> int:
        """How many times a group was asked so far whether it wants a kind of object."""
        return self._receivers.groups_asked

    def route(self, source: Source, provided: Set[str], batch: Iterator[BusObject]) -> BusObject | None:
        """Route the objects of a batch, up to the first that has to be routed by itself.

        :param provided: the services that the sender provides.
        :returns: that object, taken from the batch but not routed; ``None`` at the end of the batch, and after an
            interruption: then go on with the rest of it, unless the sender is over a limit now.
        """
        if self._taps.is_on:
            return self._route_tapped(source, provided, batch)
        try:
            return self._route(source, provided, batch)
        finally:
            self._publisher.settle()

    def _route_tapped(self, source: Source, provided: Set[str], batch: Iterator[BusObject]) -> BusObject | None:
        taken: list[BusObject] = []
        try:
            left = self._route(source, provided, _noted(batch, taken))
        finally:
            self._publisher.settle()
        if left is not None:
            taken.pop()
        self._taps.saw_batch(source.origin, provided, taken)
        return left

    def _route(self, source: Source, provided: Set[str], batch: Iterator[BusObject]) -> BusObject | None:
        route, cut, new_id = source.route, source.cut, self._new_id
        tail = route_ending(route) + NUL
        plans = {} if provided else self._shared_plans(source)
        made, asked_before, is_long = 0, self._receivers.groups_asked, False
        for obj in batch:
            head = obj.head
            if head.to is not None:
                return obj
            key: tuple[object, ...] = (head.event, head.type, head.size > 0)
            if provided or head.natures:
                key = (*key, head.sender if provided else None, *(head.natures or ()))
            plan = plans.get(key)
            if plan is None:
                made += 1
                plan = self._plan(obj, source, provided) if made <= MOST_NEW_PLANS else None
                if plan is None:
                    return obj
                plans[key] = plan
                is_long = self._receivers.groups_asked - asked_before > MOST_GROUPS_ASKED
            plain = plain_frame(obj, plan.said, cut, tail, new_id)
            frame = plain or encode(with_route(obj, route, new_id), obj.payload)
            if provided:
                self._publish(obj, frame, plan, provided)
            for put in plan.lists:
                put(frame)
            if plan.marked:
                self._put_marked(obj, frame, plan, source)
            if plan.ends_batch or is_long:
                break
        return None

    def _put_marked(self, obj: BusObject, frame: bytes, plan: RoutePlan, source: Source) -> None:
        metadata = frame[: len(frame) - len(obj.payload) - 1]
        for marks, put in plan.marked:
            put(encode(with_marks(metadata, source.origin.route, marks, self._longest), obj.payload))

    def _shared_plans(self, source: Source) -> RoutePlans:
        """The plans that are still right: none, once something was sent or a receiver came or went.

        Senders share them if they have the same permissions, and their objects passed the same of the linked servers.
        """
        if self._generation != self._fanout.generation:
            self._generation = self._fanout.generation
            self._shared.clear()
        passed = self._links.passed(source.origin.route)
        return self._shared.setdefault((source.cut > 1, passed, source.origin.permissions), {})

    def _plan(self, obj: BusObject, source: Source, provided: Set[str]) -> RoutePlan | None:
        """The plan of objects like this one; ``None`` if such objects have to be routed by themselves, or denied."""
        head, origin = obj.head, source.origin
        audience = self.audience(obj, origin, provided)
        if audience is None:
            return None
        groups, publication, marked = audience
        if origin.sender and any(group.no_echo for group in groups):
            self._generation = None  # The plans are this sender's alone.
        sends = self.open(groups, origin)
        said = 1 + (head.event is not None) + (head.type is not None) + (head.size > 0) + bool(head.natures)
        said += source.cut > 1
        service = None if publication is None else self._publisher.collects(publication)
        lists = tuple(group.pending.append for group in groups if group not in marked)
        return RoutePlan(
            said, lists, sends, service, tuple((marks, group.pending.append) for group, marks in marked.items())
        )

    def audience(self, obj: BusObject, origin: Origin, provided: Set[str]) -> Audience | None:
        """The audience of objects like this one; ``None`` if they have to be routed by themselves, or denied."""
        head = obj.head
        if head.event in PARTED:
            return None  # Most are in lower case.
        publication = as_publication(obj, provided)
        kind = kind_of(obj, self._judge.service_of(publication))
        if kind.event in PARTED or (head.size and not head.type) or not self._judge.may_send(origin, obj, kind):
            return None
        taking = self._links.taking(kind, origin.route)
        groups = [*self._receivers.wanting(kind), *(link.group for link, _ in taking)]
        if any(group.encoding is not OBJECT_FRAMES for group in groups):
            return None
        return Audience(groups, publication, {link.group: marks for link, marks in taking if marks})

    def open(self, groups: Iterable[Group], origin: Origin) -> bool:
        """Make groups ready for the frames of one sender. :returns: whether something had to be sent for that."""
        sender = origin.sender
        sent = [self._fanout.open(group, sender if group.no_echo else None) for group in groups]
        return any(sent)

    def _publish(self, obj: BusObject, frame: bytes, plan: RoutePlan, provided: Set[str]) -> None:
        if plan.service is not None:
            self._publisher.collect(plan.service, obj.payload)
        else:
            self._publisher.publish(obj, frame, provided)


def _noted(batch: Iterator[BusObject], taken: list[BusObject]) -> Iterator[BusObject]:
    for obj in batch:
        taken.append(obj)
        yield obj
