"""``/api/v1/closed`` and ``/api/v1/denied``: the latest closed sessions and the latest denials."""

from __future__ import annotations

from msgspec import Struct

from bussrv import events as ev
from bussrv.admin.http.call import Call
from bussrv.admin.registry.collections import Page, page_of
from bussrv.journal.record import Record, format_time


class ClosedItem(Struct, frozen=True, kw_only=True):
    """A session that was closed.

    :ivar duration: the length of the session in microseconds.
    :ivar objects_in: how many objects it sent.
    """

    time: str
    seq: int
    session: str | None
    protocol: str | None
    routing_id: str | None
    actor: str | None
    claimed: str | None
    peer: str | None
    reason: str | None
    duration: int
    objects_in: int
    objects_out: int
    bytes_in: int
    bytes_out: int


class DeniedItem(Struct, frozen=True, kw_only=True):
    """Something that a client was not allowed, or a failed login.

    :ivar event: ``access.denied`` or ``auth.failed``.
    :ivar suppressed: how many more of the kind were not journaled before it.
    """

    time: str
    seq: int
    event: str
    session: str | None
    routing_id: str | None
    actor: str | None
    claimed: str | None
    peer: str | None
    protocol: str | None
    action: str | None
    target: str | None
    rule: str | None
    reason: str | None
    suppressed: int


async def closed(call: Call) -> Page:
    """Sessions that were closed lately."""
    return await page_of(call, map(_closed_item, tuple(call.shared.closed)))


def _closed_item(record: Record) -> ClosedItem:
    event = record.event
    assert isinstance(event, ev.SessionClosed)
    return ClosedItem(
        time=format_time(record.time),
        seq=record.seq,
        session=event.session,
        protocol=event.protocol,
        routing_id=event.routing_id,
        actor=event.actor,
        claimed=event.claimed,
        peer=event.peer,
        reason=event.reason,
        duration=event.duration,
        objects_in=event.objects_in,
        objects_out=event.objects_out,
        bytes_in=event.bytes_in,
        bytes_out=event.bytes_out,
    )


async def denied(call: Call) -> Page:
    """The latest denials of permissions and failed logins."""
    return await page_of(call, map(_denied_item, tuple(call.shared.denied)))


def _denied_item(record: Record) -> DeniedItem:
    event = record.event
    access = event if isinstance(event, ev.AccessDenied) else None
    return DeniedItem(
        time=format_time(record.time),
        seq=record.seq,
        event=ev.event_name(event),
        session=event.session,
        routing_id=event.routing_id,
        actor=event.actor,
        claimed=event.claimed,
        peer=event.peer,
        protocol=event.protocol,
        action=None if access is None else access.action,
        target=None if access is None else access.target,
        rule=None if access is None else access.rule,
        reason=event.reason,
        suppressed=event.suppressed or 0,
    )
