"""Hostile journals: no more is read, inflated, kept in memory or told than the bounds allow."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from twisted.logger import capturedLogs

from bussrv.errors import JournalError
from bussrv.journal import bounds, pseudonym_keys
from bussrv.journal import lines as lines_module
from bussrv.journal import verify as verify_module
from bussrv.journal.batch import Rotation
from bussrv.journal.bounded import bounded, open_bounded
from bussrv.journal.bounds import TooLarge
from bussrv.journal.evidence.manifest import EntryJudge
from bussrv.journal.keys import read_private, read_public
from bussrv.journal.lines import LinesAfter
from bussrv.journal.manifest import MANIFEST_NAME, Body, encode
from bussrv.journal.manifest_file import ManifestFile, read_manifest
from bussrv.journal.pseudonym_keys import identities, new_key
from bussrv.journal.reading import read_journal
from bussrv.journal.recovery import Damaged, recover
from bussrv.journal.salvage import salvage
from bussrv.journal.segment import CORRUPT, compressed_path, list_segments, segment_name
from bussrv.journal.verify import verify
from bussrv.registry.state.fold import RegistryFold
from tests.inspection.journals import clean_journal
from tests.journal.kept import Kept, seals

Harm = Callable[[Path], object]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_module, "PATIENCE", 0.0)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal of several segments, all of them sealed."""
    clean_journal(tmp_path / "journal", 1)
    assert verify(tmp_path / "journal").faults == []
    return tmp_path / "journal"


# Reading.

CONTENTS = {
    "nothing": b"",
    "a line": b"line\n",
    "zeros": bytes(300_000),
    "many lines": b"".join(b"line %d\n" % number for number in range(60_000)),
    "no order": random.Random(1).randbytes(400_000),
}


def unpacked(packed: bytes) -> bytes:
    with bounded(BytesIO(packed), compressed=True) as file:
        return file.read()


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("suffix", [b"", bytes(3), bytes(200_000)], ids=["", "zeros", "many zeros"])
def test_what_is_inflated_is_what_was_compressed(content: bytes, suffix: bytes) -> None:
    packed = gzip.compress(content)
    assert unpacked(packed + suffix) == content
    assert unpacked(packed + bytes(5) + packed + suffix) == content * 2


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_lines_are_those_of_the_content(content: bytes) -> None:
    expected, plain = BytesIO(content), bounded(BytesIO(content), compressed=False)
    packed = bounded(BytesIO(gzip.compress(content)), compressed=True)
    for text in iter(lambda: expected.readline(1000), b""):
        assert plain.readline(1000) == packed.readline(1000) == text
    assert plain.readline(1000) == packed.readline(1000) == b""


def test_a_compressed_segment_that_was_cut_or_changed_is_corrupt() -> None:
    content = b"".join(b"line %d\n" % number for number in range(50))
    packed = gzip.compress(content)
    assert unpacked(b"") == b""
    for size in range(1, len(packed)):
        with pytest.raises(EOFError):
            unpacked(packed[:size])
    for index in range(10, len(packed)):
        with pytest.raises(CORRUPT):
            unpacked(packed[:index] + bytes([packed[index] ^ 1]) + packed[index + 1 :])
    for what in (packed + b"x", packed + bytes(5) + b"x", b"x" + packed, packed + packed[:-1]):
        with pytest.raises((EOFError, zlib.error)):
            unpacked(what)


def test_a_plain_segment_is_read_from_any_place_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SEGMENT_LINES", 10)
    path = tmp_path / "file"
    path.write_bytes(b"line\n" * 10)
    with open_bounded(path, compressed=False) as file:
        for _ in range(3):
            assert file.read() == b"line\n" * 10
            assert file.seek(-10, 1) == 40
            assert file.readline() == b"line\n"
            assert file.seek(0) == 0
        with path.open("ab") as more:
            more.write(b"x")
        assert file.read()[-2:] == b"\nx"
        with path.open("ab") as more:
            more.write(b"\n")
        with pytest.raises(TooLarge, match="more than 10 lines"):
            file.read()


@pytest.mark.parametrize("compressed", [False, True])
def test_no_more_is_read_than_the_bounds_allow(monkeypatch: pytest.MonkeyPatch, compressed: bool) -> None:
    monkeypatch.setattr(bounds, "SEGMENT", 1000)
    monkeypatch.setattr(bounds, "SEGMENT_LINES", 10)

    def read(content: bytes) -> bytes:
        packed = gzip.compress(content) if compressed else content
        with bounded(BytesIO(packed), compressed=compressed) as file:
            return file.read()

    assert len(read(bytes(1000))) == 1000
    assert len(read(b"\n" * 10)) == 10
    with pytest.raises(TooLarge, match="it has more than 1000 bytes, which no server writes"):
        read(bytes(1001))
    with pytest.raises(TooLarge, match="it has more than 10 lines, which no server writes"):
        read(b"\n" * 11)


def test_a_compressed_file_has_bounds_though_nothing_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = gzip.compress(b"")
    monkeypatch.setattr(bounds, "MEMBERS", 3)
    assert unpacked(nothing * 4) == b""
    with pytest.raises(TooLarge, match="in more than 3 pieces"):
        unpacked(nothing * 5)
    monkeypatch.setattr(bounds, "SEGMENT", 1000)
    with pytest.raises(TooLarge, match="its file has more than 1000 bytes"):
        unpacked(nothing + bytes(1000))


# Hostile segments.


def last(journal: Path) -> Path:
    return list_segments(journal)[-1]


def append(path: Path, data: bytes) -> None:
    path.chmod(0o600)
    with path.open("ab") as file:
        file.write(data)


def bomb(journal: Path) -> None:
    """The last segment, compressed, and much more."""
    path = last(journal)
    compressed_path(path).write_bytes(gzip.compress(path.read_bytes() + bytes(1 << 20)))
    path.unlink()


def pieces(journal: Path) -> None:
    path = last(journal)
    compressed_path(path).write_bytes(gzip.compress(path.read_bytes()) + gzip.compress(b"") * 100)
    path.unlink()


HARMS: dict[str, tuple[Harm, str]] = {
    "a bomb": (bomb, "bytes, which no server writes"),
    "pieces": (pieces, "in more than 20 pieces"),
    "empty lines": (lambda journal: append(last(journal), b"\n" * 2000), "more than 1000 lines"),
    "zeros": (lambda journal: append(last(journal), bytes(1 << 20)), "bytes, which no server writes"),
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that the journal itself does not exceed."""
    monkeypatch.setattr(bounds, "SEGMENT", 200_000)
    monkeypatch.setattr(bounds, "SEGMENT_LINES", 1000)
    monkeypatch.setattr(bounds, "MEMBERS", 20)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", HARMS)
def test_a_segment_beyond_the_bounds_is_one_fault(journal: Path, name: str) -> None:
    harm, said = HARMS[name]
    assert verify(journal).faults == []
    harm(journal)
    (fault,) = verify(journal).faults
    assert (fault.path, fault.code) == (last(journal).name, "unreadable-segment")
    assert fault.message.startswith("the segment is read no further: ")
    assert said in fault.message


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", HARMS)
def test_nothing_reads_it_and_no_server_starts_without_salvage(journal: Path, name: str) -> None:
    harm, said = HARMS[name]
    harm(journal)
    with pytest.raises(JournalError, match=said):
        for _ in read_journal(journal):
            pass
    with pytest.raises(Damaged, match=said) as caught:
        recover(journal, RegistryFold())
    assert salvage(journal, caught.value.damage, RegistryFold()).salvaged is not None


@pytest.mark.usefixtures("small")
def test_a_salvage_uses_no_number_from_beyond_the_bounds(journal: Path) -> None:
    append(last(journal), b"\n" * 2000 + b"x" * 640_000)
    with pytest.raises(Damaged) as caught:
        recover(journal, RegistryFold())
    found = salvage(journal, caught.value.damage, RegistryFold())
    assert found.next_seq > last(journal).stat().st_size // 640


@pytest.mark.parametrize("size", [1000, 1001])
def test_sending_lines_on_does_not_read_an_endless_line_whole(
    journal: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(lines_module, "MAX_LINE", 1000)
    monkeypatch.setattr(lines_module, "BLOCK", 100)
    for path in list_segments(journal)[1:]:
        path.unlink()
    list_segments(journal)[0].chmod(0o600)
    list_segments(journal)[0].write_bytes(b"x" * size)
    lines = LinesAfter(journal, 0)
    if size == 1000:
        assert lines.page(10) == []
    else:
        with pytest.raises(JournalError, match="a line has more than 1000 bytes"):
            lines.page(10)
    lines.close()


def test_a_segment_of_bad_lines_only_is_not_judged_to_its_end(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "FINDINGS", 5)
    monkeypatch.setattr(bounds, "BAD_LINES", 20)
    path = last(journal)
    lines = path.read_bytes().count(b"\n")
    append(path, b"junk\n" * 100)
    faults = [each for each in verify(journal).faults if each.code == "bad-line"]
    assert [each.line for each in faults] == [*range(lines + 1, lines + 6), None, lines + 21]
    assert "and 15 more in this segment" in faults[5].message
    assert "this line and all after it are not judged" in faults[6].message


def test_of_many_faults_the_last_ones_are_counted(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (journal / segment_name(10**6 + number)).write_bytes(b"junk\n")
    everything = verify(journal).faults
    monkeypatch.setattr(bounds, "ALL_FINDINGS", 12)
    found = verify(journal).faults
    assert found[:12] == everything[:12]
    codes = list(dict.fromkeys(each.code for each in everything[12:]))
    assert [each.code for each in found[12:]] == codes
    for each in found[12:]:
        rest = [fault for fault in everything[12:] if fault.code == each.code]
        said = f"and {len(rest)} more from this file on, which are not listed"
        assert (each.path, each.message) == (rest[0].path, said)


# Hostile manifests.


def faults_of(journal: Path) -> list[tuple[int | None, str]]:
    faults = verify(journal).faults
    assert {(each.path, each.code) for each in faults} <= {(MANIFEST_NAME, "bad-manifest")}
    return [(each.line, each.message) for each in faults]


def size_of(journal: Path) -> tuple[int, int]:
    """The lines and the bytes of the manifest."""
    text = (journal / MANIFEST_NAME).read_bytes()
    return text.count(b"\n"), len(text)


@pytest.mark.parametrize("rest", [b"[" * 300_000, b"[", b"{}", b'{"v":4', bytes(100_000), b"x" + bytes(9)])
def test_what_follows_the_last_entry_is_one_fault(journal: Path, rest: bytes) -> None:
    lines, _ = size_of(journal)
    append(journal / MANIFEST_NAME, rest)
    assert faults_of(journal) == [(lines + 1, f"{len(rest)} bytes follow the last entry, and begin no other one")]
    assert not any("unfinished" in each for each in verify(journal).notes)
    with pytest.raises(Damaged, match="follow the last entry") as caught:
        recover(journal, RegistryFold())
    assert salvage(journal, caught.value.damage, RegistryFold()).salvaged is not None


@pytest.mark.parametrize("zeros", [0, 1, 4000])
def test_the_beginning_of_another_entry_is_a_note(journal: Path, zeros: int) -> None:
    path = journal / MANIFEST_NAME
    text, found = path.read_bytes(), read_manifest(path)
    line = encode(found.entries[-1].body, found.next_number, found.last_hash)
    for size in range(1 - min(zeros, 1), len(line) - 1):
        path.write_bytes(text + line[:size] + bytes(zeros))
        found = read_manifest(path)
        assert (found.findings, found.torn, found.is_torn) == ([], size + zeros, True)
    assert any(f"unfinished line of {len(line) - 2 + zeros} bytes" in each for each in verify(journal).notes)
    assert recover(journal, RegistryFold()).next_seq > 1


def test_a_long_line_is_one_fault_and_the_chain_goes_on_after_it(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = journal / MANIFEST_NAME
    lines, _ = size_of(journal)
    append(path, b"[" * 300_000 + b"\n")
    said = (lines + 1, "the line is longer than 65536 bytes")
    assert faults_of(journal) == [said]
    found = read_manifest(path)
    assert found.size == path.stat().st_size
    append(path, encode(found.entries[0].body, found.next_number, found.last_hash))
    assert "hash of the line before" not in str(faults_of(journal))
    assert faults_of(journal)[0] == said


def test_a_manifest_of_too_many_lines_is_read_no_further(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, size = size_of(journal)
    monkeypatch.setattr(bounds, "MANIFEST_LINES", lines)
    assert faults_of(journal) == []
    append(journal / MANIFEST_NAME, b"[" * 30 + b"\n[" * 10)
    assert faults_of(journal) == [(lines + 1, f"the manifest is read no further: it has more than {lines} lines")]
    monkeypatch.setattr(bounds, "MANIFEST_LINES", lines * 2)
    monkeypatch.setattr(bounds, "MANIFEST", size)
    assert faults_of(journal) == [(lines + 1, f"the manifest is read no further: it has more than {size} bytes")]
    assert read_manifest(journal / MANIFEST_NAME).size == size
    with pytest.raises(Damaged, match="read no further"):
        recover(journal, RegistryFold())


def test_faults_of_a_manifest_are_counted_and_end_the_reading(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "FINDINGS", 3)
    monkeypatch.setattr(bounds, "BAD_LINES", 10)
    lines, _ = size_of(journal)
    append(journal / MANIFEST_NAME, b"junk\n" * 100)
    found = read_manifest(journal / MANIFEST_NAME)
    assert len(found.lines) == lines + 1  # the hash of all of them is the same
    assert [each.line for each in found.findings] == [lines + 1, lines + 2, lines + 3, None]
    assert found.findings[-1].message == "and 8 more in the manifest, which are not listed"


def test_a_salvage_begins_another_manifest_if_one_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Kept(tmp_path).end()
    kept = Kept(tmp_path)
    kept.write("a")
    kept.end()
    _, size = size_of(tmp_path)
    monkeypatch.setattr(bounds, "MANIFEST", size + 2000)
    append(tmp_path / MANIFEST_NAME, b"{}\n" * 1000)
    with pytest.raises(Damaged) as caught:
        Kept(tmp_path)
    monkeypatch.setattr("tests.journal.kept.recover", lambda *given: salvage(tmp_path, caught.value.damage, given[1]))
    kept = Kept(tmp_path)
    kept.write("b")
    kept.idle(10)
    kept.end()
    monkeypatch.undo()
    kept = Kept(tmp_path)
    kept.write("c")
    kept.end()


# Files of keys.


def test_an_endless_line_of_a_file_of_pseudonyms_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pseudonyms"
    path.write_bytes(new_key("actor", "ann")[1] + b"x" * 1000)
    path.chmod(0o600)
    assert [each.identity for each in identities(path)] == ["ann"]
    monkeypatch.setattr(pseudonym_keys, "MAX_LINE", 500)
    with pytest.raises(JournalError, match="line 2: not the key of a pseudonym"):
        identities(path)


def test_no_more_of_a_key_is_read_than_a_key_has(tmp_path: Path) -> None:
    path = tmp_path / "key"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    path.chmod(0o600)
    for read in (read_private, read_public):
        with pytest.raises(JournalError, match="is not an Ed25519"):
            read(path)


# A server stays within the bounds.


def test_a_long_manifest_gets_only_the_seals_a_segment_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(tmp_path, rotation=Rotation())
    kept.write("a")
    kept.write("b")
    kept.idle(100)
    assert [each[2] for each in seals(tmp_path)] == [False, False]
    monkeypatch.setattr(bounds, "ROUTINE_LINES", 2)
    with capturedLogs() as logs:
        for name in "cdef":
            kept.write(name)
            kept.idle(100)
    assert [each["log_namespace"] for each in logs if each.get("event") == "journal.manifest-long"] != []
    assert len([each for each in logs if each.get("event") == "journal.manifest-long"]) == 1
    assert [each[2] for each in seals(tmp_path)] == [False, False]
    kept.end()
    assert [each[2] for each in seals(tmp_path)] == [False, False, True]
    kept = Kept(tmp_path)
    kept.write("g")
    kept.write("h")
    kept.end()
    assert verify(tmp_path, to_the_end=True).faults == []


def test_no_entry_is_added_beyond_the_bounds(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = journal / MANIFEST_NAME
    found = read_manifest(path)
    bodies: list[Body] = [found.entries[-1].body]
    for name, least in (("MANIFEST_LINES", found.next_number - 1), ("MANIFEST", found.size)):
        with monkeypatch.context() as patch:
            patch.setattr(bounds, name, least)
            with pytest.raises(JournalError, match=r"is full, with .* begin another journal directory"):
                ManifestFile(path, found).append(bodies)  # type: ignore[arg-type]
    assert path.stat().st_size == found.size


def test_an_entry_has_fewer_bytes_than_a_line_may_have(journal: Path) -> None:
    found = read_manifest(journal / MANIFEST_NAME)
    body = found.entries[-1].body
    assert len(encode(body, 2**63 - 1, found.last_hash)) < bounds.MANIFEST_LINE // 32
    assert EntryJudge().end().findings == []


# At full size.

MEASURED = """
import sys
from pathlib import Path
from bussrv.journal.verify import verify
for each in verify(Path(sys.argv[1])).faults[:20]:
    print(each.path, each.code)
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(int(status["VmHWM"].split()[0]) >> 10)
"""
"""``ru_maxrss`` would be at least that of the process of the tests, from which this one is forked."""


def measured(journal: Path) -> tuple[list[str], int]:
    """The faults, and the most memory that it took to find them, in MiB."""
    found = subprocess.run(
        [sys.executable, "-c", MEASURED, str(journal)], capture_output=True, text=True, check=True, timeout=60
    )
    *faults, memory = found.stdout.splitlines()
    return faults, int(memory)


@pytest.mark.long
@pytest.mark.processes
def test_a_bomb_of_six_gigabytes(journal: Path) -> None:
    path = last(journal)
    pack = zlib.compressobj(9, wbits=31)
    with compressed_path(path).open("wb") as file:
        for _ in range(6000):
            file.write(pack.compress(bytes(1 << 20)))
        file.write(pack.flush())
    path.unlink()
    faults, memory = measured(journal)
    assert faults == [f"{last(journal).name} unreadable-segment"]
    assert memory < 200


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize(
    ("junk", "size", "code"), [(b"[", 100_000_000, "bad-manifest"), (b"\n", 5_000_000, "unreadable-segment")]
)
def test_junk_after_the_end(journal: Path, junk: bytes, size: int, code: str) -> None:
    """A hundred megabytes of brackets, and five million empty lines."""
    path = journal / MANIFEST_NAME if code == "bad-manifest" else last(journal)
    append(path, junk * size)
    faults, memory = measured(journal)
    assert faults == [f"{path.name} {code}"]
    assert memory < 200
