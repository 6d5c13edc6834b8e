"""The Spark schema of the lines of a journal. That of a record is made from the classes of events.

Every record has the stamp, and the fields of its event. Fields without a fixed shape (``interest``, ``options``, the
``state`` of a snapshot) are strings that hold JSON.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by
from pyspark.sql.types import ArrayType, BooleanType, DataType, LongType, MapType, StringType, StructType

from bussrv.events import EVENT_CLASSES, Event, event_name

CORRUPT = "_corrupt"
"""The column with the text of lines that Spark cannot read as records."""

STAMP: dict[str, DataType] = {
    "v": LongType(),
    "prev": StringType(),
    "seq": LongType(),
    "time": StringType(),
    "mono": LongType(),
    "server": StringType(),
    "boot": StringType(),
    "outcome": StringType(),
    "event": StringType(),
}
"""The stamp of every record. ``time`` is text here; ``mono`` is in microseconds."""

_SCALARS: dict[Any, DataType] = {str: StringType(), int: LongType(), bool: BooleanType()}


def spark_type(annotation: Any) -> DataType:
    """The Spark type of a field of an event.

    :param annotation: its type in the event class, optional or not.
    :raises TypeError: if there is none.
    """
    kinds = [each for each in get_args(annotation) if each is not NoneType]
    if NoneType in get_args(annotation) and len(kinds) == 1:
        return spark_type(kinds[0])
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if get_origin(annotation) is tuple and kinds[1:] == [...]:
        return ArrayType(spark_type(kinds[0]))
    if get_origin(annotation) is dict and kinds[1:] == [str]:
        return MapType(StringType(), StringType())
    if get_origin(annotation) is dict or (kinds and all(hasattr(each, "__struct_fields__") for each in kinds)):
        return StringType()
    raise TypeError(f"no Spark type for {annotation}")


def event_fields(event: type[Event]) -> Iterator[tuple[str, DataType]]:
    """The names and Spark types of the fields of an event, with those that all events share."""
    hints = get_type_hints(event)
    for name in event.__struct_fields__:
        yield name, spark_type(hints[name])


def required_fields(event: type[Event]) -> tuple[str, ...]:
    """The fields that every record of this event must have."""
    parameters = inspect.signature(event).parameters
    required = (name for name in event.__struct_fields__ if parameters[name].default is inspect.Parameter.empty)
    return (*required, *_NEEDED.get(event_name(event), ()))


# Optional in the classes, but a record without them says nothing.
_NEEDED: dict[str, tuple[str, ...]] = {
    "session.opened": ("session",),
    "session.identified": ("session",),
    "session.closed": ("session",),
    "service.registered": ("session", "service"),
    "service.unregistered": ("session", "service"),
}


def _record_schema() -> StructType:
    fields = dict(STAMP)
    for event in EVENT_CLASSES:
        for name, kind in event_fields(event):
            if fields.setdefault(name, kind) != kind:
                raise TypeError(f"{event_name(event)} gives {name} another type than the events before it")
    schema = StructType()
    for name, kind in fields.items():
        schema.add(name, kind)
    return schema.add(CORRUPT, StringType())


RECORD_SCHEMA = _record_schema()
"""The stamp, the fields of all events, and ``CORRUPT``."""

RECORD_FIELDS = tuple(name for name in RECORD_SCHEMA.names if name not in {"v", "prev", "time", CORRUPT})
"""The fields of records that are kept. Their time is kept as a timestamp."""

HEAD: dict[str, DataType] = {
    "parts": LongType(),
    "previous": StructType().add("segment", LongType()).add("bytes", LongType()).add("digest", StringType()),
    "salvaged": StructType()
    .add("segment", LongType())
    .add("line", LongType())
    .add("seq", LongType())
    .add("reason", StringType()),
    "snapshot": LongType(),
    "part": LongType(),
    "state": StringType(),
}
"""The fields of the header and of the parts of the snapshot, which come before the records."""


def _line_schema() -> StructType:
    schema = StructType(list(RECORD_SCHEMA))
    for name, kind in HEAD.items():
        if name in RECORD_SCHEMA.names:
            raise TypeError(f"an event has the field {name}, which tells a header from a record")
        schema = schema.add(name, kind)
    return schema


LINE_SCHEMA = _line_schema()
"""The fields of any line of a segment: ``RECORD_SCHEMA`` and ``HEAD``."""

REQUIRED: dict[str, tuple[str, ...]] = {event_name(each): required_fields(each) for each in EVENT_CLASSES}
"""The fields that records of each event must have, beside the stamp."""


def boot_of_session() -> Column:
    """The boot that opened the ``session``: the first part of its id. NULL if the id has none."""
    return F.nullif(F.regexp_extract("session", r"^(.*)\.[^.]*$", 1), F.lit(""))
