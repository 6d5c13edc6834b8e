"""How many sessions are open, once more: counted anew at each moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bussrv.journal.record import Record
from tests.audit.oracles.sessions import absences

Counts = dict[tuple[str, str | None], list[tuple[int, int]]]


def concurrency(
    sessions: dict[tuple[str, str], dict[str, Any]],
    records: list[Record],
    given: list[Record],
    since: int | None = None,
) -> Counts:
    """By server and protocol: moments, and how many sessions are open from then on.

    :param sessions: what the oracle of sessions says.
    """
    told = sorted([*records, *given], key=lambda each: (each.seq, each.time, each.mono))
    lasting: dict[tuple[str, str | None], list[tuple[int, int | None]]] = {}
    for (server, session), row in sessions.items():
        begin, closed = row["opened"], row["closed"]
        if begin is None and closed is not None:
            begin = closed - round(row["duration_seconds"] * 1_000_000)
        if row["home"] is None and begin is not None:
            begin = max(begin, since or 0, min(each.time for each in records if each.server == server))
            mine = [each for each in told if (each.server, each.event.session) == (server, session)]
            lasting.setdefault((server, row["protocol"]), []).extend(connected(begin, closed, absences(mine)))
    return {key: changes for key, some in lasting.items() if (changes := changing(some))}


def connected(begin: int, closed: int | None, gone: list[dict[str, Any]]) -> Iterator[tuple[int, int | None]]:
    """When a session was open, without when it was away."""
    for each in gone:
        if each["begin"] > begin:
            yield begin, each["begin"] if closed is None else min(each["begin"], closed)
        if each["end"] is None:
            return
        begin = max(begin, each["end"])
    yield begin, closed


def changing(some: list[tuple[int, int | None]]) -> list[tuple[int, int]]:
    changes, before = [], 0
    for moment in sorted({moment for each in some for moment in each if moment is not None}):
        count = sum(begin <= moment and (end is None or moment < end) for begin, end in some)
        if count != before:
            changes.append((moment, count))
        before = count
    return changes
