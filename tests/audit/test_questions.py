"""Questions have short answers, in plain values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from bussrv.audit.report.questions import Tables, all_rows, count_if, listing, only_row, rows, total
from bussrv.audit.sql.database import Database
from tests.audit.frames import add_table


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
        add_table(database, "things", pa.table(columns), place)
        yield database


def test_questions_and_answers(table: Tables) -> None:
    assert rows(table, "SELECT * FROM @things", Row, 2, "id DESC") == (
        Row(3, 'with "quotes"', 0.5),
        Row(2, "ü" * 256, 1e300),
    )
    assert rows(table, "SELECT * FROM @things WHERE id = 1", Row, 2, "id") == (Row(1, "", 1.0),)
    assert only_row(table, "SELECT count(*) AS number, max(id) AS until, min(name) AS none FROM @things") == {
        "number": 3,
        "end": 3,
        "none": 'with "quotes"',
    }
    assert all_rows(table, "SELECT * FROM @things WHERE id > 3") == []
    assert only_row(table, "SELECT max(id) AS most FROM @things WHERE id > 3") == {"most": None}
    nothing = only_row(table, f"SELECT {count_if('id > 1')} AS many, {total('id')} FROM @things WHERE id > 3")
    assert nothing == {"many": 0, "id": 0}
    assert only_row(table, "SELECT names_of(name) AS names FROM @things WHERE id <> 2") == {"names": ['with "quotes"']}


@pytest.mark.parametrize(("most", "shown"), [(2, 2), (3, 3), (4, 3)])
def test_the_first_rows_and_the_number_of_all(table: Tables, most: int, shown: int) -> None:
    found = listing(table, "SELECT * FROM @things", Row, "id", most=most)
    assert ([each.id for each in found.rows], found.total) == ([1, 2, 3][:shown], 3)
    assert listing(table, "SELECT * FROM @things LIMIT 2", Row, "id", most=1, all_of="SELECT * FROM @things").total == 3
