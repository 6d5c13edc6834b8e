"""From segments to records: every line is read, and one that is not what it should be is told apart, with the reason.

Lines are read as text and then parsed by Spark's JSON reader with an explicit schema. On its own that reader is silent
about blank lines, about whatever stands behind the first value of a line, and about bytes that are not UTF-8.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.findings import words
from bussrv.audit.schema import CORRUPT, HEAD, LINE_SCHEMA, RECORD_SCHEMA, REQUIRED, STAMP
from bussrv.audit.snapshot import Snapshot
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

RECORD, HEADER, PART = "record", "header", "part of a snapshot"
"""The kinds of lines. What cannot be told to be one of the others counts as a record."""

_NEEDED = {
    RECORD: tuple(STAMP),
    HEADER: ("v", "prev", "segment", "parts", "time", "server", "boot"),
    PART: ("v", "prev", "snapshot", "part", "state"),
}
_NEEDED_BY = {
    name: [kind for kind, names in _NEEDED.items() if name in names]
    for name in dict.fromkeys(name for names in _NEEDED.values() for name in names)
}


def read_journals(spark: SparkSession, snapshot: Snapshot) -> DataFrame:
    """Every line of the journals: ``RECORD_SCHEMA`` without the corrupt record, and

    - ``file`` and ``segment_first``: the segment and the number in its name; ``taken``: where the snapshot has it,
    - ``block`` and ``position``: sort the lines of one segment,
    - ``kind``: ``RECORD``, ``HEADER`` or ``PART``; ``head``: what is in ``HEAD``, but for the state, unless a record,
    - ``moment``: ``time`` as a timestamp,
    - ``hash``: the SHA-256 of the line,
    - ``problem``: why the line is not what its kind should be; NULL if it is,
    - ``raw``: the beginning of its text; NULL of a sound record.
    """
    head = F.struct(*[name for name in HEAD if name != "state"])
    shown = F.left(F.make_valid_utf8("raw"), F.lit(EXCERPT + 1))
    is_plain = (F.col("kind") == RECORD) & F.col("problem").isNull()
    return (
        _judged(_lines(spark, snapshot))
        .withColumn("hash", F.sha2(F.col("raw").cast("binary"), 256))
        .withColumn("raw", F.when(~is_plain, shown))
        .withColumn("head", F.when(F.col("kind") != RECORD, head))
        .drop(*HEAD, CORRUPT)
    )


def records_of(journals: DataFrame) -> DataFrame:
    """The lines that are records.

    :param journals: what :func:`read_journals` returns.
    """
    return journals.where((F.col("kind") == RECORD) & F.col("problem").isNull()).select(
        *[name for name in RECORD_SCHEMA.names if name not in {"v", "prev", CORRUPT}],
        "file",
        "segment_first",
        "moment",
        F.lit(False).alias("given"),
    )


def places_of(journals: DataFrame) -> DataFrame:
    """Every line with its place: ``line``, its number, and ``hash_before``, the hash of the line before it. A header or
    part that is sound as such, but stands where it does not belong, has its ``problem`` here.

    :param journals: what :func:`read_journals` returns.
    """
    in_file = Window.partitionBy("taken").orderBy("block", "position")
    columns = ("taken", "file", "segment_first", "kind", "head", "prev", "hash", "problem", "raw")
    placed = journals.select(
        *columns,
        *("server", "boot", "seq"),
        F.row_number().over(in_file).cast("bigint").alias("line"),
        F.lag("hash").over(in_file).alias("hash_before"),
        F.first(F.struct("kind", "problem")).over(in_file).alias("first"),
    )
    return placed.withColumn("problem", F.coalesce("problem", _misplaced())).drop("first")


def _misplaced() -> Column:
    is_header, is_part = F.col("kind") == HEADER, F.col("kind") == PART
    behind_header = (F.col("first.kind") == HEADER) & F.col("first.problem").isNull()
    return (
        F.when(is_header & (F.col("line") > 1), F.lit("not in the first line"))
        .when(is_part & ~behind_header, F.lit("without a header"))
        .when(is_part & (F.col("head.part") != F.col("line") - 1), words("part ", F.col("head.part"), " in its place"))
    )


def bad_lines(places: DataFrame) -> DataFrame:
    """The lines that are not what they should be: ``file``, ``line`` (its number), ``kind``, ``problem`` and ``raw``
    (the beginning of its text).

    :param places: what :func:`places_of` returns.
    """
    return places.where(F.col("problem").isNotNull()).select("file", "line", "kind", "problem", "raw")


def _lines(spark: SparkSession, snapshot: Snapshot) -> DataFrame:
    """Lines as text, with where they stand."""
    text = spark.read.text(f"file://{snapshot.root}", lineSep="\n", recursiveFileLookup=True)
    directories = F.array(*[F.lit(str(directory)) for directory in snapshot.journals])
    taken = F.regexp_extract("_metadata.file_path", r"\d+/\d+\.jsonl(\.gz)?$", 0)
    name = F.substring_index(taken, "/", -1)
    return text.select(
        F.col("value").alias("raw"),
        taken.alias("taken"),
        F.concat_ws("/", F.get(directories, F.substring_index(taken, "/", 1).cast("int")), name).alias("file"),
        F.substring_index(name, ".", 1).try_cast("bigint").alias("segment_first"),
        F.col("_metadata.file_block_start").alias("block"),
        F.monotonically_increasing_id().alias("position"),
    )


def _judged(lines: DataFrame) -> DataFrame:
    """Lines with their fields, their ``kind``, and the ``problem`` if they are not what that should be."""
    parsed = lines.withColumn("fields", F.from_json("raw", LINE_SCHEMA, _JSON_OPTIONS))
    values = F.json_array_length(F.concat(F.lit("["), F.col("raw"), F.lit("]")))
    fields = parsed.select(
        *lines.columns,
        "fields.*",
        F.is_valid_utf8("raw").alias("is_utf8"),
        (F.coalesce(values, F.lit(0)) == 1).alias("is_one_value"),
    )
    return (
        fields.withColumn("moment", F.when(F.col("time").rlike(_TIME), F.col("time").try_cast("timestamp")))
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
    return F.coalesce(*[F.when(condition, problem) for condition, problem in checks])


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
        (of_segment != F.col("segment_first"), words("of segment ", of_segment)),
    ]
