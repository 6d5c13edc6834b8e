"""Timelines of many servers say what a plain program says of all records at once."""

from __future__ import annotations

import gzip
from collections import Counter
from heapq import merge
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.inspection.timeline import journals
from bussrv.inspection.timeline.journals import EVER, Period
from bussrv.inspection.timeline.query import timeline, told
from bussrv.inspection.timeline.rows import COLUMNS
from bussrv.journal.batch import Rotation
from bussrv.journal.reading import read_journal
from bussrv.synth.journal import write_journal
from tests.audit.journals import START, STEP
from tests.audit.wild_records import wild
from tests.inspection.timeline import reference
from tests.inspection.timeline.busy import CLIENTS, SERVICES, busy
from tests.inspection.timeline.in_memory import InMemory, rows_of
from tests.size import sized

STORY = (
    *("server", "seq", "event", "concern", "about", "providers", "missing_since", "missing_until", "next_session"),
    *("with_session", "crashed_after", "back_at", "link", "link_reason", "newcomer"),
    *("left_at", "absence_over", "resumed"),
)

EXPLAINED = {"tv-3": STORY[4:], "tv": STORY[4:-3], "192.0.2.1": STORY[6:10]}
"""The columns that some rows have: of a client, and of a service, which is not away."""


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_timeline(tmp_path: Path, name: str) -> None:
    # In fewer, some columns are empty.
    number = max(20, sized(100))
    stories = {f"wild{seed}": wild(f"wild{seed}", seed, steady=seed % 2 == 0) for seed in range(number)}
    write_journal(tmp_path / "synth", events=600, server="synth", uptime=1800e6)
    stories["synth"] = [*read_journal(tmp_path / "synth")]
    rows = rows_of([InMemory(each) for each in stories.values()], name)
    wanted = Counter(
        tuple(row.get(column) for column in STORY)
        for each in stories.values()
        for row in reference.timeline(each, name)
    )
    found = Counter(tuple(row[column] for column in STORY) for row in rows)
    for column in EXPLAINED[name]:
        assert any(row[STORY.index(column)] is not None for row in wanted), column
    assert [*(wanted - found).items()][:5] == []
    assert [*(found - wanted).items()][:5] == []
    assert [row for row in rows if row["who"] and row["peer"] not in (None, row["who"]["peer"])][:5] == []
    assert {*rows[0]} == {*COLUMNS}
    for server in stories:
        numbers = [row["seq"] for row in rows if row["server"] == server]
        assert numbers == sorted(numbers)


def test_damaged_lines_are_left_out() -> None:
    """One after each record: then the lines of a segment are decoded one by one."""
    records = wild("wild0", 0)
    for name in EXPLAINED:
        for damage in (b"not JSON\n", b"\n", b'{"event":5}\n', b'"\xff"\n', b"[" * 100_000 + b"\n"):
            assert rows_of([InMemory(records, damage=damage)], name) == rows_of([InMemory(records)], name)


@given(seed=st.integers(0, 2**32), size=st.integers(1, 12), data=st.data())
def test_lines_may_be_written_in_another_way(seed: int, size: int, data: st.DataObject) -> None:
    """With an escape in place of a letter of a name: the bytes of the name are not there, but the name is."""
    records = wild("wild0", seed)
    name = data.draw(st.sampled_from([*EXPLAINED]))
    journal = InMemory(records, size)
    escaped = InMemory(records, size)
    plain, spelled = name[0].encode(), b"\\u%04x" % ord(name[0])
    escaped.read = lambda index: journal.read(index).replace(b'"' + plain, b'"' + spelled)  # type: ignore[method-assign]
    assert rows_of([escaped], name) == rows_of([journal], name)


@given(seed=st.integers(0, 2**32), size=st.integers(1, 6), data=st.data())
@settings(max_examples=sized(300))
def test_a_period_shows_what_all_records_show_of_it(seed: int, size: int, data: st.DataObject) -> None:
    """Also the explanations, which may lie outside of it: more segments are read for them than those of the period."""
    records = busy(seed)
    name = data.draw(st.sampled_from((*SERVICES, *CLIENTS)))
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, 60)] * 2)))
    period = Period(START + first * STEP, START + last * STEP)
    told = [
        [tuple(row[each] for each in STORY) for row in rows_of([InMemory(records, each)], name, period)]
        for each in (size, 100)
    ]
    assert told[0] == told[1]


def test_segments_far_from_the_period_are_not_read() -> None:
    """The registry before the first one that is read says who is there."""
    records = busy(0, 400)
    journal = InMemory(records, 10)
    moment = records[200].time
    rows = rows_of([journal], "tv-1", Period(moment, moment + 20 * STEP))
    assert rows
    assert len(journal.was_read) < 10


@given(seed=st.integers(0, 2**32), sizes=st.tuples(st.integers(1, 9), st.integers(1, 9)))
def test_journals_are_merged_by_time(seed: int, sizes: tuple[int, int]) -> None:
    """A server whose clock was set back keeps its place."""
    stories = [wild("wild0", seed), wild("wild1", seed + 1)]
    apart = [rows_of([InMemory(each, 100)], "tv") for each in stories]
    journals = [InMemory(each, size) for each, size in zip(stories, sizes, strict=True)]
    merged = [row for _, row in merge(*told(journals, "tv", EVER), key=lambda each: each[0])]
    assert [[row for row in merged if row["server"] == f"wild{at}"] for at in (0, 1)] == apart
    latest = {server: [*accumulate((r["moment"] for r in rows), max)] for server, rows in enumerate(apart)}
    moments = [latest[int(row["server"][-1])].pop(0) for row in merged]
    assert moments == sorted(moments)


def test_compressed_segments_are_inflated_once_if_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, is_compressed in (("plain", False), ("packed", True)):
        write_journal(
            tmp_path / place, events=2000, server="hall", compress=is_compressed, rotation=Rotation(bytes=200_000)
        )
    packed = [each for each in (tmp_path / "packed").iterdir() if each.name.endswith(".gz")]
    sizes = {each.name: len(gzip.decompress(each.read_bytes())) for each in packed}
    name = next(each.event.actor for each in read_journal(tmp_path / "plain") if each.event.actor is not None)
    wanted = [*timeline([tmp_path / "plain"], name)]
    reads: Counter[str] = Counter()
    inflate = journals._lines

    def counted(path: Path) -> bytes:
        reads[path.name] += 1
        return inflate(path)

    monkeypatch.setattr(journals, "_lines", counted)
    # The last one does not fit, or none does.
    for room, once in ((journals.MOST_INFLATED, len(sizes)), (sum(sizes.values()) - 1, len(sizes) - 1), (0, 0)):
        monkeypatch.setattr(journals, "MOST_INFLATED", room)
        reads.clear()
        assert [*timeline([tmp_path / "packed"], name)] == wanted
        assert len(sizes) > 2
        assert sum(reads[each] == 1 for each in sizes) == once, room
