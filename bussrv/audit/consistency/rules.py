"""Do the records agree with each other, and with what the registry allows? Findings about what no sound server writes.

Everything that a server may write, also while its disk fails and after a crash, is left alone: a false alarm is worse
than a miss. What is found about which records is written down in ``docs/audit/findings.md``.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.consistency import boots as consistency_boots
from bussrv.audit.consistency import services as consistency_services
from bussrv.audit.consistency import sessions as consistency_sessions
from bussrv.audit.consistency import times as consistency_time
from bussrv.audit.consistency.known import with_is_known, with_servers
from bussrv.audit.findings import as_findings, words
from bussrv.audit.identity import boot_of_session
from bussrv.audit.period import Period


def findings(records: DataFrame, boots: DataFrame, period: Period) -> list[DataFrame]:
    """What is wrong with sessions, services, subscriptions, boots and times.

    :param records: the records of all journals, and what was given before them.
    :param boots: what :func:`bussrv.audit.activity.boots.boots` returns.
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
    """Suspicions as findings, but for those that only what is not in the journal could confirm."""
    in_time = suspicions.where(period.is_begun(F.col("at")))
    confirmed = with_is_known(in_time, boots).where(F.col("is_known") | ~F.col("if_known"))
    return as_findings(
        with_servers(confirmed, boots).select(
            *("kind", "server", "session", "service", "first_seq", "last_seq"),
            boot_of_session().alias("boot"),
            words("session ", F.col("session"), " ", F.col("what")).alias("message"),
        )
    )
