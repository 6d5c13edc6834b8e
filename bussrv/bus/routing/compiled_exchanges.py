"""Plain requests and replies are routed by the compiled module, without being read one by one.

The compiled module reads the requests and replies at the beginning of a chunk. Of each it makes the bytes that are
forwarded, the id by which the open request is found, and a key: what its plan depends on. It stops at an object that is
anything else, or unusual. The plans are those of :mod:`bussrv.bus.routing.batch`, which also says what is plain, and
routes everything that is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bussrv.bus.origins import Source
from bussrv.bus.routing.batch import MOST_PLANS, BatchRouter, RequestPlan, SourcePlans
from bussrv.bus.routing.object_ids import ObjectIds
from bussrv.bus.routing.parts import RoutingParts
from bussrv.compiled import SPEEDUPS
from bussrv.errors import OverLimit
from bussrv.registry.changes.registry import Registry
from bussrv.wire.objects import NUL, BusObject, read_head

if TYPE_CHECKING:
    from bussrv._speedups import Sender

Limits = tuple[int, int, int]
"""As :attr:`bussrv.wire.objects.ObjectReader.limits`."""

Exchange = tuple[bool, str, bytes, bytes, str | None, bool, int]
"""A request or reply as the compiled module returns it: whether it is a reply, the id of the request, what its plan
depends on, its frame, its addressee, whether an id was made for it, and the place after it."""


class CompiledExchanges:
    """Routes the plain requests and replies of members, while no tap is open."""

    def __init__(self, parts: RoutingParts, *, registry: Registry, batches: BatchRouter, ids: ObjectIds) -> None:
        self._state = registry.state
        self._audience = parts.audience
        self._fanout = parts.fanout
        self._requests = parts.requests
        self._taps = parts.taps
        self._batches = batches
        self._ids = ids

    def route_chunk(self, source: Source, data: bytes, limits: Limits) -> tuple[int, int]:
        """Route what is plain at the beginning of a chunk of a member.

        :param source: the member.
        :returns: the place after it, and how many objects it was.
        """
        if SPEEDUPS is None or self._taps.is_on:
            return 0, 0
        table = self._batches.plans_of(source, self._state.provided_by(source.origin.sender))
        if not table.is_plain or source.cut > 1:
            return 0, 0
        now, ids, end, count = self._requests.seconds(), self._ids, 0, 0
        for exchange in SPEEDUPS.exchanges(self._sender(table, limits), data, ids.made):
            is_reply, _, _, _, _, makes_id, after = exchange
            if not (self._answer if is_reply else self._ask)(table, exchange, now, data, end):
                break
            ids.made += makes_id
            end, count = after, count + 1
        return end, count

    def _sender(self, table: SourcePlans, limits: Limits) -> Sender:
        """The sender as the compiled module takes it."""
        if table.sender is None or table.limits is not limits:
            assert SPEEDUPS is not None
            ids = self._ids
            table.limits, table.sender = limits, SPEEDUPS.Sender(limits, table.tail, ids.opening, ids.digits, None)
        return table.sender

    def _ask(self, table: SourcePlans, exchange: Exchange, now: float, data: bytes, begin: int) -> bool:
        """Give a request to the next provider. :returns: whether it is plain, so that it was given."""
        _, key, about, frame, _, _, _ = exchange
        audience, plan = self._audience, table.asks.get(about)
        if plan is None or plan.generation != audience.generation:
            plan = self._plan(table, about, data, begin)
        if plan is None or plan.one_of is None:
            return False
        origin, (provider, group, asked) = table.source.origin, plan.able[audience.next_of(plan.one_of)]
        try:
            ask = self._requests.open_plain(origin.sender, origin.route[0], key, asked, now)
        except OverLimit:
            return False
        if ask is None:
            return False
        audience.provider_round[plan.one_of.service] += 1
        self._fanout.add_frame_for_one(group, provider, frame)
        return True

    def _plan(self, table: SourcePlans, about: bytes, data: bytes, begin: int) -> RequestPlan | None:
        plan = self._batches.request_plan(table, _read(data, begin))
        if plan is not None:
            if len(table.asks) >= MOST_PLANS:
                table.asks.clear()
            table.asks[about] = plan
        return plan

    def _answer(self, table: SourcePlans, exchange: Exchange, now: float, data: bytes, begin: int) -> bool:
        """Give a reply to the asker. :returns: whether it is plain, so that it was given."""
        _, key, about, frame, to, _, _ = exchange
        ask = self._requests.given_plain(table.source.origin.sender, key, now)
        if ask is None or (to is not None and to != ask.routing_id) or ask.asker.session not in self._state.sessions:
            return False
        asker = ask.asker.session
        answers = table.answers
        group = answers.get((about, asker)) or self._batches.reply_group(table, _read(data, begin), asker)
        if group is None:
            return False
        if len(answers) >= MOST_PLANS:
            answers.clear()
        answers[about, asker] = group
        self._requests.answered(ask)
        self._fanout.add_frame_for_one(group, asker, frame)
        return True


def _read(data: bytes, begin: int) -> BusObject:
    """An object without its payload."""
    metadata = data[begin : data.index(NUL, begin)]
    return BusObject(metadata, read_head(metadata))
