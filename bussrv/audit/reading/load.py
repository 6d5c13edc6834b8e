"""From segments to records. Every line is read and checked. Why a line is bad, :class:`LineJudge` says.

Lines are read as text, and then parsed by Spark's JSON reader with an explicit schema. That reader alone accepts blank
lines, text after the first value of a line, and bytes that are not UTF-8. So these are checked here.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.reading.segments import number_of
from bussrv.audit.tables.schema import CORRUPT, LINE_SCHEMA, RECORD_FIELDS, REQUIRED, STAMP
from bussrv.journal.versions import FIRST_WITH_CLAIMS, PROVING, READ_VERSIONS

OUTCOMES = ("ok", "refused", "failed")

_TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$"

# Strict JSON, as the server reads it.
_JSON_OPTIONS = {
    "columnNameOfCorruptRecord": CORRUPT,
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}

_EVENTS_WITH = {
    name: [event for event, names in REQUIRED.items() if name in names]
    for name in dict.fromkeys(name for names in REQUIRED.values() for name in names)
}

_COMMON = (
    *("session.opened", "session.identified", "session.closed", "service.registered", "service.unregistered"),
    *("subscription.added", "subscription.removed", "subscription.renewed", "subscription.refused", "auth.failed"),
)
"""Most records are of these events. :func:`_is_plain` checks all fields that they need."""

RECORD, HEADER, PART = "record", "header", "part of a snapshot"
"""The kinds of lines. A line that is neither of the others counts as a record."""

_OF_LINES = (
    *("taken", "block", "position", "kind", "parts", "part"),
    *("moment", "link", "back", "is_sound"),
)

_NEEDED = {
    RECORD: tuple(STAMP),
    HEADER: ("v", "prev", "segment", "parts", "time", "server", "boot"),
    PART: ("v", "prev", "snapshot", "part", "state"),
}
_NEEDED_BY = {
    name: [kind for kind, names in _NEEDED.items() if name in names]
    for name in dict.fromkeys(name for names in _NEEDED.values() for name in names)
}

_MEMBERS = {"previous": ("segment", "bytes", "digest"), "salvaged": ("segment", "line", "reason")}
"""The members of a header that are objects, and what they need."""


def lines_of(text: DataFrame) -> DataFrame:
    """One row a line, with ``RECORD_FIELDS`` and

    - ``taken``: the segment,
    - ``block`` and ``position``: the order of lines in a segment; in a block, positions have no gaps,
    - ``kind``: ``RECORD``, ``HEADER`` or ``PART``; ``parts`` and ``part`` of the latter two,
    - ``moment``: its time as a timestamp,
    - ``link``: a 64-bit hash of its SHA-256,
    - ``back``: the same of the SHA-256 that it states for the line before it,
    - ``is_sound``: whether it is what a line of its kind should be.

    :param text: what :func:`bussrv.audit.reading.segments.read_text` returns.
    """
    return (
        judged(text.withColumn("position", F.monotonically_increasing_id()))
        .withColumn("link", F.xxhash64(F.sha2(F.col("raw").cast("binary"), 256)))
        .withColumn("back", F.xxhash64("prev"))
        .select(*RECORD_FIELDS, *_OF_LINES)
    )


def records_of(lines: DataFrame) -> DataFrame:
    """The lines that are records, with ``RECORD_FIELDS``, ``moment`` and

    - ``segment_first``: the number in the name of the segment,
    - ``given``: whether it belongs to the baseline, which is false.

    :param lines: what :func:`lines_of` returns.
    """
    return lines.where((F.col("kind") == RECORD) & F.col("is_sound")).select(
        *RECORD_FIELDS, "moment", number_of(F.col("taken")).alias("segment_first"), F.lit(False).alias("given")
    )


def judged(lines: DataFrame) -> DataFrame:
    """Lines with their fields, their ``kind``, and whether each ``is_sound``.

    :param lines: ``raw`` and ``taken`` among its columns.
    """
    parsed = lines.withColumn("fields", F.from_json("raw", LINE_SCHEMA, _JSON_OPTIONS))
    values = F.json_array_length(F.concat(F.lit("["), F.col("raw"), F.lit("]")))
    # Spark takes the last one of several events, and the judge none that follows another.
    says_event_once = F.octet_length(F.substring_index("raw", '"event"', 2)) == F.octet_length("raw")
    fields = parsed.select(
        *lines.columns,
        "fields.*",
        F.is_valid_utf8("raw").alias("is_utf8"),
        says_event_once.alias("says_event_once"),
    )
    # If its only closing brace ends the line, the object is the whole line. Most lines are so, and checking that is
    # cheaper than parsing them again.
    ends_once = F.octet_length(F.substring_index("raw", "}", 1)) + 1 == F.octet_length("raw")
    is_one = F.col(CORRUPT).isNull() & ends_once
    return (
        fields.withColumn("is_one_value", F.when(is_one, F.lit(True)).otherwise(F.coalesce(values, F.lit(0)) == 1))
        .withColumn("moment", F.when(F.col("time").rlike(_TIME), F.col("time").try_cast("timestamp")))
        .withColumns(persons(F.col("event") != "auth.failed"))
        .withColumn("kind", _kind())
        .withColumn("is_sound", F.when(_is_plain(), F.lit(True)).otherwise(_apart(~_is_bad())))
        .drop("is_utf8", "is_one_value", "says_event_once")
    )


def persons(is_no_attempt: Column) -> dict[str, Column]:
    """``actor`` and ``claimed`` as today's schema version has them; see :func:`bussrv.journal.versions.of_today`.

    :param is_no_attempt: whether the row is anything except a failed login.
    """
    is_older = F.coalesce(F.col("v") < FIRST_WITH_CLAIMS, F.lit(False))
    is_proved = F.coalesce((F.col("protocol") == PROVING) & is_no_attempt, F.lit(False))
    return {
        "actor": F.when(~is_older | is_proved, F.col("actor")),
        "claimed": F.when(~is_older, F.col("claimed")).when(~is_proved, F.col("actor")),
    }


def _kind() -> Column:
    # Some events have a field `segment` as well.
    is_record = F.col("seq").isNotNull() | F.col("event").isNotNull()
    return (
        F.when(is_record, F.lit(RECORD))
        .when(F.col("snapshot").isNotNull(), F.lit(PART))
        .when(F.col("segment").isNotNull(), F.lit(HEADER))
        .otherwise(F.lit(RECORD))
    )


def _is_bad() -> Column:
    """Whether a line is not what a line of its kind should be."""
    kind = F.col("kind")
    checks = [
        F.trim("raw") == "",
        ~F.col("is_utf8"),
        ~F.col("is_one_value"),
        ~F.col("says_event_once") & (F.get_json_object("raw", "$.event") != F.col("event")),
        ~F.col("v").isin(*READ_VERSIONS),
        # Not a JSON object, or a field of it has the wrong type.
        F.col(CORRUPT).isNotNull(),
        *[F.col(name).isNull() & kind.isin(*kinds) for name, kinds in _NEEDED_BY.items()],
        (kind != PART) & F.col("moment").isNull(),
        F.col("seq") < 1,
        ~F.col("outcome").isin(*OUTCOMES),
        ~F.col("event").isin(*REQUIRED),
        *[F.col(name).isNull() & F.col("event").isin(*events) for name, events in _EVENTS_WITH.items()],
        *[
            (kind == HEADER) & F.col(name).isNotNull() & F.col(f"{name}.{member}").isNull()
            for name, members in _MEMBERS.items()
            for member in members
        ],
        (kind == PART) & ~F.col("state").startswith("{"),
        F.when(kind == HEADER, F.col("segment")).when(kind == PART, F.col("snapshot")) != number_of(F.col("taken")),
    ]
    # Not with `|`: Spark Connect refuses expressions that nest so deep.
    return F.coalesce(*[F.when(each, F.lit(True)) for each in checks], F.lit(False))


def _is_plain() -> Column:
    """Whether a line is a sound record of a common event. All other lines take all checks."""
    needed = [F.col(name).isNotNull() for name in ("prev", "mono", "server", "boot", "moment", "session")]
    is_plain = (
        (F.col("kind") == RECORD)
        & F.col("is_utf8")
        & F.col("is_one_value")
        & F.col("says_event_once")
        & F.col(CORRUPT).isNull()
        & F.col("v").isin(*READ_VERSIONS)
        & (F.col("seq") >= 1)
        & F.col("outcome").isin(*OUTCOMES)
        & F.col("event").isin(*_COMMON)
        & (F.col("service").isNotNull() | ~F.col("event").isin(*_EVENTS_WITH["service"]))
        & (F.col("duration").isNotNull() | ~F.col("event").isin(*_EVENTS_WITH["duration"]))
    )
    for each in needed:
        is_plain = is_plain & each
    return F.coalesce(is_plain, F.lit(False))


def _apart(value: Column) -> Column:
    """The same column, computed apart from the others.

    Spark makes one Java method of all columns of a stage, except array functions. Java does not compile a method this
    large, and the whole stage would take many times as long.
    """
    return F.get(F.transform(F.array(F.lit(0)), lambda _: value), F.lit(0))
