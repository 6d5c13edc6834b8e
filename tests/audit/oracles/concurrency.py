"""How many sessions are open, once more: counted anew at each moment."""

from __future__ import annotations

from typing import Any

from bussrv.journal.record import Record

Counts = dict[tuple[str, str | None], list[tuple[int, int]]]


def concurrency(
    sessions: dict[tuple[str, str], dict[str, Any]], records: list[Record], since: int | None = None
) -> Counts:
    """By server and protocol: moments, and how many sessions are open from then on.

    :param sessions: what the oracle of sessions says.
    """
    lasting: dict[tuple[str, str | None], list[tuple[int, int | None]]] = {}
    for (server, _), row in sessions.items():
        begin, closed = row["opened"], row["closed"]
        if begin is None and closed is not None:
            begin = closed - round(row["duration_seconds"] * 1_000_000)
        if row["home"] is None and begin is not None:
            begin = max(begin, since or 0, min(each.time for each in records if each.server == server))
            lasting.setdefault((server, row["protocol"]), []).append((begin, closed))
    return {key: changes for key, some in lasting.items() if (changes := changing(some))}


def changing(some: list[tuple[int, int | None]]) -> list[tuple[int, int]]:
    changes, before = [], 0
    for moment in sorted({moment for each in some for moment in each if moment is not None}):
        count = sum(begin <= moment and (end is None or moment < end) for begin, end in some)
        if count != before:
            changes.append((moment, count))
        before = count
    return changes
