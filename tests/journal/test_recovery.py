"""Opening a journal directory: the lock, the replay, and whatever a crash or a careless hand left there."""

import shutil

import pytest

from bussrv import events as ev
from bussrv.errors import JournalError
from bussrv.journal.record import Record, encode
from bussrv.journal.recovery import JournalLock, Recovered, recover
from bussrv.journal.segment import list_segments, segment_name
from bussrv.journal.writer import make_entry
from tests.journal.support import actors, every_record, fact, fold, note, replay, stamp, writer


def write(directory, *segments, last_event=None):
    """A journal with a record for each name, in the segments given; its lines, by segment."""
    directory.mkdir(exist_ok=True)
    lines, seq = [], 0
    for names in segments:
        lines.append([])
        path = directory / segment_name(seq + 1)
        for name in names:
            seq += 1
            lines[-1].append(encode(Record(seq, seq * 10, seq, "hall", "boot", note(name).event)))
        path.write_bytes(b"".join(lines[-1]))
    return lines


def recovered_actors(directory):
    found = []
    recover(directory, lambda event, time: found.append(event.actor))
    return found


# What is replayed.


def test_an_empty_directory_is_a_new_journal(tmp_path):
    assert recover(tmp_path, lambda event, time: pytest.fail("nothing is there")) == Recovered(0, None, True, 0)


def test_every_record_is_replayed_in_order_with_its_time(tmp_path):
    write(tmp_path, ["a", "b"], ["c"], ["d", "e"])
    seen = []
    recovered = recover(tmp_path, lambda event, time: seen.append((event.actor, time)))
    assert seen == [("a", 10), ("b", 20), ("c", 30), ("d", 40), ("e", 50)]
    assert recovered == Recovered(last_seq=5, server="hall", stopped=False, torn_bytes=0)


@pytest.mark.parametrize(
    ("events", "stopped"), [([ev.ServerStopped()], True), ([ev.ServerStopped(), ev.LinkUp()], False)]
)
def test_an_orderly_end_is_told_from_a_crash(tmp_path, events, stopped):
    write(tmp_path, ["a"])
    lines = [encode(Record(seq, 0, 0, "cellar", "boot", event)) for seq, event in enumerate(events, start=2)]
    tmp_path.joinpath(segment_name(2)).write_bytes(b"".join(lines))
    assert recover(tmp_path, lambda event, time: None) == Recovered(1 + len(events), "cellar", stopped, 0)


def test_a_replay_is_the_state_that_was_journaled(tmp_path):
    events = [
        ev.SessionOpened(session="s", routing_id="r", protocol="inbus", peer="p", persistent=True),
        ev.SubscriptionAdded(session="s", service="tv", options={"version": 2}),
        ev.ServiceRegistered(session="s", service="radio"),
        ev.SubscriptionRenewed(session="s", service="tv"),
    ]
    for number, event in enumerate(events):
        boot = writer(tmp_path, last_seq=number)
        boot.commit([make_entry([stamp(event)])])
        boot.close()
    state = replay(tmp_path)
    assert state == fold(every_record(tmp_path))
    assert state.subscription("s", "tv").options == {"version": 2}
    assert state.sessions["s"].persistent


# A torn tail.


def test_cut_off_at_any_byte_whole_records_are_replayed_and_the_rest_is_set_aside(tmp_path, disk):
    """The segment is cut within its last three records; being its only ones, down to an empty file."""
    lines = write(tmp_path / "journal", ["a", "b"], ["c", "d", "e"])[-1]
    last = list_segments(tmp_path / "journal")[-1]
    data = b"".join(lines)
    assert last.read_bytes() == data
    for size in range(len(data) + 1):
        directory = tmp_path / "cut"
        shutil.copytree(tmp_path / "journal", directory)
        path = directory / last.name
        path.write_bytes(data[:size])
        whole = data[:size].count(b"\n")
        torn = data[:size].rpartition(b"\n")[2]
        seen = []
        recovered = recover(directory, lambda event, time, seen=seen: seen.append(event.actor))
        assert seen == ["a", "b", "c", "d", "e"][: 2 + whole]
        assert recovered == Recovered(2 + whole, "hall", False, len(torn))
        assert path.read_bytes() == b"".join(lines[:whole])
        aside = directory / (last.name + ".torn")
        assert (aside.read_bytes() if aside.exists() else b"") == torn
        # It goes on from there, and opens again.
        boot = writer(directory, last_seq=recovered.last_seq)
        boot.commit([fact("next")])
        boot.close()
        assert recovered_actors(directory) == [*seen, "next"]
        shutil.rmtree(directory)


def test_a_crash_again_and_again_before_the_first_record_is_whole(tmp_path):
    for _ in range(3):
        assert recover(tmp_path, lambda event, time: None).last_seq == 0
        tmp_path.joinpath(segment_name(1)).write_bytes(b'{"v":1,"seq":1')
    assert recover(tmp_path, lambda event, time: None) == Recovered(torn_bytes=14)
    boot = writer(tmp_path)
    boot.commit([fact("first")])
    assert actors(tmp_path) == ["first"]


def test_an_unfinished_line_in_the_middle_that_lost_nothing_is_passed_over(tmp_path):
    """So it looks when a failing disk could not even be cut back."""
    lines = write(tmp_path, ["a", "b"], ["c"])
    tmp_path.joinpath(segment_name(1)).write_bytes(b"".join(lines[0]) + lines[1][0][:20])
    assert recovered_actors(tmp_path) == ["a", "b", "c"]


# Damage.


def broken(directory, said):
    with pytest.raises(JournalError, match=said) as caught:
        recover(directory, lambda event, time: None)
    return str(caught.value)


def test_a_damaged_record_is_named_by_segment_and_line(tmp_path):
    lines = write(tmp_path, ["a", "b", "c"], ["d"])
    path = tmp_path / segment_name(1)
    path.write_bytes(lines[0][0] + lines[0][1].replace(b'"event"', b'"evant"') + lines[0][2])
    broken(tmp_path, rf"{path}, line 2: not a journal record")


def test_damage_in_the_last_record_is_no_torn_tail(tmp_path):
    lines = write(tmp_path, ["a", "b"])
    path = tmp_path / segment_name(1)
    path.write_bytes(lines[0][0] + lines[0][1][10:])
    broken(tmp_path, rf"{path}, line 2: ")
    assert path.read_bytes() == lines[0][0] + lines[0][1][10:]


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ([0, 2], "record 2 should stand where record 3 stands"),
        ([0, 0, 1, 2], "record 2 should stand where record 1 stands"),
        ([0, 2, 1], "record 2 should stand where record 3 stands"),
        ([1, 2], "record 1 should stand where record 2 stands"),
    ],
)
def test_records_that_are_missing_repeated_or_out_of_order(tmp_path, order, said):
    lines = write(tmp_path, ["a", "b", "c"])[0]
    path = tmp_path / segment_name(1)
    path.write_bytes(b"".join(lines[number] for number in order))
    broken(tmp_path, f"{path}: {said}")


def test_a_segment_that_is_missing_in_the_middle(tmp_path):
    write(tmp_path, ["a", "b"], ["c"], ["d"])
    tmp_path.joinpath(segment_name(3)).unlink()
    broken(tmp_path, f"{tmp_path / segment_name(4)}: record 3 should stand where record 4 stands")


def test_a_segment_that_ends_too_early_in_the_middle(tmp_path):
    lines = write(tmp_path, ["a", "b"], ["c"])
    tmp_path.joinpath(segment_name(1)).write_bytes(lines[0][0] + lines[0][1][:-1])
    broken(tmp_path, f"{tmp_path / segment_name(3)}: record 2 should stand where record 3 stands")


def test_the_oldest_segments_may_have_been_moved_away(tmp_path):
    write(tmp_path, ["a", "b"], ["c"], ["d"])
    tmp_path.joinpath(segment_name(1)).unlink()
    assert recovered_actors(tmp_path) == ["c", "d"]


def test_a_first_segment_that_does_not_begin_as_its_name_says(tmp_path):
    write(tmp_path, ["a", "b"])
    tmp_path.joinpath(segment_name(1)).rename(tmp_path / segment_name(2))
    broken(tmp_path, "record 2 should stand where record 1 stands")


def test_nothing_is_changed_in_a_journal_that_is_damaged(tmp_path):
    lines = write(tmp_path, ["a", "b", "c"])[0]
    data = lines[0] + lines[2]
    tmp_path.joinpath(segment_name(1)).write_bytes(data)
    broken(tmp_path, "record 2")
    assert tmp_path.joinpath(segment_name(1)).read_bytes() == data


# What cannot be read or written. Root may read and write everything, so other things stand in the way here.


def test_a_file_where_the_directory_should_be(tmp_path):
    path = tmp_path / "journal"
    path.touch()
    broken(path, rf"^cannot read the journal directory {path}: Not a directory$")
    with pytest.raises(JournalError, match=rf"^cannot write the journal directory {path}: File exists$"):
        JournalLock(path)
    with pytest.raises(JournalError, match=rf"^cannot write the journal directory {path / 'below'}: Not a directory$"):
        JournalLock(path / "below")


def test_a_segment_that_cannot_be_read(tmp_path):
    tmp_path.joinpath(segment_name(1)).mkdir()
    broken(tmp_path, rf"^cannot read the journal directory {tmp_path}: .*{segment_name(1)}")


def test_a_torn_tail_that_cannot_be_set_aside(tmp_path):
    lines = write(tmp_path, ["a", "b"])[0]
    path = tmp_path / segment_name(1)
    path.write_bytes(lines[0] + b"torn")
    path.with_name(path.name + ".torn").mkdir()
    broken(tmp_path, rf"{path.name}.torn")
    assert path.read_bytes() == lines[0] + b"torn"


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
    assert recover(tmp_path, lambda event, time: None) == Recovered()
    lock.release()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_directories_that_are_made_are_durable(tmp_path, disk, monkeypatch):
    synced = []
    monkeypatch.setattr("bussrv.journal.recovery.sync_directory", synced.append)
    JournalLock(tmp_path / "a" / "b").release()
    assert set(synced) == {tmp_path, tmp_path / "a"}
    JournalLock(tmp_path / "a" / "b").release()
    assert len(synced) == 2
