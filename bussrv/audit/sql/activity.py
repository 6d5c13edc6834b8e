"""The tables of servers, sessions, absences, traffic, refusals, leases and links.

``@name`` is a table. All times are UTC microseconds since 1970, days are days since 1970. ``:since`` and ``:until`` are
the period.
``names_of(x)`` is the sorted list of the distinct values of ``x``. Columns whose names are words of SQL have others
here, see ``NAMES``.
"""

from __future__ import annotations

from bussrv.audit.fold.boots import ANY, LEAST, MOST
from bussrv.incidents.judging import STORM
from bussrv.incidents.neighbours import OWN_ENDS, SETTLED

NAMES = {"until": "end", "limit_name": "limit", "overlapping": "overlaps"}
"""The names of columns, by those that they have in SQL."""

IN_SQL = {name: in_sql for in_sql, name in NAMES.items()}
"""The reverse."""

_HASH = "hash(server, protocol, address, minute)"

RECIPES = {
    "boot_sums": f"""
SELECT server, boot, max(version) AS version, CAST(sum(records) AS BIGINT) AS records,
    CAST(sum(closed) AS BIGINT) AS closed,
    {", ".join(f"min({name}) AS {name}" for name in LEAST)},
    {", ".join(f"max({name}) AS {name}" for name in MOST if name != "version")},
    {", ".join(f"bool_or({name}) AS {name}" for name in ANY)}
FROM @fact_boots GROUP BY server, boot
""",
    "boots": """
SELECT server, boot, records, first_seq, last_seq, first_moment, last_moment, started, stopped,
    stopped OR later IS NOT NULL AS ended,
    later IS NOT NULL AND NOT stopped AS crashed,
    greatest(first_moment - ended_before, CASE WHEN ended_before IS NULL THEN NULL ELSE 0 END) / 1000000
        AS down_seconds,
    version
FROM (
    SELECT *,
        lead(boot) OVER (PARTITION BY server ORDER BY first_seq, first_moment, boot) AS later,
        lag(last_moment) OVER (PARTITION BY server ORDER BY first_seq, first_moment, boot) AS ended_before
    FROM @boot_sums
) AS each_boot
""",
    "servers": """
SELECT server, CAST(sum(records) AS BIGINT) AS records, min(first_seq) AS first_seq, max(last_seq) AS last_seq,
    min(first_moment) AS first_moment, max(last_moment) AS last_moment, count(*) AS boots,
    CAST(count_if(crashed) AS BIGINT) AS crashes
FROM @boots GROUP BY server
""",
    "watched": """
SELECT server, greatest(first_moment, :since) AS watch_begin, least(last_moment, :until) AS watch_end FROM @servers
""",
    "events": """
SELECT server, event, outcome, CAST(sum(records) AS BIGINT) AS records, CAST(sum(suppressed) AS BIGINT) AS suppressed,
    CAST(day AS INT) AS date, protocol
FROM @fact_events GROUP BY server, event, outcome, protocol, day
""",
    "refusals": """
SELECT server, event, reason, limit_name, actor, claimed, address, CAST(sum(records) AS BIGINT) AS records,
    CAST(sum(suppressed) AS BIGINT) AS suppressed, min(first_seq) AS first_seq, min(first_moment) AS first_moment,
    max(last_moment) AS last_moment, CAST(day AS INT) AS date, protocol
FROM @fact_refusals GROUP BY server, event, reason, limit_name, actor, claimed, address, protocol, day
""",
    # Nearly all addresses open few sessions a minute. To group them by hashes leaves them out in half the time.
    "storms": f"""
SELECT server, protocol, address, min(first_seq) AS first_seq, min(first_moment) AS begin, max(last_moment) AS until,
    CAST(sum(openings) AS BIGINT) AS openings, max(openings) AS peak
FROM (
    SELECT *, minute - row_number() OVER (PARTITION BY server, protocol, address ORDER BY minute) AS storm
    FROM (
        SELECT server, protocol, address, minute, CAST(sum(openings) AS BIGINT) AS openings,
            min(first_seq) AS first_seq, min(first_moment) AS first_moment, max(last_moment) AS last_moment
        FROM @fact_openings
        WHERE {_HASH} IN (
            SELECT maybe FROM (
                SELECT {_HASH} AS maybe, sum(greatest(openings, 0)) AS most FROM @fact_openings GROUP BY {_HASH}
            ) AS each_hash
            WHERE most >= {STORM}
        )
        GROUP BY server, protocol, address, minute
    ) AS each_minute
    WHERE openings >= {STORM}
) AS busy
GROUP BY server, protocol, address, storm
""",
    "leases": """
SELECT server, session, kind, routing_id, address, service, added, renewed, expired, renewals, reason
FROM @fact_leases WHERE expired >= :since
""",
    "lost_links": f"""
SELECT server, neighbour, CAST(count(*) AS BIGINT) AS losses, min(seq) AS first_seq, min(moment) AS begin,
    max(ending) AS until, bool_or(back IS NULL) AS lasts, max_by(reason, seq) AS reason
FROM (
    SELECT l.server, l.neighbour, l.seq, l.moment, l.reason, l.back, coalesce(l.back, s.last_moment) AS ending
    FROM (
        SELECT *, lead(moment) OVER (PARTITION BY server, neighbour ORDER BY seq, moment, mono, is_up) AS back
        FROM (
            SELECT server, neighbour, seq, moment, mono, is_up, reason FROM @fact_links WHERE NOT given
            UNION ALL
            SELECT server, neighbour, seq, moment, mono, true, NULL FROM @fact_forgotten_links
        ) AS every
    ) AS l
    JOIN @servers AS s ON l.server = s.server
    WHERE NOT l.is_up AND l.moment >= :since AND coalesce(l.reason, '') NOT IN ({", ".join(map(repr, OWN_ENDS))})
) AS lost
WHERE ending - moment >= {int(SETTLED * 1_000_000)}
GROUP BY server, neighbour
""",
    "link_clocks": f"""
SELECT server, neighbour, CAST(count(*) AS BIGINT) AS differences, max_by(ahead, seq) / 1000000 AS ahead_seconds,
    min(seq) AS first_seq, min(moment) AS begin, max(ending) AS until, bool_or(back IS NULL) AS lasts,
    max_by(said, seq) AS message
FROM (
    SELECT c.*, coalesce(c.back, s.last_moment) AS ending
    FROM (
        SELECT *, lead(moment) OVER (PARTITION BY server, neighbour ORDER BY seq, moment, mono, said IS NULL) AS back
        FROM (
            SELECT server, neighbour, seq, moment, mono, ahead, said FROM @fact_link_clocks
            UNION ALL
            SELECT server, neighbour, seq, moment, mono, NULL, NULL FROM @fact_links WHERE NOT given
        ) AS every
    ) AS c
    JOIN @servers AS s ON c.server = s.server
    WHERE c.said IS NOT NULL AND c.moment >= :since
) AS differing
WHERE ending - moment >= {int(SETTLED * 1_000_000)}
GROUP BY server, neighbour
""",
    "witnesses": """
SELECT server, witness, CAST(sum(CASE WHEN refused THEN 0 ELSE 1 END) AS BIGINT) AS cosigned,
    max(CASE WHEN NOT refused THEN size END) AS size,
    CAST(sum(CASE WHEN refused THEN 1 ELSE 0 END) AS BIGINT) AS refused,
    min(CASE WHEN refused THEN seq END) AS first_seq, min(CASE WHEN refused THEN moment END) AS begin,
    max(CASE WHEN refused THEN moment END) AS until, max_by(refused, seq) AS lasts,
    max_by(message, CASE WHEN refused THEN seq END) AS message
FROM @fact_cosignings GROUP BY server, witness
""",
    "sessions": """
SELECT session, server, protocol, routing_id, actor, claimed, name, role, peer, address, state, opened, closed,
    duration / 1000000 AS duration_seconds, reason, objects_in, objects_out, bytes_in, bytes_out, persistent, home,
    provided, wanted, objects_wanted, away_since, kept_until, away_micros / 1000000 AS away_seconds,
    CAST(floor(coalesce(opened, first_moment) / 86400000000) AS INT) AS date
FROM @fact_sessions WHERE closed IS NULL OR closed >= :since
""",
    "absences": """
SELECT server, session, protocol, routing_id, actor, claimed, address, begin_at AS begin, end_at AS until, kept_until,
    (end_at - begin_at) / 1000000 AS away_seconds, reason, outcome, back_address, back_actor, taken_over
FROM @fact_absences WHERE end_at IS NULL OR end_at >= :since
""",
    # A number for each server and wire format. A window over numbers takes half the time of one over texts.
    "counted": """
SELECT server, protocol, row_number() OVER (ORDER BY server, protocol) AS number
FROM (SELECT DISTINCT server, protocol FROM @fact_formats) AS every
""",
    # When sessions were open, and with a ``step`` of -1 when they were away meanwhile.
    "extents": """
SELECT number, opening, CASE WHEN closed IS NOT NULL THEN greatest(closed, opening) END AS closing, 1 AS step
FROM (
    SELECT n.number, s.closed, greatest(coalesce(s.opened, s.closed - s.duration), w.watch_begin) AS opening
    FROM @fact_sessions AS s JOIN @watched AS w ON s.server = w.server
    JOIN @counted AS n ON s.server = n.server AND s.protocol IS NOT DISTINCT FROM n.protocol
    WHERE s.home IS NULL AND coalesce(s.opened, s.closed - s.duration) IS NOT NULL
        AND (s.closed IS NULL OR s.closed >= :since)
) AS begun
UNION ALL
SELECT number, begin_at, CASE WHEN end_at IS NOT NULL THEN greatest(least(end_at, closed), begin_at) END, -1
FROM (
    SELECT n.number, a.closed, a.end_at, greatest(least(a.begin_at, a.closed), a.opening, w.watch_begin) AS begin_at
    FROM @fact_absences AS a JOIN @watched AS w ON a.server = w.server
    JOIN @counted AS n ON a.server = n.server AND a.protocol IS NOT DISTINCT FROM n.protocol
    WHERE a.home IS NULL AND a.opening IS NOT NULL AND (a.closed IS NULL OR a.closed >= :since)
) AS gone
""",
    # The sums are doubles, because DuckDB adds up integers with 128 bits, which takes half as long again.
    "concurrency": """
SELECT n.server, n.protocol, c.moment, c.sessions, CAST(floor(c.moment / 86400000000) AS INT) AS date
FROM (
    SELECT number, moment, CAST(sum(step) OVER (
            PARTITION BY number ORDER BY moment ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS BIGINT) AS sessions
    FROM (
        SELECT number, moment, CAST(sum(step) AS DOUBLE) AS step
        FROM (
            SELECT number, opening AS moment, step FROM @extents
            UNION ALL
            SELECT number, closing AS moment, -step AS step FROM @extents WHERE closing IS NOT NULL
        ) AS steps
        GROUP BY number, moment
    ) AS changes
    WHERE step <> 0
) AS c
JOIN @counted AS n ON c.number = n.number
""",
    "talkers": """
SELECT server, protocol, routing_id, actor, claimed, address, count(*) AS sessions,
    CAST(coalesce(sum(greatest(duration - away_micros, 0)), 0) AS BIGINT) / 1000000 AS connected_seconds,
    CAST(coalesce(sum(objects_in), 0) AS BIGINT) AS objects_in,
    CAST(coalesce(sum(objects_out), 0) AS BIGINT) AS objects_out,
    CAST(coalesce(sum(bytes_in), 0) AS BIGINT) AS bytes_in,
    CAST(coalesce(sum(bytes_out), 0) AS BIGINT) AS bytes_out
FROM @fact_sessions WHERE home IS NULL AND (closed IS NULL OR closed >= :since)
GROUP BY server, protocol, routing_id, actor, claimed, address
""",
    "identities": """
SELECT server, routing_id, count(*) AS sessions, names_of(address) AS addresses, names_of(actor) AS actors,
    min(opened) AS first_moment, max(greatest(opened, closed)) AS last_moment,
    CAST(count_if(is_over) AS BIGINT) AS overlapping, names_of(claimed) AS claimed
FROM (
    SELECT *,
        coalesce(CASE WHEN state_before <> 'closed' THEN opened IS NOT NULL ELSE closed_before > opened END, false)
            AS is_over
    FROM (
        SELECT *,
            lag(state) OVER (PARTITION BY server, routing_id ORDER BY opened NULLS FIRST, session) AS state_before,
            lag(closed) OVER (PARTITION BY server, routing_id ORDER BY opened NULLS FIRST, session) AS closed_before
        FROM @sessions AS own JOIN (
            SELECT server AS its_server, routing_id AS shared_id FROM @fact_sessions
            WHERE home IS NULL AND routing_id IS NOT NULL GROUP BY server, routing_id HAVING count(*) > 1
        ) AS shared ON own.server = shared.its_server AND own.routing_id = shared.shared_id
        WHERE home IS NULL
    ) AS in_order
) AS each_use
GROUP BY server, routing_id HAVING count_if(is_over) > 0
""",
    "link_steps": """
SELECT l.server, l.neighbour, l.is_up, l.reason, l.place, NOT l.given AND l.moment >= :since AS counted,
    greatest(l.moment, s.first_moment, :since) AS since,
    least(coalesce(l.following, b.last_moment, l.moment), :until) AS until,
    s.last_moment AS ends, l.is_up AND NOT coalesce(b.ended, true) AS stands
FROM (
    SELECT *,
        CASE WHEN lead(boot) OVER in_order = boot THEN lead(moment) OVER in_order END AS following,
        row_number() OVER in_order AS place
    FROM @fact_links
    WINDOW in_order AS (PARTITION BY server, neighbour ORDER BY seq, moment, mono, is_up)
) AS l
LEFT JOIN @boots AS b ON l.server = b.server AND l.boot = b.boot
JOIN @servers AS s ON l.server = s.server
""",
    "links": """
SELECT server, neighbour, ups, downs, up_micros / 1000000 AS up_seconds, observed_micros / 1000000 AS observed_seconds,
    least(up_micros, observed_micros) / nullif(observed_micros, 0) AS availability,
    up_micros / 1000000 / nullif(downs, 0) AS mtbf_seconds, last_reason, up
FROM (
    SELECT server, neighbour,
        CAST(count_if(counted AND is_up) AS BIGINT) AS ups, CAST(count_if(counted AND NOT is_up) AS BIGINT) AS downs,
        CAST(sum(CASE WHEN is_up THEN greatest(0, until - since) ELSE 0 END) AS BIGINT) AS up_micros,
        greatest(0, least(max(ends), :until) - min(since)) AS observed_micros,
        max(CASE WHEN lost_at = place THEN reason END) AS last_reason,
        bool_or(latest = place AND stands) AS up
    FROM (
        SELECT *, max(place) OVER (PARTITION BY server, neighbour) AS latest,
            max(CASE WHEN counted AND NOT is_up THEN place END) OVER (PARTITION BY server, neighbour) AS lost_at
        FROM @link_steps
    ) AS placed
    GROUP BY server, neighbour
) AS each_link
""",
}
"""The queries of these tables, in an order in which each is made of those before it."""
