"""All servers at once: the columns of their lists, and a summary of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bussrv.cli.asking import Cell, field, moment
from bussrv.cli.show.figures import amount

LESS = ("SEEN", "VERSION", "LOST", "WAITING", "UP", "CLOCK", "OUT/S", "ROUND TRIP")
"""Columns that a narrow terminal may do without, the least important last."""

RIGHT = ("SESSIONS", "IN/S", "OUT/S", "WAITING", "LOST", "CLOCK", "ROUND TRIP")
"""Columns of numbers."""

_TOTALS = ("objects_in", "objects_out")


def _status(each: Mapping[str, Any]) -> str:
    """The status of a server, with the reason if there is one."""
    status = str(each.get("status", "")).replace("-", " ")
    why = each.get("problem") or ", ".join(each.get("degraded") or ())
    return f"{status}: {why}" if why else status


def _rate(name: str) -> Cell:
    return lambda each: None if each.get(name) is None else amount(each[name])


def _ahead(each: Mapping[str, Any]) -> str | None:
    """How far the clock of a server is ahead, to a millisecond."""
    return None if each.get("clock_ahead") is None else f"{each['clock_ahead']:+.3f} s"


def waiting(each: Mapping[str, Any]) -> str | None:
    """The bytes that wait."""
    return None if each.get("waiting_bytes") is None else amount(each["waiting_bytes"], "B")


def round_trip(each: Mapping[str, Any]) -> str | None:
    """A round trip in milliseconds."""
    return None if each.get("round_trip") is None else f"{each['round_trip'] * 1000:.1f} ms"


COLUMNS: Mapping[str, Cell] = {
    "SERVER": lambda each: each.get("server") or each.get("url"),
    "STATUS": _status,
    "VERSION": field("version"),
    "UP": moment("started"),
    "SESSIONS": field("sessions"),
    "IN/S": _rate("objects_in"),
    "OUT/S": _rate("objects_out"),
    "WAITING": waiting,
    "LOST": field("lost_objects"),
    "CLOCK": _ahead,
    "ROUND TRIP": round_trip,
    "SEEN": moment("seen"),
}


def cells(servers: Sequence[Mapping[str, Any]]) -> list[list[object]]:
    """The rows of a table of servers."""
    return [[value(each) for value in COLUMNS.values()] for each in servers]


def sentence(net: Mapping[str, Any]) -> str:
    """All servers in a line: how many of them are ready, their sessions, each counted once, their traffic and links."""
    servers, links = net.get("servers", []), net.get("links", [])
    ready = sum(each.get("status") == "ready" for each in servers)
    down = [each for each in links if each.get("state") == "down"]
    parts = [f"servers={len(servers)}", f"ready={ready}", f"sessions={net.get('sessions', 0)}"]
    parts += [f"{name}/s={sum(each.get(name) or 0 for each in servers):.0f}" for name in _TOTALS]
    parts += [f"links={len(links)}", f"down={len(down)}"]
    return " ".join(parts)


def lost(net: Mapping[str, Any]) -> list[str]:
    """A line for each link that is down."""
    return [
        f"{each.get('one')} - {each.get('other')}: {each.get('reason') or 'never linked'}"
        for each in net.get("links", [])
        if each.get("state") == "down"
    ]
