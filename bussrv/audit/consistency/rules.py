"""Do the records agree with each other, and with what the registry allows? Findings about what no sound server writes.

Everything that a server may write, also while its disk fails and after a crash, is left alone: a false alarm is worse
than a miss. What is found about which records is written down in ``docs/audit/findings.md``.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from bussrv.audit.consistency import boots as consistency_boots
from bussrv.audit.consistency import services as consistency_services
from bussrv.audit.consistency import sessions as consistency_sessions
from bussrv.audit.consistency import times as consistency_time
from bussrv.audit.period import Period


def findings(records: DataFrame, boots: DataFrame, period: Period) -> list[DataFrame]:
    """What is wrong with sessions, services, subscriptions, boots and times.

    :param records: the records of all journals, and what was given before them.
    :param boots: what :func:`bussrv.audit.activity.boots.boots` returns.
    :param period: findings about earlier records are left out.
    """
    return [
        consistency_sessions.findings(records, boots, period),
        consistency_services.findings(records, boots, period),
        consistency_boots.findings(records, boots, period),
        consistency_time.findings(records, boots, period),
    ]
