"""The registry at a moment, for people: tables of sessions, services and subscriptions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bussrv.cli.show import output

if TYPE_CHECKING:
    from bussrv.registry.state.session import Session, Subscription
    from bussrv.registry.state.snapshot import Snapshot


LESS = ("USER", "PEER", "WANTS", "ADDED", "OPENED", "ROUTING ID", "HOME", "AWAY")
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
    for title, headings, rows in (
        (
            "sessions",
            ("SESSION", "FORMAT", "ROUTING ID", "USER", "PEER", "OPENED", "HOME", *away),
            [(*_session(each), *(_away(each) for _ in away)) for each in found.sessions],
        ),
        ("services", ("SERVICE", "PROVIDERS"), [(name, each) for name, each in found.services.items()]),
        (
            "subscriptions",
            ("SERVICE", "SESSION", "ADDED", "WANTS"),
            [_subscription(each) for each in found.subscriptions],
        ),
    ):
        output.line("")
        output.line(f"{len(rows)} {title if len(rows) != 1 else title[:-1]}")
        if rows:
            output.table(headings, rows, less=LESS)


def _session(each: Session) -> tuple[object, ...]:
    user = each.actor or (f"({each.claimed})" if each.claimed else None)
    return each.id, each.protocol, each.routing_id, user, each.peer, _time(each.opened), each.home


def _away(each: Session) -> str | None:
    from msgspec import UNSET

    away = each.away
    return None if away is UNSET else f"since {_time(away.since)}, kept until {_time(away.until)}"


def _subscription(each: Subscription) -> tuple[object, ...]:
    import msgspec

    wanted = None if each.interest is None else json.dumps(msgspec.to_builtins(each.interest))
    return each.service or "(objects)", each.session, _time(each.added), wanted


def _time(microseconds: int) -> str:
    from bussrv.journal.record import format_time

    return format_time(microseconds)
