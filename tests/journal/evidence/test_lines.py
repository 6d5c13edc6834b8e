"""What servers write is found to be written as they write it, to the byte; and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.journal.evidence.lines import LineJudge, is_as_written
from bussrv.journal.header import Damage, Header, Previous, decode_header, encode_header
from bussrv.journal.record import Record, decode, encode
from bussrv.journal.segment import first_seq, list_segments
from bussrv.journal.verify import verify
from bussrv.journal.versions import READ_VERSIONS, SCHEMA_VERSION
from bussrv.registry.state.fold import RegistryFold
from tests.audit.days import clean_shape, write_days
from tests.docs.golden import OLDER as OLDER_JOURNALS
from tests.docs.golden import PLACE, UPGRADED
from tests.inspection.journals import clean_journal
from tests.journal.strategies import hashes, moments, records
from tests.journal.without_seals import faults_without_seals
from tests.size import sized

OLDER = ("v2/whole", "v2/crashed", "v3/whole", "v2-then-v3")
GOLDEN = (PLACE / "whole", UPGRADED, *(OLDER_JOURNALS / name for name in OLDER))
SALVAGED = (PLACE / "salvaged", OLDER_JOURNALS / "v2" / "salvaged", OLDER_JOURNALS / "v3" / "salvaged")
LAST = {2: OLDER_JOURNALS / "v2" / "crashed", 3: OLDER_JOURNALS / "v3" / "whole", SCHEMA_VERSION: PLACE / "whole"}

headers = st.builds(
    Header,
    prev=hashes,
    segment=st.integers(1, 2**63),
    parts=st.integers(0, 2**31),
    time=moments,
    server=st.text(max_size=20),
    boot=st.text(max_size=20),
    previous=st.none() | st.builds(Previous, st.integers(1, 2**63), st.integers(0, 2**63), hashes),
    seal=st.none() | hashes,
    salvaged=st.none()
    | st.builds(Damage, st.integers(0, 2**63), st.integers(0), st.text(), st.none() | st.integers(1, 2**63)),
)


@given(record=records)
def test_every_record_is_written_in_one_way(record: Record) -> None:
    """Also those of plugins, whose options may hold whatever JSON can say."""
    text = encode(record)
    assert is_as_written(text, decode(text), SCHEMA_VERSION)
    assert is_as_written(text[:-1], decode(text), None)
    assert not is_as_written(text, decode(text), 2)


@given(header=headers)
def test_every_header_is_written_in_one_way(header: Header) -> None:
    text = encode_header(header)
    assert is_as_written(text, decode_header(text), SCHEMA_VERSION)
    assert not is_as_written(text.replace(b"{", b"{ ", 1), decode_header(text), SCHEMA_VERSION)


@pytest.mark.parametrize("journal", [*GOLDEN, *SALVAGED], ids=lambda path: f"{path.parent.name}-{path.name}")
def test_the_golden_journals_are_written_so(journal: Path) -> None:
    faults = faults_without_seals(journal)
    salvaged = {"broken-chain", "journal-salvaged"} if journal in SALVAGED else set()
    assert {each.code for each in faults} == salvaged, faults


@pytest.mark.parametrize("version", READ_VERSIONS)
def test_white_space_anywhere_in_a_line_shows(version: int) -> None:
    path = list_segments(LAST[version])[-1]
    *_, record, _ = lines = path.read_bytes().splitlines(keepends=True)
    for line in (lines[0], record):
        between = [at for at, is_within in enumerate(within_strings(line)) if not is_within]
        assert len(between) > 30
        for at in between:
            judge = LineJudge(first_seq(path), to_the_byte=True)
            for each in lines[: lines.index(line)]:
                judge.pass_line(each)
            judge.pass_line(line[:at] + b" " + line[at:])
            assert judge.end()[0].code == "bad-line", (line, at)


def within_strings(line: bytes) -> Iterator[bool]:
    """Whether each place before a byte of a line is in a string; none of them has an escape."""
    assert b"\\" not in line
    count = 0
    for byte in line:
        yield count % 2 == 1
        count += byte == ord('"')


@pytest.mark.parametrize("seed", range(sized(24)))
def test_no_false_alarm(tmp_path: Path, seed: int) -> None:
    look_at_clean_journals(tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_no_false_alarm_in_two_hundred_journals(tmp_path: Path, seed: int) -> None:
    look_at_clean_journals(tmp_path, seed)


def look_at_clean_journals(root: Path, seed: int) -> None:
    """Killed, rotated, compressed and pruned, with and without seals; with the seals, and without them."""
    clean_journal(root / "house", seed)
    write_days(root / "days", clean_shape(seed), "days", seed)
    for journal in (root / "house", root / "days"):
        assert verify(journal, registry=RegistryFold).faults == []
        assert faults_without_seals(journal) == []
