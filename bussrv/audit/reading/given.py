"""The baseline: the registry before the first record of each server, as rows like those of records.

Each segment begins with a snapshot of the registry. That of the first one stands for older segments, which are removed
or left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by
from pyspark.sql.types import DataType

from bussrv.audit.reading.load import PART, judged, persons
from bussrv.audit.reading.segments import number_of, read_text
from bussrv.audit.reading.snapshot import Snapshot
from bussrv.audit.spark.store import small_table
from bussrv.audit.tables.schema import boot_of_session
from bussrv.journal.header import Header

_STATE = (
    "sessions array<struct<id string, protocol string, routing_id string, peer string, opened bigint, "
    "persistent boolean, home string, routing_ids array<string>, actor string, claimed string, name string, "
    "role string, vocabulary string>>, "
    "services map<string, map<string, bigint>>, "
    "subscriptions array<struct<session string, service string, interest string, added bigint, renewed bigint, "
    "options string>>"
)

_ABOUT = ("protocol", "routing_id", "peer", "actor", "claimed")
_IDENTITY = ("routing_ids", "actor", "claimed", "name", "role", "vocabulary")


def first_segments(headers: Mapping[str, Header]) -> dict[str, Header]:
    """The headers of the segments that hold the first record of a server.

    :param headers: of all segments, by the name of the segment in the snapshot.
    """
    found: dict[str, tuple[str, Header]] = {}
    for taken, header in headers.items():
        if header.server not in found or header.segment < found[header.server][1].segment:
            found[header.server] = taken, header
    return dict(found.values())


def given(spark: SparkSession, snapshot: Snapshot, first: Mapping[str, Header], records: DataFrame) -> DataFrame | None:
    """The baseline, or ``None`` if all registries were empty.

    Its rows are ``session.opened``, ``session.identified``, ``service.registered``, ``subscription.added`` and
    ``subscription.renewed``, in the columns of ``records``. They have the number before the first record, and the
    times of the original changes.

    :param first: the headers of :func:`first_segments`. Segments that begin with an empty registry add nothing.
    """
    begun = {taken: header for taken, header in first.items() if header.parts}
    if not begun:
        return None
    state = _states(spark, snapshot, begun)
    sessions = state.select("server", "segment_first", "v", F.explode("state.sessions").alias("told"))
    sessions = sessions.select("server", "segment_first", "v", F.col("told.id").alias("session"), "told.*")
    sessions = sessions.withColumns(persons(F.lit(True))).drop("id", "v")
    about = sessions.select("server", "session", *_ABOUT)
    rows = [
        _rows(sessions, "session.opened", 0, "opened").drop(*_IDENTITY),
        _rows(sessions.where(_is_identified()), "session.identified", 1, "opened").drop("persistent", "home"),
        _rows(_providers(state), "service.registered", 2, "since").join(about, on=["server", "session"], how="left"),
    ]
    subscriptions = _subscriptions(state).join(about, on=["server", "session"], how="left")
    rows.append(_rows(subscriptions, "subscription.added", 3, "added"))
    renewed = subscriptions.where(F.col("renewed") > F.col("added")).drop("interest")
    rows.append(_rows(renewed, "subscription.renewed", 4, "renewed"))
    kinds = {field.name: field.dataType for field in records.schema}
    return reduce(DataFrame.unionByName, [_with_all(each, kinds) for each in rows])


def _with_all(table: DataFrame, kinds: Mapping[str, DataType]) -> DataFrame:
    return table.select(
        *[
            (F.col(name) if name in table.columns else F.lit(None)).cast(kind).alias(name)
            for name, kind in kinds.items()
        ]
    )


def _states(spark: SparkSession, snapshot: Snapshot, first: Mapping[str, Header]) -> DataFrame:
    rows = [(taken, header.server) for taken, header in first.items()]
    servers = small_table(spark, rows, "taken string, by string")
    lines = judged(read_text(spark, snapshot, only=[*first]))
    parts = lines.where(F.col("is_sound") & (F.col("kind") == PART))
    return parts.join(F.broadcast(servers), on="taken").select(
        F.col("by").alias("server"),
        number_of(F.col("taken")).alias("segment_first"),
        "v",
        F.from_json("state", _STATE).alias("state"),
    )


def _is_identified() -> Column:
    told = [F.col(name).isNotNull() for name in _IDENTITY[1:]]
    found = F.size("routing_ids") > 0
    for each in told:
        found = found | each
    return found


def _providers(state: DataFrame) -> DataFrame:
    services = state.select("server", "segment_first", F.explode("state.services").alias("service", "sessions"))
    return services.select("server", "segment_first", "service", F.explode("sessions").alias("session", "since"))


def _subscriptions(state: DataFrame) -> DataFrame:
    told = state.select("server", "segment_first", F.explode("state.subscriptions").alias("told"))
    return told.select("server", "segment_first", "told.*")


def _rows(table: DataFrame, event: str, rank: int, time: str) -> DataFrame:
    """Rows of a table as records of an event.

    :param rank: the place of the event among those of one number.
    :param time: the column with its time, in microseconds.
    """
    return table.select(
        "*",
        F.lit(event).alias("event"),
        F.lit("ok").alias("outcome"),
        (F.col("segment_first") - 1).alias("seq"),
        F.lit(rank).cast("bigint").alias("mono"),
        F.timestamp_micros(F.col(time)).alias("moment"),
        boot_of_session().alias("boot"),
        F.lit(True).alias("given"),
    )
