"""The facts of a journal are the same however it is divided into stripes, and whatever is wrong with it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bussrv import events as ev
from bussrv.audit.fold.lines import Line, read_lines
from bussrv.audit.fold.stripes import STRIPE, Facts, Source, facts
from bussrv.journal.batch import Rotation
from bussrv.journal.record import decode
from bussrv.journal.segment import CORRUPT, first_seq, list_segments, open_segment
from bussrv.synth.faults import KINDS
from bussrv.synth.journal import write_journal as write_long_journal
from tests.audit.cases import CASES
from tests.audit.plans import draw, write
from tests.audit.segment_cases import SEGMENT_CASES
from tests.audit.unruly import stormy, wild_journal
from tests.size import sized

Journals = list[list[Source]]


def sources(directories: list[Path]) -> Journals:
    return [
        [
            Source(f"{index}/{first_seq(path)}", str(path), first_seq(path), path.stat().st_size, to_the_byte=True)
            for path in list_segments(directory)
        ]
        for index, directory in enumerate(directories)
    ]


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Journals:
    """Sound ones and all that are not; with sessions over many stripes; one that is there twice, cut otherwise."""
    root = tmp_path_factory.mktemp("journals")
    found = [each(each.__name__).write(root / each.__name__) for each in (*CASES, *SEGMENT_CASES)]
    found += [write(root / f"server{number}", plan) for number, plan in enumerate(draw(sized(25)))]
    found += [wild_journal(root / f"wild{seed}", seed, 7) for seed in range(sized(6, 2))]
    found += [wild_journal(root / "copy" / "wild0", 0, 11), stormy(root / "stormy")]
    long = root / "house"
    write_long_journal(long, events=600, server="house", faults=tuple(KINDS), rotation=Rotation(bytes=8000))
    return sources([*found, long])


def rows(found: Facts) -> dict[str, Counter[str]]:
    return {name: Counter(map(repr, table.to_pylist())) for name, table in found.tables.items()}


def test_any_division_into_stripes_gives_the_same_facts(journals: Journals) -> None:
    whole = facts(journals, size=STRIPE)
    parts = {size: facts(journals, size=size) for size in (1, 3000, 9000)}
    assert whole.stripes < parts[9000].stripes < parts[3000].stripes < parts[1].stripes
    assert all(rows(whole).values()), [name for name, some in rows(whole).items() if not some]
    for part in parts.values():
        assert part.segments == whole.segments
        for name, expected in rows(whole).items():
            assert (name, rows(part)[name]) == (name, expected)


@pytest.mark.processes
def test_several_processes_give_the_same_facts(journals: Journals) -> None:
    assert rows(facts(journals[:9], size=2000, workers=2)) == rows(facts(journals[:9]))


def test_the_records_are_those_of_the_one_codec(journals: Journals) -> None:
    """Also where a segment is decoded as a whole."""
    sound = 0
    for source in [source for journal in journals for source in journal]:
        try:
            with open_segment(Path(source.path)) as file:
                content = file.read()
        except CORRUPT:
            continue
        found = read_lines(content, source.number, is_chained=False)
        if not found.is_sound:
            continue
        sound += 1
        assert found.header is not None
        expected = [decode(line) for line in content.splitlines()[1 + found.header.parts :]]
        assert [*found.moments] == [each.time for each in expected]
        for record, other in zip(found.records, expected, strict=True):
            fields = {name: getattr(record, name) for name in ("seq", "mono", "server", "boot")}
            assert fields == {name: getattr(other, name) for name in fields}
            for name in set(other.event.__struct_fields__) & set(Line.__struct_fields__):
                value = getattr(other.event, name)
                assert getattr(record, name) == value or (getattr(record, name) is None and not value)
    assert sound > 10


def test_every_field_of_an_event_is_decoded() -> None:
    assert {name for each in ev.EVENT_CLASSES for name in each.__struct_fields__} <= {*Line.__struct_fields__}


@pytest.mark.processes
def test_the_fold_needs_neither_spark_nor_twisted() -> None:
    program = "import sys, bussrv.audit.fold.stripes; print(*({'pyspark', 'twisted', 'duckdb'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout == b"\n"
