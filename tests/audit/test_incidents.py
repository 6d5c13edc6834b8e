"""Findings and events that belong together are one incident. Each case is a server of its own, all asked at once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from bussrv.audit.report.incidents import happenings, incidents
from bussrv.audit.report.verdict import incident_text
from bussrv.audit.sql.activity import NAMES
from bussrv.audit.sql.database import Database
from bussrv.incidents.judging import Incident
from tests.audit.frames import add_table
from tests.audit.report_facts import BEGIN
from tests.audit.test_report_facts import EPOCH, KINDS, SCHEMAS, Row, at

SECOND = 1_000_000


def found(first: int | None, last: int | None = None, kind: str = "seq-gap", **more: Any) -> dict[str, Any]:
    severity = more.pop("severity", "error")
    return {"severity": severity, "kind": kind, "first_seq": first, "last_seq": last or first, "message": "m", **more}


def of(session: str, first: int, **more: Any) -> dict[str, Any]:
    return found(first, **{"kind": "session-never-closed", "session": session, **more})


FOUND: dict[str, tuple[list[dict[str, Any]], list[tuple[Any, ...]]]] = {
    "ten records between": ([found(10), found(21)], [("damage", 2, 10, 21, None)]),
    "eleven records between": ([found(10), found(22)], [("damage", 1, 10, 10, None), ("damage", 1, 22, 22, None)]),
    "a chain of neighbours": ([found(10), found(19), found(28)], [("damage", 3, 10, 28, None)]),
    "a long one reaches far": ([found(1, 300), found(5), found(305)], [("damage", 3, 1, 305, None)]),
    "a whole segment": (
        [found(None, segment=101, kind="bad-line", line=3, file="101"), found(150), found(205), found(230)],
        [("damage", 3, 101, 205, None), ("damage", 1, 230, 230, None)],
    ),
    "a line that names no server": (
        [found(None, segment=101, kind="bad-line", line=3, file="101", server=None), found(150)],
        [("damage", 2, 101, 200, None)],
    ),
    "one session": ([of("s", 10), of("s", 900, kind="session-closed-twice")], [("session", 2, 10, 900, "s")]),
    "two sessions": ([of("s", 10), of("t", 10)], [("session", 1, 10, 10, "s"), ("session", 1, 10, 10, "t")]),
    "a session in damage": (
        [found(100, 110), of("s", 105), of("s", 900), of("t", 111)],
        [("damage", 3, 100, 900, "s"), ("session", 1, 111, 111, "t")],
    ),
    "several sessions in damage": ([found(100, 110), of("s", 105), of("t", 110)], [("damage", 3, 100, 110, None)]),
    "the worst counts": (
        [found(10, severity="notice"), found(11, severity="warning"), of("s", 90, severity="warning")],
        [("damage", 2, 10, 11, None), ("session", 1, 90, 90, "s")],
    ),
}
"""The findings of each server, and its incidents: what, how many findings, the first and last record, the session."""


def refused(address: str, number: int, event: str = "limit.reached", **more: Any) -> dict[str, Any]:
    about = {"first_seq": 7, "first_moment": at(BEGIN), "last_moment": at(BEGIN + SECOND)}
    return {"event": event, "address": address, "records": number - 1, "suppressed": 1, **about, **more}


def guessed(address: str, number: int, claimed: str | None) -> dict[str, Any]:
    return refused(address, number, "auth.failed", claimed=claimed)


def denied(address: str, number: int, **more: Any) -> dict[str, Any]:
    return refused(address, number, "access.denied", **more)


REFUSED: dict[str, tuple[list[dict[str, Any]], list[tuple[Any, ...]]]] = {
    "ten of an address": ([refused("a", 6, actor="ben"), refused("a", 4, actor="ben")], [("address", 10, "a", None)]),
    "nine of an address": ([refused("a", 9)], []),
    "of no address": ([{**refused("a", 99), "address": None}], []),
    "as one user from three": (
        [guessed("a", 4, "ann"), guessed("b", 4, "ann"), guessed("c", 4, "ann"), refused("a", 9)],
        [("guessing", 12, None, "ann")],
    ),
    "as one user from two": (
        [guessed("a", 11, "ann"), guessed("b", 12, "ann")],
        [("address", 12, "b", "ann"), ("address", 11, "a", "ann")],
    ),
    "as several users": ([guessed("a", 6, "ann"), guessed("a", 6, "ben")], [("address", 12, "a", None)]),
    "as a user and as nobody": ([guessed("a", 6, "ann"), guessed("a", 4, None)], [("address", 10, "a", None)]),
    "six logins and four denials": ([guessed("a", 6, "ann"), denied("a", 1), denied("a", 3, actor="ben")], []),
    "logins apart from denials": (
        [denied("a", 5, first_seq=5), denied("a", 6, actor="ben"), guessed("a", 10, "ann")],
        [("address", 11, "a", None), ("address", 10, "a", "ann")],
    ),
    "with a storm": ([refused("a", 3)], [("address", 3, "a", None)]),
}
"""The refusals of each server, and its incidents: what, how many, the address, the user."""


def tables() -> dict[str, list[Row]]:
    findings = [
        {"server": server, **each, "file": each.get("file") and f"/j/{server}/{each['file']}"}
        for server, (rows, _) in FOUND.items()
        for each in rows
    ]
    segments = [
        {"journal": f"/j/{server}", "server": server, "segment": number, "file": f"/j/{server}/{number}",
         "first_seq": number, "last_seq": number + 99, "first_moment": at(BEGIN + number * SECOND),
         "last_moment": at(BEGIN)}
        for server in (*FOUND, *REFUSED, "happened") for number in (1, 101, 201)
    ]  # fmt: skip
    boots = [
        {"server": "happened", "boot": f"b{number}", "first_seq": 1 + 100 * number, "last_seq": 100 * (number + 1),
         "first_moment": at(BEGIN + 60 * number * SECOND), "last_moment": at(BEGIN + 60 * number * SECOND + 1),
         "crashed": number in (0, 1), "down_seconds": 50.0 * number or None}
        for number in range(3)
    ]  # fmt: skip
    contested = {"routing_id": "tv", "sessions": 3, "overlaps": 2, "last_moment": at(BEGIN + SECOND)}
    provided = {
        # From when to when, in seconds, and whether a provider was lost then.
        "door": [(0, 10, True), (80, 90, True), (95, 119, False)],
        "lamp": [(0, 61, True)],
        "left for longest": [(0, 1, False), (90, 91, True), (92, 120, False)],
        "lost at the end": [(0, 50, False), (115, 120, True)],
        "provided at the end": [(0, 120, False)],
        "shell": [(0, 48, False)],
    }
    last_moment = {"server": "gone", "first_moment": at(BEGIN), "last_moment": at(BEGIN + 120 * SECOND)}
    return {
        "findings": findings,
        "segments": segments,
        "refusals": [{"server": server, **each} for server, (rows, _) in REFUSED.items() for each in rows],
        "storms": [
            {"server": server, "address": "a", "openings": 8, "peak": 8, "first_seq": 3, "begin": at(BEGIN),
             "end": at(BEGIN)}
            for server in ("with a storm", "logins apart from denials")
        ],
        "boots": boots,
        "absences": [
            {"server": "happened", "session": session, "begin": at(BEGIN), "end": at(BEGIN + number * SECOND),
             "outcome": "resumed", "taken_over": number > 1, "back_actor": "eve", "back_address": f"192.0.2.{number}"}
            for session in ("s1", "s2") for number in (1, 2, 3)[: 1 + (session == "s2") * 2]
        ],
        "identities": [{"server": "happened", "first_moment": at(BEGIN + 150 * SECOND), **contested}],
        "uptimes": [
            {"server": "happened", "service": service, "begin": at(BEGIN + begin * SECOND),
             "end": at(BEGIN + end * SECOND), "lost": lost}
            for service, some in provided.items() for begin, end, lost in some
        ]
        + [{"server": "gone", "service": "lamp", "begin": at(BEGIN), "end": at(BEGIN + 48 * SECOND), "lost": True}],
        "servers": [last_moment, {**last_moment, "server": "happened"}],
        "sessions": [
            {"server": "one session", "session": "s", "address": "192.0.2.1", "actor": "ann", "claimed": "<b>"},
            {"server": "two sessions", "session": "t", "address": "192.0.2.2"},
        ],
    }  # fmt: skip


def for_duckdb(name: str, rows: list[Row]) -> pa.Table:
    """Times are numbers there, and columns have the names of SQL."""
    kinds = {**KINDS, "timestamp": pa.int64()}
    in_sql = {told: sql for sql, told in NAMES.items()}
    columns = [each.split() for each in SCHEMAS[name].split(", ")]

    def value(row: Mapping[str, Any], column: str, kind: str) -> Any:
        found = row.get(column)
        return (found - EPOCH) // timedelta(microseconds=1) if kind == "timestamp" and found is not None else found

    arrays = [pa.array([value(row, each, kind) for row in rows], kinds[kind]) for each, kind in columns]
    return pa.table(arrays, names=[in_sql.get(each, each) for each, _ in columns])


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    given = {name: tables().get(name, []) for name in SCHEMAS}
    place = tmp_path_factory.mktemp("place")
    with closing(Database(place)) as database:
        for name, rows in given.items():
            add_table(database, name, for_duckdb(name, rows), place)
        return {"found": incidents(database), "happened": happenings(database), "worst": happenings(database, 1)}


def test_findings_that_belong_together_are_one_incident(asked: dict[str, Any]) -> None:
    rows: tuple[Incident, ...] = asked["found"].rows
    assert asked["found"].total == len(rows)
    for server, (_, expected) in FOUND.items():
        mine = [each for each in rows if each.server == server]
        told = [(each.what, each.number, each.first_seq, each.last_seq, each.session) for each in mine]
        assert (server, sorted(told, key=str)) == (server, sorted(expected, key=str))
        assert {each.journal for each in mine} == {f"/j/{server}"}
    worst = {each.what: each.severity for each in rows if each.server == "the worst counts"}
    assert worst == {"damage": "warning", "session": "warning"}
    (one,) = (each for each in rows if each.server == "one session")
    assert (one.segment, one.address, one.actor, one.claimed) == (1, "192.0.2.1", "ann", "<b>")
    assert one.kinds == ("session-closed-twice", "session-never-closed")
    assert [each.severity for each in rows] == sorted((each.severity for each in rows), key=["error", "warning"].index)


def test_what_one_address_was_refused_is_one_incident(asked: dict[str, Any]) -> None:
    for server, (_, expected) in REFUSED.items():
        mine = [each for each in asked["happened"].rows if each.server == server]
        assert (server, [(each.what, each.number, each.address, each.claimed) for each in mine]) == (server, expected)
        assert {(each.journal, each.segment) for each in mine} <= {(f"/j/{server}", 1)}
    (storm,) = (each for each in asked["happened"].rows if each.server == "with a storm")
    assert (storm.others, storm.first_seq, storm.kinds) == (8, 3, ("limit.reached",))


def test_failed_logins_are_counted_apart(asked: dict[str, Any]) -> None:
    mine = [each for each in asked["happened"].rows if each.server == "logins apart from denials"]
    # The place of an incident is that of one of its own records.
    assert [(each.kinds, each.others, each.first_seq) for each in mine] == [
        (("access.denied",), 8, 3),
        (("auth.failed",), 0, 7),
    ]


def test_an_incident_names_a_user_only_if_all_its_records_do(asked: dict[str, Any]) -> None:
    actors = {each.server: each.actor for each in asked["happened"].rows if each.what == "address"}
    assert (actors["ten of an address"], actors["logins apart from denials"]) == ("ben", None)


def test_crashes_takeovers_and_outages_are_incidents(asked: dict[str, Any]) -> None:
    crash, identity, takeover, outage = (each for each in asked["happened"].rows if each.server == "happened")
    assert (crash.what, crash.number, crash.seconds, crash.first_seq, crash.segment) == ("crash", 2, 100.0, 100, 1)
    assert (identity.what, identity.subject, identity.number, identity.others) == ("identity", "tv", 2, 3)
    # The segment in which that time is.
    assert (identity.journal, identity.segment) == ("/j/happened", 101)
    told = (takeover.what, takeover.subject, takeover.number, takeover.actor, takeover.address)
    assert told == ("takeover", "s2", 2, "eve", None)
    assert (takeover.begin, takeover.end, takeover.segment) == (BEGIN + 2 * SECOND, BEGIN + 3 * SECOND, 1)
    assert (outage.what, outage.subject, outage.number, outage.seconds) == ("outage", "door", 2, 70.0)
    assert (outage.lasts, outage.begin, outage.end) == (False, BEGIN + 10 * SECOND, BEGIN + 80 * SECOND)


def test_a_service_without_its_provider_is_down_until_its_return(
    asked: dict[str, Any],
) -> None:
    (outage,) = (each for each in asked["happened"].rows if each.server == "gone")
    assert (outage.subject, outage.number, outage.seconds, outage.lasts) == ("lamp", 1, 72.0, True)
    assert (outage.begin, outage.end) == (BEGIN + 48 * SECOND, BEGIN + 120 * SECOND)
    assert asked["happened"].numbers["outage"] == 2


def test_the_worst_of_each_kind_are_listed_and_all_are_counted(asked: dict[str, Any]) -> None:
    everything, worst = asked["happened"], asked["worst"]
    kinds: dict[str, Incident] = {}
    for each in everything.rows:
        kinds.setdefault(each.what, each)
    assert len(everything.rows) > len(kinds) > 1
    assert (worst.numbers, [*worst.rows]) == (everything.numbers, [*kinds.values()])


@pytest.mark.parametrize(
    ("incident", "expected"),
    [
        (
            Incident(what="damage", number=3, kinds=("seq-gap", "broken-seal"), journal="/j", first_seq=4),
            ("A segment does not match its seal", "3 findings (seq-gap, broken-seal)",
             ["bussrv journal tail /j --around 4"]),
        ),
        (
            Incident(what="damage", number=1, kinds=("bad-line",), journal="/a b", file=f"/a b/{7:020}.jsonl", line=9),
            ("A line is not a record", "1 finding", [f"bussrv journal tail '/a b' --around {7:020}.jsonl:9"]),
        ),
        (
            Incident(what="damage", number=1, kinds=("segment-missing",), journal="/j", first_seq=4),
            ("A segment is missing", "1 finding", ["bussrv journal verify /j"]),
        ),
        (
            Incident(what="address", number=9, others=4, kinds=("access.denied",), address="::1", journal="/j",
                     first_seq=4, begin=1, end=SECOND),
            ("An address was refused again and again", "9 refusals (access.denied), 4 sessions in a reconnect storm",
             ["bussrv journal tail /j --around 4",
              "bussrv timeline ::1 /j --since 1970-01-01T00:00:00Z --until 1970-01-01T00:00:02Z"]),
        ),
        (
            Incident(what="address", number=12, kinds=("auth.failed",), address="::1", journal="/j",
                     first_seq=4, begin=1, end=SECOND),
            ("An address failed to log in again and again", "12 failed logins",
             ["bussrv journal tail /j --around 4",
              "bussrv timeline ::1 /j --since 1970-01-01T00:00:00Z --until 1970-01-01T00:00:02Z"]),
        ),
        (
            Incident(what="takeover", number=1, subject="b.1", actor="eve", journal="/j", begin=SECOND, end=SECOND),
            ("Another user took over a session", "1 return of another user",
             ["bussrv journal tail /j --around 1970-01-01T00:00:01.000000Z",
              "bussrv timeline b.1 /j --since 1970-01-01T00:00:01Z --until 1970-01-01T00:00:02Z"]),
        ),
        # A name that is not plain stands in no command.
        (
            Incident(what="outage", number=1, seconds=61.0, lasts=True, subject="$(reboot)", journal="/j",
                     begin=SECOND),
            ("A service was down for 1 min 1 s", "the only outage after a lost provider; still down at the last record",
             ["bussrv journal tail /j --around 1970-01-01T00:00:01.000000Z"]),
        ),
        (
            Incident(what="guessing", number=12, others=3, claimed="--help", journal="/j", first_seq=1),
            ("Several addresses failed to log in as one user", "12 failed logins from 3 addresses",
             ["bussrv journal tail /j --around 1"]),
        ),
        # A path that the page would not show as it is.
        (
            Incident(what="crash", number=2, seconds=3.0, journal="/j\u202e", first_seq=1),
            ("The server crashed", "2 crashes; down for 3 s at most", []),
        ),
        # The journal is somewhere else.
        (
            Incident(what="session", number=1, kinds=("never-heard-of",), session="b.1", journal="s3a://x/j"),
            ("Never heard of", "1 finding", ["bussrv timeline b.1 s3a://x/j"]),
        ),
    ],
)  # fmt: skip
def test_an_incident_in_words(incident: Incident, expected: tuple[str, str, list[str]]) -> None:
    told = incident_text(incident)
    what = told.what.replace("\N{NO-BREAK SPACE}", " ")
    assert (told.title.replace("\N{NO-BREAK SPACE}", " "), what, list(told.commands)) == expected
