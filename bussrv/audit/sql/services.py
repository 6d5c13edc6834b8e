"""The tables of services: when each was provided and wanted, outages, and subscriptions in vain.

A closed session provides and wants nothing, even if records of it follow. After a crash, the next boot closes it.
"""

from __future__ import annotations

RECIPES = {
    "mentions": """
SELECT server, service, CAST(sum(registrations) AS BIGINT) AS registrations, min(first_registered) AS first_registered,
    max(last_registered) AS last_registered, CAST(sum(subscriptions) AS BIGINT) AS subscriptions,
    min(first_moment) AS first_moment
FROM @fact_mentions GROUP BY server, service
""",
    # A number for each service of each server. A window over numbers takes half the time of one over texts.
    "numbered": """
SELECT server, service, row_number() OVER (ORDER BY server, service) AS number
FROM (SELECT DISTINCT server, service FROM @fact_covers) AS every
""",
    "spans": """
SELECT number, session, is_provided, protocol, routing_id, begun AS begin, greatest(until, begun) AS until, ended, lost
FROM (
    SELECT n.number, f.session, f.is_provided, f.protocol, f.routing_id, f.begin_at, f.lost, w.watch_begin,
        greatest(f.begin_at, w.watch_begin) AS begun, f.end_at IS NOT NULL AS ended,
        CASE WHEN f.end_at IS NOT NULL THEN greatest(f.begin_at, f.end_at) ELSE w.watch_end END AS until
    FROM @fact_spans AS f JOIN @watched AS w ON f.server = w.server
    JOIN @numbered AS n ON f.server = n.server AND f.service = n.service
) AS each_span
WHERE until > watch_begin OR begin_at >= watch_begin
""",
    # Intervals in which each service was provided, or wanted. They may overlap.
    "covers": """
SELECT number, is_provided, begin, until
FROM (
    SELECT n.number, f.is_provided, greatest(f.begin_at, w.watch_begin) AS begin,
        coalesce(f.end_at, w.watch_end) AS until
    FROM @fact_covers AS f JOIN @watched AS w ON f.server = w.server
    JOIN @numbered AS n ON f.server = n.server AND f.service = n.service
) AS each_cover
WHERE begin < until
""",
    # The longest intervals without a gap in which each service was provided.
    "provided": """
SELECT number, begin, coalesce(lead(latest) OVER (PARTITION BY number ORDER BY begin), last_end) AS until
FROM (
    SELECT number, begin, max(until) OVER (
            PARTITION BY number ORDER BY begin, until ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS latest, max(until) OVER (PARTITION BY number) AS last_end
    FROM @covers WHERE is_provided
) AS in_order
WHERE latest IS NULL OR begin > latest
""",
    # The same, and whether a provider was lost at its end.
    "uptimes": """
SELECT n.server, n.service, p.begin, p.until, l.number IS NOT NULL AS lost
FROM @provided AS p JOIN @numbered AS n ON p.number = n.number
LEFT JOIN (SELECT DISTINCT number, until FROM @spans WHERE is_provided AND lost) AS l
    ON p.number = l.number AND p.until = l.until
""",
    # The time in which each service was provided, and the gaps, in seconds.
    "up": """
SELECT number, CAST(sum(until - begin) AS BIGINT) / 1000000 AS covered, count(*) AS intervals, max(until) AS last_end,
    max(gap) AS longest_gap, avg(gap) AS mean_gap
FROM (
    SELECT *, (lead(begin) OVER (PARTITION BY number ORDER BY begin) - until) / 1000000 AS gap FROM @provided
) AS gaps
GROUP BY number
""",
    # The time in which each service was provided or wanted, in seconds.
    "known": """
SELECT number, CAST(sum(greatest(until - greatest(begin, coalesce(latest, begin)), 0)) AS BIGINT) / 1000000 AS covered
FROM (
    SELECT number, begin, until, max(until) OVER (
        PARTITION BY number ORDER BY begin, until ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS latest
    FROM @covers
) AS in_order
GROUP BY number
""",
    "held": """
SELECT n.server, n.service, h.number, h.providers, h.subscribers, h.first_span, h.provided
FROM (
    SELECT number, CAST(count_if(is_provided) AS BIGINT) AS providers,
        CAST(count_if(NOT is_provided) AS BIGINT) AS subscribers, min(begin) AS first_span,
        bool_or(is_provided AND lasts) AS provided
    FROM (
        SELECT number, session, is_provided, min(begin) AS begin, bool_or(NOT ended) AS lasts
        FROM @spans GROUP BY number, session, is_provided
    ) AS by_session
    GROUP BY number
) AS h
JOIN @numbered AS n ON h.number = n.number
""",
    "services": """
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
    LEFT JOIN @up AS u ON h.number = u.number
    LEFT JOIN @known AS k ON h.number = k.number
    JOIN @watched AS w ON n.server = w.server
) AS merged
""",
    "orphans": f"""
SELECT n.server, o.session, n.service, o.protocol, o.routing_id, o.begin, o.until AS until, o.ended,
    greatest(o.until - o.begin, 0) / 1000000 AS waited_seconds
FROM (
    SELECT *, max(known_back) OVER (
        PARTITION BY number ORDER BY begin, is_wanted ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS back
    FROM (
        SELECT number, session, protocol, routing_id, begin, until, ended, 1 AS is_wanted, NULL AS known_back
        FROM @spans WHERE NOT is_provided
        UNION ALL
        SELECT number, NULL, NULL, NULL, until, NULL, NULL, 0, coalesce(
            lead(begin) OVER (PARTITION BY number ORDER BY begin), {2**62})
        FROM @provided
        UNION ALL
        SELECT number, NULL, NULL, NULL, {-(2**62)}, NULL, NULL, 0, min(begin) FROM @provided GROUP BY number
    ) AS all_times
) AS o
JOIN @numbered AS n ON o.number = n.number
WHERE o.is_wanted = 1 AND (o.back IS NULL OR (o.until <= o.back AND o.begin < o.back))
""",
}
"""The queries of these tables, in an order in which each is made of those before it."""
