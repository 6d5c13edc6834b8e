"""Findings about records that contradict each other, or the rules of the registry, as SQL.

Records that a server may write, also while its disk fails and after a crash, are never a finding: a false alarm is
worse than a miss.
"""

from __future__ import annotations

from bussrv.audit.kinds import KINDS

LAG_OF_NEWS = 10 * 1_000_000
"""Microseconds after the disk works again in which the registry may not know yet which changes were refused."""

OVERDUE = 3600 * 1_000_000
"""Microseconds that a server runs after a session was to end, before its absence is a finding."""

_BEFORE_START = (
    "(after_stop IS NOT NULL OR first_seq = 1) AND settled IS NOT NULL "
    "AND (first_start IS NULL OR settled < first_start)"
)

_BOOT_CHECKS = (
    (
        _BEFORE_START,
        *("boot-not-started", "settled", "settled", "first_moment"),
        "'was there before it started, or never did'",
    ),
    (
        "last_start > first_start",
        *("boot-started-twice", "first_start", "last_start", "last_moment", "'started more than once'"),
    ),
    (
        "first_seq < latest",
        *("boot-interleaved", "first_seq", "least(last_seq, latest)", "first_moment"),
        "'has records among those of a boot before it'",
    ),
    (
        "last_of_server > first_stop",
        *("boot-record-after-stop", "first_stop", "last_of_server", "last_moment"),
        "concat('stopped in record ', first_stop, ', but has record ', last_of_server)",
    ),
    (
        "NOT after_stop AND first_start IS NOT NULL AND settled IS NOT NULL AND recovered IS NULL AND NOT salvaged",
        *("boot-not-recovered", "first_start", "first_start", "first_moment"),
        "'does not say that the boot before it had crashed'",
    ),
    (
        "after_stop AND coalesce(torn_bytes, 0) = 0 AND recovered IS NOT NULL AND NOT salvaged",
        *("boot-recovered-after-stop", "recovered", "recovered", "first_moment"),
        "'says that the boot before it had crashed, which had stopped; a start that was broken off does that'",
    ),
    (
        "settled IS NOT NULL AND sessions_closed <> closed",
        *("boot-miscounted", "recovered", "recovered", "first_moment"),
        "concat('says that ', sessions_closed, ' sessions were left open by a crash, but closed ', closed)",
    ),
)
"""A condition, the kind of finding, its first and last record, its time, and its words."""

_SEVERITY = " ".join(f"WHEN '{kind}' THEN '{severity}'" for kind, severity in KINDS.items())

RECIPES = {
    "disk_failures": f"""
SELECT server, seq AS after_seq, next_seq, CASE WHEN event = 'journal.restored' THEN mono + {LAG_OF_NEWS} END
    AS until_mono
FROM (
    SELECT *, lead(seq) OVER (PARTITION BY server ORDER BY seq, moment, mono) AS next_seq FROM @fact_disk
) AS in_order
WHERE event <> 'server.started'
""",
    # The boots that were stopped, and those whose successor has closed all that they left open.
    "boots_over": """
SELECT b.server, b.boot, b.last_moment
FROM @boots AS b
LEFT JOIN (SELECT server, max(last_settled) AS settled FROM @boot_sums GROUP BY server) AS s ON b.server = s.server
WHERE b.stopped OR (b.ended AND s.settled > b.last_seq)
""",
    "suspected": f"""
SELECT s.kind, s.server, s.boot, s.session, s.service, s.first_seq, s.last_seq, s.moment,
    concat('session ', s.session, ' ', s.what) AS message
FROM (
    SELECT * FROM @fact_suspicions WHERE kind NOT IN ('session-never-closed', 'session-kept-too-long')
    UNION ALL
    SELECT f.* FROM @fact_suspicions AS f
    WHERE f.kind = 'session-kept-too-long' AND EXISTS (
        SELECT 1 FROM @boots AS b
        WHERE b.server = f.server AND b.last_moment - {OVERDUE} > greatest(f.moment, b.first_moment)
    )
    UNION ALL
    SELECT f.server, f.session, f.boot, f.kind, f.service, f.first_seq, f.last_seq, o.last_moment, f.what, f.if_known,
        f.seq, f.mono, f.is_loss
    FROM @fact_suspicions AS f JOIN @boots_over AS o ON f.server = o.server AND f.boot = o.boot
    WHERE f.kind = 'session-never-closed'
) AS s
LEFT JOIN (SELECT DISTINCT boot FROM @boots WHERE started) AS begun ON s.boot = begun.boot
LEFT JOIN (SELECT DISTINCT server FROM @boots WHERE first_seq = 1) AS complete ON s.server = complete.server
WHERE s.moment >= :since AND (NOT s.if_known OR begun.boot IS NOT NULL OR complete.server IS NOT NULL)
    AND NOT EXISTS (
        SELECT 1 FROM @disk_failures AS d
        WHERE d.server = s.server AND s.seq > d.after_seq AND (d.next_seq IS NULL OR s.seq < d.next_seq)
            AND (d.until_mono IS NULL OR (s.is_loss AND s.mono <= d.until_mono))
    )
""",
    "boot_order": """
SELECT f.*, lag(stopped_last) OVER in_order AS after_stop, max(last_seq) OVER (
        PARTITION BY server ORDER BY first_seq, first_moment, boot ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS latest
FROM (SELECT *, coalesce(last_stop = last_seq, false) AS stopped_last FROM @boot_sums) AS f
WINDOW in_order AS (PARTITION BY server ORDER BY first_seq, first_moment, boot)
""",
    "boot_findings": "\nUNION ALL\n".join(
        f"SELECT '{kind}' AS kind, server, boot, {first} AS first_seq, {last} AS last_seq, "
        f"{at} AS moment, concat('boot ', boot, ' ', {what}) AS message FROM @boot_order "
        f"WHERE ({condition}) AND {at} >= :since"
        for condition, kind, first, last, at, what in _BOOT_CHECKS
    ),
    "findings": f"""
SELECT CASE kind {_SEVERITY} END AS severity, kind, server, boot, segment, first_seq, last_seq, moment, session,
    service, file, line, message
FROM (
    SELECT kind, server, boot, segment, first_seq, last_seq, CAST(NULL AS BIGINT) AS moment, NULL AS session,
        NULL AS service, file, line, message
    FROM @fact_findings
    UNION ALL
    SELECT kind, server, boot, NULL, first_seq, last_seq, moment, session, service, NULL, NULL, message FROM @suspected
    UNION ALL
    SELECT kind, server, boot, NULL, first_seq, last_seq, moment, NULL, NULL, NULL, NULL, message FROM @boot_findings
    UNION ALL
    SELECT kind, server, boot, NULL, seq, seq, moment, NULL, NULL, NULL, NULL, what FROM @fact_clocks
    WHERE moment >= :since
) AS every
""",
}
"""The queries of these tables, in an order in which each is made of those before it."""
