"""What disagrees is found, just that, and whatever the journals hold a plain program finds the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bussrv import events as ev
from bussrv.audit.kinds import KINDS
from bussrv.journal.batch import Rotation
from bussrv.journal.record import Record, decode, encode
from bussrv.synth import faults
from bussrv.synth.journal import write_journal
from tests.audit.case import Case
from tests.audit.cases import CASES
from tests.audit.days import clean_shape, write_days
from tests.audit.frames import tables
from tests.audit.journals import Writer
from tests.audit.oracles import consistency as oracle
from tests.audit.oracles.consistency import MINUTE, Placed
from tests.audit.placed import given, placed
from tests.audit.plans import draw, write
from tests.size import sized

pytestmark = [pytest.mark.dear, pytest.mark.timeout(600)]

Rows = list[dict[str, Any]]
WHOLE = Path(__file__).parents[2] / "docs" / "reference" / "journal-format" / "whole"
DAYS = sized(40)
"""How many journals of several days have nothing wrong with them."""

OF_RECORDS = {kind for kind in KINDS if kind.startswith(("session-", "service-", "subscription-", "boot-"))} | {
    "time-backwards",
    "clock-backwards",
}

FOUND_AS = {
    "subscription-of-closed-session": {"session-record-after-end"},
    "counters-without-objects": {"session-miscounted"},
    # Or it is registered once more before the session ends.
    "service-never-unregistered": {"service-never-unregistered", "service-registered-twice"},
}
"""What a fault of another name is found as."""


def found(place: Path, some: Sequence[Placed], before: Sequence[Record], since: int | None = None) -> Rows:
    records, segments = [each.record for each in some], [each.segment for each in some]
    return tables(["findings"], place, records, before, since, segments=segments)["findings"]


@dataclass
class Lot:
    """Many journals, looked at together, and what is found about each.

    :ivar clean: the servers of which nothing is to be found.
    :ivar faults: those that were put in, of the server ``faulty``.
    """

    records: list[Placed]
    given: list[Record]
    clean: list[str]
    faults: list[faults.InjectedFault]
    found: Rows

    def of(self, server: str) -> Rows:
        return [row for row in self.found if row["server"] == server]


@pytest.fixture(scope="module")
def lot(tmp_path_factory: pytest.TempPathFactory) -> Lot:
    root = tmp_path_factory.mktemp("lot")
    sound = [*_sound(root)]
    put_in = write_journal(
        root / "faulty",
        events=5000,
        seed=3,
        server="faulty",
        uptime=3e9,
        rotation=Rotation(bytes=150_000),
        faults=list(faults.KINDS),
    )
    journals = [case(case.__name__).write(root / case.__name__) for case in CASES]
    journals += [write(root / f"server{number}", plan) for number, plan in enumerate(draw(sized(150)))]
    records, before = [], []
    for journal in [*sound, root / "faulty", *journals]:
        some = placed(journal)
        if some:
            records += some
            before += given(journal)
    rows = found(root / "facts", records, before)
    servers = [placed(journal)[0].record.server for journal in sound]
    return Lot(records, before, servers, put_in, rows)


def _sound(root: Path) -> Iterator[Path]:
    for seed in (1, 2):
        directory = root / f"synthetic{seed}"
        rotation = Rotation(bytes=100_000)
        write_journal(directory, events=2500, seed=seed, server=directory.name, uptime=2e9, rotation=rotation)
        yield directory
    for seed in range(DAYS):
        directory = write_days(root / f"days{seed}", clean_shape(seed), f"days{seed}", seed)
        if placed(directory):
            yield directory
    yield WHOLE


def test_sound_journals_are_clean(lot: Lot) -> None:
    assert len(lot.clean) > DAYS * 3 / 4
    assert [row for row in lot.found if row["server"] in lot.clean] == []


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_what_is_found(lot: Lot, make: Callable[[str], Case]) -> None:
    rows = lot.of(make.__name__)
    expected = [(kind, wanted) for kind, wanted in make(make.__name__).expected if kind in OF_RECORDS]
    assert sorted(row["kind"] for row in rows) == sorted(kind for kind, _ in expected)
    for kind, wanted in expected:
        assert any(_agrees(row, {"kind": kind, "severity": KINDS[kind], **wanted}) for row in rows), (wanted, rows)


def _agrees(row: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(value in row[name] if name == "message" else row[name] == value for name, value in wanted.items())


def test_every_fault_of_a_made_up_world_is_found(lot: Lot) -> None:
    rows, persistent = lot.of("faulty"), _persistent(lot)
    missed = []
    for fault in lot.faults:
        kinds = FOUND_AS.get(fault.kind, {fault.kind})
        if not any(row["kind"] in kinds and _is_about(row, fault) for row in rows):
            missed.append(fault)
    # Of a device nobody knows that it is gone; and the beginning and the end of one service can both be missing.
    assert all(
        (each.kind == "session-never-closed" and each.session in persistent)
        or (each.kind.startswith("service-n") and _other_end(each, lot.faults))
        for each in missed
    ), missed
    assert {fault.kind for fault in lot.faults if fault not in missed} == set(faults.KINDS)


def test_nothing_else_is_found_in_a_made_up_world(lot: Lot) -> None:
    for row in lot.of("faulty"):
        kinds = {fault.kind for fault in lot.faults if _is_about(row, fault)}
        assert any(row["kind"] in FOUND_AS.get(kind, {kind}) for kind in kinds), row


def _is_about(row: dict[str, Any], fault: faults.InjectedFault) -> bool:
    if fault.kind == "time-backwards":
        return bool(row["first_seq"] == fault.seq)
    return row["session"] == fault.session and (row["service"] is None or row["service"] == fault.service)


def _other_end(fault: faults.InjectedFault, among: list[faults.InjectedFault]) -> bool:
    return any(
        each is not fault and each.kind.startswith("service-n") and each.session == fault.session for each in among
    )


def _persistent(lot: Lot) -> set[str | None]:
    return {each.record.event.session for each in lot.records if getattr(each.record.event, "persistent", False)}


def test_a_plain_program_finds_the_same(lot: Lot) -> None:
    expected = oracle.findings(lot.records, lot.given)
    assert list(oracle.in_order(lot.found)) == list(oracle.in_order(expected))


def test_every_kind_is_among_them(lot: Lot) -> None:
    assert {row["kind"] for row in lot.found} == OF_RECORDS
    assert all(row["message"] and row["server"] and row["boot"] for row in lot.found)


@pytest.mark.long
def test_what_was_before_the_period_is_left_out(tmp_path: Path, lot: Lot) -> None:
    """It begins in the middle of what is drawn. Of each server there is another one, for which all that is long ago."""
    some = [each for each in lot.records if not each.record.server.startswith(("synth", "days"))]
    servers = {each.record.server for each in some}
    before = [each for each in lot.given if each.server in servers]
    times = sorted(each.record.time for each in some if each.record.server.startswith("server"))
    since = times[len(times) // 2]
    ago = max(each.record.time for each in some) + 1 - since
    some += [each._replace(record=earlier(each.record, ago)) for each in some]
    before += [earlier(each, ago) for each in before]
    rows = found(tmp_path / "facts", some, before, since)
    expected = oracle.findings(some, before, since)
    assert list(oracle.in_order(rows)) == list(oracle.in_order(expected))
    assert {row["server"].startswith(LONG_AGO) for row in rows} == {False}


def _named_twice() -> tuple[list[Record], list[Record]]:
    """The records of a server about a session with services, and those of another server about the same one, later."""
    writer = Writer()
    writer.start()
    session = writer.id(1)
    writer.open(session)
    writer.register(session, "tv")
    writer.write(ev.SubscriptionAdded(session=session, service="radio", protocol="objects"))
    one = writer.records
    return one, [replace(each, server="barn", seq=each.seq + 100, time=each.time + MINUTE) for each in one]


OPENED = ("session.opened",)


@pytest.mark.parametrize(
    ("left_out", "expected"),
    [
        (((), ()), {"session-opened-twice"}),
        ((OPENED, ()), {"session-record-before-opening"}),
        (((), OPENED), {"service-registered-twice", "subscription-added-twice"}),
    ],
    ids=["both have its opening", "the later one has", "the earlier one has"],
)
def test_a_session_that_two_servers_name(
    left_out: tuple[Sequence[str], Sequence[str]], expected: set[str], tmp_path: Path
) -> None:
    """One error about the session is enough: what each says of its services is of its own registry."""
    some = [
        Placed(each, 1)
        for records, without in zip(_named_twice(), left_out, strict=True)
        for each in records
        if ev.event_name(type(each.event)) not in without
    ]
    rows = found(tmp_path / "facts", some, ())
    assert {row["kind"] for row in rows} == expected
    assert {row["session"] for row in rows} == {"hall-1.1"}


LONG_AGO = "ago-"


def earlier(record: Record, ago: int) -> Record:
    """The same of another server, with boots and sessions of its own, so many microseconds ago."""
    name = f'"{record.server}'.encode()
    other = decode(encode(record).replace(name, name.replace(b'"', f'"{LONG_AGO}'.encode())))
    return replace(other, time=record.time - ago)
