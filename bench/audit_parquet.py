"""The measure of the audit: the same lines, parsed and written to Parquet, and nothing else.

Spark does it with ``from_json``, DuckDB with ``read_json``, both with the fields of all events as columns.
"""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from audit_answers import Answers
from audit_journals import segments_of
from audit_meter import Meter

from bussrv.audit.fold.lines import FoldLine

PARSED = "to Parquet"
"""The name of the phase."""

_SPARK: dict[Any, str] = {int: "bigint", bool: "boolean", str: "string"}
_DUCKDB = {"bigint": "BIGINT", "boolean": "BOOLEAN", "string": "VARCHAR", "array<string>": "VARCHAR[]"}


def _columns() -> dict[str, str]:
    """The fields of all events, and the types that Spark has for them; text for what has no fixed shape."""
    return {name: _type(kind) for name, kind in get_type_hints(FoldLine).items() if not name.startswith("_")}


def _type(kind: Any) -> str:
    kinds = [each for each in get_args(kind) if each is not types.NoneType]
    if get_origin(kind) in (Union, types.UnionType) and len(kinds) == 1:
        return _type(kinds[0])
    if get_origin(kind) in (ClassVar, Literal):
        return _type(kinds[0] if get_origin(kind) is ClassVar else type(kinds[0]))
    return "array<string>" if get_origin(kind) is tuple else _SPARK.get(kind, "string")


def with_spark(directories: list[Path], work: Path, meter: Meter) -> Answers:
    """Parse with Spark; its start is a phase of its own."""
    import audit_spark
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

    from bussrv.audit.spark.session import spark_session

    with meter.phase(audit_spark.START):
        session = spark_session()
        spark = session.__enter__()
    try:
        with meter.phase(PARSED):
            schema = ", ".join(f"`{name}` {kind}" for name, kind in _columns().items())
            text = spark.read.text([f"file://{each}" for each in directories], pathGlobFilter="*.jsonl")
            records = text.select(F.from_json("value", schema).alias("record")).select("record.*")
            records.where("seq IS NOT NULL").write.parquet(f"file://{work / 'parsed'}")
    finally:
        session.__exit__(None, None, None)
    return {}


def with_duckdb(directories: list[Path], work: Path, meter: Meter) -> Answers:
    """Parse with DuckDB."""
    import duckdb

    columns = {name: _DUCKDB[kind] for name, kind in _columns().items()}
    files = [str(each) for each in segments_of(directories)]
    with meter.phase(PARSED):
        read = f"read_json({files}, format = 'newline_delimited', columns = {columns})"
        duckdb.sql(f"COPY (FROM {read} WHERE seq IS NOT NULL) TO '{work / 'parsed.parquet'}'")
    return {}
