"""Do the records agree with each other? Findings about sessions and services that no sound server leaves behind.

Where old segments were deleted, what they held cannot be missed: whether a session was opened, or provided a service,
is only asked of sessions whose boot begins in the journal. A journal that is there from record 1 on is asked about all.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.findings import as_findings, union


def session_findings(histories: DataFrame, boots: DataFrame) -> DataFrame:
    """Sessions that were not opened once and closed once.

    :param histories: what :func:`bussrv.audit.activity.session_histories` returns.
    :param boots: what :func:`bussrv.audit.activity.boots` returns.
    """
    once = F.col("first_opening").alias("first_seq")
    who = ("server", "boot", "session")
    opened_twice = histories.where("openings > 1").select(
        *who, once, F.col("last_opening").alias("last_seq"), "openings"
    )
    closed_twice = histories.where("closings > 1").select(
        *who, F.col("first_closing").alias("first_seq"), F.col("last_closing").alias("last_seq"), "closings"
    )
    unopened = _with_known_boot(histories.where("openings = 0 AND closings > 0"), boots).select(
        "server", "session", F.col("first_closing").alias("first_seq"), F.col("first_closing").alias("last_seq")
    )
    ended = boots.where("ended").select("server", "boot")
    left_open = (
        histories.where("openings > 0 AND closings = 0 AND NOT persistent")
        .join(ended, on=["server", "boot"], how="inner")
        .select(*who, once, F.col("first_opening").alias("last_seq"))
    )
    return union(
        [
            as_findings(opened_twice, "session-opened-twice", _session(), " was opened ", F.col("openings"), " times"),
            as_findings(closed_twice, "session-closed-twice", _session(), " was closed ", F.col("closings"), " times"),
            as_findings(unopened, "session-closed-unopened", _session(), " was closed, but never opened"),
            as_findings(left_open, "session-never-closed", _session(), " was never closed, though its boot ended"),
        ]
    )


def service_findings(provisions: DataFrame, boots: DataFrame) -> DataFrame:
    """Services that were unregistered by a session that did not provide them.

    That is all right for what a server kept while its disk failed: the registration may have been refused.

    :param provisions: what :func:`bussrv.audit.activity.provisions` returns.
    :param boots: what :func:`bussrv.audit.activity.boots` returns.
    """
    unfounded = provisions.where("event = 'service.unregistered' AND NOT was_provided AND NOT is_kept")
    rows = _with_known_boot(unfounded, boots).select(
        "server", "boot", F.col("seq").alias("first_seq"), F.col("seq").alias("last_seq"), "session", "service"
    )
    words = (_session(), " unregistered ", F.col("service"), ", which it did not provide")
    return as_findings(rows, "service-not-registered", *words)


def _session() -> Column:
    return F.concat(F.lit("session "), F.col("session"))


def _with_known_boot(rows: DataFrame, boots: DataFrame) -> DataFrame:
    """The rows about sessions of which everything that happened must be in the journal.

    :param rows: ``server`` and ``session`` among their columns.
    """
    begun = boots.where("started").select(F.col("boot").alias("begun")).distinct()
    complete = boots.where("first_seq = 1").select(F.col("server").alias("complete")).distinct()
    # The id of a session begins with the boot that opened it.
    boot_of_session = F.regexp_extract("session", r"^(.*)\.[^.]*$", 1)
    return (
        rows.join(begun, on=boot_of_session == F.col("begun"), how="left")
        .join(complete, on=F.col("server") == F.col("complete"), how="left")
        .where(F.col("begun").isNotNull() | F.col("complete").isNotNull())
    )
