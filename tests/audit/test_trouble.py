from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bussrv import events as ev
from bussrv.incidents.judging import STORM
from bussrv.journal.record import Record
from tests.audit import plans, troubles
from tests.audit.frames import Rows, in_order, tables
from tests.audit.journals import START, Writer
from tests.audit.oracles import trouble as oracle
from tests.size import sized

pytestmark = pytest.mark.dear

SECOND = 1_000_000
MINUTE = 60 * SECOND

# A while into the journals, and a while before the end of some.
SINCE = START + 4 * SECOND
UNTIL = START + 5 * MINUTE


def at(seconds: float, event: ev.Event, server: str = "hall") -> Record:
    """A record so long after a full minute."""
    seq = int(seconds * 1000) + 1
    return Record(seq, START + int(seconds * SECOND), seq, server, f"{server}-1", event)


def openings(first: int, number: int, peer: str | None = "192.0.2.1:{}", **fields: object) -> list[Record]:
    """Sessions that are opened one after the other, each half a second after the one before."""
    about: dict[str, Any] = {"protocol": "spp", **fields}
    peers = [peer and peer.format(each) for each in range(number)]
    return [
        at(first + each / 2, ev.SessionOpened(**{"session": f"hall-1.{first}.{each}", "peer": one, **about}))
        for each, one in enumerate(peers)
    ]


def test_the_minutes_of_these_tests_are_those_of_the_clock() -> None:
    assert START % MINUTE == 0


def test_events_are_counted_by_day(tmp_path: Path) -> None:
    midnight = (START // (1440 * MINUTE) + 1) * 1440 * MINUTE
    refused = ev.ServiceRefused(protocol="spp", suppressed=3)
    records = [
        Record(1, midnight - 1, 1, "hall", "hall-1", refused),
        Record(2, midnight, 2, "hall", "hall-1", refused),
        Record(3, midnight, 3, "hall", "hall-1", ev.ServiceRefused(protocol="spp")),
        Record(4, midnight, 4, "hall", "hall-1", ev.ConfigReloaded()),
    ]
    table = tables(["events"], tmp_path / "facts", records, [at(0, refused)])["events"]
    about = {"server": "hall", "event": "service.refused", "outcome": "refused", "protocol": "spp"}
    assert in_order(table) == in_order(
        [
            {**about, "records": 1, "suppressed": 3, "date": "2027-01-15"},
            {**about, "records": 2, "suppressed": 3, "date": "2027-01-16"},
            {**about, "event": "config.reloaded", "outcome": "ok", "protocol": None}
            | {"records": 1, "suppressed": 0, "date": "2027-01-16"},
        ]
    )


def test_refusals_say_to_whom_from_where_and_why(tmp_path: Path) -> None:
    failed = ev.AuthFailed(claimed="ann", peer="[::1]:7", protocol="spp", reason="bad-credentials", suppressed=2)
    limit = ev.LimitReached(limit="max-connects", value=3, reason="too-many-connects", peer="192.0.2.1:5")
    records = [at(1, failed), at(2, failed), at(3, limit), at(4, ev.LinkDown(reason="client-closed"))]
    table = tables(["refusals"], tmp_path / "facts", records, [at(0, failed)])["refusals"]
    nothing = dict.fromkeys(("reason", "limit", "actor", "claimed", "address", "protocol"))
    assert in_order(table) == in_order(
        [
            {
                "server": "hall",
                "event": "auth.failed",
                **nothing,
                "reason": "bad-credentials",
                "claimed": "ann",
                "address": "::1",
                "records": 2,
                "suppressed": 4,
                "date": "2027-01-15",
                "protocol": "spp",
                "first_seq": 1001,
                "first_moment": START + SECOND,
                "last_moment": START + 2 * SECOND,
            },
            {
                "server": "hall",
                "event": "limit.reached",
                **nothing,
                "reason": "too-many-connects",
                "limit": "max-connects",
                "address": "192.0.2.1",
                "records": 1,
                "suppressed": 0,
                "first_seq": 3001,
                "first_moment": START + 3 * SECOND,
                "last_moment": START + 3 * SECOND,
                "date": "2027-01-15",
            },
        ]
    )


def storm(begin: float, end: float, openings: int, peak: int) -> dict[str, object]:
    first_seq = 1 + int(begin * 1000)
    about = {"server": "hall", "protocol": "spp", "address": "192.0.2.1", "first_seq": first_seq}
    moments = {"begin": START + int(begin * SECOND), "end": START + int(end * SECOND)}
    return {**about, **moments, "openings": openings, "peak": peak}


STORMS: dict[str, tuple[list[Record], list[dict[str, object]]]] = {
    "one too few": (openings(0, STORM - 1), []),
    "just enough": (openings(0, 10), [storm(0, 4.5, 10, 10)]),
    "enough, but in two minutes": (openings(57, 12), []),
    "two minutes in a row": (openings(50, 32), [storm(50, 65.5, 32, 20)]),
    "a minute between": (
        [*openings(0, 11), *openings(120, 10)],
        [storm(0, 5, 11, 11), storm(120, 124.5, 10, 10)],
    ),
    "most were left out": (
        [*openings(0, 3), *openings(2, 1, suppressed=8)],
        [storm(0, 2, 12, 12)],
    ),
    "two addresses": ([*openings(0, 5), *openings(10, 5, "192.0.2.2:{}")], []),
    "two wire formats": ([*openings(0, 5), *openings(10, 5, protocol="objects")], []),
    "sessions of another server": (openings(0, 20, home="attic"), []),
    "from nowhere": (openings(0, 20, None), []),
}


@pytest.fixture(scope="module")
def storms(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """Those of all cases, each of which is a server of its own."""
    records = [replace(each, server=name) for name, (some, _) in STORMS.items() for each in some]
    given = [replace(each, server="one too few") for each in openings(0, 9)]
    return tables(["storms"], tmp_path_factory.mktemp("storms") / "facts", records, given)["storms"]


@pytest.mark.parametrize("name", STORMS)
def test_storms(storms: Rows, name: str) -> None:
    records, expected = STORMS[name]
    found = in_order(row for row in storms if row["server"] == name)
    assert found == in_order({**each, "server": name} for each in expected)
    assert [{**row, "server": "hall"} for row in found] == in_order(oracle.storms(records))


@pytest.fixture(scope="module")
def many() -> list[Record]:
    """The records of many servers, made up and synthetic, and of one that many come back to."""
    drawn = [each for number, plan in enumerate(plans.draw(sized(30))) for each in plans.records(f"plan{number}", plan)]
    stormy = Writer("stormy")
    for number in range(400):
        host = f"192.0.2.{number * number % 5}"
        left_out = number % 11 or None
        stormy.open(
            f"s.{number}", peer=f"{host}:{number}", protocol=("spp", "objects")[number % 7 == 0], suppressed=left_out
        )
    return [
        *drawn,
        *troubles.draw(sized(100)),
        *stormy.records,
        *troubles.synthetic(),
    ]


@pytest.mark.parametrize(("since", "until"), [(None, None), (SINCE, None), (SINCE, UNTIL)])
def test_the_oracle_finds_the_same(many: list[Record], tmp_path: Path, since: int | None, until: int | None) -> None:
    names = ("events", "refusals", "storms")
    found = tables(names, tmp_path / "facts", many, openings(0, 20), since, until)
    for name in names:
        expected = in_order(getattr(oracle, name)(many, since, until))
        assert in_order(found[name]) == expected
        assert expected
