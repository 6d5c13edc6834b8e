"""Rows say what records say."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bussrv.audit.source.columns import SCHEMA
from bussrv.audit.source.options import ReadOptions
from bussrv.audit.source.positions import ALL, JournalReading
from bussrv.audit.source.slices import read_slice
from bussrv.events import EVENT_CLASSES, event_name
from bussrv.journal.reading import read_journal
from bussrv.journal.record import Record
from tests.audit.source.growing import write_whole
from tests.docs.golden import OLDER, PLACE, UPGRADED

pytestmark = pytest.mark.dear


def rows_of(directory: Path) -> list[dict[str, Any]]:
    journal = JournalReading(str(directory), ReadOptions((str(directory),)))
    begin = journal.start()
    parts = journal.slices(begin, journal.advance(begin, ALL))
    return [row for part in parts for table in read_slice(part, fail_on_loss=True) for row in table.to_pylist()]


def as_row(directory: Path, record: Record, names: list[str]) -> dict[str, Any]:
    stamps = {name: getattr(record, name) for name in ("seq", "mono", "server", "boot")}
    event = {field.name: getattr(record.event, field.name) for field in msgspec.structs.fields(record.event)}
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=record.time)
    about = {"event": event_name(record.event), "outcome": record.event.OUTCOME, "time": moment}
    return dict.fromkeys(names) | {"journal": str(directory)} | stamps | about | event


@pytest.mark.parametrize("place", [None, PLACE / "whole", OLDER / "v2" / "whole", UPGRADED], ids=str)
def test_rows_say_what_the_codec_of_records_says(place: Path | None, tmp_path: Path) -> None:
    """Also of records of an older schema version."""
    directory = place or write_whole(tmp_path / "hall")
    rows = rows_of(directory)
    wanted = [as_row(directory, each, [*rows[0]]) for each in read_journal(directory)]
    for row in rows:
        for column in ("interest", "options", "in_effect"):
            row[column] = None if row[column] is None else json.loads(row[column])
        row["formats"] = None if row["formats"] is None else dict(row["formats"])
    plain = [json.loads(msgspec.json.encode(row)) for row in wanted]
    assert [json.loads(msgspec.json.encode(row)) for row in rows] == plain
    assert rows


def test_each_field_of_each_event_is_a_column() -> None:
    named = [column.split("`")[1] for column in SCHEMA.split(", ")]
    fields = {field.name for each in EVENT_CLASSES for field in msgspec.structs.fields(each)}
    assert fields == {*named} - {"journal", "seq", "time", "mono", "server", "boot", "event", "outcome"}
    assert len(named) == len({*named})
