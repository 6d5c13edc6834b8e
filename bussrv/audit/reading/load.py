"""From segments to records: every line is read, and one that is not what it should be is told apart, with the reason.

Lines are read as text and then parsed by Spark's JSON reader with an explicit schema. On its own that reader is silent
about blank lines, about whatever stands behind the first value of a line, and about bytes that are not UTF-8.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.findings import words
from bussrv.audit.reading.segments import number_of
from bussrv.audit.schema import CORRUPT, LINE_SCHEMA, RECORD_FIELDS, REQUIRED, STAMP
from bussrv.journal.record import SCHEMA_VERSION

OUTCOMES = ("ok", "refused", "failed")

EXCERPT = 160
"""How many characters of a bad line are shown."""

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
"""Most records are of these events. None of them needs a field that :func:`_is_plain` does not look at."""

RECORD, HEADER, PART = "record", "header", "part of a snapshot"
"""The kinds of lines. What cannot be told to be one of the others counts as a record."""

_OF_LINES = (
    *("taken", "block", "position", "kind", "parts", "part"),
    *("moment", "link", "back", "problem", "raw"),
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


def lines_of(text: DataFrame) -> DataFrame:
    """Every line: ``RECORD_FIELDS``, and

    - ``taken``: the segment; ``block`` and ``position``: sort the lines of one, and consecutive lines of a block have
      consecutive positions,
    - ``kind``: ``RECORD``, ``HEADER`` or ``PART``; ``parts`` and ``part`` of the latter two,
    - ``moment``: its time as a timestamp,
    - ``link`` and ``back``: 64-bit hashes of its SHA-256 and of what it says the SHA-256 of the line before it is,
    - ``problem``: why the line is not what its kind should be; NULL if it is,
    - ``raw``: the beginning of its text; NULL unless there is a problem.

    :param text: what :func:`bussrv.audit.reading.segments.read_text` returns.
    """
    shown = F.left(F.make_valid_utf8("raw"), F.lit(EXCERPT + 1))
    return (
        judged(text.withColumn("position", F.monotonically_increasing_id()))
        .withColumn("link", F.xxhash64(hash_of("raw")))
        .withColumn("back", F.xxhash64("prev"))
        .withColumn("raw", F.when(F.col("problem").isNotNull(), shown))
        .select(*RECORD_FIELDS, *_OF_LINES)
    )


def hash_of(line: str) -> Column:
    """The SHA-256 of a line, as the next one holds it."""
    return F.sha2(F.col(line).cast("binary"), 256)


def records_of(lines: DataFrame) -> DataFrame:
    """The lines that are records: ``RECORD_FIELDS``, ``moment``, ``segment_first``: the number in the name of the
    segment, and ``given``: false.

    :param lines: what :func:`lines_of` returns.
    """
    return lines.where((F.col("kind") == RECORD) & F.col("problem").isNull()).select(
        *RECORD_FIELDS, "moment", number_of(F.col("taken")).alias("segment_first"), F.lit(False).alias("given")
    )


def judged(lines: DataFrame) -> DataFrame:
    """Lines with their fields, their ``kind``, and the ``problem`` if they are not what that should be.

    :param lines: ``raw`` and ``taken`` among its columns.
    """
    parsed = lines.withColumn("fields", F.from_json("raw", LINE_SCHEMA, _JSON_OPTIONS))
    values = F.json_array_length(F.concat(F.lit("["), F.col("raw"), F.lit("]")))
    fields = parsed.select(*lines.columns, "fields.*", F.is_valid_utf8("raw").alias("is_utf8"))
    # Its only closing brace ends the line: what was read as an object is then all that is there. Most lines are like
    # that, and looking is cheaper than parsing them once more.
    ends_once = F.octet_length(F.substring_index("raw", "}", 1)) + 1 == F.octet_length("raw")
    is_one = F.col(CORRUPT).isNull() & ends_once
    return (
        fields.withColumn("is_one_value", F.when(is_one, F.lit(True)).otherwise(F.coalesce(values, F.lit(0)) == 1))
        .withColumn("moment", F.when(F.col("time").rlike(_TIME), F.col("time").try_cast("timestamp")))
        .withColumn("kind", _kind())
        .withColumn("problem", _problem())
        .drop("is_utf8", "is_one_value")
    )


def _kind() -> Column:
    # Some events have a field `segment`, too.
    is_record = F.col("seq").isNotNull() | F.col("event").isNotNull()
    return (
        F.when(is_record, F.lit(RECORD))
        .when(F.col("snapshot").isNotNull(), F.lit(PART))
        .when(F.col("segment").isNotNull(), F.lit(HEADER))
        .otherwise(F.lit(RECORD))
    )


def _problem() -> Column:
    """The first reason, in words, why a line is not what it should be; NULL if there is none."""
    checks = [
        (F.trim("raw") == "", F.lit("blank")),
        (~F.col("is_utf8"), F.lit("not UTF-8")),
        (~F.col("is_one_value"), F.lit("not one JSON value")),
        # What another version means by its fields is not known.
        (F.col("v") != SCHEMA_VERSION, words("schema version ", F.col("v"))),
        (F.col(CORRUPT).isNotNull(), F.lit("not a JSON object, or a field of it has the wrong type")),
        *[
            (F.col(name).isNull() & F.col("kind").isin(*kinds), F.lit(f"without {name}"))
            for name, kinds in _NEEDED_BY.items()
        ],
        ((F.col("kind") != PART) & F.col("moment").isNull(), F.lit("with a malformed time")),
        *_problems_of_records(),
        *_problems_of_heads(),
    ]
    first = F.coalesce(*[F.when(condition, problem) for condition, problem in checks])
    return F.when(~_is_plain(), _apart(first))


def _is_plain() -> Column:
    """Whether a line is a sound record of an event that is common. Of the others, all checks tell."""
    needed = [F.col(name).isNotNull() for name in ("prev", "mono", "server", "boot", "moment", "session")]
    is_plain = (
        (F.col("kind") == RECORD)
        & F.col("is_utf8")
        & F.col("is_one_value")
        & F.col(CORRUPT).isNull()
        & (F.col("v") == SCHEMA_VERSION)
        & (F.col("seq") >= 1)
        & F.col("outcome").isin(*OUTCOMES)
        & F.col("event").isin(*_COMMON)
        & (F.col("service").isNotNull() | ~F.col("event").isin(*_EVENTS_WITH["service"]))
        & (F.col("duration").isNotNull() | ~F.col("event").isin(*_EVENTS_WITH["duration"]))
    )
    for each in needed:
        is_plain = is_plain & each
    return F.coalesce(is_plain, F.lit(False))


def _apart(text: Column) -> Column:
    """The same, computed apart from the columns beside it.

    Spark makes one method of Java of all columns of a step, as it can. Java does not compile one this large, and then
    all of it takes many times as long. Functions of arrays are left out of it.
    """
    return F.get(F.transform(F.array(F.lit(0)), lambda _: text), F.lit(0))


def _problems_of_records() -> list[tuple[Column, Column]]:
    return [
        (F.col("seq") < 1, words("number ", F.col("seq"))),
        (~F.col("outcome").isin(*OUTCOMES), F.lit("with an unknown outcome")),
        (~F.col("event").isin(*REQUIRED), F.lit("of an unknown event")),
        *[
            (F.col(name).isNull() & F.col("event").isin(*events), F.concat("event", F.lit(f" without {name}")))
            for name, events in _EVENTS_WITH.items()
        ],
    ]


def _problems_of_heads() -> list[tuple[Column, Column]]:
    """Problems of headers, and of the parts of a snapshot."""
    members = {"previous": ("segment", "bytes", "digest"), "salvaged": ("segment", "line", "reason")}
    incomplete = [
        (F.col(name).isNotNull() & F.col(f"{name}.{member}").isNull(), F.lit(f"with {name} without {member}"))
        for name, needed in members.items()
        for member in needed
    ]
    of_header = [((F.col("kind") == HEADER) & condition, problem) for condition, problem in incomplete]
    of_segment = F.when(F.col("kind") == HEADER, F.col("segment")).when(F.col("kind") == PART, F.col("snapshot"))
    return [
        *of_header,
        ((F.col("kind") == PART) & ~F.col("state").startswith("{"), F.lit("with a malformed state")),
        (of_segment != number_of(F.col("taken")), words("of segment ", of_segment)),
    ]
