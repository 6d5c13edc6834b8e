"""What is kept from one audit to the next: everything comes out as if nothing were, and less is read."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.audit.fold.tasks import BorderJoin, Done, Stripe, Task
from bussrv.audit.reading import checkpoint
from bussrv.audit.reading.checkpoint import MARKER, Checkpoint, CheckpointRefused, opened
from bussrv.audit.reading.processes import ProcessWorkers
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.segment import is_compressed, list_segments
from tests.audit.conftest import Whole
from tests.audit.days import Shape, write_days
from tests.audit.ingested import Ingested, ingested
from tests.audit.journals import compress
from tests.size import FULL

pytestmark = [pytest.mark.dear, pytest.mark.timeout(1200)]

LONG_AGO = 1_500_000_000


class Halls:
    """Two journals of which one grows, and what is kept of them."""

    def __init__(self, root: Path, whole: Whole) -> None:
        self.root = root
        self.whole = whole.hall
        self.hall, self.barn = root / "the hall [1]", whole.barn
        self.kept = root / "kept [1]"
        self._reads = 0

    @property
    def segments(self) -> list[Path]:
        return list_segments(self.hall)

    def begin(self) -> None:
        """The journal as it was when its fourth segment was closed, and the next one had grown for a while."""
        self.hall.mkdir()
        *closed, growing = list_segments(self.whole)[:5]
        for path in closed:
            shutil.copy2(path, self.hall)
        lines = growing.read_bytes().splitlines(keepends=True)
        text = b"".join(lines[: len(lines) // 2])
        (self.hall / growing.name).write_bytes(text)
        entries = (self.whole / MANIFEST_NAME).read_bytes().splitlines(keepends=True)
        until = next(index for index, entry in enumerate(entries) if self._is_later(json.loads(entry), growing, text))
        (self.hall / MANIFEST_NAME).write_bytes(b"".join(entries[:until]))

    def _is_later(self, entry: dict[str, int], growing: Path, text: bytes) -> bool:
        number = int(growing.name.partition(".")[0])
        return entry.get("segment", 0) > number or (entry.get("segment") == number and entry["bytes"] > len(text))

    def go_on(self) -> None:
        """The rest of the journal; those segments that are there stay the same files."""
        for path in list_segments(self.whole)[4:]:
            (self.hall / path.name).write_bytes(path.read_bytes())
        (self.hall / MANIFEST_NAME).write_bytes((self.whole / MANIFEST_NAME).read_bytes())

    @property
    def stripes(self) -> set[str]:
        """The names of those that are kept."""
        return {path.name for path in (self.kept / "stripes").iterdir()}

    def read(self, *journals: Path) -> Ingested:
        return self._read(journals, None)

    def read_on(self, *journals: Path) -> Ingested:
        """The same with what is kept."""
        return self._read(journals, self.kept)

    def _read(self, journals: tuple[Path, ...], kept: Path | None) -> Ingested:
        self._reads += 1
        return ingested(None, journals, self.root / f"read-{self._reads}", kept=kept)


@dataclass
class Interrupted:
    """Two journals, one of which an audit was interrupted in, and what the next one read.

    :ivar left: the stripes that the interrupted one left.
    :ivar kept: those that were there in the end.
    :ivar away: a segment that is not where it belongs.
    """

    halls: Halls
    left: set[str]
    again: Ingested
    fresh: Ingested
    kept: set[str]
    away: Path


class _PowerCut(Exception):
    pass


def _cut(_: Checkpoint) -> None:
    raise _PowerCut


class Publishing:
    """Six stripes that are kept, each with one session that has its name, and audits that publish some of them. The
    facts that are made here are not kept, nor is a stripe whose segments are not what their seals say.

    :ivar copied: how many files of sessions the last audit found in the checkpoint.
    """

    def __init__(self, root: Path) -> None:
        self._root, self._kept = root, root / "kept"
        self._audits = self.copied = 0
        with opened(self._kept):
            pass
        for name in "abcdef":
            _facts(self._kept / "stripes" / name)
        known = [checkpoint.FORMAT, checkpoint.version()]
        stripes = {name: {"segments": [], "stamps": [], "first": [], "done": {"number": 1}} for name in "abcdef"}
        (self._kept / "ledger.json").write_text(json.dumps({"format": known, "stripes": stripes}))

    def publish(self, stripes: Iterable[str]) -> tuple[list[str], list[str]]:
        """The sessions that are published, and those that were written for it."""
        self._audits += 1
        facts, place = (self._root / f"{name}-{self._audits}" for name in ("facts", "table"))
        _facts(facts / "here")
        place.mkdir()
        for name in (*stripes, "new-1"):
            (facts / name).symlink_to(self._kept / "stripes" / name)
        written: list[str] = []

        def write(files: Sequence[Path], where: Path) -> None:
            assert not [*where.iterdir()]
            written.extend(each.read_text() for each in files)
            table = where / "date=2026-11-21" / "protocol=spp" / "data_0.parquet"
            table.parent.mkdir(parents=True)
            table.write_text("\n".join(each.read_text() for each in files))

        with opened(self._kept) as kept:
            _facts(self._kept / "stripes" / "new-1")
            kept.write_sessions(facts, place, write)
        tables = [*place.glob("*/*/*.parquet")]
        self.copied = len(tables) - 1
        return sorted(name for each in tables for name in each.read_text().split()), sorted(written)


def _facts(place: Path) -> None:
    place.mkdir(parents=True)
    (place / "sessions.parquet").write_text(place.name)


@pytest.fixture(scope="module")
def interrupted(whole: Whole, tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
    """After facts were written, before the ledger says so."""
    halls = Halls(tmp_path_factory.mktemp("halls"), whole)
    halls.begin()
    away = halls.root / halls.segments[1].name
    shutil.move(halls.segments[1], away)
    halls.read_on(halls.barn)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoint, "save", _cut)
        with pytest.raises(_PowerCut):
            halls.read_on(halls.hall, halls.barn)
    left = halls.stripes
    again, fresh = halls.read_on(halls.hall, halls.barn), halls.read(halls.hall, halls.barn)
    return Interrupted(halls, left, again, fresh, halls.stripes, away)


@pytest.fixture
def was_read(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """The segments that were folded and looked at, by the kind of the task; of borders, the joined stripes."""
    seen: dict[str, set[str]] = {"Stripe": set(), "Reread": set(), "BorderJoin": set()}
    perform = ProcessWorkers.perform

    def watching(workers: ProcessWorkers, tasks: Sequence[Task]) -> Iterator[Done]:
        for task in tasks:
            if isinstance(task, BorderJoin):
                seen["BorderJoin"] |= {*task.stripes}
                continue
            sources = task.sources if isinstance(task, Stripe) else [task.source]
            seen[type(task).__name__] |= {each.taken for each in sources}
        return perform(workers, tasks)

    monkeypatch.setattr(ProcessWorkers, "perform", watching)
    return seen


def test_an_audit_that_is_interrupted_loses_nothing(interrupted: Interrupted) -> None:
    assert interrupted.again == interrupted.fresh
    assert interrupted.again.kinds["segment-missing"] == 1
    assert interrupted.left < interrupted.kept
    assert not [name for name in interrupted.kept if name.startswith("new-")]


def test_more_is_written_and_every_table_is_that_of_a_full_audit(
    interrupted: Interrupted, was_read: dict[str, set[str]]
) -> None:
    """Meanwhile a segment was compressed, and one that was away is back, as old as it was. The journals are named the
    other way round."""
    halls, away = interrupted.halls, interrupted.away.name
    halls.go_on()
    shutil.move(interrupted.away, halls.hall / away)
    os.utime(halls.hall / away, (LONG_AGO, LONG_AGO))
    compressed = compress(halls.segments[2])
    fresh = halls.read(halls.barn, halls.hall)
    for seen in was_read.values():
        seen.clear()
    assert halls.read_on(halls.barn, halls.hall) == fresh
    one, _, three, _, *new = halls.segments
    assert three == compressed
    assert is_compressed(three)
    assert of_hall(one) not in was_read["Stripe"] | was_read["Reread"]
    assert of_hall(three) in was_read["Reread"] - was_read["Stripe"]
    assert was_read["Stripe"] >= {of_hall(halls.hall / away), *map(of_hall, new)}


def of_hall(path: Path) -> str:
    """The name of a segment of the journal that was read second, and so has the index 1."""
    return f"1/{path.name.partition('.')[0]}"


def names_of(journal: Path) -> set[str]:
    return {f"0/{path.name.partition('.')[0]}" for path in list_segments(journal)}


def test_what_is_kept_is_not_read_again_until_it_is_written_to(tmp_path: Path, was_read: dict[str, set[str]]) -> None:
    journal, kept = write_days(tmp_path / "barn", Shape(events=160, segment=40), "barn"), tmp_path / "kept"
    first = ingested(None, [journal], tmp_path / "1", kept=kept)
    assert was_read["Stripe"] == names_of(journal)
    for seen in was_read.values():
        seen.clear()
    victim, _, gone, *_ = list_segments(journal)
    before, text = victim.stat(), victim.read_bytes()
    with victim.open("r+b") as file:
        file.write(text.replace(b'"outcome":"ok"', b'"outcome":"OK"'))
    os.utime(victim, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (victim.stat().st_ino, victim.stat().st_size) == (before.st_ino, before.st_size)
    assert victim.read_bytes() != text
    assert ingested(None, [journal], tmp_path / "2", kept=kept) == first
    assert not any(was_read.values())

    os.utime(victim)
    gone.unlink()
    again, fresh = (ingested(None, [journal], tmp_path / name, kept=at) for name, at in (("3", kept), ("4", None)))
    assert again == fresh
    assert {"bad-line", "broken-seal", "broken-chain", "broken-link", "segment-missing"} <= {*again.kinds}


def test_the_borders_of_stripes_are_joined_when_there_are_others(
    whole: Whole, tmp_path: Path, was_read: dict[str, set[str]]
) -> None:
    """Those of some of the journals are kept instead of those of all."""

    def read(*journals: Path) -> tuple[Ingested, int]:
        was_read["BorderJoin"].clear()
        place = tmp_path / f"{len([*tmp_path.iterdir()])}"
        return ingested(None, journals, place, kept=tmp_path / "kept", size=30_000), len(was_read["BorderJoin"])

    other = write_days(tmp_path / "house", Shape(events=160, segment=40), "house")
    both, joined = read(whole.hall, other)
    assert joined > 2
    assert read(whole.hall, other) == (both, 0)
    one, fewer = read(whole.hall)
    assert 1 < fewer < joined
    assert read(whole.hall) == (one, 0)
    assert read(whole.hall, other) == (both, joined)
    assert len([*(tmp_path / "kept" / "borders").iterdir()]) == 1


@given(
    audits=st.lists(st.tuples(st.frozensets(st.sampled_from("abcdef")), st.booleans()), max_size=6),
    most=st.integers(1, 3),
)
def test_each_session_is_published_once(audits: list[tuple[frozenset[str], bool]], most: int) -> None:
    """This holds after any earlier audits, including interrupted ones."""
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "MOST_PORTIONS", most)
        publishing = Publishing(Path(place))
        for stripes, is_cut in audits:
            if is_cut:
                with patch.context() as cut, suppress(_PowerCut):
                    cut.setattr(Checkpoint, "save", _cut)
                    publishing.publish(stripes)
            assert publishing.publish(stripes)[0] == sorted(["here", "new-1", *stripes])
            assert publishing.publish(stripes) == (sorted(["here", "new-1", *stripes]), ["here", "new-1"])
            assert publishing.copied <= most


def test_another_version_of_the_fold_reads_everything_again(
    tmp_path: Path, was_read: dict[str, set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, kept = write_days(tmp_path / "barn", Shape(events=100, segment=40), "barn"), tmp_path / "kept"
    first = ingested(None, [journal], tmp_path / "1", kept=kept)
    was_read["Stripe"].clear()
    monkeypatch.setattr(checkpoint, "version", lambda: "another")
    assert ingested(None, [journal], tmp_path / "2", kept=kept) == first
    assert was_read["Stripe"] == names_of(journal)


def test_a_stripe_that_the_period_cuts_is_read_again(tmp_path: Path, was_read: dict[str, set[str]]) -> None:
    journal, kept = write_days(tmp_path / "barn", Shape(events=160, segment=40), "barn"), tmp_path / "kept"
    whole = ingested(None, [journal], tmp_path / "0", kept=kept, size=1)
    rows = [json.loads(row) for row in whole.tables["segments"]]
    since, until = (moment + 1 for moment in sorted(row["first_moment"] for row in rows)[1:3])
    periods = ({"since": since, "until": until}, {"since": since}, {"until": until})
    for number, period in enumerate(periods if FULL else periods[:1]):
        was_read["Stripe"].clear()
        again = ingested(None, [journal], tmp_path / f"{number}-kept", kept=kept, size=1, **period)
        assert again == ingested(None, [journal], tmp_path / f"{number}-fresh", **period)
        assert again != whole
        assert was_read["Stripe"]
    assert ingested(None, [journal], tmp_path / "9", kept=kept) == whole


def test_a_directory_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "letters").touch()
    with pytest.raises(CheckpointRefused, match=r"is neither empty nor a checkpoint of the audit: name another"):
        opened(tmp_path).__enter__()
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]
    with pytest.raises(CheckpointRefused, match="letters is not a directory"):
        opened(tmp_path / "letters").__enter__()


def test_another_audit_uses_it(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with opened(kept), pytest.raises(CheckpointRefused, match=f"another audit uses {kept}"):
        opened(kept).__enter__()
    with opened(kept):
        pass


@pytest.mark.parametrize(
    "ledger",
    [
        *("", "{", "[]", '{"format": FORMAT, "stripes": 7}', '{"format": FORMAT, "stripes": {"abc": KEPT}}'),
        *('{"format": FORMAT, "borders": ["abc", 1]}', '{"format": FORMAT, "sessions": {"abc": ["def"]}}'),
    ],
)
def test_a_damaged_ledger(tmp_path: Path, ledger: str) -> None:
    (tmp_path / MARKER).touch()
    kept = '{"segments": [], "stamps": [], "first": [], "done": {"number": 1}}'
    known = json.dumps([checkpoint.FORMAT, checkpoint.version()])
    (tmp_path / "ledger.json").write_text(ledger.replace("FORMAT", known).replace("KEPT", kept))
    with pytest.raises(CheckpointRefused, match=rf"is damaged .*: remove {tmp_path}, or name another"):
        opened(tmp_path).__enter__()


def test_what_another_version_kept_is_not_used(tmp_path: Path) -> None:
    (tmp_path / MARKER).touch()
    (tmp_path / "ledger.json").write_text('{"format": [999, "2"], "stripes": ["new form"]}')
    (tmp_path / "stream" / "commits").mkdir(parents=True)
    with opened(tmp_path):
        assert not (tmp_path / "stream").exists()
