"""Requests and replies that one session sent at once, routed by plans.

Who can be given a request depends on its sender, on the service, and on the attributes that interests look at. So it is
found once for all requests that are alike in this: they share a *plan*. Replies share one for each asker. A plan is
right until the audience or the services change.

Most exchanges are plain: a client asks a service whose providers are clients of this server, nobody observes requests,
and a provider answers under the id that it was given. Everything else is routed by :mod:`bussrv.bus.routing.single`,
which says what is right: a request that is refused, too, since nothing is counted or changed here before all is
certain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from itertools import chain

import msgspec
from msgspec import UNSET, Raw, Struct, field

from bussrv.bus.groups.fanout import OBJECT_FRAMES, Fanout, Group
from bussrv.bus.groups.receivers import Receivers
from bussrv.bus.interest.interests import Kind, kind_of
from bussrv.bus.interest.vocabulary import EXCHANGED, REQUEST
from bussrv.bus.origins import Source
from bussrv.bus.requests.answerers import Answerers
from bussrv.bus.requests.open_requests import OpenRequests
from bussrv.bus.requests.records import Targets
from bussrv.bus.routing.batch import BatchRouter
from bussrv.bus.routing.recipients import Recipients
from bussrv.bus.routing.single import SingleRouter
from bussrv.bus.send_rights import SendRights
from bussrv.bus.taps.taps import Taps
from bussrv.errors import OverLimit
from bussrv.registry.changes.registry import Registry
from bussrv.wire.forwarded import route_ending, with_route, with_value
from bussrv.wire.objects import NUL, BusObject, decode_raw, encode, encode_json

MOST_TABLES = 1024
"""The most sessions whose plans are remembered. Beyond it all are forgotten."""

MOST_PLANS = 256
"""The most plans of one session. Beyond it all of them are forgotten."""

MOST_ASKED = 64
"""A new plan takes a step for each provider and group. After more steps than this in one batch, requests without a plan
are routed by themselves, so that the sender may have to wait for its next slice."""

LONGEST_KEY = 1024
"""The most characters of a key that is remembered. Senders determine its length."""

_NOTHING = Raw(b"")
_decode = msgspec.json.Decoder(str | int).decode
_BRACE, _SPACE = b"} "


class _Plan(Struct, frozen=True):
    """The providers of a service that a request can be given to, each with its group."""

    service: str
    able: tuple[tuple[str, Group, Targets], ...]


class _Table(Struct):
    """The plans of one session. Requests and replies without one are not plain.

    :ivar tail: what ends metadata as it is forwarded, its NUL included.
    :ivar is_plain: whether there is one colon in it: the route has none.
    """

    source: Source
    tail: bytes
    is_plain: bool
    requests: dict[tuple[str | None, bool, bytes, bytes], _Plan | None] = field(default_factory=dict)
    replies: dict[tuple[str | None, bool, str], Group | None] = field(default_factory=dict)


class RequestBatchRouter:
    """Routes batches: plain exchanges here, other objects as ``batches`` does.

    :param hosted_type: see :meth:`bussrv.bus.bus.Bus.hosted_type`.
    :param ids: makes ids for replies that come without one.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        receivers: Receivers,
        recipients: Recipients,
        fanout: Fanout,
        requests: OpenRequests,
        answerers: Answerers,
        router: SingleRouter,
        judge: SendRights,
        batches: BatchRouter,
        taps: Taps,
        hosted_type: Callable[[object], str | None],
        ids: Callable[[], str],
    ) -> None:
        self._state = registry.state
        self._receivers = receivers
        self._recipients = recipients
        self._fanout = fanout
        self._requests = requests
        self._answerers = answerers
        self._router = router
        self._judge = judge
        self._batches = batches
        self._taps = taps
        self._hosted_type = hosted_type
        self._ids = ids
        self._tables: dict[int, _Table] = {}
        fanout.audience_caches.append(self._tables)
        self._made_at = -1
        self._steps = self._most_steps = 0

    def route(self, source: Source, provided: Set[str], batch: Iterator[BusObject]) -> BusObject | None:
        """Route a batch, up to the first object that has to be routed by itself; see :meth:`BatchRouter.route`."""
        obj = self._batches.route(source, provided, batch)
        while obj is not None and obj.head.event in EXCHANGED and not self._taps.is_on:
            obj = self._exchange(source, obj, batch)
            if obj is None or obj.head.event in EXCHANGED:
                return obj
            obj = self._batches.route(source, provided, chain((obj,), batch))
        return obj

    def _exchange(self, source: Source, obj: BusObject | None, batch: Iterator[BusObject]) -> BusObject | None:
        """Route plain exchanges. :returns: the first object of the batch that is none."""
        table = self._table(source)
        now = self._requests.seconds()
        self._most_steps = self._steps + self._receivers.groups_asked + MOST_ASKED
        while obj is not None and obj.head.event in EXCHANGED:
            give = self._ask if obj.head.event == REQUEST else self._answer
            if not give(table, obj, now):
                return obj
            obj = next(batch, None)
        return obj

    def _table(self, source: Source) -> _Table:
        changes = self._state.service_changes
        if changes != self._made_at or len(self._tables) > MOST_TABLES:
            self._made_at = changes
            self._tables.clear()
        table = self._tables.get(source.number)
        if table is None:
            tail = route_ending(source.route) + NUL
            table = self._tables[source.number] = _Table(source, tail, tail.count(b":") == 1)
        return table

    # Requests.

    def _ask(self, table: _Table, obj: BusObject, now: float) -> bool:
        """Give a request to the next provider. :returns: whether it is plain, so that it was given."""
        head = obj.head
        if head.id is UNSET or head.id is None or head.to is not None or head.natures or head.route:
            return False
        fields = decode_raw(obj.metadata)
        name, service = fields.get("name", _NOTHING), fields.get("service", _NOTHING)
        key = (head.type, head.size > 0, bytes(name), bytes(service))
        plan = table.requests[key] if key in table.requests else self._plan(table, key, obj)
        if plan is None:
            return False
        turns = self._router.turns
        turn = turns[plan.service]
        provider, group, asked = plan.able[turn % len(plan.able)]
        origin = table.source.origin
        try:
            ask = self._requests.open_for_one(origin.sender, origin.route[0], head.id, fields["id"], asked, now)
        except OverLimit:
            return False
        turns[plan.service] = turn + 1
        frame = self._frame(table, obj, obj.metadata.count(b":") == len(fields))
        if ask.shown is not None:
            metadata = frame[: len(frame) - len(obj.payload) - 1]
            frame = encode(with_value(metadata, "id", encode_json(ask.shown)), obj.payload)
        self._fanout.add_frame_for_one(group, provider, frame)
        return True

    def _plan(self, table: _Table, key: tuple[str | None, bool, bytes, bytes], obj: BusObject) -> _Plan | None:
        """Find, and remember, the plan of requests like this one."""
        if self._steps + self._receivers.groups_asked > self._most_steps:
            return None
        plan = self._find(table.source, obj)
        if len(table.requests) >= MOST_PLANS:
            table.requests.clear()
        if len(key[0] or "") + len(key[2]) + len(key[3]) <= LONGEST_KEY:
            table.requests[key] = plan
        return plan

    def _find(self, source: Source, obj: BusObject) -> _Plan | None:
        head, origin, fields = obj.head, source.origin, obj.fields()
        service, kind = fields.get("name", fields.get("service")), kind_of(obj)
        providers = self._state.services.get(service) if isinstance(service, str) else None
        if (
            not isinstance(service, str)
            or not providers
            or self._hosted_type(service) is not None
            or (head.size and not head.type)
        ):
            return None
        if not self._judge.may_send(origin, obj, kind) or self._is_observed(kind, providers.keys()):
            return None
        if any(self._state.sessions[provider].home is not None for provider in providers):
            return None
        able = []
        self._steps += len(providers)
        for provider in providers:
            group = self._group(provider, origin.sender, kind)
            if group is not None:
                able.append((provider, group, self._requests.of_provider(provider, service)))
        are_framed = all(group.encoding is OBJECT_FRAMES for _, group, _ in able)
        return _Plan(service, tuple(able)) if able and are_framed else None

    def _is_observed(self, kind: Kind, providers: Set[str]) -> bool:
        """Whether others than the providers want requests."""
        return any(not group.links.keys() <= providers for group in self._receivers.wanting(kind))

    def _group(self, session_id: str, sender: str, kind: Kind) -> Group | None:
        """The group of a member; ``None`` if it does not take such objects that are for it alone."""
        if not self._recipients.accepts(session_id, sender, kind):
            return None
        return self._receivers.group_of(session_id)

    # Replies.

    def _answer(self, table: _Table, obj: BusObject, now: float) -> bool:
        """Give a reply to the asker. :returns: whether it is plain, so that it was given."""
        head, sender = obj.head, table.source.origin.sender
        fields = decode_raw(obj.metadata)
        # Nothing is plainly said twice, once the route is added. The router writes others anew.
        says_once = table.is_plain and obj.metadata.count(b":") == len(fields)
        if not says_once or head.id is None or head.natures or head.route:
            return False
        try:
            ask = self._requests.given(sender, _decode(fields.get("in-reply-to", _NOTHING)), now)
        except msgspec.MsgspecError:
            return False
        if ask is None or ask.asked.session != sender or ask.shown is not None or ask.asker.is_remote:
            return False
        asker = ask.asker.session
        if head.to not in (None, ask.routing_id) or asker not in self._state.sessions:
            return False
        key = (head.type, head.size > 0, asker)
        group = table.replies[key] if key in table.replies else self._reply_plan(table, key, obj)
        if group is None:
            return False
        self._requests.answered(ask)
        self._fanout.add_frame_for_one(group, asker, self._frame(table, obj, says_once))
        return True

    def _reply_plan(self, table: _Table, key: tuple[str | None, bool, str], obj: BusObject) -> Group | None:
        """Find, and remember, the group of the asker of replies like this one."""
        head = obj.head
        is_sound = head.type or not head.size
        sender = table.source.origin.sender
        group = self._group(key[2], sender, kind_of(obj)) if is_sound else None
        if group is not None:
            self._answerers.replied(sender)
        if group is not None and group.encoding is not OBJECT_FRAMES:
            group = None
        if len(table.replies) >= MOST_PLANS:
            table.replies.clear()
        if len(head.type or "") <= LONGEST_KEY:
            table.replies[key] = group
        return group

    def _frame(self, table: _Table, obj: BusObject, says_once: bool) -> bytes:
        """The bytes of an object as it is forwarded.

        :param says_once: whether its metadata has as many colons as attributes, and so says nothing twice.
        """
        metadata = obj.metadata
        if says_once and metadata[-1] == _BRACE and metadata[-2] > _SPACE:
            if obj.head.id is not UNSET:
                return metadata[:-1] + table.tail + obj.payload
            return b'%b,"id":"%b"%b%b' % (metadata[:-1], self._ids().encode(), table.tail, obj.payload)
        return encode(with_route(obj, table.source.route, self._ids), obj.payload)
