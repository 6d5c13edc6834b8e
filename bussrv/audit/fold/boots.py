"""Boots of servers, clocks, and everything else that is not about one session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bussrv.audit.fold.lines import FoldLine
from bussrv.audit.fold.suspicions import decimal

STEP_BACK = 5 * 1_000_000
"""Microseconds that a clock may be set back between two records: time synchronisation does that."""

_OF_START = frozenset(
    {"server.started", "server.recovered", "session.left", "session.closed", "service.unregistered",
     "subscription.removed", "link.down"}
)  # fmt: skip

SUM = ("records", "closed")
LEAST = ("first_seq", "first_moment", "settled", "first_start", "first_stop", "recovered")
MOST = (
    *("last_seq", "last_moment", "last_settled", "last_start", "last_stop", "last_of_server", "sessions_closed"),
    *("torn_bytes", "version"),
)
ANY = ("started", "stopped", "salvaged")

BootFacts = dict[str, Any]
"""The facts of a boot, by name. ``settled`` is the first record, and ``last_settled`` the last one, that a server
writes only after it closed the sessions that the boot before it left open."""


def by_journal(event: str) -> bool:
    """Whether a record is one that the journal writes on its own, maybe before the start of the server.

    Its time is that of writing, so records with earlier times may follow.
    """
    return event.startswith("journal.")


def new_boot() -> BootFacts:
    """A boot of which nothing is known."""
    return {**dict.fromkeys((*LEAST, *MOST)), **dict.fromkeys(SUM, 0), **dict.fromkeys(ANY, False)}


def add(boot: BootFacts, other: BootFacts) -> None:
    """Add what another stripe knows of a boot."""
    for name in SUM:
        boot[name] += other[name]
    for name in ANY:
        boot[name] = boot[name] or other[name]
    for choose, names in ((min, LEAST), (max, MOST)):
        for name in names:
            known = [each for each in (boot[name], other[name]) if each is not None]
            boot[name] = choose(known) if known else None


def run_of(records: Sequence[FoldLine], first_moment: int, last_moment: int) -> BootFacts:
    """A boot, as successive records of it tell.

    :param first_moment, last_moment: the earliest and the latest time of the records.
    """
    return new_boot() | {
        "records": len(records),
        "first_seq": records[0].seq,
        "last_seq": records[-1].seq,
        "first_moment": first_moment,
        "last_moment": last_moment,
        "settled": next((each.seq for each in records if has_settled(each.event)), None),
        "last_settled": next((each.seq for each in reversed(records) if has_settled(each.event)), None),
        "last_of_server": next((each.seq for each in reversed(records) if not by_journal(each.event)), None),
    }


def has_settled(event: str) -> bool:
    """Whether a server writes such a record only after it closed what the boot before it left open."""
    return event not in _OF_START and not by_journal(event)


def tell(boot: BootFacts, record: FoldLine) -> None:
    """Take in a record of the server itself."""
    found = new_boot()
    seq, event = record.seq, record.event
    if event == "server.started":
        found |= {"started": True, "first_start": seq, "last_start": seq, "version": record.version}
    elif event == "server.stopped":
        found |= {"stopped": True, "first_stop": seq, "last_stop": seq}
    elif event == "server.recovered":
        found |= {"recovered": seq, "sessions_closed": record.sessions_closed, "torn_bytes": record.torn_bytes}
    elif event == "journal.salvaged":
        found["salvaged"] = True
    add(boot, found)


Stamp = tuple[int, int, int, str]
"""Number, time and monotonic clock of a record in microseconds, and its boot."""


def backwards(server: str, before: Stamp, stamp: Stamp) -> Iterator[tuple[Any, ...]]:
    """The rows of ``clocks`` about a record that is earlier than the one before it."""
    seq, at, mono, boot = stamp
    where = f"earlier than record {before[0]}, by the"
    if at < before[1] - STEP_BACK:
        what = f"record {seq} is {decimal(before[1] - at, 3)} s {where} time of day"
        yield "time-backwards", server, boot, seq, at, what
    if boot == before[3] and mono < before[2]:
        what = f"record {seq} is {decimal(before[2] - mono, 3)} s {where} monotonic clock"
        yield "clock-backwards", server, boot, seq, at, what
