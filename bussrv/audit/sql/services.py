"""The tables of services: when each was provided and wanted, outages, and subscriptions in vain.

A closed session provides and wants nothing, even if records of it follow. After a crash, the next boot closes it.
"""

from __future__ import annotations

MENTIONS = """
SELECT server, service, CAST(sum(registrations) AS BIGINT) AS registrations, min(first_registered) AS first_registered,
    max(last_registered) AS last_registered, CAST(sum(subscriptions) AS BIGINT) AS subscriptions,
    min(first_moment) AS first_moment
FROM @fact_mentions GROUP BY server, service
"""

SPANS = """
SELECT server, session, service, is_provided, protocol, routing_id, begun AS begin,
    greatest(until, begun) AS until, ended
FROM (
    SELECT f.server, f.session, f.service, f.is_provided, f.protocol, f.routing_id, f.begin_at, w.watch_begin,
        greatest(f.begin_at, w.watch_begin) AS begun, f.end_at IS NOT NULL AS ended,
        CASE WHEN f.end_at IS NOT NULL THEN greatest(f.begin_at, f.end_at) ELSE w.watch_end END AS until
    FROM @fact_spans AS f JOIN @watched AS w ON f.server = w.server
) AS each_span
WHERE until > watch_begin OR begin_at >= watch_begin
"""


def _union(spans: str) -> str:
    """The longest intervals without a gap, of each service."""
    return f"""
SELECT server, service, min(begin) AS begin, max(until) AS until
FROM (
    SELECT *, sum(is_first) OVER (
        PARTITION BY server, service ORDER BY begin, until ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS number
    FROM (
        SELECT server, service, begin, until, CASE WHEN begin > coalesce(max(until) OVER (
            PARTITION BY server, service ORDER BY begin, until ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), begin - 1) THEN 1 ELSE 0 END AS is_first
        FROM {spans} WHERE begin < until
    ) AS covered
) AS numbered
GROUP BY server, service, number
"""


UPTIMES = _union("(SELECT * FROM @spans WHERE is_provided) AS provided")
KNOWN_TIMES = _union("@spans")


def _lengths(intervals: str) -> str:
    """The total length of the intervals of each service, and the gaps between them, in microseconds."""
    return f"""
SELECT server, service, CAST(sum(until - begin) AS BIGINT) / 1000000 AS covered, count(*) AS intervals,
    max(until) AS last_end, max(gap) AS longest_gap, avg(gap) AS mean_gap
FROM (
    SELECT *, (lead(begin) OVER (PARTITION BY server, service ORDER BY begin) - until) / 1000000 AS gap
    FROM {intervals}
) AS gaps
GROUP BY server, service
"""


UP = _lengths("@uptimes")
KNOWN = _lengths("@known_times")

HELD = """
SELECT server, service, CAST(count_if(is_provided) AS BIGINT) AS providers,
    CAST(count_if(NOT is_provided) AS BIGINT) AS subscribers, min(begin) AS first_span,
    bool_or(is_provided AND lasts) AS provided
FROM (
    SELECT server, service, session, is_provided, min(begin) AS begin, bool_or(NOT ended) AS lasts
    FROM @spans GROUP BY server, service, session, is_provided
) AS by_session
GROUP BY server, service
"""

SERVICES = """
SELECT server, service, providers, registrations, first_registered, last_registered, up AS provided_seconds,
    observed_seconds, up / nullif(observed_seconds, 0) AS availability, provided, outages,
    greatest(longest_gap, CASE WHEN NOT is_up_last AND last_end IS NOT NULL
        THEN greatest(watch_end - last_end, 0) / 1000000 END)
        AS longest_outage_seconds,
    up / nullif(outages, 0) AS mtbf_seconds, mean_gap AS mttr_seconds, subscribers, subscriptions,
    greatest(covered - up, 0.0) AS unprovided_seconds, providers > 0 AND subscribers = 0 AS unused
FROM (
    SELECT n.server, n.service, coalesce(h.providers, 0) AS providers, coalesce(m.registrations, 0) AS registrations,
        m.first_registered, m.last_registered, coalesce(u.covered, 0.0) AS up,
        greatest(w.watch_end - least(h.first_span, m.first_moment), 0) / 1000000 AS observed_seconds,
        coalesce(h.provided, false) AS provided,
        coalesce(h.provided, false) AND u.last_end = w.watch_end AS is_up_last,
        coalesce(u.intervals, 0) - CASE WHEN coalesce(h.provided, false) AND u.last_end = w.watch_end THEN 1 ELSE 0 END
            AS outages,
        u.longest_gap, u.mean_gap, u.last_end, w.watch_end,
        coalesce(h.subscribers, 0) AS subscribers, coalesce(m.subscriptions, 0) AS subscriptions,
        coalesce(k.covered, 0.0) AS covered
    FROM (SELECT server, service FROM @mentions UNION SELECT server, service FROM @held) AS n
    LEFT JOIN @mentions AS m ON n.server = m.server AND n.service = m.service
    LEFT JOIN @held AS h ON n.server = h.server AND n.service = h.service
    LEFT JOIN @up AS u ON n.server = u.server AND n.service = u.service
    LEFT JOIN @known AS k ON n.server = k.server AND n.service = k.service
    JOIN @watched AS w ON n.server = w.server
) AS merged
"""

ORPHANS = f"""
SELECT server, session, service, protocol, routing_id, begin, until AS until, ended,
    greatest(until - begin, 0) / 1000000 AS waited_seconds
FROM (
    SELECT *, max(known_back) OVER (
        PARTITION BY server, service ORDER BY begin, is_wanted ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS back
    FROM (
        SELECT server, session, service, protocol, routing_id, begin, until, ended, 1 AS is_wanted, NULL AS known_back
        FROM @spans WHERE NOT is_provided
        UNION ALL
        SELECT server, NULL, service, NULL, NULL, until, NULL, NULL, 0, coalesce(
            lead(begin) OVER (PARTITION BY server, service ORDER BY begin), {2**62})
        FROM @uptimes
        UNION ALL
        SELECT server, NULL, service, NULL, NULL, {-(2**62)}, NULL, NULL, 0, min(begin)
        FROM @uptimes GROUP BY server, service
    ) AS all_times
) AS placed
WHERE is_wanted = 1 AND (back IS NULL OR (until <= back AND begin < back))
"""
