from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from bussrv import events as ev
from bussrv.audit.activity import boots
from bussrv.journal.record import Record
from tests.audit import plans, troubles
from tests.audit.frames import Rows, frame, in_order, rows
from tests.audit.journals import START, STEP, Writer, barn, day
from tests.audit.oracles import boots as oracle


def tables(spark: SparkSession, directory: Path, records: list[Record], given: list[Record]) -> tuple[Rows, Rows]:
    each_boot = boots.boots(frame(spark, directory, records, given)).cache()
    return rows(each_boot), rows(boots.servers(each_boot))


def test_boots_and_servers(spark: SparkSession, tmp_path: Path) -> None:
    given = Record(10, START - 1, 0, "barn", "barn-0", ev.SessionOpened(session="barn-0.1"))
    each_boot, each_server = tables(spark, tmp_path, [*day().records, *barn().records], [given])
    assert in_order(each_boot) == [
        {
            "server": "barn",
            "boot": "barn-1",
            "records": 11,
            "first_seq": 11,
            "last_seq": 21,
            "first_moment": START + STEP * 11,
            "last_moment": START + STEP * 21,
            "started": True,
            "stopped": False,
            "ended": True,
            "crashed": True,
            "down_seconds": None,
            "version": "0.1.0",
        },
        {
            "server": "barn",
            "boot": "barn-2",
            "records": 7,
            "first_seq": 22,
            "last_seq": 28,
            "first_moment": START + STEP * 22,
            "last_moment": START + STEP * 28,
            "started": True,
            "stopped": False,
            "ended": False,
            "crashed": False,
            "down_seconds": STEP / 1_000_000,
            "version": "0.1.0",
        },
        {
            "server": "hall",
            "boot": "hall-1",
            "records": 9,
            "first_seq": 1,
            "last_seq": 9,
            "first_moment": START + STEP,
            "last_moment": START + STEP * 9,
            "started": True,
            "stopped": True,
            "ended": True,
            "crashed": False,
            "down_seconds": None,
            "version": "0.1.0",
        },
    ]
    assert {row["server"]: (row["records"], row["boots"], row["crashes"]) for row in each_server} == {
        "barn": (18, 2, 1),
        "hall": (9, 1, 0),
    }


def test_a_clock_that_was_set_back_makes_no_time_negative(spark: SparkSession, tmp_path: Path) -> None:
    writer = Writer()
    writer.start()
    writer.stop()
    writer.start()
    writer.records[-1] = replace(writer.records[-1], time=START)
    each_boot, _ = tables(spark, tmp_path, writer.records, [])
    assert {row["boot"]: row["down_seconds"] for row in each_boot} == {"hall-1": None, "hall-2": 0.0}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """The records of many servers, made up and synthetic."""
    drawn = [each for number, plan in enumerate(plans.draw(60)) for each in plans.records(f"server{number}", plan)]
    return [*drawn, *troubles.synthetic(tmp_path_factory.mktemp("synthetic"))]


def test_the_oracle_finds_the_same(spark: SparkSession, tmp_path: Path, many: list[Record]) -> None:
    each_boot, each_server = tables(spark, tmp_path, many, [])
    assert in_order(each_boot) == in_order(oracle.boots(many))
    assert in_order(each_server) == in_order(oracle.servers(many))
    assert any(row["crashed"] for row in each_boot)
    assert any(row["stopped"] for row in each_boot)
