import errno
import json
import os
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.errors import JournalError
from bussrv.journal.chain import START, line_hash
from bussrv.journal.evidence import findings
from bussrv.journal.files import Files
from bussrv.journal.keys import PrivateKey
from bussrv.journal.manifest import MANIFEST_NAME, KeyEntry, Pruned, Seal, decode, encode
from bussrv.journal.manifest_file import GrowingManifest, ManifestFile, read_manifest
from bussrv.journal.outside_changes import Changed
from tests.size import sized
from tests.tables import each_row

KEY, NEXT, FOREIGN = (PrivateKey(bytes([number]) * 32) for number in (1, 2, 3))
NOW = 1_800_000_000_000_000
DIGEST = "d" * 64
NAMES = {key.public.fingerprint: name for key, name in ((KEY, "KEY"), (NEXT, "NEXT"), (FOREIGN, "FOREIGN"))}

UNCHAINED = f"it {findings.UNCHAINED}"


def seal(segment=1, records=4, *, closed=True, size=None, digest=DIGEST, **fields):
    ends = {"first_seq": segment, "last_seq": segment + records - 1, "first_time": NOW - 1, "last_time": NOW}
    if not records:
        ends = {}
    size = 100 * records + 100 if size is None else size
    return Seal(NOW, "hall", segment, closed, size, digest, records, **{**ends, **fields})


def pruned(segment=1, last_seq=4, size=500, digest=DIGEST):
    return Pruned(NOW, "hall", segment, last_seq, size, digest, "age")


def key_entry(key):
    return KeyEntry(NOW, "hall", key.public.text)


BODIES = [seal(), key_entry(KEY), pruned()]


def chain(*entries):
    """The lines of a manifest, of bodies that are not signed and of pairs of body and key."""
    lines, prev = [], START
    for number, each in enumerate(entries, 1):
        body, key = each if isinstance(each, tuple) else (each, None)
        lines.append(encode(body, number, prev, key))
        prev = line_hash(lines[-1])
    return lines


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("manifest") / MANIFEST_NAME


@pytest.fixture
def path(tmp_path):
    return tmp_path / MANIFEST_NAME


def read(path, lines, trusted=None):
    path.write_bytes(b"".join(lines))
    return read_manifest(path, trusted and trusted.public)


def words(found):
    """Faults as (line, message), with the names of keys in the place of their fingerprints."""
    told = []
    for fault in found.findings:
        text = fault.message
        for fingerprint, name in NAMES.items():
            text = text.replace(fingerprint, name)
        told.append((fault.line or 0, text))
    return told


# The codec.
counts = st.integers(0, 2**63 - 1)
numbers = st.integers(1, 2**63 - 1)
moments = st.integers(0, 253_402_300_799_999_999)
hashes = st.from_regex(r"[0-9a-f]{64}", fullmatch=True)
names = st.text(max_size=10)
bodies = st.one_of(
    st.builds(
        Seal, moments, names, numbers, st.booleans(), counts, hashes, counts,
        *(st.none() | numbers,) * 2, *(st.none() | moments,) * 2,
    ),
    st.builds(KeyEntry, moments, names, hashes),
    st.builds(Pruned, moments, names, numbers, counts, counts, hashes, st.sampled_from(["age", "size"])),
)  # fmt: skip


@given(bodies, numbers, hashes, st.sampled_from([None, KEY]))
def test_what_is_written_is_read(body, number, prev, key):
    line = encode(body, number, prev, key)
    entry = decode(line)
    assert (entry.body, entry.number, entry.prev, entry.hash) == (body, number, prev, line_hash(line))
    assert entry.key == (key and key.public.fingerprint)
    assert decode(line[:-1]) == entry
    assert line.count(b"\n") == 1
    assert encode(entry.body, entry.number, entry.prev, key) == line


def test_lines_are_as_documented():
    first, second, third = chain(key_entry(KEY), (seal(), KEY), pruned())
    assert first == (
        b'{"v":2,"prev":"%b","entry":1,"kind":"key","time":"2027-01-15T08:00:00.000000Z","server":"hall",'
        b'"public":"%b"}\n' % (START.encode(), KEY.public.text.encode())
    )
    text = (
        b'{"v":2,"prev":"%b","entry":2,"kind":"seal","time":"2027-01-15T08:00:00.000000Z","server":"hall",'
        b'"segment":1,"closed":true,"bytes":500,"digest":"%b","records":4,"first_seq":1,"last_seq":4,'
        b'"first_time":"2027-01-15T07:59:59.999999Z","last_time":"2027-01-15T08:00:00.000000Z","key":"%b"'
        % (line_hash(first).encode(), DIGEST.encode(), KEY.public.fingerprint.encode())
    )
    signature = KEY.sign(b"bussrv journal manifest 2\n" + text + b"}").encode()
    assert second == text + b',"signature":"%b"}\n' % signature
    assert third.endswith(b'"segment":1,"last_seq":4,"bytes":500,"digest":"%b","reason":"age"}\n' % DIGEST.encode())


@given(st.binary(max_size=60) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(msgspec.json.encode))
def test_what_is_no_entry_is_refused(line):
    with pytest.raises(JournalError, match="not a manifest entry"):
        decode(line)


def changed(line, **members):
    found = {**json.loads(line), **members}
    return msgspec.json.encode({name: value for name, value in found.items() if value is not ...})


@each_row(
    "members",
    [
        {"v": 1}, {"v": True}, {"v": "2"}, {"v": ...}, {"kind": "sael"}, {"kind": None}, {"kind": ...}, {"prev": "x"},
        {"prev": START + "\n"}, {"prev": "A" * 64}, {"entry": 0}, {"entry": 1.5}, {"entry": 2**64}, {"time": 5},
        {"time": "2027-01-15"}, {"time": "1969-13-15T08:00:00.000000Z"}, {"segment": "1"}, {"closed": 1},
        {"bytes": -1}, {"digest": None}, {"first_time": None}, {"last_seq": True}, {"server": ...}, {"records": ...},
        {"key": KEY.public.fingerprint}, {"key": 5}, {"signature": "a" * 128},
        {"key": KEY.public.fingerprint, "signature": "A" * 128}, {"signature": "a" * 128, "key": "a" * 32},
        {"signature": "a" * 128, "colour": 1},
    ],
)  # fmt: skip
def test_a_member_that_is_wrong_is_noticed(members):
    (line,) = chain(seal())
    with pytest.raises(JournalError, match="not a manifest entry: "):
        decode(changed(line, **members))


def test_members_that_are_not_known_are_passed_over():
    (line,) = chain(seal())
    assert decode(changed(line, colour="red")).body == seal()


def test_a_newer_version_is_named():
    with pytest.raises(JournalError, match=r"written by a newer program: version 3, this program reads version 2"):
        decode(b'{"v":3,"kind":"spell"}')


def test_a_deep_line_is_refused():
    with pytest.raises(JournalError, match="not a manifest entry"):
        decode(b'{"v":2,"x":' + b"[" * 100_000)


def test_the_signature_is_the_last_member():
    (line,) = chain((seal(), KEY))
    moved = msgspec.json.encode(dict(sorted(json.loads(line).items(), reverse=True)))
    with pytest.raises(JournalError, match='a "key" needs a "signature", which stands last'):
        decode(moved)


def test_a_second_signature_does_not_decide_what_is_signed(path):
    first, second = chain((key_entry(KEY), KEY), (seal(), KEY))
    twice = second[:-2] + b',"signature":"%b"}\n' % (b"a" * 128)
    assert words(read(path, [first, twice])) == [
        (2, "its signature is wrong: it was changed, or not signed with the key KEY")
    ]


# Reading.
def test_a_manifest_that_is_missing_is_empty(path):
    found = read_manifest(path)
    assert (found.entries, found.findings, found.last_hash, found.size, found.torn) == ([], [], START, 0, 0)
    assert found.in_force is None


def test_one_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(JournalError, match=r"cannot read the manifest .*: Is a directory"):
        read_manifest(tmp_path)


def test_what_is_there_is_found(path):
    lines = chain(
        (key_entry(KEY), KEY), (seal(closed=False), KEY), (seal(), KEY), (seal(5, closed=False), KEY), (pruned(), KEY)
    )
    found = read(path, lines, trusted=KEY)
    assert found.findings == []
    assert [entry.hash for entry in found.entries] == [line_hash(line) for line in lines]
    assert [entry.number for entry in found.entries] == [1, 2, 3, 4, 5]
    assert found.seals == {1: seal(), 5: seal(5, closed=False)}
    assert found.pruned == {1: pruned()}
    assert (found.in_force, found.last_hash, found.next_number) == (KEY.public, line_hash(lines[-1]), 6)
    assert (found.size, found.torn) == (path.stat().st_size, 0)


def test_a_line_that_was_cut_off_is_told_of_and_is_no_fault(path):
    first, second = chain(seal(), seal(5))
    for size in range(1, len(second)):
        found = read(path, [first, second[:size]])
        assert (found.size, found.torn, len(found.entries), found.findings) == (len(first), size, 1, [])


def test_what_is_no_entry_is_a_fault_and_reading_goes_on(path):
    lines = chain(seal(1), seal(5), seal(9))
    lines[1] = b"rubbish\n"
    found = read(path, lines)
    assert [each.line for each in found.findings] == [2, 3]
    assert found.findings[0].message.startswith("not a manifest entry: ")
    assert (found.findings[1].segment, found.findings[1].message) == (9, UNCHAINED)
    assert sorted(found.seals) == [1, 9]


WHOLE = Path(__file__).parents[2] / "docs/reference/journal-format/whole" / MANIFEST_NAME


@settings(max_examples=sized(50))
@given(st.lists(st.integers(0, WHOLE.stat().st_size), min_size=1, max_size=8), st.booleans())
def test_one_that_grows_is_read_as_a_whole_one(tmp_path_factory, cuts, is_replaced):
    """Wherever it ended before, also if another file takes its place."""
    path = tmp_path_factory.mktemp("growing") / MANIFEST_NAME
    growing, text = GrowingManifest(path), WHOLE.read_bytes()
    assert growing.read() == read_manifest(path)
    for cut in sorted(cuts):
        with path.open("ab") as file:
            file.write(text[file.tell() : cut])
        assert growing.read() == read_manifest(path)
    if is_replaced:
        path.rename(path.with_name("before"))
        path.write_bytes(b"no entry\n" + text)
    assert growing.read() == growing.read() == read_manifest(path)
    path.unlink()
    assert growing.read() == read_manifest(path)


def test_lines_dropped_doubled_and_exchanged_are_noticed(path):
    lines = chain(seal(1), seal(5), seal(9), seal(13))
    assert words(read(path, lines[:1] + lines[2:])) == [(2, UNCHAINED), (2, "it is entry 3, but should be entry 2")]
    assert words(read(path, lines[1:]))[0] == (1, UNCHAINED)
    assert (3, UNCHAINED) in words(read(path, [*lines[:2], lines[1], *lines[2:]]))
    assert (2, UNCHAINED) in words(read(path, [lines[0], lines[2], lines[1], lines[3]]))


def test_no_byte_of_a_signed_line_may_change(shared):
    lines = chain((key_entry(KEY), KEY), (seal(), KEY))
    for bit in (0x01, 0x20, 0x80):
        for index in range(len(lines[1])):
            line = bytearray(lines[1])
            line[index] ^= bit
            found = read(shared, [lines[0], line])
            assert found.findings or (index == len(line) - 1 and found.torn), bytes(line)


def test_no_byte_of_a_line_before_another_may_change(shared):
    lines = chain(seal(), seal(5))
    for index in range(len(lines[0])):
        line = bytearray(lines[0])
        line[index] ^= 0x01
        assert read(shared, [line, lines[1]]).findings


# Which key counts.
INTRODUCED = (key_entry(KEY), KEY)
HANDED_OVER = (key_entry(NEXT), KEY)


@pytest.mark.parametrize(
    ("entries", "faults"),
    [
        ([INTRODUCED, seal()], [(2, "it is not signed, but has to be, with the key KEY")]),
        ([(seal(), KEY)], [(1, "it is signed with the key KEY, which was not introduced")]),
        ([seal(), INTRODUCED, (seal(5), KEY)], []),
        ([INTRODUCED, (seal(), NEXT)], [(2, "it is signed with the key NEXT, but has to be with the key KEY")]),
        ([INTRODUCED, HANDED_OVER, (seal(), NEXT)], []),
        (
            [INTRODUCED, HANDED_OVER, (seal(), KEY)],
            [(3, "it is signed with the key KEY, but has to be with the key NEXT")],
        ),
        # The next key does not take over: it must be let.
        (
            [INTRODUCED, (key_entry(NEXT), NEXT), (seal(), KEY)],
            [(2, "it is signed with the key NEXT, but has to be with the key KEY")],
        ),
        ([INTRODUCED, key_entry(NEXT)], [(2, "it is not signed, but has to be, with the key KEY")]),
        ([key_entry(KEY)], [(1, "it is not signed, but has to be, with the key KEY")]),
        ([(key_entry(KEY), NEXT)], [(1, "it is signed with the key NEXT, but has to be with the key KEY")]),
    ],
)
def test_the_key_in_force_signs(path, entries, faults):
    assert words(read(path, chain(*entries))) == faults


def test_a_signature_taken_from_elsewhere_is_wrong(path):
    first, second, other = chain(INTRODUCED, (seal(), KEY), (seal(5), KEY))
    mixed = second[: second.index(b',"signature"')] + other[other.index(b',"signature"') :]
    assert words(read(path, [first, mixed])) == [
        (2, "its signature is wrong: it was changed, or not signed with the key KEY")
    ]


def test_nothing_is_concluded_from_what_is_not_signed(path):
    found = read(path, chain(INTRODUCED, (seal(), FOREIGN), (key_entry(FOREIGN), FOREIGN), seal(), (seal(), KEY)))
    assert [fault.line for fault in found.findings] == [2, 3, 4]
    assert found.seals == {1: seal()}
    assert found.in_force == KEY.public


def test_sealing_anew_with_a_newer_key_is_noticed(path):
    honest = [INTRODUCED, (seal(digest="a" * 64), KEY), HANDED_OVER]
    again = (seal(digest="b" * 64), NEXT)
    assert words(read(path, chain(*honest, again))) == [(4, "segment 1 is sealed again after it was closed")]
    # From the start, by who has only the newer key: the auditor holds the older one.
    assert words(read(path, chain((key_entry(NEXT), NEXT), again), trusted=KEY)) == [
        (0, "no entry is signed with the trusted key KEY while that was in force")
    ]


UNTRUSTED = [(0, "no entry is signed with the trusted key KEY while that was in force")]


@pytest.mark.parametrize(
    ("entries", "faults"),
    [
        ([], UNTRUSTED),
        ([seal()], UNTRUSTED),
        ([INTRODUCED], []),
        ([seal(), INTRODUCED], []),
        ([INTRODUCED, HANDED_OVER, (seal(), NEXT)], []),
        ([(key_entry(FOREIGN), FOREIGN), (seal(), FOREIGN)], UNTRUSTED),
        # Whoever made what is before could name the key, but not sign with it.
        ([(key_entry(FOREIGN), FOREIGN), (key_entry(KEY), FOREIGN)], UNTRUSTED),
        ([(key_entry(FOREIGN), FOREIGN), (key_entry(KEY), FOREIGN), (seal(), KEY)], []),
    ],
)
def test_a_trusted_key_must_have_signed(path, entries, faults):
    assert words(read(path, chain(*entries), trusted=KEY)) == faults


def test_what_the_trusted_key_signed_fits_after_nothing_else(path):
    real = chain(INTRODUCED, (seal(), KEY), (seal(5), KEY))
    forged = chain((key_entry(FOREIGN), FOREIGN), (key_entry(KEY), FOREIGN))
    assert (3, UNCHAINED) in words(read(path, [*forged, real[2]], trusted=KEY))


def test_cutting_off_and_carrying_on_shows_by_a_hash_kept(path):
    honest = read(path, chain(INTRODUCED, (seal(), KEY), (seal(5), KEY)))
    kept = honest.entries[-1].hash
    assert kept in honest.lines
    forged = read(path, chain(INTRODUCED, (seal(), KEY), (seal(5, 3), KEY), (seal(8), KEY)), trusted=KEY)
    assert forged.findings == []
    assert kept not in forged.lines
    assert honest.entries[1].hash in forged.lines


# Seals and what becomes of segments.
SHAPE = "a seal is of records, and names the first and the last of them"
FEWER = "segment 1 has fewer bytes or records than in the seal before"
PRUNED_OTHER = "segment 1 is pruned, but its digest, bytes or last seq are not those of its seal"


@pytest.mark.parametrize(
    ("entries", "fault"),
    [
        ([seal(), seal()], "segment 1 is sealed again after it was closed"),
        ([seal(), seal(closed=False)], "segment 1 is sealed again after it was closed"),
        ([seal(), pruned(), seal()], "segment 1 is sealed again after it was closed"),
        ([seal(5), seal(1)], "segment 1 is sealed after segment 5, which goes to seq 8"),
        ([seal(1, 8), seal(5)], "segment 5 is sealed after segment 1, which goes to seq 8"),
        ([seal(1, 8, closed=False), seal(8)], "segment 8 is sealed after segment 1, which goes to seq 8"),
        ([seal(closed=False), seal(1, 3)], FEWER),
        ([seal(closed=False), seal(1, 3, size=600)], FEWER),
        ([seal(closed=False), seal(1, 5, size=499)], FEWER),
        (
            [seal(closed=False), seal(digest="e" * 64)],
            "segment 1 has as many bytes as in the seal before, but other ones",
        ),
        (
            [seal(closed=False), seal(1, 5, size=500)],
            "segment 1 has as many bytes as in the seal before, but other ones",
        ),
        ([seal(first_time=None)], SHAPE),
        ([seal(last_seq=None)], SHAPE),
        ([seal(records=0)], SHAPE),
        ([seal(records=0, last_seq=4)], SHAPE),
        ([seal(first_seq=2)], "segment 1 cannot have 4 records from 2 to 4"),
        ([seal(last_seq=5)], "segment 1 cannot have 4 records from 1 to 5"),
        ([pruned()], "segment 1 is pruned, but was not sealed as closed"),
        ([seal(closed=False), pruned()], "segment 1 is pruned, but was not sealed as closed"),
        ([seal(), pruned(), pruned()], "segment 1 is pruned again"),
        ([seal(), pruned(digest="e" * 64)], PRUNED_OTHER),
        ([seal(), pruned(size=501)], PRUNED_OTHER),
        ([seal(), pruned(last_seq=5)], PRUNED_OTHER),
    ],
)
def test_a_seal_or_a_deletion_that_does_not_fit_is_named(path, entries, fault):
    found = read(path, chain(*entries))
    assert [(each.code, each.line, each.message) for each in found.findings] == [("bad-manifest", len(entries), fault)]
    assert found.findings[0].segment == found.entries[-1].body.segment


@pytest.mark.parametrize(
    "entries",
    [
        [seal(closed=False), seal(closed=False), seal()],
        [seal(), pruned(), seal(5), seal(900)],
    ],
)
def test_what_may_be(path, entries):
    assert read(path, chain(*entries)).findings == []


def test_a_faulty_seal_does_not_replace_the_one_before(path):
    assert read(path, chain(seal(closed=False), seal(1, 3))).seals == {1: seal(closed=False)}


# Adding.
class BadFiles(Files):
    """Calls whose name is in ``failing`` fail; a write leaves half of its data."""

    def __init__(self):
        self.failing = set()
        self.calls = []

    def _call(self, name):
        self.calls.append(name)
        if name in self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def open(self, path, mode=0o640):
        self._call("open")
        return super().open(path, mode)

    def write(self, descriptor, data):
        if "write" in self.failing:
            super().write(descriptor, data[: len(data) // 2])
        self._call("write")
        super().write(descriptor, data)

    def sync(self, descriptor):
        self._call("sync")
        super().sync(descriptor)

    def truncate(self, descriptor, size):
        self._call("truncate")
        super().truncate(descriptor, size)

    def sync_directory(self, directory):
        self._call("sync_directory")
        super().sync_directory(directory)

    def close(self, descriptor):
        super().close(descriptor)
        self._call("close")


def open_file(path, key=None, files=None):
    return ManifestFile(path, read_manifest(path), key, files=files or Files())


def open_signed(path, files=None):
    file = open_file(path, files=files)
    file.introduce(KEY.public, KEY, time=NOW, server="hall")
    return file


def test_entries_are_numbered_chained_and_signed(path):
    file = open_signed(path)
    added = file.append([seal(), pruned()]) + file.append([seal(5)])
    assert open_file(path, KEY).append([]) == []
    found = read_manifest(path, KEY.public)
    assert found.findings == []
    assert [entry.hash for entry in found.entries[1:]] == added
    assert file.last_hash == added[-1]
    assert path.read_bytes() == b"".join(chain(INTRODUCED, (seal(), KEY), (pruned(), KEY), (seal(5), KEY)))


def test_a_manifest_is_taken_up_where_it_was_left(path):
    for segment in (1, 5, 9):
        open_file(path).append([seal(segment)])
    assert path.read_bytes() == b"".join(chain(seal(1), seal(5), seal(9)))


def test_each_call_writes_and_syncs_once_the_first_the_directory(path):
    files = BadFiles()
    file = open_file(path, files=files)
    assert (path.exists(), files.calls) == (False, [])
    file.append([seal(), pruned()])
    assert files.calls == ["open", "write", "sync", "sync_directory", "close"]
    files.calls.clear()
    file.append([seal(5), seal(9)])
    assert files.calls == ["open", "write", "sync", "close"]
    assert path.stat().st_mode & 0o007 == 0


def test_what_a_crash_left_is_cut_off_before_something_is_added(path):
    first, second = chain(seal(), seal(5))
    for size in range(len(second)):
        path.write_bytes(first + second[:size])
        open_file(path).append([seal(5)])
        assert path.read_bytes() == first + second


FAILING = ["open", "write", "sync"]


@pytest.mark.parametrize("more", [set(), {"truncate"}])
@pytest.mark.parametrize(
    ("before", "failing"),
    [([], name) for name in (*FAILING, "sync_directory")] + [([seal()], name) for name in FAILING],
)
def test_what_failed_is_cut_off_and_can_be_added_again(path, before, failing, more):
    files = BadFiles()
    file = open_file(path, files=files)
    file.append(before)
    last = file.last_hash
    for _ in range(2):
        files.failing = {failing, *more}
        with pytest.raises(OSError, match="Input/output error"):
            file.append([seal(5), seal(9)])
        assert file.last_hash == last
        if not more:
            assert read_manifest(path).torn == 0
            assert len(read_manifest(path).entries) == len(before)
    files.failing = set()
    file.append([seal(13)])
    assert path.read_bytes() == b"".join(chain(*before, seal(13)))
    assert files.calls.count("open") == files.calls.count("close") + (2 if failing == "open" else 0)


def test_what_is_cut_off_does_not_come_back_after_a_crash(path):
    files = BadFiles()
    files.failing = {"write"}
    with pytest.raises(OSError, match="Input/output error"):
        open_file(path, files=files).append([seal()])
    assert files.calls == ["open", "write", "truncate", "sync", "close"]


def test_what_is_on_the_disk_stays_though_closing_fails(path):
    files = BadFiles()
    files.failing = {"close"}
    open_file(path, files=files).append([seal()])
    assert path.read_bytes() == b"".join(chain(seal()))


@pytest.mark.parametrize("size", [0, 1, 10_000])
def test_a_file_that_somebody_else_changed_is_left_alone(path, size):
    file = open_file(path)
    file.append([seal()])
    length = path.stat().st_size
    os.truncate(path, size)
    what = f"it was cut to {size} of {length} bytes" if size < length else f"{size - length} bytes were added to it"
    with pytest.raises(Changed, match=f"another program changed {path}: {what}"):
        file.append([seal(5)])
    assert path.stat().st_size == size


def test_an_entry_is_there_though_the_file_is_moved_right_after(path):
    """And comes back as it was: what follows goes on after that entry."""
    away = path.with_name("away")
    files = BadFiles()
    file = open_file(path, files=files)
    file.append([seal()])
    synced = files.sync

    def sync_and_move(descriptor):
        synced(descriptor)
        path.rename(away)

    files.sync = sync_and_move
    file.append([seal(5)])
    files.sync = synced
    with pytest.raises(Changed, match="removed or moved away"):
        file.append([seal(9)])
    away.rename(path)
    assert file.change() is None
    file.append([seal(9)])
    assert path.read_bytes() == b"".join(chain(seal(), seal(5), seal(9)))


def test_a_removed_file_is_not_made_again_without_its_beginning(path):
    file = open_file(path)
    file.append([seal()])
    path.unlink()
    with pytest.raises(OSError, match="it was removed or moved away"):
        file.append([seal(5)])
    assert not path.exists()


def test_a_text_that_cannot_be_written_leaves_the_file_as_it_is(path):
    file = open_file(path)
    with pytest.raises(ValueError, match="surrogates"):
        file.append([seal(), msgspec.structs.replace(seal(5), server="\ud800")])
    file.append([seal()])
    assert path.read_bytes() == b"".join(chain(seal()))


@pytest.mark.parametrize("key", [None, NEXT])
def test_only_the_key_in_force_is_accepted(path, key):
    open_signed(path)
    given = f"the key {key.public.fingerprint}" if key else "no key"
    sentence = f"is signed with the key {KEY.public.fingerprint}, so it cannot go on with {given}: give that key"
    with pytest.raises(JournalError, match=sentence):
        open_file(path, key)


def test_a_first_key_must_be_introduced(path):
    with pytest.raises(JournalError, match="is signed with no key, so it cannot go on with the key"):
        open_file(path, KEY)


def test_a_key_hands_over_to_the_next(path):
    file = open_signed(path)
    file.append([seal()])
    entry_hash = file.introduce(NEXT.public, KEY, time=NOW, server="hall")
    with pytest.raises(JournalError, match=f"the key {NEXT.public.fingerprint}, so it cannot go on with no key"):
        file.append([seal(5)])
    file = open_file(path, NEXT)
    assert file.last_hash == entry_hash
    file.append([seal(5)])
    assert read_manifest(path, KEY.public).findings == read_manifest(path, NEXT.public).findings == []


def test_only_the_key_in_force_hands_over(path):
    file = open_signed(path)
    for signer in (NEXT, FOREIGN):
        with pytest.raises(JournalError, match=f"is signed with the key {KEY.public.fingerprint}"):
            file.introduce(NEXT.public, signer, time=NOW, server="hall")


def test_the_first_key_signs_itself(path):
    with pytest.raises(JournalError, match=f"is signed with the key {KEY.public.fingerprint}"):
        open_file(path).introduce(KEY.public, NEXT, time=NOW, server="hall")
    assert not path.exists()


def test_a_key_whose_entry_could_not_be_written_is_not_in_force(path):
    files = BadFiles()
    file = open_file(path, files=files)
    files.failing = {"sync"}
    with pytest.raises(OSError, match="Input/output error"):
        file.introduce(KEY.public, KEY, time=NOW, server="hall")
    files.failing = set()
    file.append([seal()])
    assert path.read_bytes() == b"".join(chain(seal()))


@settings(deadline=None, max_examples=sized(50))  # It syncs a file at every step.
@given(st.lists(st.sampled_from(["seal", "next", "prune", "key"]), max_size=20))
def test_what_a_server_may_do_verifies(shared, steps):
    shared.unlink(missing_ok=True)
    file, key, segment, closed = open_signed(shared), KEY, 1, []
    for step in steps:
        if step == "seal":
            file.append([seal(segment, closed=False)])
        elif step == "next":
            file.append([seal(segment)])
            closed.append(segment)
            segment += 4
        elif step == "prune" and closed:
            file.append([pruned(closed[0], closed.pop(0) + 3)])
        elif step == "key":
            new = NEXT if key == KEY else KEY
            file.introduce(new.public, key, time=NOW, server="hall")
            key = new
            file = open_file(shared, key)
    found = read_manifest(shared, KEY.public)
    assert found.findings == []
    assert found.in_force == key.public
    assert all(later.prev == earlier.hash for earlier, later in pairwise(found.entries))
