from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from bussrv.journal.record import Record
from tests.audit import activities
from tests.audit.frames import tables
from tests.audit.journals import START, STEP, Writer
from tests.audit.oracles import concurrency as oracle
from tests.audit.oracles import sessions as sessions_oracle
from tests.size import sized

pytestmark = [pytest.mark.dear, pytest.mark.timeout(600)]

HOUR = 3600 * 1_000_000
MIDDLE = START + 6 * STEP


def table(place: Path, collected: activities.Collected, since: int | None = None) -> oracle.Counts:
    found: oracle.Counts = {}
    said = tables(["concurrency"], place, collected.records, collected.given, since)["concurrency"]
    assert all(row["date"] == str(datetime.fromtimestamp(row["moment"] // 10**6, timezone.utc).date()) for row in said)
    for row in sorted(said, key=lambda row: row["moment"]):
        found.setdefault((row["server"], row["protocol"]), []).append((row["moment"], row["sessions"]))
    return found


def expected(collected: activities.Collected, since: int | None = None) -> oracle.Counts:
    said = sessions_oracle.sessions(collected.records, collected.given, since)
    return oracle.concurrency(said, collected.records, collected.given, since)


@dataclass
class Answers:
    """The answers of the audit and of a plain program about records."""

    found: oracle.Counts
    wanted: oracle.Counts


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Of everything: what is drawn, days, and the cases below, each a server of its own."""
    place = tmp_path_factory.mktemp("concurrency")
    collected, _ = activities.everything(place / "days", [(case(case.__name__)[0], []) for case in CASES])
    return Answers(table(place / "facts", collected), expected(collected))


def test_a_plain_program_says_the_same(answers: Answers) -> None:
    assert answers.found == answers.wanted
    assert_something_happens(answers.wanted)


def test_in_a_period(tmp_path: Path) -> None:
    collected = activities.drawn(sized(80))
    wanted = expected(collected, MIDDLE)
    assert_something_happens(wanted)
    assert table(tmp_path / "facts", collected, MIDDLE) == wanted


def assert_something_happens(wanted: oracle.Counts) -> None:
    assert max(count for changes in wanted.values() for _, count in changes) > 1
    assert any(after - before > HOUR for changes in wanted.values() for (before, _), (after, _) in pairwise(changes))


Case = Callable[[str], tuple[list[Record], oracle.Counts]]
"""Of a server of that name: its records, and what is to be found."""


def hours(server: str) -> tuple[list[Record], oracle.Counts]:
    """An hour goes on where the one before ended."""
    writer = Writer(server)
    writer.open("a")
    writer.open("far", home="attic")
    writer.seq += 3 * HOUR // STEP
    writer.open("b")
    writer.seq += 2 * HOUR // STEP
    writer.close("a")
    writer.open("c", protocol="spp")
    at = [each.time for each in writer.records]
    return writer.records, {
        (server, "objects"): [(at[0], 1), (at[2], 2), (at[3], 1)],
        (server, "spp"): [(at[4], 1)],
    }


def in_turn(server: str) -> tuple[list[Record], oracle.Counts]:
    """One that comes when another goes changes nothing."""
    writer = Writer(server)
    writer.open("a")
    writer.close("a")
    writer.open("b")
    first, second, third = writer.records
    return [first, second, replace(third, time=second.time)], {(server, "objects"): [(first.time, 1)]}


def without_openings(server: str) -> tuple[list[Record], oracle.Counts]:
    """One without its opening was there as long as its closing says."""
    writer = Writer(server)
    for _ in range(4):
        writer.start()
    writer.close("a", duration=2 * STEP)
    writer.close("b", duration=10**12)
    counts = [(START + STEP, 1), (START + 3 * STEP, 2), (START + 5 * STEP, 1), (START + 6 * STEP, 0)]
    return writer.records, {(server, "objects"): counts}


CASES: tuple[Case, ...] = (hours, in_turn, without_openings)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_case(answers: Answers, case: Case) -> None:
    name = case.__name__
    assert {key: counts for key, counts in answers.found.items() if key[0] == name} == case(name)[1]
