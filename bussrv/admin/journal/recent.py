"""``/api/v1/closed`` and ``/api/v1/denied``: the latest closed sessions and the latest denials."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct

from bussrv.admin.http.routes import Call
from bussrv.admin.registry.collections import Page, page_of, those_called
from bussrv.events import event_name
from bussrv.journal.record import Record, format_time

Item = TypeVar("Item", bound=Struct)


class ClosedItem(Struct, frozen=True, kw_only=True):
    """A session that was closed.

    :ivar name: the program that its client said it is.
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
    name: str | None
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
    """Sessions that were closed lately, the last one first."""
    items = (_item(ClosedItem, each, name=name) for each, name in tuple(call.shared.closed))
    return await page_of(call, those_called(call, items))


async def denied(call: Call) -> Page:
    """The latest denials of permissions and failed logins, the last one first."""
    return await page_of(call, those_called(call, map(_denied, tuple(call.shared.denied))))


def _denied(record: Record) -> DeniedItem:
    event = record.event
    return _item(DeniedItem, record, event=event_name(event), suppressed=event.suppressed or 0)


def _item(kind: type[Item], record: Record, **own: Any) -> Item:
    """The fields of an item, taken from a record. The fields of its event have the same names."""
    fields = {name: getattr(record.event, name, None) for name in kind.__struct_fields__}
    return kind(**{**fields, "time": format_time(record.time), "seq": record.seq, **own})
