"""Parts of a journal: together they have each record once, in order, however the journal grows; and what is lost is
told.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.audit.source.options import LATEST, ReadOptions
from bussrv.audit.source.positions import ALL, JournalReading, Position
from bussrv.audit.source.slices import read_slice
from bussrv.errors import JournalError
from bussrv.journal.header import Damage
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.segment import first_seq, list_segments
from tests.audit.journals import change_line, day, write_journal
from tests.audit.source.growing import Growing, seqs_of, write_whole

pytestmark = pytest.mark.dear


class Reader:
    """Reads a journal in parts, as a stream does.

    :ivar seqs: the numbers of the records that it has read.
    """

    def __init__(self, directory: Path, **options: object) -> None:
        self.options = ReadOptions((str(directory),), **options)  # type: ignore[arg-type]
        self.journal = JournalReading(str(directory), self.options)
        self.place = self.journal.start()
        self.seqs: list[int] = []

    def read(self, most: int = ALL, until: Position | None = None) -> bool:
        """Read a part. :returns: whether there was anything."""
        begin, self.place = self.place, self.journal.advance(self.place, most, until)
        self.seqs += [*self.between(begin, self.place)]
        return begin != self.place

    def between(self, begin: Position, end: Position) -> Iterator[int]:
        for part in self.journal.slices(begin, end):
            for table in read_slice(part, fail_on_loss=self.options.fail_on_loss):
                yield from table.column("seq").to_pylist()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_whole(tmp_path_factory.mktemp("whole") / "hall")


@pytest.fixture
def journal(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "hall"))


@given(st.lists(st.tuples(st.integers(1, 1 << 17), st.booleans(), st.integers(8000, 1 << 17)), min_size=1, max_size=12))
def test_each_record_is_read_once_while_they_come(
    tmp_path_factory: pytest.TempPathFactory, whole: Path, steps: list[tuple[int, bool, int]]
) -> None:
    """Also if it is written in the middle of a line, and segments are compressed behind the reader's back."""
    growing = Growing(whole, tmp_path_factory.mktemp("growing") / "hall")
    growing.grow(1)
    reader = Reader(growing.directory)
    for size, compressed, most in steps:
        growing.grow(size, compressed=compressed)
        reader.read(most)
        assert reader.seqs == [*range(1, len(reader.seqs) + 1)]
    growing.grow(growing.all)
    while reader.read(steps[-1][2]):
        pass
    assert reader.seqs == seqs_of(whole)


def test_parts_are_as_large_as_they_may_be(journal: Path) -> None:
    """At least a line; and never more than the bound, which a segment may be larger than."""
    size = sum(path.stat().st_size for path in list_segments(journal))
    reader = Reader(journal)
    parts = 0
    while reader.read(50_000):
        parts += 1
    assert size / 50_000 <= parts <= size / 50_000 * 1.2
    least = Reader(journal)
    assert [least.read(1), least.read(1), least.seqs] == [True, True, [1]]


def test_the_places_to_start_at(journal: Path) -> None:
    seqs = seqs_of(journal)
    boundary = first_seq(list_segments(journal)[1])
    for number in (1, 2, boundary - 1, boundary, boundary + 1, seqs[-1]):
        reader = Reader(journal, start=number)
        reader.read()
        assert (reader.seqs[0], len(reader.seqs)) == (number, seqs[-1] - number + 1)
    assert not Reader(journal, start=LATEST).read()
    with pytest.raises(JournalError, match=f"no record {seqs[-1] + 1} yet: it ends with record {seqs[-1]}"):
        Reader(journal, start=seqs[-1] + 1)


def test_a_bound_is_kept_whatever_comes_later(whole: Path, tmp_path: Path) -> None:
    growing = Growing(whole, tmp_path / "hall")
    growing.grow(growing.all // 2)
    reader = Reader(growing.directory)
    until = reader.journal.advance(reader.place, ALL)
    growing.grow(growing.all)
    while reader.read(20_000, until):
        pass
    assert (reader.place, reader.seqs) == (until, [*range(1, until.seq + 1)])


def test_only_what_is_sealed(journal: Path) -> None:
    """Without a manifest, that is nothing; nor is what is written after the last seal."""
    last = list_segments(journal)[-1]
    last.chmod(0o600)
    with last.open("ab") as file:
        file.write(last.read_bytes().splitlines(keepends=True)[-1])
    reader = Reader(journal, sealed=True)
    assert (reader.read(), reader.read()) == (True, False)
    assert reader.seqs[-1] == max(seal.last_seq or 0 for seal in read_manifest(journal / MANIFEST_NAME).seals.values())
    (journal / MANIFEST_NAME).unlink()
    assert not Reader(journal, sealed=True).read()


def prune(journal: Path) -> None:
    for path in list_segments(journal)[:3]:
        path.unlink()


def lose(journal: Path) -> None:
    list_segments(journal)[2].unlink()


def damage(journal: Path) -> None:
    path = list_segments(journal)[2]
    path.chmod(0o600)
    change_line(path, 40, lambda line: line[:100] + b"\n")


def forge(journal: Path) -> None:
    path = list_segments(journal)[2]
    path.chmod(0o600)
    change_line(path, 40, lambda line: line.replace(b'"hall"', b'"HALL"', 1))


def take_back(journal: Path) -> None:
    path, *later = list_segments(journal)
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:150_000])
    for each in later:
        each.unlink()


def begin_anew(journal: Path) -> None:
    shutil.rmtree(journal)
    write_journal(journal, day().records)


LOSSES: list[tuple[Callable[[Path], None], str]] = [
    (prune, r"records \d+ to \d+ of .* are not there any more"),
    (lose, "records are missing"),
    (damage, "this line is damaged"),
    (forge, "does not follow the line before it"),
    (take_back, "has lost its end"),
    (begin_anew, "has lost its end|does not go on after record"),
]


@pytest.mark.parametrize(("harm", "sentence"), LOSSES, ids=lambda each: getattr(each, "__name__", ""))
def test_what_is_lost_is_told_or_left_out(journal: Path, harm: Callable[[Path], None], sentence: str) -> None:
    """Everything else is read by those who say so."""
    begun = [Reader(journal), Reader(journal, fail_on_loss=False)]
    for each in begun:
        each.read(200_000)
    harm(journal)
    strict, lenient = begun
    with pytest.raises(JournalError, match=sentence):
        strict.read()
    before = len(lenient.seqs)
    lenient.read()
    lenient.read()
    rest = lenient.seqs[before:]
    assert rest == sorted({*rest})
    if harm in (prune, lose, damage, forge):
        left = Reader(journal, fail_on_loss=False)
        left.read()
        assert left.seqs[-len(rest) :] == rest
        assert rest[-1] == left.seqs[-1]


def test_other_lines_than_those_that_were_read(journal: Path) -> None:
    """A batch that the disk did not take was cut off, and another one is there now."""
    reader = Reader(journal)
    reader.read(50_000)
    text = b"".join(path.read_bytes() for path in list_segments(journal)[:1])
    path = list_segments(journal)[0]
    path.chmod(0o600)
    lines = text.splitlines(keepends=True)
    at = next(place for place in range(len(lines)) if sum(map(len, lines[:place])) >= reader.place.byte)
    lines[at] = lines[at].replace(b'"prev":"', b'"prev":"0', 1).replace(b'0","', b'","', 1)
    path.write_bytes(b"".join(lines))
    with pytest.raises(JournalError, match="changed, removed or taken back"):
        reader.read()


def test_a_new_chain_after_damage_is_no_loss(tmp_path: Path) -> None:
    """The server left out as many numbers as there may have been."""
    one, two = day(), day()
    for place, each in enumerate(two.records):
        two.records[place] = type(each)(each.seq + 100, each.time, each.mono, each.server, "hall-2", each.event)
    found = write_journal(
        tmp_path / "hall",
        one.records,
        two.records,
        first_seqs=[1, 101],
        salvaged=Damage(segment=1, line=9, reason="bad", seq=9),
    )
    reader = Reader(found)
    reader.read()
    assert reader.seqs == [*range(1, 10), *range(101, 110)]


@pytest.mark.parametrize("name", ["nothing", "empty", "file"])
def test_what_is_no_journal(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match=str(tmp_path / name)):
        Reader(tmp_path / name)
