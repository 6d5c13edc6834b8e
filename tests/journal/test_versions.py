"""Journals of older schema versions: they are read as what they meant, and gone on with in today's version."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from bussrv import events as ev
from bussrv.journal.header import decode_part
from bussrv.journal.reading import read_journal
from bussrv.journal.record import decode
from bussrv.journal.recovery import recover
from bussrv.journal.segment import list_segments, open_segment
from bussrv.journal.verify import verify
from bussrv.journal.versions import READ_VERSIONS, of_today
from bussrv.registry.state.fold import RegistryFold
from tests.docs.golden import OLDER, PLACE, UPGRADED, write_upgraded
from tests.tables import each_row

WHOLE = [
    PLACE / "whole", UPGRADED, *(OLDER / name for name in ("v2/whole", "v2/crashed", "v3/whole", "v2-then-v3")),
]  # fmt: skip
V2 = [OLDER / "v2" / name for name in ("whole", "salvaged", "crashed")]


def lines(journal: Path) -> Iterator[tuple[Path, bytes]]:
    for path in list_segments(journal):
        with open_segment(path) as file:
            yield from ((path, line) for line in file)


def versions(journal: Path) -> list[set[int]]:
    """Of each segment, those of its lines."""
    return [{json.loads(line)["v"] for of, line in lines(journal) if of == path} for path in list_segments(journal)]


def test_there_is_a_golden_journal_of_every_version_that_is_read() -> None:
    found = {version for journal in (*WHOLE, *V2) for segment in versions(journal) for version in segment}
    assert found == set(READ_VERSIONS)


@each_row("journal", WHOLE, ids=str)
def test_golden_journals_of_every_version_stay_whole(journal: Path) -> None:
    report = verify(journal)
    assert report.faults == []
    assert report.last_seq == [record.seq for record in read_journal(journal)][-1]


def test_what_was_found_damaged_is_still_found_damaged() -> None:
    places = (PLACE, OLDER / "v2", OLDER / "v3")
    today, *older = [
        [(each.path, each.code, each.line) for each in verify(place / "salvaged").faults] for place in places
    ]
    assert older == [today, today] != [[], []]


def test_a_version_2_journal_goes_on_in_a_segment_of_today(tmp_path: Path) -> None:
    write_upgraded(tmp_path / "journal")
    assert versions(tmp_path / "journal") == [{2}, {2}, {4}]
    for written in (tmp_path / "journal").iterdir():
        assert written.read_bytes() == (UPGRADED / written.name).read_bytes()
    for before in (OLDER / "v2" / "crashed").glob("*.jsonl"):
        assert before.read_bytes() == (UPGRADED / before.name).read_bytes()


def test_its_first_snapshot_tells_what_was_proved_and_claimed() -> None:
    (part,) = [decode_part(line) for _, line in lines(UPGRADED) if b'"snapshot":12' in line]
    sessions = {
        each["protocol"]: (each["actor"], each["claimed"]) for each in json.loads(bytes(part.state))["sessions"]
    }
    assert sessions == {"objects": (None, "anna"), "spp": ("ben", None), "inbus": (None, None)}


def test_a_snapshot_of_version_2_is_taken_in_so(tmp_path: Path) -> None:
    journal = shutil.copytree(OLDER / "v2" / "crashed", tmp_path / "journal")
    fold = RegistryFold()
    recover(journal, fold)
    said = {each.protocol: (each.actor, each.claimed) for each in fold.state.sessions.values()}
    assert said == {"objects": (None, "anna"), "spp": ("ben", None), "inbus": (None, None)}


@each_row("journal", V2, ids=str)
def test_every_record_of_version_2_is_read_as_what_it_meant(journal: Path) -> None:
    seen = 0
    for _, line in lines(journal):
        fields = json.loads(line)
        if "actor" not in fields:
            continue
        event, seen = decode(line).event, seen + 1
        is_proved = fields["protocol"] == "spp" and fields["event"] != "auth.failed"
        assert (event.actor, event.claimed) == ((fields["actor"], None) if is_proved else (None, fields["actor"]))
    assert seen or journal.name == "salvaged"


def test_what_version_2_had_no_word_for_is_not_taken_from_it() -> None:
    forged = b'"v":2,"prev":"%s","seq":1,"time":"2026-11-21T14:02:03.123456Z","mono":1,"server":"s",' % (b"0" * 64)
    forged = b"{" + forged + b'"boot":"b","outcome":"ok","event":"session.closed","duration":1,"claimed":"ann"}'
    assert decode(forged).event.claimed is None
    assert decode(forged.replace(b'"v":2', b'"v":3')).event.claimed == "ann"


@each_row("event", [ev.SessionOpened(actor="a", claimed="c", protocol="objects"), ev.ServerStopped()])
def test_what_is_of_today_stays_as_it_is(event: ev.Event) -> None:
    assert of_today(event, READ_VERSIONS[-1]) is event
