"""Incidents of an audit: findings that belong together, and sums of facts that :mod:`bussrv.incidents.judging` judges.

An incident that findings are about is one of these:

1. Findings about one session. They are a part of an incident of the second kind if its records include the first one of
   these: what was changed there may be the reason.
2. All other findings of a server, if their records overlap, or if at most ``NEAR`` records are between them. A finding
   about a whole segment stands for all its records.

The sums leave out what the thresholds of the judge cannot pass, so that an attack from a million addresses is few rows.
"""

from __future__ import annotations

from collections import Counter

from bussrv.audit.kinds import SEVERITIES
from bussrv.audit.report.questions import MOST, Listing, Tables, first, listing, most_of, only_row, rows
from bussrv.incidents.judging import LONG, MOST_EVENTS, MOST_SOURCES, NOTABLE, SOURCES, Happened, Incident, happened

NEAR = 10
"""Records."""

_RANK = " ".join(f"WHEN '{each}' THEN {rank}" for rank, each in enumerate(SEVERITIES))
_SEVERITY = " ".join(f"WHEN {rank} THEN '{each}'" for rank, each in enumerate(SEVERITIES))
_BEFORE = "PARTITION BY server ORDER BY first_seq, last_seq, kind ROWS BETWEEN UNBOUNDED PRECEDING AND"
_UP_TO = "PARTITION BY server ORDER BY first_seq, is_session ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"

# `near` are the findings about no session, in numbered islands. Islands do not overlap, so the latest one that begins
# before the first record of a session is the only one that may have it.
_FINDINGS = f"""
    WITH found AS (
        SELECT CASE f.severity {_RANK} END AS severity_rank, f.kind, coalesce(f.server, s.server, '') AS server,
            f.session, f.moment, f.file, f.line, coalesce(f.first_seq, s.first_seq, f.segment, 0) AS first_seq,
            coalesce(f.last_seq, f.first_seq, s.last_seq, f.segment, 0) AS last_seq
        FROM @findings AS f
        LEFT JOIN @segments AS s ON f.file = s.file AND coalesce(f.server, s.server) = s.server
    ),
    near AS (
        SELECT *, sum(is_first) OVER ({_BEFORE} CURRENT ROW) AS island
        FROM (
            SELECT *, CASE WHEN first_seq <= max(last_seq) OVER ({_BEFORE} 1 PRECEDING) + {NEAR + 1} THEN 0 ELSE 1 END
                AS is_first
            FROM found WHERE session IS NULL
        ) AS in_order
    ),
    of_sessions AS (
        SELECT server, session, CASE WHEN first_seq <= ends THEN island END AS island
        FROM (
            SELECT server, session, first_seq, is_session, max(island) OVER ({_UP_TO}) AS island,
                max(last_seq) OVER ({_UP_TO}) AS ends
            FROM (
                SELECT server, NULL AS session, min(first_seq) AS first_seq, max(last_seq) AS last_seq, island,
                    0 AS is_session
                FROM near GROUP BY server, island
                UNION ALL
                SELECT server, session, min(first_seq), NULL, NULL, 1
                FROM found WHERE session IS NOT NULL GROUP BY server, session
            ) AS units
        ) AS placed
        WHERE is_session = 1
    )
    SELECT CASE WHEN island IS NULL THEN 'session' ELSE 'damage' END AS what, nullif(server, '') AS server,
        CASE min(severity_rank) {_SEVERITY} END AS severity, min(severity_rank) AS severity_rank, count(*) AS number,
        count(DISTINCT session) AS others, names_of(kind) AS kinds, min(moment) AS begin, max(moment) AS until,
        min(first_seq) AS first_seq, max(last_seq) AS last_seq, min(file) AS file, min(line) AS line,
        CASE WHEN count(DISTINCT session) = 1 THEN min(session) END AS session
    FROM (
        SELECT severity_rank, kind, server, session, moment, file, line, first_seq, last_seq, island FROM near
        UNION ALL
        SELECT f.severity_rank, f.kind, f.server, f.session, f.moment, f.file, f.line, f.first_seq, f.last_seq, o.island
        FROM found AS f JOIN of_sessions AS o ON f.server = o.server AND f.session = o.session
    ) AS every
    GROUP BY server, island, CASE WHEN island IS NULL THEN session END"""

_GUESSED = f"""
    SELECT server, claimed, sum(records + suppressed) AS number, count(DISTINCT address) AS others,
        names_of(address)[:{MOST_SOURCES}] AS sources, min(first_seq) AS first_seq, min(first_moment) AS begin,
        max(last_moment) AS until
    FROM @refusals WHERE event = 'auth.failed' AND claimed IS NOT NULL
    GROUP BY server, claimed
    HAVING count(DISTINCT address) >= {SOURCES} AND sum(records + suppressed) >= {NOTABLE}"""
"""Users as whom clients of several addresses failed to log in."""

_GUESSING = f"""
    SELECT 'guessing' AS what, server, claimed, CAST(number AS BIGINT) AS number, others, sources, first_seq, begin,
        until
    FROM ({_GUESSED}) AS guessed"""


def _of_all(column: str) -> str:
    """The value of a column, if all rows have the same."""
    return f"CASE WHEN count(DISTINCT {column}) = 1 AND count({column}) = count(*) THEN min({column}) END"


_ADDRESSES = f"""
    SELECT 'address' AS what, server, address, CAST(sum(number) AS BIGINT) AS number,
        CAST(sum(openings) AS BIGINT) AS others, names_of(event) AS kinds, min(first_seq) AS first_seq,
        min(begin) AS begin, max(until) AS until,
        {_of_all("claimed")} AS claimed, {_of_all("actor")} AS actor
    FROM (
        SELECT r.server, r.address, r.event, r.event = 'auth.failed' AS is_login, r.claimed, r.actor,
            r.records + r.suppressed AS number, 0 AS openings, r.first_seq, r.first_moment AS begin,
            r.last_moment AS until
        FROM @refusals AS r
        LEFT JOIN ({_GUESSED}) AS g ON r.server = g.server AND r.claimed = g.claimed AND r.event = 'auth.failed'
        WHERE g.claimed IS NULL
        UNION ALL
        SELECT server, address, NULL, false, NULL, NULL, 0, openings, first_seq, begin, until FROM @storms
    ) AS every
    WHERE address IS NOT NULL
    GROUP BY server, address, is_login HAVING sum(number) + sum(openings) >= {NOTABLE}"""

_CRASHES = """
    SELECT 'crash' AS what, server, count(*) AS number, max(down) AS seconds, min(last_seq) AS first_seq,
        min(last_moment) AS begin, max(last_moment) AS until
    FROM (
        SELECT *, lead(down_seconds) OVER (PARTITION BY server ORDER BY first_seq, first_moment, boot) AS down
        FROM @boots
    ) AS followed
    WHERE crashed GROUP BY server"""

_IDENTITIES = """
    SELECT 'identity' AS what, server, routing_id AS subject, overlapping AS number, sessions AS others,
        first_moment AS begin, last_moment AS until
    FROM @identities"""

_TAKEOVERS = f"""
    SELECT 'takeover' AS what, server, session AS subject, count(*) AS number, min(until) AS begin, max(until) AS until,
        {_of_all("back_address")} AS address, {_of_all("back_actor")} AS actor
    FROM @absences WHERE taken_over GROUP BY server, session"""

_OUTAGES = f"""
    SELECT 'outage' AS what, server, service AS subject, number, seconds, lasts, begin, until
    FROM (
        SELECT *, (until - begin) / 1000000 AS seconds, count(*) OVER (PARTITION BY server, service) AS number,
            row_number() OVER (PARTITION BY server, service ORDER BY until - begin DESC, begin) AS place
        FROM (
            SELECT u.server, u.service, u.until AS begin, u.back IS NULL AS lasts,
                coalesce(u.back, s.last_moment) AS until
            FROM (
                SELECT *, lead(begin) OVER (PARTITION BY server, service ORDER BY begin) AS back FROM @uptimes
            ) AS u
            JOIN @servers AS s ON s.server = u.server
            WHERE u.lost
        ) AS gaps
        WHERE until > begin
    ) AS ranked
    WHERE place = 1 AND seconds >= {LONG}"""

_WITNESSES = """
    SELECT 'witness' AS what, server, witness AS subject, refused AS number, lasts, message AS detail, first_seq, begin,
        until
    FROM @witnesses WHERE refused > 0"""

_LINKS = """
    SELECT 'link' AS what, server, neighbour AS subject, losses AS number, lasts, reason AS detail, first_seq, begin,
        until
    FROM @lost_links"""

_CLOCKS = """
    SELECT 'clock' AS what, server, neighbour AS subject, differences AS number, lasts, message AS detail, first_seq,
        begin, until
    FROM @link_clocks"""

_ORDER = f"severity_rank, number DESC, {first('server', 'first_seq', 'session')}"


def incidents(tables: Tables) -> Listing[Incident]:
    """The incidents that findings are about, the worst first."""
    worst = f"SELECT * FROM ({_FINDINGS}) AS found ORDER BY {_ORDER} LIMIT {MOST + 1}"
    with_clients = f"""
        SELECT i.*, s.address, s.actor, s.claimed FROM ({located(worst)}) AS i
        LEFT JOIN @sessions AS s ON i.server = s.server AND i.session = s.session"""
    return listing(tables, with_clients, Incident, _ORDER, all_of=_FINDINGS)


_SUMS = {
    "guessing": (_GUESSING, most_of("number"), "claimed"),
    "address": (_ADDRESSES, "number + others DESC", "address", "first_seq"),
    "crash": (_CRASHES, most_of("number")),
    "identity": (_IDENTITIES, most_of("number"), "subject"),
    "takeover": (_TAKEOVERS, most_of("number"), "subject"),
    "outage": (_OUTAGES, most_of("seconds"), "subject"),
    "witness": (_WITNESSES, most_of("number"), "subject"),
    "link": (_LINKS, most_of("number"), "subject"),
    "clock": (_CLOCKS, most_of("number"), "subject"),
}
"""The sums of each kind, the order of the worst, and what else tells them apart."""


def happenings(tables: Tables, most: int = MOST_EVENTS) -> Happened:
    """Attacks, crashes, contested ids and outages, each the worst first.

    :param most: the most of each kind that are listed.
    """
    worst = _worst(tables, most)
    listed = Counter(each.what for each in worst)
    # To count is as dear as to list, and of a kind that is not full everything is listed.
    full = [what for what in _SUMS if listed[what] >= most]
    left_out = {}
    if full:
        counted = ", ".join(f"(SELECT count(*) FROM ({_SUMS[what][0]}) AS found) AS {what}" for what in full)
        left_out = {what: number - most for what, number in only_row(tables, f"SELECT {counted}").items()}
    return happened(worst, left_out, most)


def _worst(tables: Tables, most: int) -> tuple[Incident, ...]:
    worst = [
        f"""
        SELECT *, {at} AS kind_order, row_number() OVER (ORDER BY {order}, {first("server", "begin", *names)}) AS place
        FROM ({query}) AS found QUALIFY place <= {most}"""
        for at, (query, order, *names) in enumerate(_SUMS.values())
    ]
    found = located(" UNION ALL BY NAME ".join(worst))
    return rows(tables, found, Incident, most * len(worst), "kind_order, place")


def located(query: str, seq: str = "first_seq", moment: str = "begin") -> str:
    """A query, and in which ``segment`` of which ``journal`` its rows are, from ``seg_begin`` to ``seg_end``.

    :param seq: the number of a record of its ``server``. The segment of a record is the last one that begins before it.
    :param moment: the time that counts if there is no number.
    """
    latest = ", ".join(
        f"max_by(s.{each}, s.segment) AS {name}"
        for each, name in (("journal", "journal"), ("first_moment", "seg_begin"), ("last_moment", "seg_end"))
    )
    return f"""
        WITH found AS MATERIALIZED (
            SELECT *, coalesce({seq}, -1) AS place_seq, coalesce({moment}, -1) AS place_moment FROM ({query}) AS every
        )
        SELECT f.*, p.segment, p.journal, p.seg_begin, p.seg_end
        FROM found AS f
        LEFT JOIN (
            SELECT w.server, w.place_seq, w.place_moment, max(s.segment) AS segment, {latest}
            FROM (SELECT DISTINCT server, place_seq, place_moment FROM found) AS w
            JOIN @segments AS s ON s.server = w.server
                AND (s.segment <= w.place_seq OR (w.place_seq < 0 AND s.first_moment <= w.place_moment))
            GROUP BY w.server, w.place_seq, w.place_moment
        ) AS p ON f.server = p.server AND f.place_seq = p.place_seq AND f.place_moment = p.place_moment"""
