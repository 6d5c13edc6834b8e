"""Findings about records that contradict each other, or the rules of the registry.

Records that a server may write, also while its disk fails and after a crash, are never a finding: a false alarm is
worse than a miss. ``docs/reference/audit/findings.md`` describes the findings.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.consistency import boots as consistency_boots
from bussrv.audit.consistency import services as consistency_services
from bussrv.audit.consistency import sessions as consistency_sessions
from bussrv.audit.consistency import times as consistency_time
from bussrv.audit.consistency.known import with_is_known, with_servers
from bussrv.audit.tables.findings import as_findings, words
from bussrv.audit.tables.period import Period
from bussrv.audit.tables.schema import boot_of_session


def findings(records: DataFrame, boots: DataFrame, period: Period) -> list[DataFrame]:
    """The findings about sessions, services, subscriptions, boots and times.

    :param records: the records of all journals, and the baseline before them.
    :param boots: the table of :func:`bussrv.audit.activity.boots.boots`.
    :param period: findings about earlier records are left out.
    """
    of_sessions = consistency_sessions.suspicions(records, boots)
    of_services = consistency_services.suspicions(records)
    return [
        _confirmed(of_sessions.unionByName(of_services), boots, period),
        consistency_boots.findings(records, boots, period),
        consistency_time.findings(records, boots, period),
    ]


def _confirmed(suspicions: DataFrame, boots: DataFrame, period: Period) -> DataFrame:
    """Suspicions as findings, except those that need missing records as a proof."""
    in_time = suspicions.where(period.is_begun(F.col("at")))
    confirmed = with_is_known(in_time, boots).where(F.col("is_known") | ~F.col("if_known"))
    return as_findings(
        with_servers(confirmed, boots).select(
            *("kind", "server", "session", "service", "first_seq", "last_seq"),
            boot_of_session().alias("boot"),
            F.col("at").alias("moment"),
            words("session ", F.col("session"), " ", F.col("what")).alias("message"),
        )
    )
