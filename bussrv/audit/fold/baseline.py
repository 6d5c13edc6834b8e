"""The baseline: the registry before the first record of a server, as records.

Each segment begins with a snapshot of the registry. That of the first one stands for older segments, which are removed
or left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from bussrv.audit.fold.lines import LINES, FoldLine
from bussrv.journal.header import Part
from bussrv.journal.versions import FIRST_WITH_CLAIMS, PROVING

_ABOUT = ("protocol", "routing_id", "peer", "actor", "claimed")


class _Away(Struct):
    since: int
    until: int


class _Session(Struct):
    id: str
    opened: int
    protocol: str | None = None
    routing_id: str | None = None
    peer: str | None = None
    persistent: bool | None = None
    home: str | None = None
    routing_ids: tuple[str, ...] = ()
    actor: str | None = None
    claimed: str | None = None
    name: str | None = None
    role: str | None = None
    vocabulary: str | None = None
    expiry: int | None = None
    away: _Away | None = None

    def about(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _ABOUT}

    def is_identified(self) -> bool:
        told = (self.actor, self.claimed, self.name, self.role, self.vocabulary)
        return bool(self.routing_ids) or any(each is not None for each in told)


class _Subscription(Struct):
    session: str
    added: int
    service: str | None = None
    renewed: int | None = None


class _State(Struct):
    sessions: list[_Session] = []
    services: dict[str, dict[str, int]] = {}
    subscriptions: list[_Subscription] = []


_decode = msgspec.json.Decoder(_State).decode


def baseline(parts: Sequence[Part], server: str, number: int) -> list[tuple[FoldLine, int]]:
    """The registry before segment ``number``, as records with their times, in order.

    They have the number before the first record, and the times of the original changes.
    """
    states = []
    for part in parts:
        with suppress(msgspec.DecodeError):
            state = _decode(part.state)
            for session in state.sessions:
                _of_today(session, part.version)
            states.append(state)
    rows = [row for state in states for row in _sessions(state)]
    about = {session.id: session.about() for state in states for session in state.sessions}
    rows += [row for state in states for row in _services(state, about)]
    found = [(_record(server, number - 1, rank, event, fields), moment) for event, rank, moment, fields in rows]
    return sorted(found, key=lambda row: (row[1], row[0].mono))


def _of_today(session: _Session, version: int) -> None:
    if version >= FIRST_WITH_CLAIMS:
        return
    if session.protocol == PROVING:
        session.claimed = None
    else:
        session.actor, session.claimed = None, session.actor


_Row = tuple[str, int, int, dict[str, Any]]


def _sessions(state: _State) -> Iterator[_Row]:
    for each in state.sessions:
        about = {"session": each.id, **each.about()}
        own = {"persistent": each.persistent, "expiry": each.expiry, "home": each.home}
        yield "session.opened", 0, each.opened, {**about, "actor": None, "claimed": None, **own}
        if each.is_identified():
            yield "session.identified", 1, each.opened, {**about, "name": each.name, "role": each.role}
        if each.away is not None:
            yield "session.left", 5, each.away.since, {**about, "until": each.away.until}


def _services(state: _State, about: dict[str, dict[str, Any]]) -> Iterator[_Row]:
    for service, providers in state.services.items():
        for session, since in providers.items():
            fields = {**about.get(session, {}), "session": session, "service": service}
            yield "service.registered", 2, since, fields
    for each in state.subscriptions:
        fields = {**about.get(each.session, {}), "session": each.session, "service": each.service}
        yield "subscription.added", 3, each.added, fields
        if each.renewed is not None and each.renewed > each.added:
            yield "subscription.renewed", 4, each.renewed, fields


def _record(server: str, seq: int, rank: int, event: str, fields: dict[str, Any]) -> FoldLine:
    stamp: dict[str, Any] = {"v": FIRST_WITH_CLAIMS, "prev": "", "time": "", "outcome": "ok", "boot": ""}
    return LINES[event](seq=seq, mono=rank, server=server, **stamp, **fields)
