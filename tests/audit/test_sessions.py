from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from bussrv import events as ev
from bussrv.audit.activity.sessions import sessions
from bussrv.audit.period import Period
from bussrv.journal.record import Record
from tests.audit import activities
from tests.audit.frames import frame, rows
from tests.audit.journals import START, STEP, Writer, day
from tests.audit.oracles import sessions as oracle

pytestmark = pytest.mark.timeout(600)

MIDDLE = START + 6 * STEP


def table(spark: SparkSession, records: DataFrame, since: int | None = None) -> dict[Any, dict[str, Any]]:
    said = rows(sessions(records, Period(since)))
    found = {(row.pop("server"), row.pop("session")): row for row in said}
    assert len(found) == len(said)
    return found


def expected(collected: activities.Collected, since: int | None = None) -> dict[Any, dict[str, Any]]:
    return oracle.sessions(collected.records, collected.given, since)


Compare = Callable[[activities.Collected, "int | None"], None]


@pytest.fixture(scope="module")
def compare(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Compare:
    def agree(collected: activities.Collected, since: int | None) -> None:
        directory = tmp_path_factory.mktemp("records")
        said = table(spark, frame(spark, directory, collected.records, collected.given), since)
        wanted = expected(collected, since)
        assert wanted
        for key in {*said, *wanted}:
            mine = [each for each in collected.records if (each.server, each.event.session) == key]
            assert (key, said.get(key)) == (key, wanted.get(key)), mine

    return agree


@pytest.mark.parametrize("since", [None, MIDDLE])
def test_drawn(compare: Compare, since: int | None) -> None:
    compare(activities.drawn(80), since)


def test_days(compare: Compare, tmp_path_factory: pytest.TempPathFactory) -> None:
    collected = activities.days(tmp_path_factory.mktemp("days"))
    assert {row["state"] for row in expected(collected).values()} == {"open", "closed"}
    compare(collected, None)


def one(spark: SparkSession, directory: Any, *records: Record) -> dict[str, Any]:
    ((_, row),) = table(spark, frame(spark, directory, records)).items()
    return row


def test_one_day(spark: SparkSession, tmp_path: Any) -> None:
    found = table(spark, frame(spark, tmp_path, day().records))
    assert found["hall", "hall-1.1"] == {
        "protocol": "objects",
        "routing_id": "r-hall-1.1",
        "actor": "ann",
        "name": None,
        "role": None,
        "peer": "192.0.2.1:4711",
        "address": "192.0.2.1",
        "state": "closed",
        "opened": START + 2 * STEP,
        "closed": START + 7 * STEP,
        "duration_seconds": 2.5,
        "reason": "client-closed",
        "objects_in": 3,
        "objects_out": 0,
        "bytes_in": 120,
        "bytes_out": 0,
        "persistent": False,
        "home": None,
        "provided": ["tv"],
        "wanted": [],
        "objects_wanted": False,
        "date": "2027-01-15",
    }
    assert found["hall", "hall-1.2"]["wanted"] == ["tv"]


def test_known_by_its_closing_alone(spark: SparkSession, tmp_path: Any) -> None:
    writer = Writer()
    writer.close("x", peer="[::1]:7", actor="ann", routing_id="r")
    row = one(spark, tmp_path, *writer.records)
    assert (row["opened"], row["persistent"], row["state"]) == (None, None, "closed")
    assert (row["address"], row["actor"], row["routing_id"], row["date"]) == ("::1", "ann", "r", "2027-01-15")


def test_known_by_what_it_was_refused_alone(spark: SparkSession, tmp_path: Any) -> None:
    refused = ev.ServiceRefused(session="x", protocol="spp", peer="192.0.2.7:1", service="tv")
    row = one(spark, tmp_path, Record(1, START, 1, "hall", "hall-1", refused))
    assert (row["protocol"], row["peer"], row["state"], row["provided"]) == ("spp", "192.0.2.7:1", "open", [])


def test_the_first_closing_counts(spark: SparkSession, tmp_path: Any) -> None:
    writer = Writer()
    writer.open("x")
    writer.close("x", reason="first")
    writer.close("x", reason="second")
    assert one(spark, tmp_path, *writer.records)["reason"] == "first"
