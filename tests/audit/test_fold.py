"""The facts of a journal are the same however it is divided into stripes, and whatever is wrong with it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import get_args, get_type_hints

import msgspec
import pytest

from bussrv import events as ev
from bussrv.audit.fold.lines import LINES, FoldLine, read_lines
from bussrv.audit.reading import processes
from bussrv.journal.batch import Rotation
from bussrv.journal.record import decode
from bussrv.journal.segment import CORRUPT, first_seq, list_segments, open_segment
from bussrv.journal.versions import READ_VERSIONS
from bussrv.synth.faults import KINDS
from bussrv.synth.journal import write_journal as write_long_journal
from tests.audit.cases import CASES
from tests.audit.ingested import ingested
from tests.audit.journals import write_journal
from tests.audit.plans import draw, write
from tests.audit.segment_cases import SEGMENT_CASES
from tests.audit.unruly import stormy, wild_journal
from tests.incidents.histories import records
from tests.size import FULL, sized

pytestmark = pytest.mark.dear


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Sound ones and all that are not; with sessions over many stripes; one that is there twice, cut otherwise."""
    root = tmp_path_factory.mktemp("journals")
    found = [each(each.__name__).write(root / each.__name__) for each in (*CASES, *SEGMENT_CASES)]
    found += [write(root / f"server{number}", plan) for number, plan in enumerate(draw(sized(25, 8)))]
    found += [wild_journal(root / f"wild{seed}", seed, 7) for seed in range(sized(6))]
    found += [wild_journal(root / "copy" / "wild0", 0, 11), stormy(root / "stormy")]
    long = root / "house"
    write_long_journal(long, events=600, server="house", faults=tuple(KINDS), rotation=Rotation(bytes=8000))
    said = [("w/1", "422"), ("w/1", None), ("w/2", "away")]
    cosigned = write_journal(root / "cosigned", records("cosigned", [("witness", *each) for each in said]))
    clocks = [("attic", -3_000_000, 10), ("attic", 0, 0), ("barn", 2_500_000, 30), ("attic", 2_500_000, 30)]
    steps = [*(("clock", *each) for each in clocks), ("link", "barn", "connection-lost", 30), ("forget", "barn")]
    apart = write_journal(root / "apart", records("apart", steps))
    return [*found, long, cosigned, apart]


def test_any_division_into_stripes_gives_the_same_tables(journals: list[Path], tmp_path: Path) -> None:
    whole = ingested(None, journals, tmp_path / "whole")
    assert all(whole.tables.values()), [name for name, some in whole.tables.items() if not some]
    for size in (1, 3000, 9000) if FULL else (1, 9000):
        part = ingested(None, journals, tmp_path / f"{size}", size=size)
        for name, expected in whole.tables.items():
            found = part.tables[name]
            assert (size, name, expected - found, found - expected) == (size, name, Counter(), Counter())


@pytest.mark.processes
def test_several_processes_give_the_same_tables(
    journals: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ingested(None, journals[:9], tmp_path / "one")
    monkeypatch.setattr(processes, "STRIPE", 1)
    assert ingested(None, journals[:9], tmp_path / "two", size=2000) == one


def test_the_records_are_those_of_the_one_codec(journals: list[Path]) -> None:
    """Also where a segment is decoded as a whole."""
    sound = 0
    for path in [path for journal in journals for path in list_segments(journal)]:
        try:
            with open_segment(path) as file:
                content = file.read()
        except CORRUPT:
            continue
        found = read_lines(content, first_seq(path), is_chained=False)
        if not found.is_sound:
            continue
        sound += 1
        assert found.header is not None
        expected = [decode(line) for line in content.splitlines()[1 + found.header.parts :]]
        assert [*found.moments] == [each.time for each in expected]
        for record, other in zip(found.records, expected, strict=True):
            fields = {name: getattr(record, name) for name in ("seq", "mono", "server", "boot")}
            assert fields == {name: getattr(other, name) for name in fields}
            for name in other.event.__struct_fields__:
                value = getattr(other.event, name)
                assert getattr(record, name) == value or (getattr(record, name) is None and not value)
    assert sound > 10


def test_every_field_of_an_event_is_decoded() -> None:
    assert get_args(get_type_hints(FoldLine)["v"]) == READ_VERSIONS
    for event in ev.EVENT_CLASSES:
        line = LINES[ev.event_name(event)]
        assert {*event.__struct_fields__} <= {*line.__struct_fields__}
        # The fields of one event can be asked of the records of all.
        assert all(hasattr(FoldLine, name) for name in event.__struct_fields__)


def test_what_an_event_requires_its_line_requires() -> None:
    stamp = _required(FoldLine)
    for name, event in ev.EVENTS_BY_NAME.items():
        about = {"session": name.startswith("session."), "service": False}
        if name in ("service.registered", "service.unregistered"):
            about = dict.fromkeys(about, True)
        expected = _required(event) | {field for field, is_needed in about.items() if is_needed}
        assert (name, _required(LINES[name])) == (name, stamp | expected)


def _required(kind: type[msgspec.Struct]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(kind) if field.required}


@pytest.mark.processes
def test_the_fold_needs_neither_spark_nor_twisted() -> None:
    program = "import sys, bussrv.audit.fold.tasks; print(*({'pyspark', 'twisted', 'duckdb'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout == b"\n"
