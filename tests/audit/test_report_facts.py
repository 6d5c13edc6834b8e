"""What a report says is what the tables hold: small tables, and expected values by another way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.parquet import write_table

from bussrv.audit.fold.stripe import Period
from bussrv.audit.report import activity, journals, trouble
from bussrv.audit.report.charts import MINUTE, SECOND, Axis, axis_between
from bussrv.audit.report.facts import Facts, facts
from bussrv.audit.report.journals import MOST_FINDINGS
from bussrv.audit.report.questions import Tables
from bussrv.audit.sql.database import Database
from tests.audit.report_facts import BEGIN

pytestmark = pytest.mark.dear

SCHEMAS = {
    "findings": "severity string, kind string, server string, boot string, segment bigint, first_seq bigint, "
    "last_seq bigint, moment timestamp, session string, service string, file string, line bigint, message string",
    "segments": "journal string, segment bigint, file string, server string, records bigint, first_seq bigint, "
    "last_seq bigint, first_moment timestamp, last_moment timestamp, bytes bigint, sealed string, vouched boolean",
    "boots": "server string, boot string, records bigint, first_seq bigint, last_seq bigint, first_moment timestamp, "
    "last_moment timestamp, started boolean, stopped boolean, ended boolean, crashed boolean, down_seconds double, "
    "version string",
    "servers": "server string, records bigint, first_seq bigint, last_seq bigint, first_moment timestamp, "
    "last_moment timestamp, boots bigint, crashes bigint",
    "sessions": "session string, server string, protocol string, routing_id string, actor string, claimed string, "
    "name string, role string, peer string, address string, state string, opened timestamp, closed timestamp, "
    "duration_seconds double, reason string, objects_in bigint, objects_out bigint, bytes_in bigint, "
    "bytes_out bigint, persistent boolean, home string, provided array<string>, wanted array<string>, "
    "objects_wanted boolean, away_since timestamp, kept_until timestamp, away_seconds double",
    "absences": "server string, session string, protocol string, routing_id string, actor string, claimed string, "
    "address string, begin timestamp, end timestamp, kept_until timestamp, away_seconds double, reason string, "
    "outcome string, back_address string, back_actor string, taken_over boolean",
    "concurrency": "server string, protocol string, moment timestamp, sessions bigint",
    "services": "server string, service string, providers bigint, registrations bigint, first_registered timestamp, "
    "last_registered timestamp, provided_seconds double, observed_seconds double, availability double, "
    "provided boolean, outages bigint, longest_outage_seconds double, mtbf_seconds double, mttr_seconds double, "
    "subscribers bigint, subscriptions bigint, unprovided_seconds double, unused boolean",
    "uptimes": "server string, service string, begin timestamp, end timestamp, lost boolean",
    "orphans": "server string, session string, service string, protocol string, routing_id string, begin timestamp, "
    "end timestamp, ended boolean, waited_seconds double",
    "events": "server string, event string, outcome string, protocol string, records bigint, suppressed bigint",
    "refusals": "server string, event string, reason string, limit string, actor string, claimed string, "
    "address string, records bigint, suppressed bigint, first_seq bigint, first_moment timestamp, "
    "last_moment timestamp, protocol string",
    "links": "server string, neighbour string, ups bigint, downs bigint, up_seconds double, observed_seconds double, "
    "availability double, mtbf_seconds double, last_reason string, up boolean",
    "leases": "server string, session string, routing_id string, address string, service string, added timestamp, "
    "renewed timestamp, expired timestamp, renewals bigint, kind string, reason string",
    "talkers": "server string, protocol string, routing_id string, actor string, claimed string, "
    "address string, sessions bigint, connected_seconds double, objects_in bigint, objects_out bigint, "
    "bytes_in bigint, bytes_out bigint",
    "identities": "server string, routing_id string, sessions bigint, addresses array<string>, "
    "actors array<string>, first_moment timestamp, last_moment timestamp, overlaps bigint, "
    "claimed array<string>",
    "storms": "server string, protocol string, address string, first_seq bigint, begin timestamp, "
    "end timestamp, openings bigint, peak bigint",
    "link_clocks": "server string, neighbour string, differences bigint, ahead_seconds double, first_seq bigint, "
    "begin timestamp, end timestamp, lasts boolean, message string",
    "witnesses": "server string, witness string, cosigned bigint, size bigint, refused bigint, first_seq bigint, "
    "begin timestamp, end timestamp, lasts boolean, message string",
    "lost_links": "server string, neighbour string, losses bigint, first_seq bigint, begin timestamp, end timestamp, "
    "lasts boolean, reason string",
}

KINDS = {"string": pa.string(), "bigint": pa.int64(), "timestamp": pa.timestamp("us", tz="UTC"),
         "double": pa.float64(), "boolean": pa.bool_(), "array<string>": pa.list_(pa.string())}  # fmt: skip

Row = Mapping[str, Any]
Make = Callable[..., Tables]

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def at(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def arrow_schema(name: str) -> pa.Schema:
    """The columns of a table."""
    return pa.schema([(each, KINDS[kind]) for each, kind in (pair.split() for pair in SCHEMAS[name].split(", "))])


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """``make(findings=[…])``: all tables, with these rows; columns that a row leaves out are NULL."""
    root = tmp_path_factory.mktemp("tables")
    numbers = count()

    def table(name: str, rows: list[Row]) -> Path:
        schema = arrow_schema(name)
        assert all(set(row) <= set(schema.names) for row in rows)
        place = root / str(next(numbers))
        place.mkdir()
        # In two files, so that what is asked for is not in the order in which it was written.
        for half in (0, 1):
            columns = {each: [row.get(each) for row in rows[half::2]] for each in schema.names}
            write_table(pa.table(columns, schema=schema), place / f"{half}.parquet")
        return place

    empty = {name: table(name, []) for name in SCHEMAS}

    with ExitStack() as stack:

        def tables(**given: list[Row]) -> Tables:
            database = stack.enter_context(closing(Database(root / "scratch")))
            for name, place in {**empty, **{name: table(name, rows) for name, rows in given.items()}}.items():
                database.add_published(name, place)
            return database

        yield tables


def server(name: str, begin: int, end: int, **more: Any) -> Row:
    moments = {"first_moment": at(begin), "last_moment": at(end)}
    return {"server": name, "records": 10, "first_seq": 1, "last_seq": 10, "boots": 2, "crashes": 1, **moments, **more}


def brute_levels(rows: list[Row], protocol: str, axis: Axis) -> tuple[list[int], list[int]]:
    """The most and the last number of sessions in each step, moment by moment."""
    mine = [
        ((row["moment"] - EPOCH) // timedelta(microseconds=1), row["server"], row["sessions"])
        for row in rows
        if (row["protocol"] or "unknown") == protocol
    ]
    moments = sorted({moment for moment, _, _ in mine})

    def level(when: int) -> int:
        latest: dict[str, tuple[int, int]] = {}
        for moment, name, sessions in mine:
            if moment <= when and latest.get(name, (moment, 0))[0] <= moment:
                latest[name] = (moment, sessions)
        return sum(sessions for _, sessions in latest.values())

    most, last = [], []
    for step in range(axis.steps):
        begin, end = axis.starts(step), axis.starts(step + 1)
        inside = [begin, *(moment for moment in moments if begin < moment < end)]
        levels = [level(moment) for moment in inside]
        most.append(max(levels))
        last.append(levels[-1])
    return most, last


@pytest.mark.parametrize("names", [["hall"], ["hall", "barn", "loft"]])
def test_concurrency_is_exact_for_one_server_and_for_several(make: Make, names: list[str]) -> None:
    random = Random(7)
    begin, end = BEGIN + 5, BEGIN + 3 * MINUTE
    axis = axis_between(begin, end)
    rows: list[Row] = []
    for name in names:
        for protocol in ("objects", "inbus", None):
            moments = [*random.sample(range(begin - MINUTE, end), 40), axis.starts(9), axis.starts(10)]
            rows += [
                {"server": name, "protocol": protocol, "moment": at(moment), "sessions": random.randrange(9)}
                for moment in set(moments)
            ]
    sessions = [
        {"session": f"s{number}", "protocol": protocol, "state": "open"}
        for number, protocol in enumerate(["objects", "objects", "objects", "inbus", "inbus", None])
    ]
    found = activity.protocols(make(concurrency=rows, sessions=sessions), axis, len(names))
    assert [each.protocol for each in found.rows] == ["objects", "inbus", "unknown"]
    for each in found.rows:
        assert (list(each.most), list(each.last)) == brute_levels(rows, each.protocol, axis)


def test_uptimes_are_shares_of_what_was_seen_of_each_step(make: Make) -> None:
    begin, end = BEGIN + 30 * SECOND, BEGIN + 10 * MINUTE
    tables = make(
        servers=[server("hall", begin, end), server("barn", begin + 4 * MINUTE, end)],
        services=[
            {"server": "hall", "service": "door", "outages": 1, "subscribers": 0, "subscriptions": 0},
            {"server": "barn", "service": "door", "outages": 0, "subscribers": 3, "subscriptions": 3},
            {
                "server": "hall",
                "service": "idle",
                "outages": 0,
                "subscribers": 1,
                "subscriptions": 1,
                "observed_seconds": 50.0,
            },
        ],
        uptimes=[
            {"server": "hall", "service": "door", "begin": at(begin), "end": at(begin + 61 * SECOND)},
            {"server": "hall", "service": "door", "begin": at(begin + 62 * SECOND), "end": at(end)},
            {"server": "barn", "service": "door", "begin": at(begin + 5 * MINUTE), "end": at(begin + 6 * MINUTE)},
        ],
    )
    axis = axis_between(begin, end)
    assert axis.width == 5 * SECOND
    found = activity.uptimes(tables, axis)
    assert [(each.server, each.service) for each in found] == [
        ("hall", "door"),
        ("barn", "door"),
        ("hall", "idle"),
    ]
    hall, barn, idle = (each.uptime for each in found)
    # From 61 to 62 seconds: one of the five seconds of one step.
    assert {step: share for step, share in enumerate(hall) if share != 1.0} == {
        12: pytest.approx(0.8),
        axis.steps - 1: None,
    }
    assert barn.count(None) == 4 * 12 + 1
    assert [step for step, share in enumerate(barn) if share] == list(range(60, 72))
    assert idle == (None,) * (axis.steps - 11) + (0.0,) * 10 + (None,)


def test_a_period_is_the_axis(make: Make) -> None:
    begin, end = BEGIN, BEGIN + 100 * MINUTE
    period = Period(begin + 10 * MINUTE, begin + 20 * MINUTE)
    sessions = [
        {"session": "a", "opened": at(begin), "closed": at(begin + 12 * MINUTE), "state": "closed"},
        {"session": "b", "opened": at(begin + 11 * MINUTE), "state": "open"},
        {"session": "c", "opened": at(begin + 11 * MINUTE), "home": "barn", "state": "open"},
    ]
    tables = make(servers=[server("hall", begin, end)], sessions=sessions)
    axis = journals.scope(tables, period).axis
    assert axis is not None
    assert (axis.begin, axis.end) == (period.since, begin + 20 * MINUTE - 1)
    churn = activity.churn(tables, axis)
    assert (sum(churn.opened), sum(churn.closed), activity.remote_sessions(tables)) == (1, 1, 1)
    assert churn.opened[MINUTE // axis.width] == 1
    assert journals.scope(tables, Period(end + MINUTE, None)).axis is None


def test_each_kind_of_finding_has_its_share_and_all_are_counted(make: Make) -> None:
    many = [
        {"severity": "error", "kind": "seq-gap", "server": "hall", "segment": 1, "first_seq": number, "message": "m"}
        for number in range(MOST_FINDINGS + 50)
    ]
    few = [{"severity": "error", "kind": "bad-line", "message": f"{number}"} for number in range(3)]
    other = [{"severity": "notice", "kind": "torn-tail", "message": "n", "file": "f", "line": 4}]
    seqs = [
        {"severity": "warning", "kind": f"k{seq}", "server": server, "first_seq": seq, "message": "m"}
        for server, seq in (("hall", 9), ("hall", 10), ("barn", 30))
    ]
    segments = [{"server": "hall", "segment": number, "journal": "j", "file": "f"} for number in (1, 10, 20)]
    tables = make(findings=[*many, *few, *other, *seqs], segments=segments)
    assert sorted(journals.kinds(tables), key=lambda each: each.kind) == [
        journals.KindCount("error", "bad-line", 3),
        *(journals.KindCount("warning", f"k{seq}", 1) for seq in (10, 30, 9)),
        journals.KindCount("error", "seq-gap", MOST_FINDINGS + 50),
        journals.KindCount("notice", "torn-tail", 1),
    ]
    found = journals.findings(tables)
    assert [each.segment for each in found if each.severity == "warning"] == [10, None, 1]
    shown = [(each.kind, each.first_seq) for each in found if each.severity != "warning"]
    assert shown == [
        *[("bad-line", None)] * 3,
        *[("seq-gap", number) for number in range(MOST_FINDINGS - 3)],
        ("torn-tail", None),
    ]


def test_what_is_small_comes_as_it_is(make: Make) -> None:
    begin, end = BEGIN, BEGIN + 60 * MINUTE
    moments = {"first_moment": at(begin), "last_moment": at(end)}
    tables = make(
        servers=[server("hall", begin, end)],
        boots=[
            {"server": "hall", "boot": "a", "records": 4, "crashed": True, "ended": True,
             "first_moment": at(begin), "last_moment": at(begin + 20 * MINUTE)},
            {"server": "hall", "boot": "b", "records": 6, "crashed": False, "ended": False, "down_seconds": 2400.0,
             "first_moment": at(end), "last_moment": at(end)},
        ],
        segments=[
            {"journal": "j", "segment": 1, "file": "1", "server": "hall", "records": 4, "bytes": 70, "sealed": "closed",
             "vouched": True},
            {"journal": "j", "segment": 5, "file": "5", "server": "hall", "records": None, "bytes": 30,
             "sealed": "none", "vouched": None},
        ],
        sessions=[
            {"session": "a", "state": "closed", "reason": "client-closed", "duration_seconds": 0.5, "bytes_in": 2},
            {"session": "b", "state": "closed", "reason": "client-closed", "duration_seconds": 1.0, "bytes_in": 3},
            {"session": "c", "state": "closed", "duration_seconds": 1e9},
        ],
        refusals=[
            {"event": "auth.failed", "reason": "r", "address": address, "claimed": claimed, "records": 2,
             "suppressed": 5, **moments}
            for address, claimed in (("::1", "anna"), ("::1", "ben"), (None, None))
        ],
        leases=[{"server": "hall", "session": "s", "expired": at(end), "renewals": 0, "kind": "service"}],
        identities=[{"server": "hall", "routing_id": "x" * 9999, "addresses": list("a" * 99), **moments}],
        talkers=[{"server": "hall", "sessions": 1, "bytes_in": number, "bytes_out": 1} for number in range(30)],
        events=[{"event": "e", "outcome": "ok", "records": 1, "suppressed": 2, "protocol": each} for each in "ab"],
    )  # fmt: skip
    found = facts(tables, {"version": "1", "seals": {"keys": ["k"], "trusted": "t"}}, Period())
    assert (found.records, found.boot_count, found.crashes, found.keys, found.trusted) == (10, 2, 1, ("k",), "t")
    assert [each.boot for each in found.boots.rows] == ["a", "b"]
    assert found.servers.rows[0].crashed_in == {20 * MINUTE // axis_between(begin, end).width: 1}
    third = axis_between(begin, end).steps // 3
    assert found.servers.rows[0].ran[: third - 1] == (1.0,) * (third - 1)
    assert set(found.servers.rows[0].ran[third + 1 :]) == {0.0, None}
    assert found.all_seals == journals.Sealing(
        journal="", server=None, segments=2, records=4, bytes=100, closed=1, open=0, unsealed=1, verified=1
    )
    assert [each.segment for each in found.unverified.rows] == [5]
    assert found.durations == (1, 1, 0, 0, 0, 0, 0, 1)
    assert found.closings.rows == (activity.Named("client-closed", 2), activity.Named(None, 1))
    assert [(each.number, each.suppressed) for each in found.refusals.rows] == [(6, 15)]
    assert [(each.address, each.number, each.actors) for each in found.refused.rows] == [("::1", 4, 2), (None, 2, 0)]
    assert [(each.claimed, each.number, each.sources, each.addresses) for each in found.attacked.rows] == [
        ("anna", 2, 1, ("::1",)), ("ben", 2, 1, ("::1",)), (None, 2, 0, ()),
    ]  # fmt: skip
    assert found.leases.rows[0] == trouble.Lease(
        server="hall", session="s", added=None, expired=end, renewals=0, kind="service"
    )
    assert (len(found.identities.rows[0].routing_id), len(found.identities.rows[0].addresses)) == (256, 8)
    assert ([each.bytes_in for each in found.traffic.rows], found.traffic.total) == ([*range(29, -1, -1)], 30)
    assert found.traffic_bytes == sum(range(30)) + 30
    assert found.events.rows == (trouble.Recorded("e", "ok", 2, 4),)


@pytest.mark.parametrize("period", [Period(), Period(BEGIN, BEGIN + MINUTE)])
def test_no_table_has_a_row(make: Make, period: Period) -> None:
    found = facts(make(), {}, period)
    nothing = journals.Sealing(
        journal="", server=None, segments=0, records=0, bytes=0, closed=0, open=0, unsealed=0, verified=0
    )
    assert found == Facts(since=period.since, until=period.until, all_seals=nothing, durations=(0,) * 8)
