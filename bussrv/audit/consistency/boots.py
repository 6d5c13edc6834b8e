"""Findings about boots that begin, end or follow each other in an impossible way."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.consistency.known import by_journal, happened, has_settled
from bussrv.audit.tables.findings import as_findings, words
from bussrv.audit.tables.period import Period


def findings(records: DataFrame, boots: DataFrame, period: Period) -> DataFrame:
    """Findings about boots, each compared with the one before it."""
    in_order = Window.partitionBy("server").orderBy("first_seq", "first_moment", "boot")
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    rows = (
        boots.select("server", "boot", "first_seq", "last_seq", "first_moment", "last_moment")
        .join(_facts(records), on=["server", "boot"], how="inner")
        .withColumn("stopped_last", F.coalesce(F.col("last_stop") == F.col("last_seq"), F.lit(False)))
        .withColumn("after_stop", F.lag("stopped_last").over(in_order))
        .withColumn("latest", F.max("last_seq").over(earlier))
    )
    checks = F.array_compact(F.array(*_checks()))
    found = rows.select("server", "boot", F.explode(checks).alias("found")).select("server", "boot", "found.*")
    return as_findings(
        found.where(period.is_begun(F.col("at"))).select(
            "kind",
            "server",
            "boot",
            "first_seq",
            "last_seq",
            F.col("at").alias("moment"),
            words("boot ", F.col("boot"), " ", F.col("what")).alias("message"),
        )
    )


def _facts(records: DataFrame) -> DataFrame:
    """One row a boot: the numbers that the checks need."""
    started, stopped, recovered = (happened(f"server.{each}") for each in ("started", "stopped", "recovered"))

    def where(condition: Column, column: str = "seq") -> Column:
        return F.when(condition, F.col(column))

    return (
        records.where(~F.col("given"))
        .groupBy("server", "boot")
        .agg(
            F.min(where(has_settled())).alias("settled"),
            F.min(where(started)).alias("first_start"),
            F.max(where(started)).alias("last_start"),
            F.min(where(stopped)).alias("first_stop"),
            F.max(where(stopped)).alias("last_stop"),
            F.max(where(~by_journal())).alias("last_of_server"),
            F.min(where(recovered)).alias("recovered"),
            F.max(where(recovered, "sessions_closed")).alias("sessions_closed"),
            F.max(where(recovered, "torn_bytes")).alias("torn_bytes"),
            F.count_if(happened("session.closed") & (F.col("reason") == "server-crashed")).alias("closed"),
            F.bool_or(happened("journal.salvaged")).alias("salvaged"),
        )
    )


def _checks() -> list[Column]:
    after_stop, settled, first_start = F.col("after_stop"), F.col("settled"), F.col("first_start")
    is_first = after_stop.isNull()
    has_beginning = ~is_first | (F.col("first_seq") == 1)
    not_recovered = F.col("recovered").isNull() & ~F.col("salvaged")
    not_torn = F.coalesce("torn_bytes", F.lit(0)) == 0
    first, last = F.col("first_moment"), F.col("last_moment")
    return [
        _check(
            has_beginning & settled.isNotNull() & (first_start.isNull() | (settled < first_start)),
            "boot-not-started",
            ("settled", "settled", first),
            F.lit("was there before it started, or never did"),
        ),
        _check(
            F.col("last_start") > first_start,
            "boot-started-twice",
            ("first_start", "last_start", last),
            F.lit("started more than once"),
        ),
        _check(
            F.col("first_seq") < F.col("latest"),
            "boot-interleaved",
            ("first_seq", F.least("last_seq", "latest"), first),
            F.lit("has records among those of a boot before it"),
        ),
        _check(
            F.col("last_of_server") > F.col("first_stop"),
            "boot-record-after-stop",
            ("first_stop", "last_of_server", last),
            words("stopped in record ", F.col("first_stop"), ", but has record ", F.col("last_of_server")),
        ),
        _check(
            ~is_first & ~after_stop & first_start.isNotNull() & settled.isNotNull() & not_recovered,
            "boot-not-recovered",
            ("first_start", "first_start", first),
            F.lit("does not say that the boot before it had crashed"),
        ),
        _check(
            ~is_first & after_stop & not_torn & F.col("recovered").isNotNull() & ~F.col("salvaged"),
            "boot-recovered-after-stop",
            ("recovered", "recovered", first),
            F.lit("says that the boot before it had crashed, which had stopped; a start that was broken off does that"),
        ),
        _check(
            settled.isNotNull() & (F.col("sessions_closed") != F.col("closed")),
            "boot-miscounted",
            ("recovered", "recovered", first),
            words(
                "says that ",
                F.col("sessions_closed"),
                " sessions were left open by a crash, but closed ",
                F.col("closed"),
            ),
        ),
    ]


def _check(condition: Column, kind: str, place: tuple[str, str | Column, Column], what: Column) -> Column:
    """The finding about a boot if ``condition`` holds, else NULL.

    :param place: the first and the last record that it is about, and their time.
    """
    first, last, at = place
    return F.when(
        condition,
        F.struct(
            F.lit(kind).alias("kind"),
            F.col(first).alias("first_seq"),
            (F.col(last) if isinstance(last, str) else last).alias("last_seq"),
            at.alias("at"),
            what.alias("what"),
        ),
    )
