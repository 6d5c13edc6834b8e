from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bussrv import events as ev
from bussrv.journal.record import Record
from tests.audit import activities
from tests.audit.frames import tables
from tests.audit.journals import START, STEP, Writer, day
from tests.audit.oracles import sessions as oracle
from tests.size import sized

pytestmark = [pytest.mark.dear, pytest.mark.timeout(600)]

MIDDLE = START + 6 * STEP


def table(place: Path, collected: activities.Collected, since: int | None = None) -> dict[Any, dict[str, Any]]:
    said = tables(["sessions"], place, collected.records, collected.given, since)["sessions"]
    found = {(row.pop("server"), row.pop("session")): row for row in said}
    assert len(found) == len(said)
    return found


def expected(collected: activities.Collected, since: int | None = None) -> dict[Any, dict[str, Any]]:
    return oracle.sessions(collected.records, collected.given, since)


@dataclass
class Answers:
    """The answers of the audit and of a plain program about records.

    :ivar days: the servers that lived for days.
    """

    collected: activities.Collected
    days: set[str]
    said: dict[Any, dict[str, Any]]
    wanted: dict[Any, dict[str, Any]]


def agree(collected: activities.Collected, said: dict[Any, dict[str, Any]], wanted: dict[Any, dict[str, Any]]) -> None:
    assert wanted
    for key in {*said, *wanted}:
        mine = [each for each in collected.records if (each.server, each.event.session) == key]
        assert (key, said.get(key)) == (key, wanted.get(key)), mine


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Of everything: what is drawn, days, and the cases below, each a server of its own."""
    place = tmp_path_factory.mktemp("sessions")
    collected, houses = activities.everything(place / "days", [(case(case.__name__), []) for case in CASES])
    said = table(place / "facts", collected)
    return Answers(collected, houses, said, expected(collected))


def test_a_plain_program_says_the_same(answers: Answers) -> None:
    states = {row["state"] for (server, _), row in answers.wanted.items() if server in answers.days}
    assert states == {"open", "away", "closed"}
    agree(answers.collected, answers.said, answers.wanted)


def test_in_a_period(tmp_path: Path) -> None:
    collected = activities.drawn(sized(80))
    said = table(tmp_path / "facts", collected, MIDDLE)
    agree(collected, said, expected(collected, MIDDLE))


def one_day(server: str) -> list[Record]:
    return day(server).records


def known_by_its_closing_alone(server: str) -> list[Record]:
    writer = Writer(server)
    writer.close("x", peer="[::1]:7", actor="ann", routing_id="r")
    return writer.records


def known_by_what_it_was_refused_alone(server: str) -> list[Record]:
    refused = ev.ServiceRefused(session="x", protocol="spp", peer="192.0.2.7:1", service="tv")
    return [Record(1, START, 1, server, "hall-1", refused)]


def closed_twice(server: str) -> list[Record]:
    writer = Writer(server)
    writer.open("x")
    writer.close("x", reason="first")
    writer.close("x", reason="second")
    return writer.records


CASES = (one_day, known_by_its_closing_alone, known_by_what_it_was_refused_alone, closed_twice)


def test_one_day(answers: Answers) -> None:
    assert answers.said["one_day", "one_day-1.1"] == {
        "protocol": "objects",
        "routing_id": "r-one_day-1.1",
        "actor": "ann",
        "claimed": None,
        "name": None,
        "role": None,
        "peer": "192.0.2.1:4711",
        "address": "192.0.2.1",
        "state": "closed",
        "opened": START + 2 * STEP,
        "closed": START + 7 * STEP,
        "duration_seconds": 2.5,
        "reason": "client-closed",
        "objects_in": 3,
        "objects_out": 0,
        "bytes_in": 120,
        "bytes_out": 0,
        "persistent": False,
        "home": None,
        "provided": ["tv"],
        "wanted": [],
        "objects_wanted": False,
        "away_since": None,
        "kept_until": None,
        "away_seconds": 0.0,
        "date": "2027-01-15",
    }
    assert answers.said["one_day", "one_day-1.2"]["wanted"] == ["tv"]


def test_known_by_its_closing_alone(answers: Answers) -> None:
    row = answers.said["known_by_its_closing_alone", "x"]
    assert (row["opened"], row["persistent"], row["state"]) == (None, None, "closed")
    assert (row["address"], row["actor"], row["routing_id"], row["date"]) == ("::1", "ann", "r", "2027-01-15")


def test_known_by_what_it_was_refused_alone(answers: Answers) -> None:
    row = answers.said["known_by_what_it_was_refused_alone", "x"]
    assert (row["protocol"], row["peer"], row["state"], row["provided"]) == ("spp", "192.0.2.7:1", "open", [])


def test_the_first_closing_counts(answers: Answers) -> None:
    assert answers.said["closed_twice", "x"]["reason"] == "first"
