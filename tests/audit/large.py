"""The tables of an audit of 30 million events, made up: as many rows as such an audit has, and some very long names."""

from __future__ import annotations

from pathlib import Path

from bussrv.audit.output import PUBLISHED
from bussrv.audit.sql.database import Database
from tests.audit.report_facts import BEGIN

DAY = 86_400_000_000
DAYS = 30
END = BEGIN + DAYS * DAY

_SERVER = "server: concat('server', i % 4)"
_PROTOCOL = "protocol: (['objects', 'spp', 'inbus', 'business'])[1 + i % 4]"
_ADDRESS = "address: concat('192.0.', i % 200, '.', i % 250)"
_LONG = "CASE WHEN i % 97 = 0 THEN repeat('long name ', 1000) WHEN i % 89 = 0 THEN '<b>' ELSE 'name' END"
_NAME = f"concat({_LONG}, i % 20000)"
_AT = f"{BEGIN} + (i * 7919999) % {DAYS * DAY}"
_USER = "CASE WHEN i % 3 = 0 THEN concat('user', i % 900) END"
_DATE = "date: 0"


def _from(segments: int, size: int) -> str:
    """When the segment or the boot begins that the row is."""
    return f"{BEGIN} + (i // {size}) * {DAYS * DAY // segments}"


TABLES: dict[str, tuple[int, tuple[str, ...]]] = {
    "findings": (
        100_000,
        (
            "severity: (['error', 'warning', 'notice'])[1 + i % 3]",
            "kind: (['seq-gap', 'session-never-closed', 'service-not-registered', 'time-backwards'])[1 + i % 4]",
            *(_SERVER, "boot: 'b'", "segment: NULL::BIGINT", "first_seq: i * 300", "last_seq: i * 300 + 2"),
            *(f"moment: {_AT}", "session: CASE WHEN i % 4 IN (1, 2) THEN concat('b.', i) END"),
            *(f"service: CASE WHEN i % 4 = 2 THEN {_NAME} END", "file: NULL::VARCHAR", "line: NULL::BIGINT"),
            f"message: concat('what is said of ', {_NAME})",
        ),
    ),
    "segments": (
        640,
        (
            *("journal: concat('/srv/', i % 4)", "segment: 1 + (i // 4) * 46875", "file: concat('/srv/', i)", _SERVER),
            *("records: 46875", "first_seq: 1 + (i // 4) * 46875", "last_seq: 46875 * (1 + i // 4)"),
            *(f"first_moment: {_from(160, 4)}", f"last_moment: {_from(160, 4)} + 1", "bytes: 32000000"),
            *("sealed: CASE WHEN i % 9 = 0 THEN 'none' ELSE 'closed' END", "vouched: i % 9 > 0"),
        ),
    ),
    "boots": (
        400,
        (
            *(_SERVER, "boot: concat('b', i)", "records: 75000", "first_seq: i * 75000", "last_seq: i * 75000 + 74999"),
            *(f"first_moment: {_from(400, 1)}", f"last_moment: {_from(400, 1)} + {DAY}", "started: true"),
            *("stopped: i % 3 > 0", "ended: i < 396", "crashed: i % 3 = 0", "down_seconds: 4.5", "version: '0.1'"),
        ),
    ),
    "servers": (
        4,
        (
            *(_SERVER, "records: 7500000", "first_seq: 1", "last_seq: 7500000", f"first_moment: {BEGIN}"),
            *(f"last_moment: {END}", "boots: 100", "crashes: 33"),
        ),
    ),
    "sessions": (
        2_000_000,
        (
            *("session: concat('b.', i)", _SERVER, _PROTOCOL, "routing_id: concat('id', i)", f"actor: {_USER}"),
            *(f"claimed: {_USER}", _ADDRESS, "state: CASE WHEN i % 50 = 0 THEN 'open' ELSE 'closed' END"),
            *(f"opened: {_AT}", f"closed: {_AT} + 60000000", "duration_seconds: (i % 90000)::DOUBLE"),
            *("reason: concat('reason', i % 300)", "objects_in: 1", "objects_out: 2", "bytes_in: 3", "bytes_out: 4"),
            *("persistent: false", "home: NULL::VARCHAR", _DATE),
        ),
    ),
    "absences": (
        400_000,
        (
            *(_SERVER, "session: concat('b.', i)", "protocol: 'mqtt'", f"routing_id: {_NAME}", f"actor: {_USER}"),
            *(f"claimed: {_USER}", _ADDRESS, f"begin: {_AT}", f"until: CASE WHEN i % 7 > 0 THEN {_AT} + 90000000 END"),
            *(f"kept_until: {_AT} + {DAY}", "away_seconds: CASE WHEN i % 7 > 0 THEN 90.0 END"),
            *("reason: 'connection-lost'", "outcome: CASE WHEN i % 7 = 0 THEN 'away' ELSE 'resumed' END"),
            *("back_address: '192.0.2.1'", f"back_actor: {_USER}", "taken_over: i % 400 = 1"),
        ),
    ),
    "concurrency": (3_000_000, (_SERVER, _PROTOCOL, f"moment: {_AT}", "sessions: i % 9000", _DATE)),
    "services": (
        20_000,
        (
            *(_SERVER, f"service: {_NAME}", "providers: 1", "registrations: 2", f"first_registered: {_AT}"),
            *(f"last_registered: {_AT}", "provided_seconds: 9.5", "observed_seconds: 10.5", "availability: 0.9"),
            *("provided: true", "outages: i % 30", "longest_outage_seconds: (i % 999)::DOUBLE", "mtbf_seconds: 1.5"),
            *("mttr_seconds: 2.5", "subscribers: i % 5", "subscriptions: 7", "unprovided_seconds: 3.5"),
            "unused: i % 5 = 0",
        ),
    ),
    "uptimes": (500_000, (_SERVER, f"service: {_NAME}", f"begin: {_AT}", f"until: {_AT} + 9000000", "lost: i % 2 = 0")),
    "orphans": (
        30_000,
        (
            *(_SERVER, "session: concat('b.', i)", f"service: {_NAME}", _PROTOCOL, f"routing_id: {_NAME}"),
            *(f"begin: {_AT}", f"until: {_AT}", "ended: true", "waited_seconds: i::DOUBLE"),
        ),
    ),
    "events": (
        4_000,
        (
            *(_SERVER, "event: concat('event.', i % 300)", "outcome: 'ok'", "records: 7500", "suppressed: 1", _DATE),
            _PROTOCOL,
        ),
    ),
    "refusals": (
        300_000,
        (
            *(_SERVER, "event: (['auth.failed', 'limit.reached'])[1 + i % 2]", "reason: concat('reason', i % 300)"),
            *("limit_name: concat('limit', i % 250)", "actor: NULL::VARCHAR"),
            *(f"claimed: CASE WHEN i % 2 = 0 THEN {_NAME} END", _ADDRESS, "records: 3", "suppressed: 4"),
            *("first_seq: i", f"first_moment: {_AT}", f"last_moment: {_AT}", _DATE, _PROTOCOL),
        ),
    ),
    "links": (
        900,
        (
            *(_SERVER, f"neighbour: {_NAME}", "ups: 9", "downs: 8", "up_seconds: 7.5", "observed_seconds: 8.5"),
            *("availability: 0.9", "mtbf_seconds: 1.5", "last_reason: 'connection-lost'", "up: true"),
        ),
    ),
    "leases": (
        60_000,
        (
            *(_SERVER, "session: concat('b.', i)", "kind: 'service'", f"routing_id: {_NAME}", _ADDRESS),
            *(f"service: {_NAME}", f"added: {_AT}", f"renewed: {_AT}", f"expired: {_AT}", "renewals: 9"),
            "reason: 'lease-expired'",
        ),
    ),
    "talkers": (
        200_000,
        (
            *(_SERVER, _PROTOCOL, f"routing_id: {_NAME}", f"actor: {_USER}", f"claimed: {_NAME}", _ADDRESS),
            *(
                "sessions: 3",
                "connected_seconds: 4.5",
                "objects_in: 5",
                "objects_out: 6",
                "bytes_in: i",
                "bytes_out: 7",
            ),
        ),
    ),
    "identities": (
        5_000,
        (
            *(_SERVER, f"routing_id: {_NAME}", "sessions: 3", "addresses: ['a', 'b']", "actors: ['c']"),
            *(f"first_moment: {_AT}", f"last_moment: {_AT}", "overlapping: 2", f"claimed: [{_NAME}]"),
        ),
    ),
    "lost_links": (
        900,
        (
            *(_SERVER, f"neighbour: {_NAME}", "losses: 8", "first_seq: i", f"begin: {_AT}", f"until: {_AT} + 9000000"),
            *("lasts: i % 3 = 0", "reason: 'connection-lost'"),
        ),
    ),
    "link_clocks": (
        900,
        (
            *(_SERVER, f"neighbour: {_NAME}", "differences: 2", "ahead_seconds: -3.5", "first_seq: i", f"begin: {_AT}"),
            *(f"until: {_AT} + 9000000", "lasts: i % 3 = 0", "message: 'it is 3.5 s behind, give or take 0.01 s'"),
        ),
    ),
    "witnesses": (
        30,
        (
            *(_SERVER, "witness: concat('w/', i)", "cosigned: 700", "size: 46875", "refused: i % 2", "first_seq: i"),
            *(f"begin: {_AT}", f"until: {_AT}", "lasts: i % 2 = 1", "message: '404 hall is not a log'"),
        ),
    ),
    "storms": (
        3_000,
        (
            *(_SERVER, _PROTOCOL, _ADDRESS, "first_seq: i", f"begin: {_AT}", f"until: {_AT}", "openings: 50"),
            "peak: 20",
        ),
    ),
}
"""How many rows each table has, and its columns, made of the number of the row."""


def large(scratch: Path) -> Database:
    """The tables, to be asked."""
    assert TABLES.keys() >= {*PUBLISHED}
    database = Database(scratch)
    for name, (rows, columns) in TABLES.items():
        pairs = [each.partition(": ") for each in columns]
        selected = ", ".join(f"{value} AS {column}" for column, _, value in pairs)
        database.make(name, f"SELECT {selected} FROM range({rows}) AS numbers(i)")
    return database
