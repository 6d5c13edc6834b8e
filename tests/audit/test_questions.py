"""Questions that are put together have the answers that each of them has alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bussrv.audit.report import questions
from bussrv.audit.report.questions import Question, all_rows, ask, known, only_row, together


class Row(msgspec.Struct, frozen=True):
    id: int
    name: str | None
    share: float


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    rows = [(3, 'with "quotes"', 0.5), (1, None, 1.0), (2, "ü", 1e300)]
    return spark.createDataFrame(rows, "id LONG, name STRING, share DOUBLE")


@pytest.mark.parametrize("most", [1, 16])
def test_each_has_its_answer(table: DataFrame, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(questions, "TOGETHER", most)
    numbers = only_row(table.agg(F.count("*").alias("number"), F.max("id").alias("most"), F.min("name").alias("none")))
    nobody = only_row(table.where("id > 3").agg(F.max("id").alias("most")))
    found = ask(
        {
            "first": all_rows(table.orderBy(F.col("id").desc()).limit(2), Row).then(tuple),
            "numbers": numbers,
            "none": all_rows(table.where("id > 3")),
            "nobody": nobody,
            "known": known("known"),
            "both": together(known(1), numbers).then(lambda answers: answers[0] + answers[1]["number"]),
        }
    )
    assert found == {
        "first": (Row(3, 'with "quotes"', 0.5), Row(2, "ü", 1e300)),
        "numbers": {"number": 3, "most": 3, "none": 'with "quotes"'},
        "none": [],
        "nobody": {"most": None},
        "known": "known",
        "both": 4,
    }


def test_what_is_asked_once_something_is_known(table: DataFrame) -> None:
    def about(row: dict[str, Any]) -> Question[list[str | None]]:
        of_the_last = all_rows(table.where(F.col("id") == row["most"]))
        return of_the_last.then(lambda rows: [each["name"] for each in rows])

    asked = only_row(table.agg(F.max("id").alias("most"))).then(about)
    assert ask({"name": asked.then(tuple), "known": known(None)}) == {"name": ('with "quotes"',), "known": None}


def test_nothing_is_asked_of_nothing() -> None:
    assert ask({"known": known(7)}) == {"known": 7}
