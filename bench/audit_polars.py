"""The same in Polars, from the JSON lines. It trusts the journal, as DuckDB does, and does not look at the chain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from audit_answers import Answers, as_answer
from audit_journals import segments_of

TEXTS = ("time", "server", "event", "outcome", "protocol", "session", "service", "reason", "home")
NUMBERS = ("seq", "suppressed", "objects_in", "objects_out", "bytes_in", "bytes_out")
TRAFFIC = NUMBERS[2:]


def run(directories: list[Path]) -> Answers:
    """The answers."""
    import polars as pl

    schema = {**dict.fromkeys(TEXTS, pl.String), **dict.fromkeys(NUMBERS, pl.Int64)}
    lines = pl.scan_ndjson(segments_of(directories), schema=schema)
    time = pl.col("time").str.to_datetime("%Y-%m-%dT%H:%M:%S%.6fZ", time_unit="us", strict=True)
    records = lines.filter(pl.col("seq").is_not_null()).with_columns(time)
    # Only what is asked for more than once is kept; the streaming engine does the rest in one pass.
    table = records.collect(engine="streaming")
    tables = {**_counts(table), **_of_sessions(table), "provided": _provided(table), "numbers": _numbers(table)}
    keys = {"records": 4, "refusals": 3, "numbers": 1}
    return {name: as_answer(found.rows(), keys.get(name, 2)) for name, found in tables.items()}


def _counts(table: Any) -> dict[str, Any]:
    import polars as pl

    numbers = [pl.len().alias("records"), pl.col("suppressed").sum()]
    event = pl.col("event")
    refused = event.str.ends_with(".refused") | event.is_in(["auth.failed", "limit.reached"])
    return {
        "records": table.group_by("server", "event", "protocol", "outcome").agg(numbers),
        "refusals": table.filter(refused).group_by("server", "event", "reason").agg(numbers),
    }


def _of_sessions(table: Any) -> dict[str, Any]:
    import polars as pl

    event = pl.col("event")
    sessions = (
        table.lazy()
        .filter(pl.col("session").is_not_null())
        .group_by("server", "session")
        .agg(
            pl.col("protocol").drop_nulls().first(),
            pl.col("home").drop_nulls().first(),
            (event == "session.opened").any().alias("opened"),
            (event == "session.closed").any().alias("closed"),
            *[pl.col(name).sum() for name in TRAFFIC],
        )
        .collect()
    )
    is_open = ~pl.col("closed")
    near = sessions.filter(pl.col("home").is_null())
    changes = (
        table.filter(event.is_in(["session.opened", "session.closed"]))
        .join(near.select("server", "session"), on=["server", "session"], how="semi")
        .group_by("server", "protocol", "time")
        .agg((2 * (event == "session.opened").cast(pl.Int64) - 1).sum().alias("change"))
        .sort("time")
    )
    return {
        "sessions": near.group_by("server", "protocol").agg(
            pl.col("opened").sum(), pl.col("closed").sum(), is_open.sum().alias("open")
        ),
        "traffic": sessions.group_by("server", "protocol").agg([pl.col(name).sum() for name in TRAFFIC]),
        "peak": changes.group_by("server", "protocol", maintain_order=True).agg(pl.col("change").cum_sum().max()),
    }


def _provided(table: Any) -> Any:
    import polars as pl

    event, time = pl.col("event"), pl.col("time")
    ends = table.group_by("server").agg(time.max().alias("last_time"))
    in_service = ["server", "service"]
    steps = (
        table.filter(event.is_in(["service.registered", "service.unregistered"]))
        .sort("seq")
        .with_columns(
            (2 * (event == "service.registered").cast(pl.Int64) - 1).cum_sum().over(in_service).alias("number"),
            time.shift(-1).over(in_service).alias("until"),
        )
        .join(ends, on="server")
    )
    lasted = (pl.coalesce("until", "last_time") - time).dt.total_microseconds()
    return steps.group_by(in_service).agg(pl.when(pl.col("number") > 0).then(lasted).otherwise(0).sum())


def _numbers(table: Any) -> Any:
    import polars as pl

    before = pl.col("seq").shift(1, fill_value=0).over("server", order_by="seq")
    broken = table.select("server", "seq").filter(pl.col("seq") != before + 1)
    return broken.group_by("server").agg(pl.len())
