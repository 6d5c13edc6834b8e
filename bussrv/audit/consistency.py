"""Do the records agree with each other? Findings about sessions and services that no sound server leaves behind.

Where old segments were deleted, what they held cannot be missed: whether a session was opened, or provided a service,
is only asked of sessions whose boot begins in the journal. A journal that is there from record 1 on is asked about all.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.findings import as_findings, words


def session_findings(histories: DataFrame, boots: DataFrame) -> DataFrame:
    """Sessions that were not opened once and closed once.

    :param histories: what :func:`bussrv.audit.activity.session_histories` returns.
    :param boots: what :func:`bussrv.audit.activity.boots` returns.
    """
    openings, closings = F.col("openings"), F.col("closings")
    opening, closing = ("first_opening", "last_opening"), ("first_closing", "last_closing")
    left_open = (openings > 0) & (closings == 0) & ~F.col("persistent") & F.col("ended")
    checks = [
        _check(openings > 1, "session-opened-twice", opening, " was opened ", openings, " times"),
        _check(closings > 1, "session-closed-twice", closing, " was closed ", closings, " times"),
        _check(
            (openings == 0) & (closings > 0) & F.col("is_known"),
            "session-closed-unopened",
            ("first_closing", "first_closing"),
            " was closed, but never opened",
        ),
        _check(
            left_open,
            "session-never-closed",
            ("first_opening", "first_opening"),
            " was never closed, though its boot ended",
        ),
    ]
    rows = _with_is_known(histories, boots).join(
        boots.select("server", "boot", "ended"), on=["server", "boot"], how="left"
    )
    found = rows.select("server", "boot", "session", F.explode(F.array_compact(F.array(*checks))).alias("found"))
    return as_findings(found.select("server", "boot", "session", "found.*"))


def _check(condition: Column, kind: str, records: tuple[str, str], *message: str | Column) -> Column:
    """What is found about a session if ``condition`` holds, else NULL.

    :param records: the columns for the first and last record that it is about.
    """
    first, last = records
    return F.when(
        condition,
        F.struct(
            F.lit(kind).alias("kind"),
            F.col(first).alias("first_seq"),
            F.col(last).alias("last_seq"),
            words("session ", F.col("session"), *message).alias("message"),
        ),
    )


def service_findings(provisions: DataFrame, boots: DataFrame) -> DataFrame:
    """Services that were unregistered by a session that did not provide them.

    That is all right for what a server kept while its disk failed: the registration may have been refused.

    :param provisions: what :func:`bussrv.audit.activity.provisions` returns.
    :param boots: what :func:`bussrv.audit.activity.boots` returns.
    """
    unfounded = provisions.where("event = 'service.unregistered' AND NOT was_provided AND NOT is_kept")
    message = words("session ", F.col("session"), " unregistered ", F.col("service"), ", which it did not provide")
    found = _with_is_known(unfounded, boots).where("is_known")
    return as_findings(
        found.select(
            "server",
            "boot",
            "session",
            "service",
            F.col("seq").alias("first_seq"),
            F.col("seq").alias("last_seq"),
            F.lit("service-not-registered").alias("kind"),
            message.alias("message"),
        )
    )


def _with_is_known(rows: DataFrame, boots: DataFrame) -> DataFrame:
    """The rows with ``is_known``: whether everything that their session did must be in the journal.

    :param rows: ``server`` and ``session`` among their columns.
    """
    begun = boots.where("started").select(F.col("boot").alias("begun")).distinct()
    complete = boots.where("first_seq = 1").select(F.col("server").alias("complete")).distinct()
    # The id of a session begins with the boot that opened it.
    boot_of_session = F.regexp_extract("session", r"^(.*)\.[^.]*$", 1)
    return (
        rows.join(begun, on=boot_of_session == F.col("begun"), how="left")
        .join(complete, on=F.col("server") == F.col("complete"), how="left")
        .withColumn("is_known", F.col("begun").isNotNull() | F.col("complete").isNotNull())
        .drop("begun", "complete")
    )
