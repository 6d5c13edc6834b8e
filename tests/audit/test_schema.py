from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from pyspark.sql.types import ArrayType, BooleanType, DataType, LongType, MapType, StringType

from bussrv import events as ev
from bussrv.audit.tables import schema
from bussrv.journal.header import Damage, Header, Part, Previous
from bussrv.journal.record import Record, encode
from bussrv.values import Interest
from tests.tables import each_row

# Written out once more, so that the derivation has something to disagree with.
EXPECTED: dict[Any, DataType] = {
    str: StringType(),
    str | None: StringType(),
    int: LongType(),
    int | None: LongType(),
    bool: BooleanType(),
    tuple[str, ...]: ArrayType(StringType()),
    dict[str, str]: MapType(StringType(), StringType()),
    dict[str, Any] | None: StringType(),
    Interest | None: StringType(),
}


@each_row("event", ev.EVENT_CLASSES, ids=ev.event_name)
def test_every_field_of_every_event_is_there_with_its_type(event: type[ev.Event]) -> None:
    for field in msgspec.structs.fields(event):
        assert schema.RECORD_SCHEMA[field.encode_name].dataType == EXPECTED[field.type], field.name


@each_row("event", ev.EVENT_CLASSES, ids=ev.event_name)
def test_what_the_decoder_requires_is_required(event: type[ev.Event]) -> None:
    required = {field.name for field in msgspec.structs.fields(event) if field.required}
    assert required <= set(schema.REQUIRED[ev.event_name(event)])


def test_a_record_is_required_to_say_whom_it_is_about() -> None:
    assert schema.REQUIRED["session.closed"] == ("duration", "session")
    assert schema.REQUIRED["service.unregistered"] == ("session", "service")
    assert schema.REQUIRED["link.up"] == ()


def test_the_stamp_is_what_every_record_has() -> None:
    line = encode(Record(1, 0, 0, "hall", "b1", ev.ServerStopped()))
    assert list(json.loads(line)) == list(schema.STAMP)


def test_what_a_header_and_a_part_have_is_told_apart_from_records() -> None:
    fields = {field.encode_name for each in (Header, Part) for field in msgspec.structs.fields(each)}
    assert fields - set(schema.HEAD) == {"prev", "segment", "time", "server", "boot", "seal", "version"}
    assert schema.LINE_SCHEMA.names == [*schema.RECORD_SCHEMA.names, *schema.HEAD]
    for name, kind in (("previous", Previous), ("salvaged", Damage)):
        members = {field.encode_name: EXPECTED[field.type] for field in msgspec.structs.fields(kind)}
        assert {member.name: member.dataType for member in schema.HEAD[name]} == members


def test_nothing_else_is_in_the_schema() -> None:
    fields = {field.encode_name for event in ev.EVENT_CLASSES for field in msgspec.structs.fields(event)}
    assert set(schema.RECORD_SCHEMA.names) == {*schema.STAMP, *fields, schema.CORRUPT}


@each_row("annotation", [float, bytes, list[int], str | int, None])
def test_a_type_without_a_place_in_the_schema_is_not_passed_over(annotation: Any) -> None:
    with pytest.raises(TypeError):
        schema.spark_type(annotation)
