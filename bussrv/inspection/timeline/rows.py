"""The records of one server that concern a client or a service, as rows: with its causes, and with names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from bussrv.incidents.vocabulary import address_of
from bussrv.inspection.timeline.causes import CLOSED, Causes, Turn
from bussrv.inspection.timeline.journals import Period
from bussrv.inspection.timeline.scan import Found, Place, Scan, Server
from bussrv.journal.record import Record

CONCERNS = CLIENT, SERVICE, WANTED, CAUSE = "client", "service", "wanted", "cause"
"""Why a record is in a timeline. The first of these that applies:

1. It is about the client.
2. It is about the service.
3. It is about a service that the client wants.
4. It is the cause of an end.
"""

OF_EVENT = (
    *("protocol", "session", "routing_id", "actor", "peer", "claimed", "method", "service", "reason", "suppressed"),
    *("limit", "value", "action", "target", "rule", "name", "role", "persistent", "home", "version", "message"),
    *("duration", "objects_in", "objects_out", "bytes_in", "bytes_out", "sessions_closed", "until", "expiry"),
    *("ahead", "doubt"),
)
"""The columns that are fields of events."""

EXPLAINED = (
    *("who", "about", "providers", "missing_since", "missing_until", "next_session", "next_who", "with_session"),
    *("crashed_after", "back_at", "link", "link_reason", "newcomer", "newcomer_who"),
    *("left_at", "absence_over", "resumed"),
)
"""The columns that explain a record."""

COLUMNS = ("server", "boot", "seq", "moment", "event", "outcome", *OF_EVENT, "interest", "concern", *EXPLAINED)

_NO_ROW = dict.fromkeys(COLUMNS)
_KNOWN_BY = ("routing_id", "actor", "claimed", "peer")
_NAMED = {"session": "who", "next_session": "next_who", "newcomer": "newcomer_who"}

Row = dict[str, Any]
Key = tuple[int, str, Place, str]
"""The place of a row: the latest time so far, the server, the place of its record, the service."""


class Rows:
    """The rows of one server. A record that changes the providers of several services has one for each of them.

    :param name: a service, or a name of a client.
    :param period: the time that is shown. Records outside of it may still explain others.
    """

    def __init__(self, scan: Scan, server: Server, name: str, period: Period) -> None:
        self._scan = scan
        self._found = server.found
        self._subjects = server.subjects
        self._name = name
        self._causes = Causes(server, name)
        chosen = self._concerned()
        # Causes of what is shown, but not of what is outside of the period.
        for at in [*self._behind(at for at in chosen if self._is_in(at, period))]:
            chosen.setdefault(at, CAUSE)
        self._shown = {at: concern for at, concern in chosen.items() if self._is_in(at, period)}
        self._order = sorted(chosen)
        self._who = self._known()

    def __iter__(self) -> Iterator[tuple[Key, Row]]:
        """The rows in the order of their records, also if the clock was set back. ``by_then`` is never set back."""
        by_then = 0
        for at in self._order:
            each = self._found[at]
            by_then = max(by_then, each.moment)
            record = self._scan.record(each) if at in self._shown else None
            if record is not None:
                for turn in sorted(self._causes.turns.get(at, ()), key=lambda turn: turn.about) or (None,):
                    about = "" if turn is None else turn.about
                    yield (by_then, each.server, each.place, about), self._row(at, record, turn)

    def is_open_before(self) -> bool:
        """Whether an earlier record than all of these may explain one that is shown."""
        return any(map(self._causes.is_open_before, self._shown))

    def is_open_after(self) -> bool:
        """Whether a later record than all of these may explain one that is shown."""
        return any(map(self._causes.is_open_after, self._shown))

    def _is_in(self, at: int, period: Period) -> bool:
        return period.holds(self._found[at].moment)

    def _concerned(self) -> dict[int, str]:
        """The indices of records that are about the client or the service, and why."""
        closings = {at if self._found[at].event == CLOSED else self._causes.closing(at) for at in self._causes.ends}
        chosen = {}
        for at, each in enumerate(self._found):
            if each.is_given:
                continue
            if each.session in self._subjects or (each.session is None and self._is_about_name(each)):
                chosen[at] = CLIENT
            elif each.service == self._name or at in closings:
                chosen[at] = SERVICE
            elif at in self._causes.missed:
                chosen[at] = WANTED
        return chosen

    def _behind(self, chosen: Iterable[int]) -> Iterator[int]:
        caused = [*chosen]
        yield from (down for at in caused if (down := self._causes.lost_link(at)) is not None)
        yield from self._causes.boots_behind(caused)

    def _is_about_name(self, each: Found) -> bool:
        names = each.names
        return self._name in (names.routing_id, names.actor, names.claimed, names.peer, address_of(names.peer))

    def _known(self) -> dict[str, Row]:
        """The names of the sessions that are shown, as the last records have them."""
        shown = {self._found[at].session for at in self._shown}
        shown |= {self._causes.newcomer(at) for at in self._shown}
        shown |= {turn.next_session for at in self._shown for turn in self._causes.turns.get(at, ())}
        known: dict[str, Row] = {}
        for each in self._found:
            if each.session is not None and each.session in shown:
                who = known.setdefault(each.session, dict.fromkeys(_KNOWN_BY))
                who.update({name: value for name in _KNOWN_BY if (value := getattr(each.names, name)) is not None})
        return known

    def _row(self, at: int, record: Record, turn: Turn | None) -> Row:
        row: Row = {**_NO_ROW, **_of_record(record), "event": self._found[at].event}
        row["concern"] = self._shown[at]
        row |= self._causes.explanation(at)
        if turn is not None:
            row |= {name: getattr(turn, name) for name in turn.__struct_fields__ if name != "is_on"}
        for session, name in _NAMED.items():
            row[name] = None if row[session] is None else self._who.get(row[session])
        if row["who"] is not None and row["peer"] is not None:
            # A durable session may have had several addresses.
            row["who"] = {**row["who"], "peer": row["peer"]}
        return row


def _of_record(record: Record) -> Row:
    event = record.event
    row: Row = {name: getattr(event, name, None) for name in OF_EVENT}
    row |= {"server": record.server, "boot": record.boot, "seq": record.seq, "moment": record.time}
    row = {name: None if value is UNSET else value for name, value in row.items()}
    interest = getattr(event, "interest", None)
    row |= {"outcome": event.OUTCOME, "interest": None if interest is None else msgspec.json.encode(interest).decode()}
    return row
