"""Findings about sessions: opened or closed twice or never, records outside of them, numbers that do not add up."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.consistency.known import SUSPICION, happened, has_settled, key_of
from bussrv.audit.tables.findings import words
from bussrv.audit.tables.schema import boot_of_session

CHANGES = (
    "session.identified",
    "service.registered",
    "service.unregistered",
    "subscription.added",
    "subscription.removed",
    "subscription.renewed",
)
"""The events that only an open session causes. Its refusals may be written later."""

TOLERANCE = 60 * 1_000_000
"""Microseconds. The monotonic clock measures durations, unless the session began in an earlier boot. In older journals
a duration is the difference of two times of day. If the wall clock was set, one of both still fits."""

_STILL_OPEN = "session-never-closed"

_IF_KNOWN = ("session-closed-unopened", "session-record-before-opening")
"""For a session without an opening, these are findings only if the journal must have the opening."""

_OPENED, _CLOSED, _CHANGED = range(3)

_PERSISTENT, _FAR, _GIVEN, _NEGATIVE, _UNEVEN, _CARRIED = (1 << bit for bit in range(6))

_COUNTERS = ("objects_in", "objects_out", "bytes_in", "bytes_out")


def histories(records: DataFrame) -> DataFrame:
    """One row a session: the numbers of openings and closings, and the places and times of its first and last records.

    All columns have a fixed width, so that Spark aggregates them without sorting.
    """
    steps = _steps(records)

    def where(step: int, column: str) -> Column:
        return F.when(F.col("step") == step, F.col(column))

    return steps.groupBy("session").agg(
        F.min("server_key").alias("server_key"),
        F.count(where(_OPENED, "seq")).alias("openings"),
        F.count(where(_CLOSED, "seq")).alias("closings"),
        F.min(where(_OPENED, "seq")).alias("first_opening"),
        F.max(where(_OPENED, "seq")).alias("last_opening"),
        F.min(where(_CLOSED, "seq")).alias("first_closing"),
        F.max(where(_CLOSED, "seq")).alias("last_closing"),
        F.min(where(_CHANGED, "seq")).alias("first_change"),
        F.max(where(_CHANGED, "seq")).alias("last_change"),
        F.max(where(_OPENED, "at")).alias("opened"),
        F.max(where(_CLOSED, "at")).alias("closed"),
        F.max("at").alias("latest"),
        F.max(where(_OPENED, "mono")).alias("opened_mono"),
        F.max(where(_CLOSED, "mono")).alias("closed_mono"),
        (F.max(where(_OPENED, "boot_key")) == F.max(where(_CLOSED, "boot_key"))).alias("is_of_one_boot"),
        F.max("duration").alias("duration"),
        F.bit_or("flags").alias("flags"),
    )


def _steps(records: DataFrame) -> DataFrame:
    """The records of sessions as numbers. The baseline counts only as openings."""
    count = {name: F.coalesce(F.col(name), F.lit(0)) for name in (*_COUNTERS, "duration")}
    # A client may send less than a whole object. The server never does.
    uneven = ((count["objects_out"] > 0) != (count["bytes_out"] > 0)) | (
        (count["objects_in"] > 0) & (count["bytes_in"] == 0)
    )
    of_opening = {
        _PERSISTENT: F.coalesce("persistent", F.lit(False)),
        _FAR: F.col("home").isNotNull(),
        _GIVEN: F.col("given"),
    }
    of_closing = {
        _NEGATIVE: F.least(*count.values()) < 0,
        _UNEVEN: uneven,
        _CARRIED: F.greatest(*[count[name] for name in _COUNTERS]) > 0,
    }
    opened, closed = happened("session.opened"), happened("session.closed")
    changed = happened(*CHANGES) & ~F.col("given")
    return records.where(F.col("session").isNotNull() & (opened | closed | changed)).select(
        "session",
        key_of("server").alias("server_key"),
        F.when(opened, _OPENED).when(closed, _CLOSED).otherwise(_CHANGED).alias("step"),
        "seq",
        F.unix_micros("moment").alias("at"),
        "mono",
        # The baseline does not have the monotonic clock.
        F.when(~F.col("given"), key_of("boot")).alias("boot_key"),
        "duration",
        F.when(opened, _sum_of(of_opening)).when(closed, _sum_of(of_closing)).otherwise(0).alias("flags"),
    )


def _sum_of(flags: dict[int, Column]) -> Column:
    return reduce(Column.bitwiseOR, [F.when(condition, flag).otherwise(0) for flag, condition in flags.items()])


def _has(flag: int) -> Column:
    return F.col("flags").bitwiseAND(flag) != 0


def suspicions(records: DataFrame, boots: DataFrame) -> DataFrame:
    """Suspicions about sessions whose opening must be in the journal.

    The columns are those of ``SUSPICION``. ``at`` is the end of the session.
    """
    checks = _checks()
    is_suspect = reduce(Column.__or__, [F.coalesce(condition, F.lit(False)) for condition, *_ in checks])
    each = F.explode(F.array_compact(F.array(*[_found(*check) for check in checks])))
    suspects = histories(records).where(is_suspect).select("session", "server_key", "latest", each.alias("found"))
    found = _without_those_still_open(suspects.select("session", "server_key", "latest", "found.*"), records, boots)
    return found.withColumns(
        {
            "service": F.lit(None).cast("string"),
            "at": F.timestamp_micros("latest"),
            "if_known": F.col("kind").isin(*_IF_KNOWN) & F.col("is_unopened"),
        }
    ).select(*SUSPICION)


_Check = tuple[Column, str, Column, Column, Column]
"""A condition, the kind of finding, its first and last record, and its message."""


def _found(condition: Column, kind: str, first: Column, last: Column, what: Column) -> Column:
    return F.when(
        condition,
        F.struct(
            F.lit(kind).alias("kind"),
            first.alias("first_seq"),
            last.alias("last_seq"),
            what.alias("what"),
            (F.col("openings") == 0).alias("is_unopened"),
        ),
    )


def _checks() -> list[_Check]:
    openings, closings = F.col("openings"), F.col("closings")
    first_opening, last_opening = F.col("first_opening"), F.col("last_opening")
    first_closing, last_closing = F.col("first_closing"), F.col("last_closing")
    first_change, last_change = F.col("first_change"), F.col("last_change")
    was_opened, was_closed = openings > 0, closings > 0
    earliest = F.least("first_change", "first_closing")
    span = F.col("closed") - F.col("opened")
    lasted = F.when(span < 0, 0).otherwise(span)
    ran = F.when(F.col("is_of_one_boot"), F.col("closed_mono") - F.col("opened_mono"))
    is_off = _differs(lasted) & F.coalesce(_differs(ran), F.lit(True))
    counted = ~_has(_NEGATIVE)
    again = F.when(_has(_GIVEN), last_opening).otherwise(first_opening)
    return [
        (openings > 1, "session-opened-twice", again, last_opening, words("was opened ", openings, " times")),
        (closings > 1, "session-closed-twice", first_closing, last_closing, words("was closed ", closings, " times")),
        (
            ~was_opened & was_closed,
            "session-closed-unopened",
            first_closing,
            first_closing,
            F.lit("was closed, but never opened"),
        ),
        (
            was_opened & ~was_closed & ~_has(_PERSISTENT),
            _STILL_OPEN,
            first_opening,
            first_opening,
            F.lit("was never closed, though its boot ended"),
        ),
        (
            was_opened & (earliest < first_opening),
            "session-record-before-opening",
            earliest,
            first_opening,
            words("is named in record ", earliest, ", before it was opened in record ", first_opening),
        ),
        (
            ~was_opened & ~was_closed,
            "session-record-before-opening",
            first_change,
            last_change,
            F.lit("was never opened, but something is said to have changed of it"),
        ),
        (
            was_closed & (last_change > first_closing),
            "session-record-after-end",
            first_closing,
            last_change,
            words("was closed in record ", first_closing, ", but changed in record ", last_change),
        ),
        (
            _has(_NEGATIVE),
            "session-miscounted",
            first_closing,
            last_closing,
            F.lit("has a negative counter or duration"),
        ),
        (
            counted & _has(_UNEVEN),
            "session-miscounted",
            first_closing,
            last_closing,
            F.lit("has bytes without objects, or objects without bytes"),
        ),
        (
            counted & ~_has(_UNEVEN) & _has(_FAR) & _has(_CARRIED),
            "session-miscounted",
            first_closing,
            last_closing,
            F.lit("belongs to another server, but has counters here"),
        ),
        (
            counted & (openings == 1) & (closings == 1) & is_off,
            "session-duration-wrong",
            first_opening,
            first_closing,
            words("is said to have lasted ", _seconds(F.col("duration")), " s, but was open ", _seconds(lasted), " s"),
        ),
    ]


def _differs(lasted: Column) -> Column:
    return (F.col("duration") > lasted + TOLERANCE) | (F.col("duration") < lasted - TOLERANCE)


def _seconds(micros: Column) -> Column:
    return F.round(micros / 1_000_000, 1)


def _without_those_still_open(found: DataFrame, records: DataFrame, boots: DataFrame) -> DataFrame:
    """Leave out sessions that may still be open: their boot runs, or the next one has not closed them yet.

    The next boot closes them before it does anything else. ``latest`` becomes the end of the boot.
    """
    over = _boots_over(records, boots).select(
        F.col("boot").alias("over"),
        F.col("server_key").alias("over_at"),
        F.unix_micros("last_moment").alias("boot_ended"),
    )
    of_boot = (boot_of_session() == F.col("over")) & (F.col("server_key") == F.col("over_at"))
    is_open = F.col("kind") == _STILL_OPEN
    return (
        found.join(over, on=of_boot & is_open, how="left")
        .where(~is_open | F.col("over").isNotNull())
        .withColumn("latest", F.when(is_open, F.col("boot_ended")).otherwise(F.col("latest")))
    )


def _boots_over(records: DataFrame, boots: DataFrame) -> DataFrame:
    """The boots that were stopped, and those whose successor has closed all that they left open."""
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
