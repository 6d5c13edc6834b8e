"""The page and the notebook about the source: what stands there runs, and is so."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bussrv.audit.source.columns import SCHEMA
from bussrv.audit.source.options import read_options
from tests.audit.journals import day, write_journal
from tests.docs.notebook import OWNERS, answers, read, stored
from tests.docs.pages import blocks, page, rows

PAGE = "docs/how-to/spark-source.md"


@pytest.mark.long
@pytest.mark.usefixtures("spark")
def test_the_answers_are_those_of_the_notebook(tmp_path: Path) -> None:
    notebook = read(OWNERS)
    assert [*answers(notebook, tmp_path)] == stored(notebook)
    assert [bool(text) for text in stored(notebook)] == [True, False, True, True, True]


def test_the_snippets(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "bussrv-journal"
    write_journal(place, day().records)
    names = {"spark": spark}
    for snippet in blocks(PAGE, "python"):
        exec(re.sub(r'"(bussrv-journal|refusals[a-z-]*)"', rf'"{tmp_path}/\1"', snippet), names)
    query = names["query"]
    query.processAllAvailable()  # type: ignore[attr-defined]
    query.stop()
    assert spark.read.parquet(f"{tmp_path}/refusals").count() == 0


def test_the_options_and_the_columns() -> None:
    named = {row[0].strip("`") for row in rows(PAGE) if len(row) == 3} - {"option"}
    code = inspect.getsource(inspect.getmodule(read_options))  # type: ignore[arg-type]
    assert named == {*re.findall(r'"(paths?|[a-z]+[A-Z]\w+|sealed)"', code)}
    kinds = dict(re.findall(r"`(\w+)` ([\w<>,]+?)(?=, `|$)", SCHEMA))
    told = {name: row[1] for row in rows(PAGE) if len(row) == 2 for name in re.findall(r"`(\w+)`", row[0])}
    words = {"array of string": "array<string>", "map of string to string": "map<string,string>"}
    assert {name: kinds[name] for name in told} == {
        name: words.get(kind, kind.partition(":")[0]) for name, kind in told.items()
    }
    assert {name for name, kind in kinds.items() if kind not in ("string", "bigint", "boolean")} <= {*told}
    assert "`seq`" in page(PAGE)
