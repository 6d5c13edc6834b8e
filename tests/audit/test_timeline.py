"""Timelines of many servers: Spark says what a plain program says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.parquet import write_table
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bussrv.audit.spark.store import Store
from bussrv.audit.timeline.query import similar_names, timeline, with_microseconds
from bussrv.audit.timeline.source import _COLUMNS, batch_of
from bussrv.journal.reading import read_journal
from bussrv.journal.record import Record
from bussrv.synth.journal import write_journal
from tests.audit.frames import line_of
from tests.audit.oracles import timeline as oracle
from tests.audit.wild_records import wild
from tests.size import further, sized

pytestmark = pytest.mark.timeout(600)

WILD = sized(100)


@dataclass
class Stories:
    """The records of many servers."""

    records: dict[str, list[Record]]
    table: DataFrame


@pytest.fixture(scope="module")
def stories(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stories:
    place = tmp_path_factory.mktemp("stories")
    records = {f"wild{seed}": wild(f"wild{seed}", seed, steady=seed % 2 == 0) for seed in range(WILD)}
    write_journal(place / "synth", events=600, server="synth", uptime=1800e6)
    records["synth"] = [*read_journal(place / "synth")]
    shown = [each for some in records.values() for each in some]
    rows = [(line_of(each), each.time) for each in shown]
    (place / "shown").mkdir()
    for number in range(3):
        write_table(pa.Table.from_batches([batch_of(rows[number::3], False)]), place / "shown" / f"{number}.parquet")
    table = spark.read.parquet(str(place / "shown")).withColumn("moment", F.timestamp_micros("moment"))
    return Stories(records, Store(spark, place).keep("records", table))


STORY = (
    *("server", "seq", "event", "concern", "about", "providers", "missing_since", "missing_until", "next_session"),
    *("with_session", "crashed_after", "back_at", "link", "link_reason", "newcomer"),
    *("left_at", "absence_over", "resumed"),
)


EXPLAINED = {"tv-3": STORY[4:], "tv": STORY[4:-3]}
"""The columns that some rows have: of a client, and of a service, which is not away."""


@pytest.mark.parametrize("name", further(EXPLAINED))
def test_a_timeline(spark: SparkSession, stories: Stories, tmp_path: Path, name: str) -> None:
    rows = with_microseconds(timeline(stories.table, name, Store(spark, tmp_path).keep)).collect()
    told = [row.asDict(recursive=True) for row in rows]
    wanted = Counter(
        tuple(row.get(column) for column in STORY)
        for some in stories.records.values()
        for row in oracle.timeline(some, name)
    )
    found = Counter(tuple(row[column] for column in STORY) for row in told)
    for column in EXPLAINED[name]:
        assert any(row[STORY.index(column)] is not None for row in wanted), column
    assert [*(wanted - found).items()][:5] == []
    assert [*(found - wanted).items()][:5] == []
    assert [row for row in told if row["who"] and row["peer"] not in (None, row["who"]["peer"])][:5] == []
    for server in stories.records:
        numbers = [row["seq"] for row in told if row["server"] == server]
        assert numbers == sorted(numbers)


def test_spark_takes_each_column_for_what_it_is() -> None:
    """It goes by their places."""
    assert batch_of([], False).schema.names == [each.split()[0] for each in _COLUMNS.split(", ")]


def test_names_that_are_similar(stories: Stories) -> None:
    assert similar_names(stories.table, "tv-4") == ["tv-3", "tv"]
    assert similar_names(stories.table, "192.0.2.9") == ["192.0.2.9", "192.0.2.1", "192.0.2.1:5"]
    assert similar_names(stories.table, "nobody at all") == []
