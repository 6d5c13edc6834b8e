"""Sessions that were not opened once and closed once, did something before or after that, or do not add up."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.consistency_known import boot_of_session, happened, has_settled, key_of, with_is_known, with_servers
from bussrv.audit.findings import as_findings, words
from bussrv.audit.period import Period

CHANGES = (
    "session.identified",
    "service.registered",
    "service.unregistered",
    "subscription.added",
    "subscription.removed",
    "subscription.renewed",
)
"""What only a session that is open can do. What it was refused may be noted later."""

TOLERANCE = 60 * 1_000_000
"""Microseconds. A server reads the clock for the duration right before it reads it for the record; a minute is for one
that is set in between."""

_COUNTERS = ("objects_in", "objects_out", "bytes_in", "bytes_out")


def histories(records: DataFrame) -> DataFrame:
    """Each session in numbers: how often it was opened and closed, and where and when the first and last of it stands.

    All of them have a fixed width, so that Spark aggregates them without sorting.
    """
    opened, closed, given = happened("session.opened"), happened("session.closed"), F.col("given")
    changed = happened(*CHANGES) & ~given
    count = {name: F.coalesce(F.col(name), F.lit(0)) for name in (*_COUNTERS, "duration")}
    # What a client sent may be less than an object; what it was sent never is.
    uneven = ((count["objects_out"] > 0) != (count["bytes_out"] > 0)) | (
        (count["objects_in"] > 0) & (count["bytes_in"] == 0)
    )
    negative = F.least(*count.values()) < 0
    carried = F.greatest(*[count[name] for name in _COUNTERS]) > 0

    def where(condition: Column, column: str) -> Column:
        return F.when(condition, F.col(column))

    return (
        records.where(F.col("session").isNotNull() & happened("session.opened", "session.closed", *CHANGES))
        .groupBy("session")
        .agg(
            F.min(key_of("server")).alias("server_key"),
            F.count_if(opened).alias("openings"),
            F.count_if(closed).alias("closings"),
            F.min(where(opened, "seq")).alias("first_opening"),
            F.min(where(opened & ~given, "seq")).alias("first_opening_there"),
            F.max(where(opened, "seq")).alias("last_opening"),
            F.min(where(closed, "seq")).alias("first_closing"),
            F.max(where(closed, "seq")).alias("last_closing"),
            F.min(where(changed, "seq")).alias("first_change"),
            F.max(where(changed, "seq")).alias("last_change"),
            F.max(where(opened, "moment")).alias("opened"),
            F.max(where(closed, "moment")).alias("closed"),
            F.max(where(changed, "moment")).alias("changed"),
            F.max(where(closed, "mono")).alias("closed_mono"),
            F.max(where(closed, "duration")).alias("duration"),
            F.bool_or(opened & F.coalesce("persistent", F.lit(False))).alias("persistent"),
            F.bool_or(opened & F.col("home").isNotNull()).alias("far"),
            F.bool_or(closed & negative).alias("negative"),
            F.bool_or(closed & uneven).alias("uneven"),
            F.bool_or(closed & carried).alias("carried"),
        )
    )


def findings(histories: DataFrame, records: DataFrame, boots: DataFrame, period: Period) -> DataFrame:
    """What is found about sessions.

    :param histories: what :func:`histories` returns.
    """
    checks = F.array_compact(F.array(*_checks()))
    suspects = histories.select("session", "server_key", F.explode(checks).alias("found"))
    judged = with_is_known(suspects.select("session", "server_key", "found.*"), boots).where(
        F.col("is_known") | ~F.col("if_known")
    )
    found = _without_those_still_open(judged, records, boots).where(period.is_begun(F.col("at")))
    return as_findings(
        with_servers(found, boots).select(
            "kind",
            "server",
            boot_of_session().alias("boot"),
            "session",
            "first_seq",
            "last_seq",
            words("session ", F.col("session"), " ", F.col("what")).alias("message"),
        )
    )


def _checks() -> list[Column]:
    openings, closings = F.col("openings"), F.col("closings")
    first_opening, first_closing = F.col("first_opening"), F.col("first_closing")
    earliest = F.least("first_change", "first_closing")
    latest = F.greatest("changed", "closed")
    was_opened, was_closed = openings > 0, closings > 0
    span = F.unix_micros("closed") - F.unix_micros("opened")
    lasted = F.when(span < 0, 0).otherwise(span)
    is_off = (F.col("duration") > lasted + TOLERANCE) | (F.col("duration") < lasted - TOLERANCE)
    closing = ("first_closing", "last_closing", F.col("closed"))
    return [
        _check(
            openings > 1,
            "session-opened-twice",
            (F.col("first_opening_there"), "last_opening", F.col("opened")),
            words("was opened ", openings, " times"),
        ),
        _check(closings > 1, "session-closed-twice", closing, words("was closed ", closings, " times")),
        _check(
            ~was_opened & was_closed,
            "session-closed-unopened",
            ("first_closing", "first_closing", F.col("closed")),
            F.lit("was closed, but never opened"),
            if_known=True,
        ),
        _check(
            was_opened & ~was_closed & ~F.col("persistent"),
            _STILL_OPEN,
            ("first_opening", "first_opening", F.col("opened")),
            F.lit("was never closed, though its boot ended"),
        ),
        _check(
            was_opened & (earliest < first_opening),
            "session-record-before-opening",
            (earliest, "first_opening", latest),
            words("is named in record ", earliest, ", before it was opened in record ", first_opening),
        ),
        _check(
            ~was_opened & ~was_closed & F.col("first_change").isNotNull(),
            "session-record-before-opening",
            ("first_change", "last_change", latest),
            F.lit("was never opened, but something is said to have changed of it"),
            if_known=True,
        ),
        _check(
            was_closed & (F.col("last_change") > first_closing),
            "session-record-after-end",
            ("first_closing", "last_change", F.col("changed")),
            words("was closed in record ", first_closing, ", but changed in record ", F.col("last_change")),
        ),
        _check(F.col("negative"), "session-miscounted", closing, F.lit("has a negative counter or duration")),
        _check(
            ~F.col("negative") & F.col("uneven"),
            "session-miscounted",
            closing,
            F.lit("has bytes without objects, or objects without bytes"),
        ),
        _check(
            ~F.col("negative") & ~F.col("uneven") & F.col("far") & F.col("carried"),
            "session-miscounted",
            closing,
            F.lit("belongs to another server, but has counters here"),
        ),
        _check(
            (openings == 1) & (closings == 1) & ~F.col("negative") & is_off,
            "session-duration-wrong",
            ("first_opening", "first_closing", F.col("closed")),
            words("is said to have lasted ", _seconds("duration"), " s, but was open for ", _seconds(lasted), " s"),
        ),
    ]


_STILL_OPEN = "session-never-closed"


def _seconds(micros: str | Column) -> Column:
    return F.round((F.col(micros) if isinstance(micros, str) else micros) / 1_000_000, 1)


def _check(
    condition: Column, kind: str, place: tuple[str | Column, str, Column], what: Column, *, if_known: bool = False
) -> Column:
    """What is found about a session if ``condition`` holds, else NULL.

    :param place: the first and the last record that it is about, and when that was.
    :param if_known: only if the journal must have the opening of the session.
    """
    first, last, at = place
    return F.when(
        condition,
        F.struct(
            F.lit(kind).alias("kind"),
            (F.col(first) if isinstance(first, str) else first).alias("first_seq"),
            F.col(last).alias("last_seq"),
            at.alias("at"),
            what.alias("what"),
            F.lit(if_known).alias("if_known"),
        ),
    )


def _without_those_still_open(found: DataFrame, records: DataFrame, boots: DataFrame) -> DataFrame:
    """A session is only missed when its boot stopped, or a later one has closed all that was left open.

    What was left open is closed before anything else happens; ``at`` becomes the end of the boot.
    """
    over = _boots_over(records, boots).select(
        F.col("boot").alias("over"), F.col("server_key").alias("over_at"), F.col("last_moment").alias("boot_ended")
    )
    of_boot = (boot_of_session() == F.col("over")) & (F.col("server_key") == F.col("over_at"))
    is_open = F.col("kind") == _STILL_OPEN
    return (
        found.join(over, on=of_boot & is_open, how="left")
        .where(~is_open | F.col("over").isNotNull())
        .withColumn("at", F.when(is_open, F.col("boot_ended")).otherwise(F.col("at")))
    )


def _boots_over(records: DataFrame, boots: DataFrame) -> DataFrame:
    """The boots that stopped, and those behind which another boot has settled down."""
    settled = (
        records.where(has_settled() & ~F.col("given"))
        .groupBy("server")
        .agg(F.max("seq").alias("settled"))
        .select(F.col("server").alias("of_server"), "settled")
    )
    return (
        boots.join(settled, on=F.col("server") == F.col("of_server"), how="left")
        .where(F.col("stopped") | (F.col("ended") & (F.col("settled") > F.col("last_seq"))))
        .select("boot", key_of("server").alias("server_key"), "last_moment")
    )
