"""The registry at a moment, for people: tables of sessions, services and subscriptions."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bussrv.cli.show import output
from bussrv.registry.state.naming import called, natural

if TYPE_CHECKING:
    from bussrv.registry.state.session import Session, Subscription
    from bussrv.registry.state.snapshot import Snapshot


LESS = ("PEER", "WANTS", "ADDED", "OPENED", "HOME", "AWAY", "ROUTING ID")
"""Columns that are left out on a narrow terminal, the last one first."""


def show(by_server: Mapping[str, Snapshot]) -> None:
    """Print the registry of each server."""
    for index, (server, found) in enumerate(by_server.items()):
        if index:
            output.line("")
        output.line(f"{server} after record {found.seq}:")
        _show(found)


def _show(found: Snapshot) -> None:
    away = ("AWAY",) if any(each.is_away for each in found.sessions) else ()
    names = _names(found)
    for title, headings, rows in (
        (
            "sessions",
            ("CLIENT", "SESSION", "FORMAT", "PEER", "OPENED", "HOME", *away, "ROUTING ID"),
            [_session(each, names, [_away(each) for _ in away]) for each in found.sessions],
        ),
        (
            "services",
            ("SERVICE", "PROVIDERS", "SESSIONS"),
            [(name, [names[each] for each in providers], providers) for name, providers in _sorted(found)],
        ),
        (
            "subscriptions",
            ("SERVICE", "CLIENT", "SESSION", "ADDED", "WANTS"),
            [_subscription(each, names[each.session]) for each in found.subscriptions],
        ),
    ):
        output.line("")
        output.line(f"{len(rows)} {title if len(rows) != 1 else title[:-1]}")
        if rows:
            output.table(headings, rows, less=LESS)


def _sorted(found: Snapshot) -> list[tuple[str, list[str]]]:
    return sorted(found.services.items(), key=lambda each: natural(each[0]))


def _names(found: Snapshot) -> dict[str, str]:
    """What a person calls each session, by its id."""
    provides = defaultdict[str, list[str]](list)
    for service, providers in found.services.items():
        for each in providers:
            provides[each].append(service)
    return {
        each.id: called({**each.about(), "name": each.name, "provides": provides[each.id]}) for each in found.sessions
    }


def _session(each: Session, names: Mapping[str, str], away: list[str | None]) -> tuple[object, ...]:
    name = names[each.id]
    return name, each.id, each.protocol, each.peer, _time(each.opened), each.home, *away, each.routing_id


def _away(each: Session) -> str | None:
    from msgspec import UNSET

    away = each.away
    return None if away is UNSET else f"since {_time(away.since)}, kept until {_time(away.until)}"


def _subscription(each: Subscription, name: str) -> tuple[object, ...]:
    import msgspec

    wanted = None if each.interest is None else json.dumps(msgspec.to_builtins(each.interest))
    return each.service or "(objects)", name, each.session, _time(each.added), wanted


def _time(microseconds: int) -> str:
    from bussrv.journal.record import format_time

    return format_time(microseconds)
