"""Records as a table: one column for each field of any event. They follow from :mod:`bussrv.events`."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import Any, get_args

import msgspec
import pyarrow as pa

from bussrv.audit.fold.lines import FoldLine
from bussrv.events import EVENT_CLASSES, event_name
from bussrv.journal.record import parse_time

JOURNAL = "journal"
"""The column with the directory of a record's journal."""

_TEXT = "string", pa.string()
_TYPES: dict[Any, tuple[str, pa.DataType]] = {
    int: ("bigint", pa.int64()),
    str: _TEXT,
    bool: ("boolean", pa.bool_()),
    tuple[str, ...]: ("array<string>", pa.list_(pa.field("element", pa.string()))),
    dict[str, str]: ("map<string,string>", pa.map_(pa.string(), pa.string())),
}
"""The types of columns, by those of fields. Fields of other types are written as JSON."""

_STAMPS: dict[str, tuple[str, pa.DataType]] = {
    JOURNAL: _TEXT,
    "seq": _TYPES[int],
    "time": ("timestamp", pa.timestamp("us", tz="UTC")),
    "mono": _TYPES[int],
    "server": _TEXT,
    "boot": _TEXT,
    "event": _TEXT,
    "outcome": _TEXT,
}
_FIELDS = {event_name(each): msgspec.structs.fields(each) for each in EVENT_CLASSES}


def _plain(kind: Any) -> Any:
    """The type of a field that need not be there."""
    others = [each for each in get_args(kind) if each is not NoneType]
    return others[0] if NoneType in get_args(kind) and len(others) == 1 else kind


def _default(field: msgspec.structs.FieldInfo) -> Any:
    """The value of a field that is left out on disk."""
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return None if field.required else field.default


_DEFAULTS = {event: {each.name: _default(each) for each in fields} for event, fields in _FIELDS.items()}
_KINDS = {each.name: _plain(each.type) for fields in _FIELDS.values() for each in fields}
_COLUMNS = {**_STAMPS, **{name: _TYPES.get(kind, _TEXT) for name, kind in _KINDS.items()}}
_AS_JSON = frozenset(name for name, kind in _KINDS.items() if kind not in _TYPES)
_SCHEMA = pa.schema([pa.field(name, kind) for name, (_, kind) in _COLUMNS.items()])

SCHEMA = ", ".join(f"`{name}` {kind}" for name, (kind, _) in _COLUMNS.items())
"""The columns as Spark names them."""


def table_of(journal: str, records: Sequence[FoldLine]) -> pa.RecordBatch:
    """Records as rows.

    :param journal: the directory of their journal.
    """
    columns: dict[str, list[Any]] = {name: [None] * len(records) for name in _KINDS}
    for place, record in enumerate(records):
        for name, default in _DEFAULTS[record.event].items():
            value = getattr(record, name)
            columns[name][place] = default if value is None else _as_text(value) if name in _AS_JSON else value
    for name in _STAMPS.keys() - {JOURNAL, "time"}:
        columns[name] = [getattr(each, name) for each in records]
    columns |= {JOURNAL: [journal] * len(records), "time": [parse_time(each.time) for each in records]}
    return pa.RecordBatch.from_pydict(columns, schema=_SCHEMA)


def _as_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
