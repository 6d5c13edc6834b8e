from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from bussrv.audit.fold.facts import SESSIONS
from bussrv.audit.fold.stripe import Period
from bussrv.audit.sql.database import Database
from bussrv.audit.sql.tables import recipe
from tests.audit.frames import Answers, Rows, add_table, in_order, rows
from tests.audit.journals import START
from tests.audit.oracles import talkers as oracle
from tests.size import sized

SECOND = 1_000_000


def session(number: int, opened: float | None, closed: float | None, **fields: Any) -> dict[str, Any]:
    """A session that came and went so many seconds after ``START``; not known when, or still there: ``None``."""
    counted = dict.fromkeys(("objects_in", "objects_out", "bytes_in", "bytes_out"), None if closed is None else number)
    return {
        "session": f"hall-1.{number}",
        "server": "hall",
        "protocol": "objects",
        "routing_id": "tv",
        "actor": None,
        "claimed": None,
        "address": "192.0.2.1",
        "state": "open" if closed is None else "closed",
        "opened": None if opened is None else START + int(opened * SECOND),
        "closed": None if closed is None else START + int(closed * SECOND),
        "duration_seconds": None if closed is None or opened is None else float(closed - opened),
        "away_seconds": 0.0,
        **counted,
        "home": None,
        **fields,
    }


def tables(place: Path, sessions: Rows) -> dict[str, Rows]:
    """``talkers`` and ``identities`` of these sessions."""
    durations = [each["duration_seconds"] for each in sessions]
    facts = [
        {
            **each,
            "duration": None if duration is None else round(duration * SECOND),
            "first_moment": START,
            "away_micros": round(each["away_seconds"] * SECOND),
        }
        for each, duration in zip(sessions, durations, strict=True)
    ]
    with closing(Database(place)) as database:
        add_table(database, "fact_sessions", pa.Table.from_pylist(facts, SESSIONS), place)
        for name in ("sessions", "talkers", "identities"):
            database.make(name, recipe(name, Period()))
        return {name: rows(database, name) for name in ("talkers", "identities")}


def test_talkers_are_told_apart_by_who_they_are(tmp_path: Path) -> None:
    sessions = [
        session(1, 0, 10.5),
        session(2, 20, 38.25, away_seconds=8.0),
        session(3, 40, None, away_seconds=7.0),
        session(4, 0, 1, actor="ann"),
        session(5, 0, 1, home="attic"),
        session(6, 0, 1, claimed="ann"),
    ]
    about = {"server": "hall", "protocol": "objects", "routing_id": "tv", "actor": None, "claimed": None}
    about |= {"address": "192.0.2.1"}
    counted = {"objects_in": 3, "objects_out": 3, "bytes_in": 3, "bytes_out": 3}
    assert in_order(tables(tmp_path, sessions)["talkers"]) == [
        {**about, "sessions": 3, "connected_seconds": 20.75, **counted},
        {**about, "claimed": "ann", "sessions": 1, "connected_seconds": 1.0, **dict.fromkeys(counted, 6)},
        {**about, "actor": "ann", "sessions": 1, "connected_seconds": 1.0, **dict.fromkeys(counted, 4)},
    ]


IDENTITIES: dict[str, tuple[Rows, int | None]] = {
    "one after the other": ([session(1, 0, 10), session(2, 10, 20)], None),
    "for a moment": ([session(1, 0, 10.000001), session(2, 10, 20)], 1),
    "one that stays": ([session(1, 0, None), session(2, 10, 20), session(3, 15, 25), session(4, 25, 30)], 2),
    "two ids": ([session(1, 0, 10), session(2, 5, 20, routing_id="radio")], None),
    "two servers": ([session(1, 0, 10), session(2, 5, 20, server="attic")], None),
    "known from another server": ([session(1, 0, 10), session(2, 5, 20, home="attic")], None),
    "one that came at some time": ([session(1, None, 10), session(2, 5, 20)], 1),
    "two that came at some time": ([session(1, None, 10), session(2, None, 20)], None),
}


def of_case(name: str) -> Rows:
    return [{**each, "server": f"{name}, {each['server']}"} for each in IDENTITIES[name][0]]


def test_an_identity_says_who_and_when(tmp_path: Path) -> None:
    sessions = [session(1, 5, None, actor="ben", address=None), session(2, 7, 9, actor="ann")]
    sessions.append(session(3, 8, 12, claimed="ann"))
    assert tables(tmp_path, sessions)["identities"] == [
        {
            "server": "hall",
            "routing_id": "tv",
            "sessions": 3,
            "addresses": ["192.0.2.1"],
            "actors": ["ann", "ben"],
            "claimed": ["ann"],
            "first_moment": START + 5 * SECOND,
            "last_moment": START + 12 * SECOND,
            "overlaps": 2,
        }
    ]


def drawn(number: int) -> Rows:
    found: Rows = []
    moments = st.one_of(st.none(), st.floats(0, 30, allow_nan=False).map(lambda seconds: round(seconds, 6)))
    who = {
        "routing_id": st.sampled_from([None, "tv", "radio", "door"]),
        "server": st.sampled_from(["hall", "attic", "barn", "gate"]),
        "actor": st.sampled_from([None, "ann", "ben"]),
        "claimed": st.sampled_from([None, None, "ann"]),
        "address": st.sampled_from([None, "192.0.2.1", "::1"]),
        "home": st.sampled_from([None, None, None, "attic"]),
    }

    @settings(max_examples=number, database=None, phases=[Phase.generate])
    @given(moments, moments, st.fixed_dictionaries(who))
    def collect(opened: float | None, closed: float | None, fields: dict[str, Any]) -> None:
        found.append(session(len(found), opened, closed, **fields))

    collect()
    return found


PLANNED = [
    session(number, 0, 10, server=f"planned {server}", routing_id=routing_id)
    for server in range(2)
    for routing_id in ("tv", "radio", "door")
    for number in range(2)
]
"""Several at once of each of six ids: how many there are among those that are drawn is not known."""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    sessions = [*drawn(sized(300)), *PLANNED, *(each for name in IDENTITIES for each in of_case(name))]
    found = tables(tmp_path_factory.mktemp("talkers"), sessions)
    names = ("talkers", "identities")
    return Answers(
        {name: in_order(found[name]) for name in names},
        {name: in_order(getattr(oracle, name)(sessions)) for name in names},
    )


@pytest.mark.parametrize("name", IDENTITIES)
def test_identities_are_routing_ids_that_several_had_at_once(answers: Answers, name: str) -> None:
    _, overlaps = IDENTITIES[name]
    found = [row for row in answers.found["identities"] if row["server"].startswith(f"{name}, ")]
    assert [row["overlaps"] for row in found] == ([] if overlaps is None else [overlaps])
    assert found == oracle.identities(of_case(name))


@pytest.mark.parametrize("name", ["talkers", "identities"])
def test_the_oracle_finds_the_same(answers: Answers, name: str) -> None:
    assert answers.found[name] == answers.expected[name]
    assert len(answers.found[name]) > 5
