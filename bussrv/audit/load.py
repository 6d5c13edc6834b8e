"""From segments to records: every line is read, and one that is no record is told apart, with the reason why.

Lines are read as text and then parsed by Spark's JSON reader with an explicit schema. On its own that reader is silent
about blank lines, about whatever stands behind the first value of a line, and about bytes that are not UTF-8.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.schema import CORRUPT, RECORD_SCHEMA, REQUIRED, STAMP
from bussrv.audit.snapshot import Snapshot
from bussrv.journal.record import SCHEMA_VERSION

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


def read_journals(spark: SparkSession, snapshot: Snapshot) -> DataFrame:
    """Every line of the journals: ``RECORD_SCHEMA`` without the corrupt record, and

    - ``file`` and ``segment_first``: the segment and the number in its name; ``taken``: where the snapshot has it,
    - ``moment``: ``time`` as a timestamp,
    - ``problem``: why the line is no record; NULL if it is one.
    """
    lines = _lines(spark, snapshot, (snapshot.root,))
    return _judged(lines).drop("raw", "part", "position", CORRUPT)


def records_of(journals: DataFrame) -> DataFrame:
    """The lines that are records.

    :param journals: what :func:`read_journals` returns.
    """
    return journals.where(F.col("problem").isNull()).drop("problem", "taken")


def bad_lines(spark: SparkSession, snapshot: Snapshot, journals: DataFrame) -> DataFrame:
    """The lines that are no records: ``file``, ``line`` (its number), ``problem`` and ``raw`` (its text).

    To number its lines a segment is read once more; that is done to those that have such a line.

    :param journals: what :func:`read_journals` returns.
    """
    damaged = journals.where(F.col("problem").isNotNull()).select("taken").distinct().collect()
    if not damaged:
        return spark.createDataFrame([], "file string, line bigint, problem string, raw string")
    lines = _lines(spark, snapshot, [snapshot.root / row.taken for row in damaged])
    in_file = Window.partitionBy("taken").orderBy("part", "position")
    numbered = lines.withColumn("line", F.row_number().over(in_file).cast("bigint"))
    return _judged(numbered).where(F.col("problem").isNotNull()).select("file", "line", "problem", "raw")


def _lines(spark: SparkSession, snapshot: Snapshot, paths: Sequence[Path]) -> DataFrame:
    """Lines as text, with where they stand: ``part`` and ``position`` sort the lines of one file.

    :param paths: files of the snapshot, or directories of it.
    """
    text = spark.read.text([f"file://{path}" for path in paths], lineSep="\n", recursiveFileLookup=True)
    directories = F.array(*[F.lit(str(directory)) for directory in snapshot.journals])
    taken = F.regexp_extract("_metadata.file_path", r"\d+/\d+\.jsonl$", 0)
    name = F.substring_index(taken, "/", -1)
    return text.select(
        F.col("value").alias("raw"),
        taken.alias("taken"),
        F.concat_ws("/", F.get(directories, F.substring_index(taken, "/", 1).cast("int")), name).alias("file"),
        F.substring_index(name, ".", 1).try_cast("bigint").alias("segment_first"),
        F.col("_metadata.file_block_start").alias("part"),
        F.monotonically_increasing_id().alias("position"),
    )


def _judged(lines: DataFrame) -> DataFrame:
    """Lines with the fields of their records, or the ``problem`` that they are none."""
    parsed = lines.withColumn("record", F.from_json("raw", RECORD_SCHEMA, _JSON_OPTIONS))
    values = F.json_array_length(F.concat(F.lit("["), F.col("raw"), F.lit("]")))
    fields = parsed.select(
        *lines.columns,
        "record.*",
        F.is_valid_utf8("raw").alias("is_utf8"),
        (F.coalesce(values, F.lit(0)) == 1).alias("is_one_value"),
    )
    timed = fields.withColumn("moment", F.when(F.col("time").rlike(_TIME), F.col("time").try_cast("timestamp")))
    return timed.withColumn("problem", _problem()).drop("is_utf8", "is_one_value")


def _problem() -> Column:
    """The first reason, in words, why a line is no record; NULL if there is none."""
    checks = [
        (F.trim("raw") == "", F.lit("blank")),
        (~F.col("is_utf8"), F.lit("not UTF-8")),
        (~F.col("is_one_value"), F.lit("not one JSON value")),
        (F.col(CORRUPT).isNotNull(), F.lit("not a JSON object, or a field of it has the wrong type")),
        *[(F.col(name).isNull(), F.lit(f"without {name}")) for name in STAMP],
        (F.col("v") != SCHEMA_VERSION, F.concat(F.lit("schema version "), F.col("v").cast("string"))),
        (F.col("seq") < 1, F.concat(F.lit("number "), F.col("seq").cast("string"))),
        (F.col("moment").isNull(), F.lit("with a malformed time")),
        (~F.col("outcome").isin(*OUTCOMES), F.lit("with an unknown outcome")),
        (~F.col("event").isin(*REQUIRED), F.lit("of an unknown event")),
        *[
            (F.col(name).isNull() & F.col("event").isin(*events), F.concat("event", F.lit(f" without {name}")))
            for name, events in _EVENTS_WITH.items()
        ],
    ]
    return F.coalesce(*[F.when(condition, words) for condition, words in checks])
