"""Objects that one session sent at once, routed by remembered plans: all that need not be routed by themselves.

Who gets an object depends on its sender and on the attributes that interests look at. So it is found once for all
objects that are alike in this: they share a *plan*. Plans are right for one generation of the audience.

1. Objects for everybody: a frame is made of each, and put on the lists of the plan's groups.
2. Requests: a plan has the providers of a service that can be asked, each with its group. Most exchanges are plain: a
   client asks a service whose providers are clients of this server, nobody observes requests, and a provider answers
   under the id that it was given.
3. Replies: each finds its request; a plan has the group of the asker.

Everything else is routed by :mod:`bussrv.bus.routing.single`: a request that is refused, too, since nothing is counted
or changed here before all is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, Struct, field

from bussrv.bus.groups.fanout import OBJECT_FRAMES, Group
from bussrv.bus.interest.interests import kind_of
from bussrv.bus.interest.vocabulary import EXCHANGED, PARTED, REQUEST
from bussrv.bus.origins import Origin, Source
from bussrv.bus.requests.records import Targets
from bussrv.bus.routing.audience import Everyone, OneOf
from bussrv.bus.routing.parts import RoutingParts
from bussrv.bus.services.publishing import Topic
from bussrv.errors import OverLimit
from bussrv.wire.forwarded import plain_frame, route_ending, with_marks, with_route
from bussrv.wire.objects import MAX_METADATA, NUL, BusObject, decode_raw, encode, max_relayed

MOST_NEW_PLANS = 16
"""A new plan takes a step for each group. After this many in one batch, the sender may have to wait for its next
slice."""

MOST_GROUPS_ASKED = 64
"""Groups are asked whether they want a new kind of object, and providers whether they can be asked. After more answers
than this in one batch, the sender may have to wait for its next slice."""

MOST_TABLES = 1024
"""The most sessions whose plans are remembered. Beyond it all are forgotten."""

MOST_PLANS = 256
"""The most plans of each sort in a table. Beyond it all of them are forgotten."""

LONGEST_KEY = 1024
"""The most characters of a key that is remembered. Senders determine its length."""

if TYPE_CHECKING:
    from bussrv._speedups import Sender

_NOTHING = Raw(b"")
_decode = msgspec.json.Decoder(str | int).decode
_BRACE, _SPACE = b"} "


class BatchPlan(Struct):
    """The groups of all objects for everybody that are alike to interests.

    :ivar said: how many attributes all of them have for certain, counting an id, and a route that is cut off.
    :ivar groups: the groups that are given them.
    :ivar marked: the marks to add to the route for the groups of some servers.
    :ivar has_no_echo: whether members of some group do not get their own objects.
    :ivar is_plain: whether all groups are given the same frame, whoever sends them, and nobody else is given anything.
    :ivar topic: the topic that they are published on, if its subscribers are given batches; see :class:`Publisher`.
    :ivar opened: the flushes of the fan-out when its groups were opened, and (``opener``) for which sender.
    """

    said: int
    groups: tuple[Group, ...]
    marked: dict[Group, tuple[str, ...]]
    has_no_echo: bool
    is_plain: bool
    topic: Topic | None = None
    opened: int = -1
    opener: str | None = None


class RequestPlan(Struct, frozen=True):
    """The providers of a service that a plain request can be given to, each with its group.

    :ivar one_of: ``None``: such requests are not plain.
    :ivar generation: :attr:`Audience.generation` when it was made.
    """

    generation: int
    one_of: OneOf | None = None
    able: tuple[tuple[str, Group, Targets], ...] = ()


BatchPlans = dict[tuple[object, ...], BatchPlan]


class SourcePlans(Struct):
    """The plans of one source. Those for everybody are shared by all sources that are alike.

    :ivar provided: the services that the sender provides.
    :ivar generation: :attr:`Audience.generation` when that was looked at: there may be thousands to compare.
    :ivar tail: what ends metadata as it is forwarded, its NUL included.
    :ivar is_plain: whether there is one colon in it: the route has none.
    :ivar replies: ``None``: such replies are not plain.
    :ivar asks: some of ``requests`` by the keys of the compiled module; ``answers``: some of ``replies``, likewise.
    :ivar sender: the source as the compiled module takes it, with these ``limits``.
    """

    source: Source
    provided: Set[str]
    generation: int
    tail: bytes
    is_plain: bool
    everyone: BatchPlans
    requests: dict[tuple[str | None, bool, bytes, bytes], RequestPlan] = field(default_factory=dict)
    replies: dict[tuple[str | None, bool, str], Group | None] = field(default_factory=dict)
    asks: dict[bytes, RequestPlan] = field(default_factory=dict)
    answers: dict[tuple[bytes, str], Group] = field(default_factory=dict)
    limits: tuple[int, int, int] | None = None
    sender: Sender | None = None


class BatchRouter:
    """Routes batches.

    :param hosted_type: see :meth:`bussrv.bus.bus.Bus.hosted_type`.
    :param new_id: makes ids for objects that come without one; see :func:`bussrv.wire.forwarded.with_route`.
    :param longest: the most bytes of metadata that a linked server takes.
    """

    def __init__(
        self,
        parts: RoutingParts,
        *,
        hosted_type: Callable[[object], str | None],
        new_id: Callable[[], str],
        longest: int = max_relayed(MAX_METADATA),
    ) -> None:
        self._audience = parts.audience
        self._receivers = parts.receivers
        self._fanout = parts.fanout
        self._links = parts.links
        self._publisher = parts.publisher
        self._requests = parts.requests
        self._answerers = parts.answerers
        self._taps = parts.taps
        self._hosted_type = hosted_type
        self._new_id = new_id
        self._longest = longest
        self._tables: dict[int, SourcePlans] = self._audience.cache()
        self._shared: dict[Any, BatchPlans] = self._audience.cache()
        self._providers_asked = self._most_asked = 0
        self._now: float | None = None  # what the clock of the requests said in this batch

    @property
    def asked(self) -> int:
        """How many times a group was asked so far whether it wants a kind of object, or a provider."""
        return self._receivers.groups_asked + self._providers_asked

    def route_batch(self, source: Source, provided: Set[str], batch: Iterator[BusObject]) -> BusObject | None:
        """Route the objects of a batch, up to the first that has to be routed by itself.

        :param provided: the services that the sender provides.
        :returns: that object, taken from the batch but not routed; ``None`` at the end of the batch, and after an
            interruption: then go on with the rest of it, unless the sender is over a limit now.
        """
        table = self.plans_of(source, provided)
        taken: list[BusObject] | None = [] if self._taps.is_on else None
        try:
            left = self._route(table, batch if taken is None else _noted(batch, taken), taken is None)
        finally:
            self._publisher.flush_publications()
        if taken is not None:
            if left is not None:
                taken.pop()
            self._taps.saw_batch(source.origin, provided, taken, self._audience.others_of)
        return left

    def plans_of(self, source: Source, provided: Set[str]) -> SourcePlans:
        """The plans of a source for a batch that begins. They are right, except those of requests."""
        self._most_asked = self.asked + MOST_GROUPS_ASKED
        if len(self._tables) > MOST_TABLES:
            self._tables.clear()
            self._shared.clear()
        table, generation = self._tables.get(source.number), self._audience.generation
        if table is not None and table.generation != generation:
            table = table if table.provided == provided else None
        if table is not None:
            table.generation = generation
        else:
            tail, origin, provided = route_ending(source.route) + NUL, source.origin, frozenset(provided)
            alike = (source.cut > 1, provided, self._links.passed(origin.route), origin.permissions)
            plans = self._shared.setdefault(alike, {})
            is_plain = tail.count(b":") == 1
            table = self._tables[source.number] = SourcePlans(source, provided, generation, tail, is_plain, plans)
        return table

    def _route(self, table: SourcePlans, batch: Iterator[BusObject], exchanges: bool) -> BusObject | None:
        """Route objects; see :meth:`route_batch`.

        :param exchanges: whether requests and replies of a member may be routed here.
        """
        source, provided, plans, tail = table.source, table.provided, table.everyone, table.tail
        cut, new_id, fanout = source.cut, self._new_id, self._fanout
        exchanges = exchanges and source.origin.link is None
        made, asked_before, is_long = 0, self._receivers.groups_asked, False
        self._now = None
        for obj in batch:
            head = obj.head
            event = head.event
            if head.to is not None or (exchanges and event is not None and event in EXCHANGED):
                if exchanges and event in EXCHANGED and self._exchange(table, obj):
                    continue
                return obj
            key: tuple[object, ...] = (event, head.type, head.size > 0)
            if provided or head.natures:
                key = (*key, head.sender if provided else None, *(head.natures or ()))
            plan = plans.get(key)
            if plan is None:
                made += 1
                plan = self._plan(table, key, obj) if made <= MOST_NEW_PLANS else None
                if plan is None:
                    return obj
                is_long = self._receivers.groups_asked - asked_before > MOST_GROUPS_ASKED
            frame = plain_frame(obj, plan.said, cut, tail, new_id)
            frame = frame or encode(with_route(obj, source.route, new_id), obj.payload)
            if plan.is_plain and plan.opened == fanout.flushes:
                for group in plan.groups:
                    group.pending.append(frame)
            elif self._put(table, obj, frame, plan) or is_long:
                break  # The sender may be over a limit by now.
        return None

    def _put(self, table: SourcePlans, obj: BusObject, frame: bytes, plan: BatchPlan) -> bool:
        """Put an object on the lists of its groups, which are opened for it if they are not open.

        :returns: whether something had to be sent for that.
        """
        origin, fanout, sends = table.source.origin, self._fanout, False
        if table.provided:
            self._publish(obj, frame, plan, table.provided)
        if plan.opened != fanout.flushes or (plan.has_no_echo and plan.opener != origin.sender):
            sends = self.open(plan.groups, origin)
            plan.opened, plan.opener = fanout.flushes, origin.sender
        for group in plan.groups:
            if group not in plan.marked:
                group.pending.append(frame)
        if plan.marked:
            metadata = frame[: len(frame) - len(obj.payload) - 1]
            for group, marks in plan.marked.items():
                group.pending.append(encode(with_marks(metadata, origin.route, marks, self._longest), obj.payload))
        return sends

    def _publish(self, obj: BusObject, frame: bytes, plan: BatchPlan, provided: Set[str]) -> None:
        if plan.topic is not None:
            self._publisher.collect(plan.topic, obj.payload)
        else:
            self._publisher.publish(obj, frame, provided)

    def open(self, groups: Iterable[Group], origin: Origin) -> bool:
        """Make groups ready for the frames of one sender. :returns: whether something had to be sent for that."""
        sender = origin.sender
        sent = [self._fanout.open(group, sender if group.no_echo else None) for group in groups]
        return any(sent)

    # Objects for everybody.

    def everyone(self, obj: BusObject, origin: Origin, provided: Set[str]) -> Everyone | None:
        """Find who gets objects like this one; ``None``: they have to be routed by themselves, or denied."""
        plan = None if obj.head.event in PARTED else self._audience.plan_of_many(origin, obj, provided)
        if not isinstance(plan, Everyone) or any(group.encoding is not OBJECT_FRAMES for group in plan.groups):
            return None
        return plan

    def _plan(self, table: SourcePlans, key: tuple[object, ...], obj: BusObject) -> BatchPlan | None:
        """Find, and remember, the plan of objects like this one; ``None``: as :meth:`everyone` says."""
        head, source, plans = obj.head, table.source, table.everyone
        everyone = self.everyone(obj, source.origin, table.provided)
        if everyone is None:
            return None
        groups, marked, publication = everyone.groups, everyone.marked, everyone.publication
        has_no_echo = any(group.no_echo for group in groups)
        said = 1 + (head.event is not None) + (head.type is not None) + (head.size > 0) + bool(head.natures)
        plan = BatchPlan(
            said=said + (source.cut > 1),
            groups=groups,
            marked=marked,
            has_no_echo=has_no_echo,
            is_plain=not (has_no_echo or marked or table.provided),
            topic=None if publication is None else self._publisher.collects(publication),
        )
        if len(plans) >= MOST_PLANS:
            plans.clear()
        if sum(len(each) for each in key if isinstance(each, str)) <= LONGEST_KEY:
            plans[key] = plan
        return plan

    # Requests.

    def _exchange(self, table: SourcePlans, obj: BusObject) -> bool:
        """Give a request to the next provider, or a reply to the asker. :returns: whether it is plain, so it was given.

        The time is looked at once a batch.
        """
        if self._now is None:
            self._now = self._requests.seconds()
        return (self._ask if obj.head.event == REQUEST else self._answer)(table, obj, self._now)

    def _ask(self, table: SourcePlans, obj: BusObject, now: float) -> bool:
        """Give a request to the next provider. :returns: whether it is plain, so that it was given."""
        head = obj.head
        if head.id is UNSET or head.id is None or head.to is not None or head.natures or head.route:
            return False
        fields = decode_raw(obj.metadata)
        plan = self._plan_of_request(table, obj, fields)
        if plan is None or plan.one_of is None:
            return False
        provider, group, asked = plan.able[self._audience.next_of(plan.one_of)]
        origin = table.source.origin
        try:
            ask = self._requests.open_for_one(origin.sender, origin.route[0], head.id, fields["id"], asked, now)
        except OverLimit:
            return False
        self._audience.provider_round[plan.one_of.service] += 1
        frame = self._frame(table, obj, obj.metadata.count(b":") == len(fields))
        if ask.provider_id is not None:
            frame = encode(ask.as_shown(frame[: len(frame) - len(obj.payload) - 1]), obj.payload)
        self._fanout.add_frame_for_one(group, provider, frame)
        return True

    def request_plan(self, table: SourcePlans, obj: BusObject) -> RequestPlan | None:
        """The plan of requests like this one; ``None``: too much was asked for it, so it is to be found later."""
        return self._plan_of_request(table, obj, decode_raw(obj.metadata))

    def _plan_of_request(self, table: SourcePlans, obj: BusObject, fields: dict[str, Raw]) -> RequestPlan | None:
        head = obj.head
        name, service = fields.get("name", _NOTHING), fields.get("service", _NOTHING)
        key = (head.type, head.size > 0, bytes(name), bytes(service))
        plan = table.requests.get(key)
        if plan is None or plan.generation != self._audience.generation:
            plan = self._request_plan(table, key, obj)
        return plan

    def _request_plan(
        self, table: SourcePlans, key: tuple[str | None, bool, bytes, bytes], obj: BusObject
    ) -> RequestPlan | None:
        """Find, and remember, the plan of requests like this one.

        A plan takes a step for each provider and group. After many steps in one batch, requests without a plan are
        routed by themselves, so that the sender may have to wait for its next slice.
        """
        if self.asked > self._most_asked:
            return None
        plan = self._find(table.source.origin, obj)
        if len(table.requests) >= MOST_PLANS:
            table.requests.clear()
        if len(key[0] or "") + len(key[2]) + len(key[3]) <= LONGEST_KEY:
            table.requests[key] = plan
        return plan

    def _find(self, origin: Origin, obj: BusObject) -> RequestPlan:
        plan, generation = self._audience.plan_of_many(origin, obj, frozenset()), self._audience.generation
        if not isinstance(plan, OneOf):
            return RequestPlan(generation)
        self._providers_asked += len(plan.providers)
        if plan.is_observed or self._hosted_type(plan.service) is not None:
            return RequestPlan(generation)
        sessions = [provider.session for provider in plan.able if provider.link is None]
        groups = [group for each in sessions if (group := self._receivers.group_of(each)) is not None]
        if len(groups) < len(plan.able) or any(group.encoding is not OBJECT_FRAMES for group in groups):
            return RequestPlan(generation)
        targets = [self._requests.of_provider(each, plan.service) for each in sessions]
        return RequestPlan(generation, plan, tuple(zip(sessions, groups, targets, strict=True)))

    # Replies.

    def _answer(self, table: SourcePlans, obj: BusObject, now: float) -> bool:
        """Give a reply to the asker. :returns: whether it is plain, so that it was given."""
        head, origin = obj.head, table.source.origin
        fields = decode_raw(obj.metadata)
        # Nothing is plainly said twice, once the route is added. The router writes others anew.
        says_once = table.is_plain and obj.metadata.count(b":") == len(fields)
        if not says_once or head.id is None or head.natures or head.route:
            return False
        try:
            ask = self._audience.asked(origin, _decode(fields.get("in-reply-to", _NOTHING)), head.to, now)
        except msgspec.MsgspecError:
            return False
        if ask is None or ask.asked.session != origin.sender or ask.provider_id is not None or ask.asker.is_remote:
            return False
        asker = ask.asker.session
        group = self.reply_group(table, obj, asker)
        if group is None:
            return False
        self._requests.answered(ask)
        self._fanout.add_frame_for_one(group, asker, self._frame(table, obj, says_once))
        return True

    def reply_group(self, table: SourcePlans, obj: BusObject, asker: str) -> Group | None:
        """The group of the asker of replies like this one; ``None``: they are not plain."""
        key = (obj.head.type, obj.head.size > 0, asker)
        return table.replies[key] if key in table.replies else self._reply_plan(table, key, obj)

    def _reply_plan(self, table: SourcePlans, key: tuple[str | None, bool, str], obj: BusObject) -> Group | None:
        """Find, and remember, the group of the asker of replies like this one."""
        head, sender, asker = obj.head, table.source.origin.sender, key[2]
        is_sound = head.type or not head.size
        group = None
        if is_sound and self._audience.accepts(asker, sender, kind_of(obj)):
            self._answerers.replied(sender)
            group = self._receivers.group_of(asker)
        if group is not None and group.encoding is not OBJECT_FRAMES:
            group = None
        if len(table.replies) >= MOST_PLANS:
            table.replies.clear()
        if len(head.type or "") <= LONGEST_KEY:
            table.replies[key] = group
        return group

    def _frame(self, table: SourcePlans, obj: BusObject, says_once: bool) -> bytes:
        """The bytes of an object as it is forwarded.

        :param says_once: whether its metadata has as many colons as attributes, and so says nothing twice.
        """
        metadata = obj.metadata
        if says_once and metadata[-1] == _BRACE and metadata[-2] > _SPACE:
            if obj.head.id is not UNSET:
                return metadata[:-1] + table.tail + obj.payload
            return b'%b,"id":"%b"%b%b' % (metadata[:-1], self._new_id().encode(), table.tail, obj.payload)
        return encode(with_route(obj, table.source.route, self._new_id), obj.payload)


def _noted(batch: Iterator[BusObject], taken: list[BusObject]) -> Iterator[BusObject]:
    for obj in batch:
        taken.append(obj)
        yield obj
