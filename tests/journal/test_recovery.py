"""Opening a journal directory: the lock, the replay, and whatever a crash left there."""

import gzip
import shutil

import pytest

from bussrv import events as ev
from bussrv.errors import JournalError
from bussrv.journal.chain import START, line_hash
from bussrv.journal.header import Damage, Previous
from bussrv.journal.lock import JournalLock
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.reading import read_header
from bussrv.journal.record import Record
from bussrv.journal.recovery import Damaged, Recovered, recover
from bussrv.journal.segment import list_segments, segment_name
from bussrv.registry.state.fold import RegistryFold
from tests.journal.support import (
    STORY,
    actors,
    chained,
    contents,
    digest_of,
    every_record,
    fact,
    fold,
    lines_of,
    make_entry,
    note,
    replay,
    stamp,
    story,
    vouch,
    writer,
)
from tests.size import sample

FIRST, MIDDLE, LAST = map(segment_name, (1, 5, 9))


def named(*names, start=1):
    """A record for each name."""
    return [Record(seq, seq * 10, seq, "hall", "boot", note(name).event) for seq, name in enumerate(names, start)]


class Seen:
    """A fold that remembers what it was given."""

    def __init__(self):
        self.events, self.parts = [], []

    def apply(self, event, time):
        self.events.append((event.actor, time))

    def take(self, state, version):
        self.parts.append(bytes(state))

    def states(self):
        return []


# What is replayed.


def test_an_empty_directory_is_a_new_journal(tmp_path):
    seen = Seen()
    assert recover(tmp_path, seen) == Recovered(next_seq=1, hash=START, server=None, stopped=True)
    assert (seen.events, seen.parts) == ([], [])


def test_the_last_segment_is_replayed_in_order_with_its_times(tmp_path):
    records = named("a", "b", "c", "d", "e")
    lines = chained(tmp_path, records[:2], records[2:3], records[3:])
    seen = Seen()
    recovered = recover(tmp_path, seen)
    assert seen.events == [("d", 40), ("e", 50)]
    assert (recovered.next_seq, recovered.hash) == (6, line_hash(lines[2][1]))
    assert (recovered.server, recovered.stopped, recovered.torn_bytes, recovered.salvaged) == ("hall", False, 0, None)
    assert recovered.previous == Previous(4, *digest_of(tmp_path / segment_name(4)))
    # Nobody sealed any of them.
    assert [(each.segment, each.records, each.last_seq) for each in recovered.unsealed] == [
        (1, 2, 2),
        (3, 1, 3),
        (4, 2, 5),
    ]


def test_what_is_sealed_is_not_to_be_sealed_again(tmp_path):
    story(tmp_path)
    (last,) = recover(tmp_path, None).unsealed
    assert (last.segment, last.first_seq, last.last_seq, last.records) == (9, 9, 12, 4)
    assert (last.bytes, last.digest) == digest_of(tmp_path / LAST)
    vouch(tmp_path, [last])
    assert recover(tmp_path, None).unsealed == ()


@pytest.mark.parametrize(
    ("events", "stopped"), [([ev.ServerStopped()], True), ([ev.ServerStopped(), ev.LinkUp()], False)]
)
def test_an_orderly_end_is_told_from_a_crash(tmp_path, events, stopped):
    end = [Record(seq, 0, 0, "cellar", "boot", event) for seq, event in enumerate(events, start=2)]
    chained(tmp_path, named("a"), end)
    recovered = recover(tmp_path, None)
    assert (recovered.next_seq, recovered.server, recovered.stopped) == (2 + len(events), "cellar", stopped)


def test_a_replay_is_the_state_that_was_journaled(tmp_path):
    story(tmp_path)
    records = every_record(tmp_path)
    assert [record.event for record in records] == [event for events in STORY for event in events]
    state = replay(tmp_path)
    assert state == fold(records)
    assert state.subscription("b1.2", "tv").options == {"version": 2}
    assert state.sessions["b1.2"].persistent
    assert state.services.keys() == {"door", "gate"}


@pytest.mark.parametrize("kept", [{LAST}, {MIDDLE}, {MIDDLE, LAST}, {FIRST}, {FIRST, MIDDLE}])
def test_every_segment_can_be_replayed_without_those_before_it(tmp_path, kept):
    story(tmp_path, vouched=False)
    records = every_record(tmp_path)
    for name in {FIRST, MIDDLE, LAST} - kept:
        tmp_path.joinpath(name).unlink()
    count = 4 * {FIRST: 1, MIDDLE: 2, LAST: 3}[max(kept)]
    assert replay(tmp_path) == fold(records[:count])
    assert recover(tmp_path, None).next_seq == count + 1


def test_closed_segments_may_be_compressed(tmp_path):
    story(tmp_path, sealed_records=4)
    expected = recover(tmp_path, None)
    state = replay(tmp_path)
    for path in list_segments(tmp_path):
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert recover(tmp_path, None) == expected
    assert replay(tmp_path) == state


# A torn tail.

TAILS = {
    "cut": lambda rest: b"",
    "zeros": lambda rest: bytes(len(rest)),
    "garbage": lambda rest: b"\xff{\0garbage" * 7,
    "longer": lambda rest: b"x" * 70_000,
}


@pytest.fixture
def cuttable(tmp_path, request):
    """A journal that ends with a segment of some records, and the state behind each number of them."""
    story(tmp_path)
    boot = writer(tmp_path, boot="b4")
    for number in range(request.param):
        boot.commit([make_entry([stamp(ev.ServiceRegistered(session="b1.2", service=f"s{number}"))])])
    boot.close()
    records = every_record(tmp_path)
    # One segment before it is enough, and quicker.
    tmp_path.joinpath(FIRST).unlink()
    tmp_path.joinpath(MIDDLE).unlink()
    return tmp_path, [fold(records[: 12 + count]) for count in range(request.param + 1)]


@pytest.mark.parametrize(
    ("cuttable", "tail"),
    [(1, "cut"), (1, "zeros"), (1, "garbage"), (1, "longer"), (3, "cut"), (3, "zeros")],
    indirect=["cuttable"],
)
def test_after_any_cut_only_whole_records_are_replayed(cuttable, disk, tail):
    """Cut within the records of the last segment; header and snapshot are always whole."""
    directory, states = cuttable
    path = directory / segment_name(13)
    before = contents(directory).keys()
    data = path.read_bytes()
    beginning = sum(map(len, lines_of(path)[: 1 - len(states)]))
    for size in sample(range(beginning, len(data) + 1)):
        rest = TAILS[tail](data[size:])
        path.write_bytes(data[:size] + rest)
        whole = data[beginning:size].count(b"\n")
        unfinished = data[:size].rpartition(b"\n")[2]
        found = RegistryFold()
        recovered = recover(directory, found, disk)
        assert found.state == states[whole]
        assert (recovered.next_seq, recovered.torn_bytes) == (13 + whole, len(unfinished + rest))
        assert not recovered.stopped
        aside = path.with_name(path.name + ".torn")
        assert (aside.read_bytes() if aside.exists() else b"") == unfinished + rest
        # Without records there is nothing to keep of it.
        assert contents(directory).get(path.name) == (data[: size - len(unfinished)] if whole else None)
        go_on(directory, recovered, found, disk)
        assert replay(directory).services.keys() == {*states[whole].services, "next"}
        for name in contents(directory).keys() - before:
            directory.joinpath(name).unlink()


def go_on(directory, recovered, found, disk):
    """Write on where a journal was recovered, and see that it is whole."""
    boot = writer(directory, recovered=recovered, fold=found, boot="next", files=disk)
    boot.commit([make_entry([stamp(ev.ServiceRegistered(session="b1.2", service="next"))])])
    boot.close()
    numbers = [record.seq for record in every_record(directory)]
    assert numbers == list(range(numbers[0], recovered.next_seq + 1))
    assert recover(directory, None, disk).next_seq == recovered.next_seq + 1


def test_a_batch_that_was_cut_off_keeps_its_whole_records(tmp_path):
    story(tmp_path)
    boot = writer(tmp_path)
    boot.commit([fact("a")])
    boot.commit([fact("b"), fact("c"), fact("d")])
    boot.close()
    path = tmp_path / segment_name(13)
    path.write_bytes(path.read_bytes()[:-1])
    assert recover(tmp_path, None).next_seq == 16
    assert actors(tmp_path)[-3:] == ["a", "b", "c"]


def test_a_tail_that_is_torn_again_and_again(tmp_path):
    story(tmp_path)
    for number in range(13, 16):
        boot = writer(tmp_path)
        boot.commit([fact(f"n{number}")])
        boot.close()
        with (tmp_path / segment_name(number)).open("ab") as file:
            file.write(b'{"v":4')
    assert recover(tmp_path, None).torn_bytes == 6
    assert actors(tmp_path)[12:] == ["n13", "n14", "n15"]
    assert len(list(tmp_path.glob("*.torn"))) == 3


def test_the_sealed_beginning_of_a_segment_may_have_a_torn_tail(tmp_path):
    story(tmp_path, sealed_records=2)
    path = tmp_path / LAST
    path.write_bytes(path.read_bytes()[:-1])
    recovered = recover(tmp_path, None)
    assert recovered.next_seq == 12
    assert [each.last_seq for each in recovered.unsealed] == [11]


# What else a crash leaves behind.


def test_what_was_being_made_is_removed(tmp_path):
    story(tmp_path)
    before = contents(tmp_path)
    for name in (segment_name(13) + ".new", FIRST + ".gz.new"):
        tmp_path.joinpath(name).write_bytes(b'{"v":4,"pre')
    recover(tmp_path, None)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("copy", [b"", b"\x1f\x8b\x08", None])
def test_a_compression_that_was_interrupted_is_taken_back(tmp_path, copy):
    story(tmp_path, sealed_records=4)
    before = contents(tmp_path)
    for name in (FIRST, LAST):
        whole = gzip.compress(before[name])
        tmp_path.joinpath(name + ".gz").write_bytes(whole if copy is None else copy)
    recover(tmp_path, None)
    assert contents(tmp_path) == before


def test_a_manifest_may_end_in_a_line_that_was_never_finished(tmp_path):
    story(tmp_path, sealed_records=4)
    with (tmp_path / MANIFEST_NAME).open("ab") as file:
        file.write(b'{"v":2,"prev":"')
    assert recover(tmp_path, None).next_seq == 13


def empty_segment(directory, recovered):
    """What a crash leaves between the beginning of a segment and its first record."""
    found = RegistryFold()
    recover(directory, found)
    boot = writer(directory, recovered=recovered, fold=found, boot="crashed")
    boot.commit([make_entry([])])
    boot.close()
    return list_segments(directory)[-1]


def test_an_empty_segment_is_removed_and_its_number_used(tmp_path, disk):
    story(tmp_path)
    whole = recover(tmp_path, None)
    state = replay(tmp_path)
    for torn in (b"", b"", b'{"v":4'):
        path = empty_segment(tmp_path, recover(tmp_path, None))
        assert path.name == segment_name(13)
        with path.open("ab") as file:
            file.write(torn)
        found = RegistryFold()
        recovered = recover(tmp_path, found)
        assert not path.exists()
        assert found.state == state
        assert recovered.torn_bytes == len(torn)
        assert (recovered.next_seq, recovered.hash, recovered.previous) == (13, whole.hash, whole.previous)
        assert (recovered.server, recovered.stopped, recovered.salvaged) == ("server", False, None)
        assert recovered.unsealed == whole.unsealed
    go_on(tmp_path, recovered, found, disk)


def test_an_empty_segment_that_a_salvage_began_is_begun_again(tmp_path):
    story(tmp_path)
    damage = Damage(segment=5, line=3, seq=5, reason="it was cut")
    salvaged = Recovered(next_seq=20, previous=recover(tmp_path, None).previous, salvaged=damage)
    path = empty_segment(tmp_path, salvaged)
    assert read_header(path).salvaged == damage
    found = RegistryFold()
    recovered = recover(tmp_path, found)
    assert not path.exists()
    assert (recovered.next_seq, recovered.hash, recovered.previous) == (20, START, salvaged.previous)
    assert recovered.salvaged == damage
    boot = writer(tmp_path, recovered=recovered, fold=found)
    boot.commit([fact("a")])
    boot.close()
    assert read_header(tmp_path / segment_name(20)).salvaged == damage
    assert recover(tmp_path, None).next_seq == 21


@pytest.mark.parametrize("junk", [b'{"v":4', b"\0" * 100, b"whole\nlines\n", "records"])
def test_what_a_failing_disk_did_not_let_go_of_is_set_aside(tmp_path, junk):
    """The next segment was begun, and says how far the one before it goes."""
    records = named("a", "b", "c")
    lines = chained(tmp_path, records[:2], records[2:])
    path = tmp_path / FIRST
    good = path.read_bytes()
    junk = lines[0][-1] if junk == "records" else junk
    path.write_bytes(good + junk)
    recovered = recover(tmp_path, None)
    assert contents(tmp_path)[FIRST] == good
    assert contents(tmp_path)[FIRST + ".torn"] == junk
    assert [each.last_seq for each in recovered.unsealed] == [2, 3]
    assert actors(tmp_path) == ["a", "b", "c"]


# What cannot be read or written. Root may read and write everything, so other things stand in the way here.


def broken(directory, said):
    with pytest.raises(JournalError, match=said) as caught:
        recover(directory, RegistryFold())
    assert not isinstance(caught.value, Damaged)


def test_a_file_where_the_directory_should_be(tmp_path):
    path = tmp_path / "journal"
    path.touch()
    broken(path, rf"^cannot read the journal directory {path}: Not a directory$")
    with pytest.raises(JournalError, match=rf"^cannot write the journal directory {path}: File exists$"):
        JournalLock(path)
    with pytest.raises(JournalError, match=rf"^cannot write the journal directory {path / 'below'}: Not a directory$"):
        JournalLock(path / "below")


def test_a_segment_that_cannot_be_read(tmp_path):
    tmp_path.joinpath(FIRST).mkdir()
    broken(tmp_path, rf"^cannot read .*{FIRST}: Is a directory$")


def test_a_torn_tail_that_cannot_be_set_aside(tmp_path):
    story(tmp_path)
    path = tmp_path / LAST
    data = path.read_bytes() + b"torn"
    path.write_bytes(data)
    path.with_name(path.name + ".torn").mkdir()
    broken(tmp_path, rf"{path.name}.torn")
    assert path.read_bytes() == data


@pytest.mark.parametrize("call", ["create", "write", "sync", "sync_directory", "reopen", "truncate"])
def test_a_torn_tail_on_a_disk_that_fails_is_set_aside_later(tmp_path, disk, call):
    story(tmp_path)
    path = tmp_path / LAST
    good = path.read_bytes()
    path.write_bytes(good + b"torn")
    disk.failing = {call}
    with pytest.raises(JournalError, match=rf"cannot read the journal directory {tmp_path}: .*Input/output error"):
        recover(tmp_path, None, disk)
    assert path.read_bytes() == good + b"torn"
    disk.failing = set()
    assert recover(tmp_path, None, disk).torn_bytes == 4
    assert path.read_bytes() == good
    assert path.with_name(path.name + ".torn").read_bytes() == b"torn"


# The lock.


def test_one_directory_has_one_server(tmp_path):
    directory = tmp_path / "var" / "journal"
    lock = JournalLock(directory)
    with pytest.raises(JournalError, match=rf"^another server is using the journal directory {directory}$"):
        JournalLock(directory)
    lock.release()
    JournalLock(directory).release()


def test_a_directory_that_cannot_be_locked(tmp_path, monkeypatch):
    def no_locks(descriptor, operation):
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.raises(JournalError, match=rf"^cannot lock the journal directory {tmp_path}: No locks available$"):
        JournalLock(tmp_path)


def test_the_lock_is_no_segment(tmp_path):
    lock = JournalLock(tmp_path)
    assert recover(tmp_path, None) == Recovered()
    lock.release()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_directories_that_are_made_are_durable(tmp_path, disk, monkeypatch):
    synced = []
    monkeypatch.setattr(disk, "sync_directory", synced.append)
    JournalLock(tmp_path / "a" / "b", disk).release()
    assert set(synced) == {tmp_path, tmp_path / "a"}
    JournalLock(tmp_path / "a" / "b", disk).release()
    assert len(synced) == 2


def test_a_lock_on_a_directory_that_was_removed_is_taken_again(tmp_path):
    directory = tmp_path / "journal"
    lock = JournalLock(directory)
    assert not lock.renew()
    shutil.rmtree(directory)
    assert lock.renew()
    shutil.rmtree(directory)
    directory.mkdir()
    assert not lock.renew()
    with pytest.raises(JournalError, match="another server"):
        JournalLock(directory)
    lock.release()
    JournalLock(directory).release()


def test_another_server_may_take_a_directory_that_was_made_again(tmp_path):
    directory = tmp_path / "journal"
    lock = JournalLock(directory)
    shutil.rmtree(directory)
    other = JournalLock(directory)
    with pytest.raises(JournalError, match="another server"):
        lock.renew()
    other.release()
    lock.renew()
    lock.release()
