"""When sessions were away: the table says what a plain program says; a return of another user is an incident."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bussrv import events as ev
from bussrv.audit.job import audit
from bussrv.journal.record import Record
from tests.audit import activities
from tests.audit.conftest import without_report
from tests.audit.frames import Rows, tables
from tests.audit.journals import START, STEP, Writer, write_journal
from tests.audit.oracles import sessions as oracle
from tests.size import sized

pytestmark = pytest.mark.dear

COMPARED = ("begin", "end", "kept_until", "reason", "outcome", "back_address", "back_actor", "away_seconds")
MIDDLE = START + 6 * STEP


def expected(collected: activities.Collected, since: int | None = None) -> list[tuple[Any, ...]]:
    told: dict[tuple[str, str], list[Record]] = {}
    for each in sorted([*collected.records, *collected.given], key=lambda each: (each.seq, each.time, each.mono)):
        if each.event.session is not None:
            told.setdefault((each.server, each.event.session), []).append(each)
    found = []
    for key, mine in told.items():
        for row in oracle.absences(mine):
            if row["end"] is None or row["end"] >= (since or 0):
                lasted = None if row["end"] is None else (row["end"] - row["begin"]) / 1_000_000
                found.append((*key, *({**row, "away_seconds": lasted}[name] for name in COMPARED)))
    return sorted(found, key=str)


def said(place: Path, collected: activities.Collected, since: int | None = None) -> list[tuple[Any, ...]]:
    rows = tables(["absences"], place, collected.records, collected.given, since)["absences"]
    return sorted((tuple(row[name] for name in ("server", "session", *COMPARED)) for row in rows), key=str)


def test_a_plain_program_says_the_same(tmp_path: Path) -> None:
    collected = activities.drawn(sized(80))
    collected.add(returns("ann", "ann", "returned", pause=10), [])
    for name, since in (("whole", None), ("later", MIDDLE)):
        wanted = expected(collected, since)
        assert {row[2 + COMPARED.index("outcome")] for row in wanted} == {"resumed", "closed", "away"}
        assert said(tmp_path / name, collected, since) == wanted


def returns(actor: str | None, back: str | None, server: str = "hall", *, pause: int = 0) -> list[Record]:
    """:param pause: how many steps pass before the client leaves."""
    writer = Writer(server)
    writer.start()
    session, about = writer.id(1), {"protocol": "mqtt", "peer": "192.0.2.1:5"}
    writer.open(session, persistent=True, expiry=STEP, actor=actor, **about)
    writer.seq += pause
    writer.write(ev.SessionLeft(session=session, until=START + 9 * STEP, actor=actor, **about))
    writer.write(ev.SessionResumed(session=session, expiry=STEP, actor=back, **{**about, "peer": "192.0.2.9:7"}))
    writer.close(session, protocol="mqtt", actor=back, duration=3 * STEP)
    return writer.records


def of_journal(place: Path, records: list[Record]) -> tuple[Rows, dict[str, Any]]:
    write_journal(place / "hall", records)
    with without_report():
        summary = audit(None, [place / "hall"], place / "out").summary
    return tables(["absences"], place / "facts", records)["absences"], summary


def test_a_return_of_another_user_is_an_incident(tmp_path: Path) -> None:
    rows, summary = of_journal(tmp_path, returns("ann", "eve"))
    told = [(row["taken_over"], row["address"], row["back_actor"], row["back_address"]) for row in rows]
    assert told == [(True, "192.0.2.1", "eve", "192.0.2.9")]
    assert (summary["integrity"], summary["incident_kinds"]) == ("intact", {"takeover": 1})


def test_a_return_of_the_same_user_is_none(tmp_path: Path) -> None:
    """A user whose pseudonym was forgotten has another one from then on."""
    before, after = "~" + "0a" * 12, "~" + "0b" * 12
    for number, actors in enumerate((("ann", "ann"), (None, None), (before, after))):
        place = tmp_path / f"{number}"
        place.mkdir()
        rows, summary = of_journal(place, returns(*actors))
        assert ([row["taken_over"] for row in rows], summary["security"]) == ([False], "quiet")
