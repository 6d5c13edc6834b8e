"""The same in DuckDB: from the JSON lines, and from Parquet that it made of them before.

It trusts the journal: of what begins, it does not ask whether it had begun already. So it does less than the audit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from audit_answers import Answer, Answers, as_answer
from audit_journals import segments_of
from audit_meter import Meter

COLUMNS = {
    "prev": "VARCHAR",
    "seq": "BIGINT",
    "time": "TIMESTAMP",
    "server": "VARCHAR",
    "event": "VARCHAR",
    "outcome": "VARCHAR",
    "protocol": "VARCHAR",
    "session": "VARCHAR",
    "service": "VARCHAR",
    "reason": "VARCHAR",
    "suppressed": "BIGINT",
    "home": "VARCHAR",
    "objects_in": "BIGINT",
    "objects_out": "BIGINT",
    "bytes_in": "BIGINT",
    "bytes_out": "BIGINT",
}

_RECORDS = "SELECT * EXCLUDE (prev) FROM read_json($files, format = 'newline_delimited', columns = {columns}) \
WHERE seq IS NOT NULL"

_BY_SESSION = """
    SELECT server, session, any_value(protocol) AS protocol, any_value(home) AS home,
        bool_or(event = 'session.opened') AS opened, bool_or(event = 'session.closed') AS closed,
        sum(objects_in) AS objects_in, sum(objects_out) AS objects_out,
        sum(bytes_in) AS bytes_in, sum(bytes_out) AS bytes_out
    FROM records WHERE session IS NOT NULL GROUP BY server, session
"""

_QUERIES: dict[str, tuple[int, str]] = {
    "records": (
        4,
        "SELECT server, event, protocol, outcome, count(*), sum(suppressed) FROM records GROUP BY ALL",
    ),
    "refusals": (
        3,
        """
        SELECT server, event, reason, count(*), sum(suppressed) FROM records
        WHERE event LIKE '%.refused' OR event IN ('auth.failed', 'limit.reached') GROUP BY ALL
        """,
    ),
    "sessions": (
        2,
        """
        SELECT server, protocol, count_if(opened), count_if(closed), count_if(NOT closed) FROM sessions
        WHERE home IS NULL GROUP BY ALL
        """,
    ),
    "traffic": (
        2,
        """
        SELECT server, protocol, sum(objects_in), sum(objects_out), sum(bytes_in), sum(bytes_out) FROM sessions
        GROUP BY ALL
        """,
    ),
    "peak": (
        2,
        """
        WITH changes AS (
            SELECT server, protocol, time, sum(CASE event WHEN 'session.opened' THEN 1 ELSE -1 END) AS change
            FROM records
            WHERE event IN ('session.opened', 'session.closed')
                AND session NOT IN (SELECT session FROM sessions WHERE home IS NOT NULL)
            GROUP BY ALL
        ), present AS (
            SELECT server, protocol, sum(change) OVER (PARTITION BY server, protocol ORDER BY time) AS number
            FROM changes
        )
        SELECT server, protocol, max(number) FROM present GROUP BY ALL
        """,
    ),
    "provided": (
        2,
        """
        WITH ends AS (
            SELECT server, max(time) AS last_time FROM records GROUP BY server
        ), steps AS (
            SELECT server, service, time,
                sum(CASE event WHEN 'service.registered' THEN 1 ELSE -1 END) OVER in_order AS number,
                lead(time) OVER in_order AS until
            FROM records WHERE event IN ('service.registered', 'service.unregistered')
            WINDOW in_order AS (PARTITION BY server, service ORDER BY seq)
        )
        SELECT server, service,
            sum(CASE WHEN number > 0 THEN epoch_us(coalesce(until, last_time)) - epoch_us(time) ELSE 0 END)
        FROM steps JOIN ends USING (server) GROUP BY ALL
        """,
    ),
    "numbers": (
        1,
        """
        WITH numbers AS (
            SELECT server, seq, lag(seq, 1, 0) OVER (PARTITION BY server ORDER BY seq) AS before FROM records
        )
        SELECT server, count(*) FROM numbers WHERE seq <> before + 1 GROUP BY server
        """,
    ),
}

_CHAIN = """
    WITH lines AS (
        SELECT substr(line, 16, 64) AS prev, lag(sha256(line), 1, repeat('0', 64)) OVER () AS before
        FROM read_csv($files, columns = {'line': 'VARCHAR'}, delim = '\\x01', quote = '', escape = '', header = false)
    )
    SELECT count(*) FROM lines WHERE prev <> before
"""
"""Of one journal; its lines come in the order of the files."""


def run(directories: list[Path], work: Path, meter: Meter) -> Answers:
    """The answers, each time from what the phase is named after."""
    import duckdb

    database = duckdb.connect()
    database.execute(f"SET temp_directory = '{work / 'duckdb'}'")
    files = [str(path) for path in segments_of(directories)]
    records = _RECORDS.format(columns=COLUMNS)
    with meter.phase("JSON"):
        database.execute(f"CREATE TABLE records AS {records}", {"files": files})
        from_json = _answers(database)
    database.execute("DROP TABLE records")
    parquet = work / "records.parquet"
    with meter.phase("JSON to Parquet"):
        database.execute(f"COPY ({records}) TO '{parquet}' (FORMAT parquet)", {"files": files})
    database.execute(f"CREATE VIEW records AS SELECT * FROM '{parquet}'")
    with meter.phase("Parquet"):
        from_parquet = _answers(database)
    if from_json != from_parquet:
        raise RuntimeError("DuckDB says something else of Parquet than of JSON")
    with meter.phase("chain"):
        from_json["chain"] = _chain(database, directories)
    database.close()
    return from_json


def _answers(database: Any) -> Answers:
    database.execute(f"CREATE OR REPLACE TEMP TABLE sessions AS {_BY_SESSION}")
    return {name: as_answer(database.execute(query).fetchall(), keys) for name, (keys, query) in _QUERIES.items()}


def _chain(database: Any, directories: list[Path]) -> Answer:
    broken = 0
    for directory in directories:
        files = [str(path) for path in segments_of([directory])]
        broken += database.execute(_CHAIN, {"files": files}).fetchone()[0]
    return {"": [broken]} if broken else {}
