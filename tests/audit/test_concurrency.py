from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bussrv.audit.activity.concurrency import concurrency
from bussrv.audit.activity.sessions import sessions
from bussrv.audit.period import Period
from tests.audit import activities
from tests.audit.activities import servers_of
from tests.audit.frames import frame, rows
from tests.audit.journals import START, STEP, Writer
from tests.audit.oracles import concurrency as oracle
from tests.audit.oracles import sessions as sessions_oracle

pytestmark = pytest.mark.timeout(600)

HOUR = 3600 * 1_000_000
MIDDLE = START + 6 * STEP


def table(records: DataFrame, since: int | None = None) -> dict[Any, list[tuple[int, int]]]:
    period, servers = Period(since), servers_of(records)
    found: dict[Any, list[tuple[int, int]]] = {}
    said = concurrency(sessions(records, period), servers, period)
    assert said.where(F.to_date("moment") != F.col("date")).isEmpty()
    for row in sorted(rows(said), key=lambda row: row["moment"]):
        found.setdefault((row["server"], row["protocol"]), []).append((row["moment"], row["sessions"]))
    return found


def expected(collected: activities.Collected, since: int | None = None) -> oracle.Counts:
    said = sessions_oracle.sessions(collected.records, collected.given, since)
    return oracle.concurrency(said, collected.records, since)


@pytest.mark.parametrize("since", [None, MIDDLE])
def test_drawn(spark: SparkSession, tmp_path: Path, since: int | None) -> None:
    collected = activities.drawn(80)
    wanted = expected(collected, since)
    assert max(count for changes in wanted.values() for _, count in changes) > 1
    assert any(after - before > HOUR for changes in wanted.values() for (before, _), (after, _) in pairwise(changes))
    assert table(frame(spark, tmp_path, collected.records, collected.given), since) == wanted


def test_days(spark: SparkSession, tmp_path: Path) -> None:
    collected = activities.days(tmp_path / "days")
    wanted = expected(collected)
    assert table(frame(spark, tmp_path, collected.records, collected.given)) == wanted


def test_an_hour_goes_on_where_the_one_before_ended(spark: SparkSession, tmp_path: Path) -> None:
    writer = Writer()
    writer.open("a")
    writer.open("far", home="attic")
    writer.seq += 3 * HOUR // STEP
    writer.open("b")
    writer.seq += 2 * HOUR // STEP
    writer.close("a")
    writer.open("c", protocol="spp")
    at = [each.time for each in writer.records]
    assert table(frame(spark, tmp_path, writer.records)) == {
        ("hall", "objects"): [(at[0], 1), (at[2], 2), (at[3], 1)],
        ("hall", "spp"): [(at[4], 1)],
    }


def test_one_that_comes_when_another_goes_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    writer = Writer()
    writer.open("a")
    writer.close("a")
    writer.open("b")
    first, second, third = writer.records
    third = replace(third, time=second.time)
    assert table(frame(spark, tmp_path, [first, second, third])) == {("hall", "objects"): [(first.time, 1)]}


def test_one_without_its_opening_was_there_as_long_as_its_closing_says(spark: SparkSession, tmp_path: Path) -> None:
    writer = Writer()
    writer.start()
    writer.start()
    writer.start()
    writer.start()
    writer.close("a", duration=2 * STEP)
    writer.close("b", duration=10**12)
    assert table(frame(spark, tmp_path, writer.records)) == {
        ("hall", "objects"): [(START + STEP, 1), (START + 3 * STEP, 2), (START + 5 * STEP, 1), (START + 6 * STEP, 0)]
    }
