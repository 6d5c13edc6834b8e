"""``/api/v1/incidents``: the incidents that are known, and taking note of one."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from bussrv import events as ev
from bussrv.admin.http.answers import Problem
from bussrv.admin.http.login import PROTOCOL
from bussrv.admin.http.routes import Call
from bussrv.admin.incidents.known import Known
from bussrv.admin.registry.collections import Page, page_of
from bussrv.errors import JournalUnavailable
from bussrv.incidents.judging import weight_of
from bussrv.incidents.words import kind_of, title, what_happened, what_to_do
from bussrv.journal.record import format_time

MOST_NOTE = 500
"""The most characters of a note."""


class IncidentItem(Struct, frozen=True, kw_only=True):
    """An incident.

    :ivar kind: ``guessing``, ``logins``, ``address``, ``crash``, ``identity``, ``takeover``, ``outage``, ``link``,
        ``clock`` or ``trouble``.
    :ivar weight: 3: grave; 2: serious; 1: minor.
    :ivar needs_look: whether nobody took note of it.
    :ivar over: whether nothing more of it happens.
    :ivar title: its heading, without names.
    :ivar what: the numbers in words. ``next``: what to do.
    :ivar since: when it began. ``until``: when something of it happened last.
    :ivar number: of refusals, failed logins, crashes, overlaps, returns, outages, or of times that a condition began.
    :ivar subject: the routing id, the session, the service, the other server, or the name of the check.
    :ivar claimed: the user that clients claimed to be. ``actor``: the user that they proved to be.
    :ivar sources: some of the addresses of failed logins as one user.
    :ivar first_seq: the number of its first record, if that is known.
    :ivar noted_by: the user who took note of it, or else the address. ``noted_at``: when.
    :ivar note: a few words of that user.
    """

    id: str
    kind: str
    weight: int
    needs_look: bool
    over: bool
    title: str
    what: str
    next: str
    since: str | None
    until: str | None
    number: int
    server: str | None
    address: str | None
    subject: str | None
    claimed: str | None
    actor: str | None
    sources: tuple[str, ...]
    first_seq: int | None
    noted_by: str | None
    noted_at: str | None
    note: str | None


class Acknowledgement(Struct, frozen=True):
    """The body of a request that takes note.

    :ivar note: a few words for others.
    """

    note: Annotated[str, Meta(max_length=MOST_NOTE)] | None = None


def item(known: Known) -> IncidentItem:
    """An incident, as it is shown and told to others."""
    row, note = known.row, known.note
    return IncidentItem(
        id=known.id,
        kind=kind_of(row),
        weight=weight_of(row),
        needs_look=known.needs_look,
        over=known.is_over,
        title=title(row).replace("\N{NO-BREAK SPACE}", " "),
        what=what_happened(row).replace("\N{NO-BREAK SPACE}", " "),
        next=what_to_do(row),
        since=_moment(row.begin),
        until=_moment(row.end),
        number=row.number,
        server=row.server,
        address=row.address,
        subject=row.subject,
        claimed=row.claimed,
        actor=row.actor,
        sources=row.sources,
        first_seq=row.first_seq,
        noted_by=None if note is None else note.actor or note.peer,
        noted_at=None if note is None else _moment(note.time),
        note=None if note is None else note.note,
    )


def _moment(micros: int | None) -> str | None:
    return None if micros is None else format_time(micros)


async def list_all(call: Call) -> Page:
    """The incidents that are known, of the last hours, and of before the start as far as the journal was read."""
    return await page_of(call, map(item, call.server.incidents))


async def acknowledge(call: Call) -> IncidentItem:
    """Take note of an incident: it does not need a look any more. The journal has who did so.

    :raises Problem: ``no-such-incident`` or ``journal-unavailable``.
    """
    known = call.server.incidents.get(call.path["incident"])
    if known is None:
        raise Problem("no-such-incident")
    event = ev.IncidentAcknowledged(
        protocol=PROTOCOL,
        actor=call.caller.actor,
        peer=call.caller.peer,
        incident=known.id,
        kind=kind_of(known.row),
        since=known.row.begin or 0,
        note=call.body.note or None,
    )
    try:
        await call.server.write(event)
    except JournalUnavailable as error:
        raise Problem("journal-unavailable", error.message, {"Retry-After": "5"}) from error
    return item(known)
