"""Who it was, once more: from rows of the table of sessions, with times in microseconds."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

Rows = list[dict[str, Any]]


def talkers(sessions: Rows) -> Rows:
    names = ("server", "protocol", "routing_id", "actor", "claimed", "address")
    groups: dict[tuple[Any, ...], Rows] = defaultdict(list)
    for each in sessions:
        if each["home"] is None:
            groups[tuple(each[name] for name in names)].append(each)
    return [
        {
            **dict(zip(names, key, strict=True)),
            "sessions": len(some),
            "connected_seconds": sum(map(connected, some)) / 1_000_000,
            **{
                name: sum(each[name] or 0 for each in some)
                for name in ("objects_in", "objects_out", "bytes_in", "bytes_out")
            },
        }
        for key, some in groups.items()
    ]


def connected(row: dict[str, Any]) -> int:
    """Microseconds."""
    lasted, away = (round((row[name] or 0) * 1_000_000) for name in ("duration_seconds", "away_seconds"))
    return max(0, lasted - away) if row["duration_seconds"] is not None else 0


def identities(sessions: Rows) -> Rows:
    groups: dict[tuple[str, str], Rows] = defaultdict(list)
    for each in sessions:
        if each["home"] is None and each["routing_id"] is not None:
            groups[each["server"], each["routing_id"]].append(each)
    found = []
    for (server, routing_id), some in groups.items():
        some.sort(key=lambda each: (each["opened"] is not None, each["opened"] or 0, each["session"]))
        overlaps = sum(is_overlap(before, after) for before, after in pairwise(some))
        moments = [each[name] for each in some for name in ("opened", "closed") if each[name] is not None]
        if overlaps:
            found.append(
                {
                    "server": server,
                    "routing_id": routing_id,
                    "sessions": len(some),
                    "addresses": sorted({each["address"] for each in some if each["address"] is not None}),
                    "actors": sorted({each["actor"] for each in some if each["actor"] is not None}),
                    "claimed": sorted({each["claimed"] for each in some if each["claimed"] is not None}),
                    "first_moment": min((each["opened"] for each in some if each["opened"] is not None), default=None),
                    "last_moment": max(moments, default=None),
                    "overlaps": overlaps,
                }
            )
    return found


def is_overlap(before: dict[str, Any], after: dict[str, Any]) -> bool:
    if after["opened"] is None:
        return False
    return before["state"] != "closed" or (before["closed"] is not None and before["closed"] > after["opened"])
