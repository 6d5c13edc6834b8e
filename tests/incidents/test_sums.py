"""The tables of a running server stay small under attack, and incidents end."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from bussrv import events as ev
from bussrv.incidents import sums as tables
from bussrv.incidents import use as presence
from bussrv.incidents.judging import Incident, id_of, key_of
from bussrv.incidents.sums import MOST_ADDRESSES, MOST_GUESSING, Sums
from bussrv.incidents.tally import QUIET
from bussrv.journal.record import Record
from tests.incidents.histories import EVERY_KIND, SECOND, START, records


class Judge:
    """The sums of a server, and the incidents that were over."""

    def __init__(self) -> None:
        self.over: list[Incident] = []
        self.sums = Sums("hall", self.over.append)
        self.seq = 0

    def take(self, at: int, event: ev.Event) -> None:
        self.seq += 1
        time = START + at * SECOND
        self.sums.take([Record(self.seq, time, time, "hall", "b1", event)])

    def fail(self, at: int, host: str, user: str = "ann", **more: Any) -> None:
        self.take(at, ev.AuthFailed(claimed=user, peer=f"{host}:5", **more))

    def now(self, at: int) -> list[tuple[str, int, int]]:
        return [(each.what, each.number, each.others) for each in self.sums.incidents(START + at * SECOND)]

    def quiet(self, at: int) -> None:
        self.sums.forget(START + (at - QUIET) * SECOND)


def test_an_incident_ends_when_nothing_more_happens() -> None:
    judge = Judge()
    for _ in range(10):
        judge.fail(0, "192.0.2.1")
    judge.quiet(QUIET)
    assert judge.now(QUIET) == [("address", 10, 0)]
    judge.fail(QUIET, "192.0.2.1")
    judge.quiet(QUIET + 1)
    assert (judge.now(QUIET + 1), judge.over) == ([("address", 11, 0)], [])
    judge.quiet(2 * QUIET + 1)
    assert (judge.now(2 * QUIET + 1), [each.number for each in judge.over]) == ([], [11])
    # What comes later is another incident.
    for _ in range(10):
        judge.fail(9_000, "192.0.2.1")
    (again,) = judge.sums.incidents(START + 9_000 * SECOND)
    assert key_of(again) == key_of(judge.over[0])
    assert id_of(again) != id_of(judge.over[0])


@pytest.mark.parametrize("kind", range(len(EVERY_KIND)))
def test_an_incident_of_each_kind_ends(kind: int) -> None:
    over: list[Incident] = []
    sums = Sums("hall", over.append)
    written = records("hall", EVERY_KIND[kind])
    sums.take(written)
    now = written[-1].time
    before = sums.incidents(now)
    assert len(before) == 1
    sums.forget(now + SECOND)
    # A service that is down, and an id that two sessions have, stay incidents until that is over.
    goes_on = before[0].lasts or before[0].what == "identity"
    assert [each.what for each in over] == ([] if goes_on else [before[0].what])
    assert [each.what for each in sums.incidents(now + SECOND)] == ([before[0].what] if goes_on else [])


@pytest.mark.dear
def test_an_attack_from_everywhere_takes_little_memory() -> None:
    """Each address and each name is used once: the heavy one among them is not the one that is dropped."""
    judge = Judge()
    tracemalloc.start()
    for number in range(3 * MOST_ADDRESSES):
        name = f"{number:08}" + "x" * 5_000
        judge.fail(number // 100, f"2001:db8::{number:x}" if number % 9 else "192.0.2.9", name)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 16 << 20
    assert judge.now(200) == [("address", -(-3 * MOST_ADDRESSES // 9), 0)]
    assert judge.sums.not_kept["addresses"] > MOST_ADDRESSES
    assert judge.sums.not_kept["users"] > MOST_ADDRESSES


def test_addresses_beyond_the_bound_are_still_a_guess() -> None:
    judge = Judge()
    for number in range(2 * MOST_GUESSING):
        judge.fail(0, f"192.0.{number // 250}.{number % 250}")
    assert judge.now(0) == [("guessing", 2 * MOST_GUESSING, MOST_GUESSING)]


def test_what_was_dropped_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_ADDRESSES", 2)
    judge = Judge()
    for _ in range(10):
        judge.take(0, ev.LimitReached(limit="max-sessions", value=3, peer="192.0.2.1:5"))
    for number in (2, 3):
        judge.take(1, ev.LimitReached(limit="max-sessions", value=3, peer=f"192.0.2.{number}:5"))
    assert [(each.address, each.number) for each in judge.over] == [("192.0.2.1", 10)]
    assert judge.sums.not_kept == {"addresses": 1}


def test_a_clock_that_is_set_back_ends_no_outage() -> None:
    judge = Judge()
    judge.sums.presence.add("b0.1", START, "ann", "tv", None)
    judge.sums.presence.add_provider("b0.1", "lamp")
    judge.take(1, ev.ServiceUnregistered(session="b0.1", service="lamp", reason="server-crashed"))
    assert judge.now(100) == [("outage", 1, 0)]
    judge.quiet(-5_000)
    (row,) = judge.sums.incidents(START - 5_000 * SECOND)
    assert (row.what, row.lasts, row.seconds) == ("outage", True, 99)
    # A service that is lost then is not down for as long as the clock was set back by.
    judge.sums.presence.add_provider("b0.1", "door")
    judge.take(-5_000, ev.ServiceUnregistered(session="b0.1", service="door", reason="server-crashed"))
    assert judge.now(-4_990) == [("outage", 1, 0)]
    assert sorted(judge.now(-4_900)) == [("outage", 1, 0)] * 2


def test_services_that_are_down_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody provides very many, and is lost. A look has to look at each of them."""
    monkeypatch.setattr(presence, "MOST_LOST", 10)
    judge = Judge()
    judge.sums.presence.add("b0.1", START, "ann", "tv", None)
    for number in range(30):
        judge.sums.presence.add_provider("b0.1", f"lamp-{number}")
        judge.take(1, ev.ServiceUnregistered(session="b0.1", service=f"lamp-{number}", reason="server-crashed"))
    assert len(judge.now(100)) == 10
    assert judge.sums.not_kept == {"services": 20}


def test_the_state_before_the_start_counts() -> None:
    """Sessions that a boot finds in its journal, and the services that they provide."""
    judge = Judge()
    judge.sums.presence.add("b0.1", START, "ann", "tv", None)
    judge.sums.presence.add_provider("b0.1", "lamp")
    judge.take(1, ev.ServiceUnregistered(session="b0.1", service="lamp", reason="server-crashed"))
    judge.take(1, ev.SessionOpened(session="b1.1", routing_id="tv"))
    assert sorted(judge.now(100)) == [("identity", 1, 2), ("outage", 1, 0)]
