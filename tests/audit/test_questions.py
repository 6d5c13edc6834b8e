"""Questions that are put together have the answers that each of them has alone, whoever answers them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from bussrv.audit.database import Database
from bussrv.audit.report.questions import (
    Question,
    Tables,
    all_rows,
    ask,
    count_if,
    known,
    only_row,
    rows,
    together,
    total,
)


class Row(msgspec.Struct, frozen=True):
    id: int
    name: str
    share: float


ROWS = [(3, 'with "quotes"', 0.5), (1, None, 1.0), (2, "ü" * 999, 1e300)]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    place: Path = tmp_path_factory.mktemp("place")
    with closing(Database(place)) as database:
        columns = dict(zip(("id", "name", "share"), map(list, zip(*ROWS, strict=True)), strict=True))
        database.add("things", pa.table(columns))
        yield database


def test_each_has_its_answer(table: Tables) -> None:
    numbers = only_row("SELECT count(*) AS number, max(id) AS until, min(name) AS none FROM @things")
    nobody = only_row("SELECT max(id) AS most FROM @things WHERE id > 3")
    found = ask(
        table,
        {
            "first": rows("SELECT * FROM @things", Row, 2, "id DESC"),
            "absent": rows("SELECT * FROM @things WHERE id = 1", Row, 2, "id"),
            "numbers": numbers,
            "none": all_rows("SELECT * FROM @things WHERE id > 3"),
            "nobody": nobody,
            "nothing": only_row(f"SELECT {count_if('id > 1')} AS many, {total('id')} FROM @things WHERE id > 3"),
            "names": only_row("SELECT names_of(name) AS names FROM @things WHERE id <> 2"),
            "known": known("known"),
            "both": together(known(1), numbers).then(lambda answers: answers[0] + answers[1]["number"]),
        },
    )
    assert found == {
        "first": (Row(3, 'with "quotes"', 0.5), Row(2, "ü" * 256, 1e300)),
        "absent": (Row(1, "", 1.0),),
        "numbers": {"number": 3, "end": 3, "none": 'with "quotes"'},
        "none": [],
        "nobody": {"most": None},
        "nothing": {"many": 0, "id": 0},
        "names": {"names": ['with "quotes"']},
        "known": "known",
        "both": 4,
    }


def test_what_is_asked_once_something_is_known(table: Tables) -> None:
    def about(row: dict[str, Any]) -> Question[list[str | None]]:
        of_the_last = all_rows(f"SELECT * FROM @things WHERE id = {row['most']}")
        return of_the_last.then(lambda rows: [each["name"] for each in rows])

    asked = only_row("SELECT max(id) AS most FROM @things").then(about)
    assert ask(table, {"name": asked.then(tuple), "known": known(None)}) == {"name": ('with "quotes"',), "known": None}


def test_nothing_is_asked_of_nothing(table: Tables) -> None:
    assert ask(table, {"known": known(7)}) == {"known": 7}
