"""The timeline of a client or a service, as a plain program tells it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bussrv.events import event_name
from bussrv.journal.record import Record
from tests.audit.oracles.address import address_of

PROVIDES = {"service.registered": True, "service.unregistered": False}
WANTS = {"subscription.added": True, "subscription.removed": False}
BETWEEN = {"service.unregistered", "subscription.removed", "link.down"}
CAUSES = {"server.stopped": "server-stopped", "server.started": "server-crashed", "server.recovered": "server-crashed"}


def is_of_client(record: Record, name: str) -> bool:
    event = record.event
    names = (event.session, event.routing_id, event.actor, event.claimed, event.peer, address_of(event.peer))
    said = (*getattr(event, "routing_ids", ()), getattr(event, "name", None))
    return name in names or name in said


def timeline(records: Sequence[Record], name: str) -> list[dict[str, Any]]:
    """The timeline of one server: numbers of records, and what explains them."""
    return _Story(records, name).rows()


class _Story:
    def __init__(self, records: Sequence[Record], name: str) -> None:
        self.records = records
        self.name = name
        self.kinds = [event_name(each.event) for each in records]
        self.subjects = {each.event.session for each in records if each.event.session and is_of_client(each, name)}
        named = {each.event.service for each in records if each.event.session in self.subjects}
        self.services = {*named, name} - {None}
        self.turned: dict[int, list[dict[str, Any]]] = {}
        self.ends: set[int] = set()
        self.missed: set[int] = set()
        self._simulate()

    def _simulate(self) -> None:
        provided: dict[str, list[str]] = {}
        wanted: dict[str, list[str]] = {}
        last: dict[str, tuple[int, dict[str, Any]]] = {}
        for index, each in enumerate(self.records):
            kind, session, service = self.kinds[index], each.event.session or "", each.event.service
            for held, what in ((provided, PROVIDES), (wanted, WANTS)):
                if kind == "session.closed":
                    steps = [(about, False) for about in held if session in held[about]]
                elif kind in what and service in self.services:
                    steps = [(str(service), what[kind])]
                else:
                    steps = []
                for about, is_on in steps:
                    sessions = held.setdefault(about, [])
                    if (session in sessions) == is_on:
                        continue
                    (sessions.append if is_on else sessions.remove)(session)
                    if not is_on and about == self.name:
                        self.ends.add(index)
                    if held is provided:
                        self._turn(index, about, is_on, provided, wanted, last)

    def _turn(
        self,
        index: int,
        about: str,
        is_on: bool,
        provided: dict[str, list[str]],
        wanted: dict[str, list[str]],
        last: dict[str, tuple[int, dict[str, Any]]],
    ) -> None:
        each, count = self.records[index], len(provided[about])
        row: dict[str, Any] = {"about": about, "providers": count}
        before = last.get(about)
        if is_on and count == 1 and before is not None:
            row["missing_since"] = before[0]
            before[1].update(missing_until=each.time, next_session=each.event.session)
        last[about] = each.time, row
        self.turned.setdefault(index, []).append(row)
        is_turn = count == int(is_on)
        if is_turn and each.event.session not in self.subjects and self.subjects & {*wanted.get(about, ())}:
            self.missed.add(index)

    def _following(self, index: int) -> int | None:
        session = self.records[index].event.session
        for later in range(index + 1, len(self.records)):
            if self.records[later].event.session == session and self.kinds[later] not in BETWEEN:
                return later
        return None

    def _closing(self, index: int) -> int | None:
        """The closing that the end of a service or a subscription is due to."""
        reason, later = self.records[index].event.reason, self._following(index)
        if self.kinds[index] not in BETWEEN - {"link.down"} or later is None or reason is None:
            return None
        return later if self.kinds[later] == "session.closed" and self.records[later].event.reason == reason else None

    def _concerns(self) -> dict[int, str]:
        found: dict[int, str] = {}
        closings = {index if self.kinds[index] == "session.closed" else self._closing(index) for index in self.ends}
        for index, each in enumerate(self.records):
            event = each.event
            if event.session in self.subjects or (event.session is None and is_of_client(each, self.name)):
                found[index] = "client"
            elif event.service == self.name or index in closings:
                found[index] = "service"
            elif index in self.missed:
                found[index] = "wanted"
        for index in list(found):
            for cause in self._causes(index):
                found.setdefault(cause, "cause")
        return found

    def _causes(self, index: int) -> list[int]:
        each = self.records[index]
        if each.event.reason == "link-lost":
            down = self._down(index)
            return [] if down is None else [down]
        return [
            other
            for other, kind in enumerate(self.kinds)
            if kind in CAUSES and CAUSES[kind] == each.event.reason and self.records[other].boot == each.boot
        ]

    def _down(self, index: int) -> int | None:
        for other in range(index, -1, -1):
            if self.kinds[other] == "link.down" and self.records[other].boot == self.records[index].boot:
                return other
        return None

    def _taker(self, index: int) -> str | None:
        event = self.records[index].event
        for later in range(index + 1, len(self.records)):
            other = self.records[later].event
            is_name = self.kinds[later] in {"session.opened", "session.identified"}
            if event.routing_id is not None and is_name and other.routing_id == event.routing_id:
                return None if other.session in {event.session, None} else other.session
        return None

    def _crash(self, index: int) -> tuple[int, int] | None:
        boot = self.records[index].boot
        first = next(each for each in self.records if each.boot == boot)
        before = [n for n, each in enumerate(self.records) if each.seq < first.seq]
        if not before or before[-1] < 0:
            return None
        last = self.records[before[-1]]
        stopped = any(self.kinds[n] == "server.stopped" and self.records[n].boot == last.boot for n in before)
        return None if stopped else (last.time, first.time)

    def _absence(self, index: int) -> dict[str, Any]:
        """What explains that a client left or came back."""
        session, kind = self.records[index].event.session, self.kinds[index]
        mine = [other for other, each in enumerate(self.records) if each.event.session == session]
        if kind == "session.resumed":
            left = [self.records[other].time for other in mine if other < index and self.kinds[other] == "session.left"]
            return {"left_at": left[-1] if left else None}
        if kind != "session.left":
            return {}
        ends = [other for other in mine if other > index and self.kinds[other] in {"session.resumed", "session.closed"}]
        if not ends:
            return {}
        return {"absence_over": self.records[ends[0]].time, "resumed": self.kinds[ends[0]] == "session.resumed"}

    def rows(self) -> list[dict[str, Any]]:
        rows = []
        for index, concern in self._concerns().items():
            row = {**self._row(index), "concern": concern}
            rows += [{**row, **turned} for turned in self.turned.get(index, [{}])]
        return rows

    def _row(self, index: int) -> dict[str, Any]:
        each, kind, reason = self.records[index], self.kinds[index], self.records[index].event.reason
        row: dict[str, Any] = {"server": each.server, "seq": each.seq, "event": kind}
        if kind in {"service.unregistered", "subscription.removed"}:
            row["with_session"] = self._closing(index) is not None
        crash = self._crash(index) if reason == "server-crashed" or CAUSES.get(kind) == "server-crashed" else None
        if crash is not None:
            row["crashed_after"], row["back_at"] = crash
        down = self._down(index) if reason == "link-lost" else None
        if down is not None:
            row["link"], row["link_reason"] = self.records[down].event.routing_id, self.records[down].event.reason
        row |= self._absence(index)
        if reason == "replaced" and kind != "subscription.removed":
            row["newcomer"] = self._taker(index)
        return {name: value for name, value in row.items() if value is not None}
