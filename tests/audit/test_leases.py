from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from bussrv import events as ev
from bussrv.audit.activity.leases import leases
from bussrv.audit.period import Period
from bussrv.journal.record import Record
from tests.audit import troubles
from tests.audit.frames import frame, in_order, rows
from tests.audit.journals import START, STEP, Writer
from tests.audit.oracles import leases as oracle

ABOUT: dict[str, Any] = {
    "session": "hall-1.1",
    "protocol": "inbus",
    "peer": "192.0.2.1:5",
    "routing_id": "r",
    "service": "tv",
}
ADDED, RENEWED = ev.SubscriptionAdded(**ABOUT), ev.SubscriptionRenewed(**ABOUT)
REMOVED = ev.SubscriptionRemoved(**ABOUT)
EXPIRED = ev.SubscriptionRemoved(reason="lease-expired", **ABOUT)
UNREACHABLE = ev.SubscriptionRemoved(reason="inbus-unreachable", **ABOUT)
REGISTERED = ev.ServiceRegistered(**ABOUT)
SILENT = ev.ServiceUnregistered(reason="lease-expired", **ABOUT)

# What is written from record 5 on; and of each lease that ran out: which record began it, which renewed it last, which
# ended it, how many renewed it, and the rest.
CASES: dict[str, tuple[list[ev.Event], list[tuple[Any, ...]]]] = {
    "never renewed": ([ADDED, EXPIRED], [(5, None, 6, 0, "subscription", "lease-expired")]),
    "renewed": ([ADDED, RENEWED, RENEWED, EXPIRED], [(5, 7, 8, 2, "subscription", "lease-expired")]),
    "nobody listens": ([ADDED, UNREACHABLE], [(5, None, 6, 0, "subscription", "inbus-unreachable")]),
    "asked for": ([ADDED, RENEWED, REMOVED], []),
    "added again": ([ADDED, RENEWED, REMOVED, ADDED, EXPIRED], [(8, None, 9, 0, "subscription", "lease-expired")]),
    "twice": (
        [ADDED, RENEWED, EXPIRED, ADDED, EXPIRED],
        [(5, 6, 7, 1, "subscription", "lease-expired"), (8, None, 9, 0, "subscription", "lease-expired")],
    ),
    "begun before": ([RENEWED, EXPIRED], [(None, 5, 6, 1, "subscription", "lease-expired")]),
    "two services": (
        [ADDED, ev.SubscriptionAdded(**{**ABOUT, "service": "radio"}), EXPIRED],
        [(5, None, 7, 0, "subscription", "lease-expired")],
    ),
    "a publisher": ([REGISTERED, SILENT], [(5, None, 6, 0, "service", "lease-expired")]),
    "of another wire format": ([ev.SubscriptionRemoved(**{**ABOUT, "protocol": "spp"}, reason="lease-expired")], []),
}


def written(events: list[ev.Event], server: str = "hall") -> list[Record]:
    writer = Writer(server, seq=5)
    for each in events:
        writer.write(each)
    return writer.records


def time_of(seq: int | None) -> int | None:
    return seq and START + STEP * seq


@pytest.mark.parametrize("name", CASES)
def test_leases(spark: SparkSession, tmp_path: Path, name: str) -> None:
    events, expected = CASES[name]
    records = written(events)
    found = in_order(rows(leases(frame(spark, tmp_path, records), Period())))
    who = {"server": "hall", "session": "hall-1.1", "routing_id": "r", "address": "192.0.2.1", "service": "tv"}
    assert found == in_order(
        {
            "server": "hall",
            "session": "hall-1.1",
            "kind": kind,
            **who,
            "added": time_of(added),
            "renewed": time_of(renewed),
            "expired": time_of(ended),
            "renewals": renewals,
            "reason": reason,
        }
        for added, renewed, ended, renewals, kind, reason in expected
    )
    assert found == in_order(oracle.leases(records))


def test_what_was_given_began_before(spark: SparkSession, tmp_path: Path) -> None:
    writer = Writer(seq=5)
    writer.write(EXPIRED)
    given = [Record(4, START - 7, 3, "hall", "hall-1", replace(ADDED, protocol=None))]
    [row] = rows(leases(frame(spark, tmp_path, writer.records, given), Period()))
    assert (row["added"], row["renewals"]) == (START - 7, 0)


@pytest.mark.parametrize("is_clipped", [False, True])
def test_the_oracle_finds_the_same(spark: SparkSession, tmp_path: Path, is_clipped: bool) -> None:
    since, until = (START + 3 * STEP, START + 30 * STEP) if is_clipped else (None, None)
    planned = [each for name, (events, _) in CASES.items() for each in written(events, name)]
    records = [*planned, *troubles.draw(100, troubles.LEASES), *troubles.synthetic(tmp_path / "synthetic")]
    records = [each for each in records if until is None or each.time < until]
    begun = replace(ADDED, session="a")
    given = [Record(0, START - number, 3, f"server{number}", "x", begun) for number in range(0, 100, 2)]
    given.append(Record(0, START - 1, 3, "begun before", "x", ADDED))
    found = in_order(rows(leases(frame(spark, tmp_path, records, given), Period(since, until))))
    assert found == in_order(oracle.leases(records, given, since, until))
    assert {row["kind"] for row in found} == {"subscription", "service"}
    assert any(row["renewals"] for row in found)
    assert any((row["added"] or START) < START for row in found)
