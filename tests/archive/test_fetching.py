"""What comes back from a store: what was shipped, whatever happens meanwhile, or a sentence."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from bussrv import events as ev
from bussrv.archive.fetching import at_hand, fetch, staging
from bussrv.archive.places import LocalPlace
from bussrv.archive.store import Store
from bussrv.errors import JournalError
from bussrv.journal.batch import Rotation, make_entry
from bussrv.journal.files import Files
from bussrv.journal.keys import generate, read_private
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.moments import END, Moment
from bussrv.journal.segment import list_segments
from bussrv.journal.shipped import SHIPPED_NAME
from bussrv.journal.upkeep import UpkeepPolicy
from bussrv.journal.verify import verify
from bussrv.registry.state.history import snapshots_by_server
from bussrv.synth.journal import write_journal
from tests.archive.stores import EACH, Dying, Hooked, Killed, Unsynced, shipper, written
from tests.journal.kept import Kept, segments
from tests.journal.support import contents, every_record, stamp

DAY = 86_400


def store_of(place):
    return Store("file:///there", place, pause=lambda seconds: None)


@pytest.fixture
def here(tmp_path):
    return tmp_path / "here"


@pytest.fixture
def place(tmp_path):
    return Hooked(tmp_path / "there")


@pytest.fixture
def target(tmp_path):
    return tmp_path / "target"


def test_a_server_goes_on_with_what_was_fetched(here, place, target):
    kept = written(here, *"abc", policy=UpkeepPolicy(compress=True))
    kept.end()
    shipper(here, place).look()
    assert fetch(store_of(place), target).faults == []
    assert not (target / SHIPPED_NAME).exists()
    assert {name: content for name, content in contents(here).items() if name in contents(target)} == contents(target)
    again = Kept(target, clock=kept.clock, rotation=EACH)
    again.write("d")
    again.end()
    assert verify(target, to_the_end=True).faults == []
    # What goes on there can be shipped to the same place.
    assert shipper(target, place).look().segments == 0
    assert segments(place.directory) == segments(target)


def test_what_retention_removed_is_fetched_only_when_asked_for(here, place, target, tmp_path):
    kept = written(here, *"abc", policy=UpkeepPolicy(retain_age=1.5 * DAY, retain_shipped=True))
    shipper(here, place).look()
    kept.clock.advance(DAY)
    kept.write("d")
    for _ in range(3):
        kept.idle(DAY)
    kept.end()
    shipper(here, place).look()
    removed = {1, 2, 3} - {*segments(here)}
    assert removed
    assert fetch(store_of(place), target).faults == []
    assert removed.isdisjoint(segments(target))
    whole = tmp_path / "whole"
    assert fetch(store_of(place), whole, everything=True).faults == []
    assert removed <= {*segments(whole)}
    assert next(each.seq for each in every_record(whole)) == 1


def test_a_kill_anywhere_is_gone_on_from(here, place, target):
    written(here, *"abc").end()
    shipper(here, place).look()
    for at in range(1000):
        shutil.rmtree(target, ignore_errors=True)
        try:
            fetch(store_of(place), target, files=Dying(at))
        except Killed:
            assert not (target / MANIFEST_NAME).exists() or verify(target).faults == []
        else:
            break
        if not (target / MANIFEST_NAME).exists():
            assert fetch(store_of(place), target, files=Unsynced()).faults == []
        assert contents(target).keys() == contents(place.directory).keys()
        assert not staging(target).exists()
    assert at > 5
    # What is whole is not fetched again.
    staging(target).mkdir()
    for name, content in contents(place.directory).items():
        (staging(target) / name).write_bytes(content if "2.jsonl" in name else content[:50])
    (staging(target) / f"{9:020d}.jsonl").write_bytes(b"of another journal")
    shutil.rmtree(target)
    place.calls.clear()
    assert fetch(store_of(place), target, files=Unsynced()).faults == []
    assert f"{2:020d}.jsonl" not in [name for _, name in place.calls]
    assert segments(target) == segments(here)


class Full(Files):
    """A disk that is full after so many bytes."""

    def __init__(self, left):
        self.left = left

    def write(self, descriptor, data):
        self.left -= len(data)
        if self.left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(descriptor, data)


@pytest.mark.parametrize("left", [100, 2500])
def test_a_full_disk_is_one_sentence(here, place, target, left):
    written(here, *"abc").end()
    shipper(here, place).look()
    with pytest.raises(JournalError, match=r"cannot write .*target\.fetching/\w+(\.jsonl)?: No space left on device"):
        fetch(store_of(place), target, files=Full(left))
    assert not target.exists()
    assert fetch(store_of(place), target).faults == []


def damaged(place, name, change):
    path = place.directory / name
    path.chmod(0o600)
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (f"{2:020d}.jsonl", lambda content: content[:-10], "is not what the seal of segment 2 says"),
        (f"{2:020d}.jsonl", lambda content: content.replace(b'"b"', b'"x"'), "is not what the seal of segment 2 says"),
        (f"{2:020d}.jsonl", lambda content: b"", "is not what the seal of segment 2 says"),
        (
            MANIFEST_NAME,
            lambda content: content.replace(b'"closed":true', b'"closed":null', 1),
            r"manifest, line \d+: ",
        ),
    ],
)
def test_what_was_damaged_there_is_named(here, place, target, name, change, said):
    written(here, *"abc").end()
    shipper(here, place).look()
    damaged(place, name, change)
    with pytest.raises(JournalError, match=f"file:///there/.*{said}"):
        fetch(store_of(place), target)
    assert not target.exists()


def test_what_is_missing_there_is_a_fault(here, place, target):
    written(here, *"abc").end()
    shipper(here, place).look()
    (place.directory / f"{2:020d}.jsonl").unlink()
    assert {each.code for each in fetch(store_of(place), target).faults} >= {"segment-missing"}
    assert staging(target).exists()
    assert not target.exists()


def test_what_is_being_shipped_is_no_fault(here, place, target, tmp_path):
    """At any moment of a look, and if one takes place while a journal is fetched."""
    kept = written(here, *(letter * 5000 for letter in "abc"))
    moments = []

    def during(verb, name):
        at = tmp_path / f"moment-{len(moments)}"
        if (place.directory / MANIFEST_NAME).exists():
            moments.append(at)
            assert fetch(Store("file:///there", LocalPlace(place.directory)), at, files=Unsynced()).faults == []

    place.before = during
    shipper(here, place).look()
    assert {len(segments(each)) for each in moments} >= {1, 2}
    place.before = lambda verb, name: None
    kept.write("d")
    kept.idle(1)
    shipped = []

    def ship(verb, name):
        if verb == "open" and not shipped:
            shipped.append(name)
            shipper(here, Hooked(place.directory)).look()

    place.before = ship
    assert fetch(store_of(place), target).faults == []
    assert segments(target) == [1, 2, 3, 4]
    # More than one without seals is a fault.
    place.before = lambda verb, name: None
    lines = (here / MANIFEST_NAME).read_bytes().splitlines(keepends=True)
    (place.directory / MANIFEST_NAME).write_bytes(b"".join(lines[:2]))
    assert {each.code for each in fetch(store_of(place), tmp_path / "cut").faults} >= {"broken-seal"}


def test_only_a_journal_of_the_trusted_key_is_fetched(here, place, target, tmp_path):
    mine, other = (generate(tmp_path / name) for name in ("mine", "other"))
    written(here, *"ab", key=read_private(tmp_path / "mine")).end()
    shipper(here, place).look()
    with pytest.raises(JournalError, match="no entry is signed with the trusted key"):
        fetch(store_of(place), target, other)
    report = fetch(store_of(place), target, mine)
    assert (report.faults, report.is_trusted) == ([], True)


def test_a_store_without_a_journal_and_a_directory_with_one(here, place, target):
    with pytest.raises(JournalError, match="file:///there holds no journal"):
        fetch(store_of(place), target)
    written(here, *"ab").end()
    shipper(here, place).look()
    for each in (here, Path()):
        with pytest.raises(JournalError, match="is there already: name a directory that is not"):
            fetch(store_of(place), each)


def test_a_store_that_breaks_off_is_tried_again(here, place, target, monkeypatch):
    written(here, *"ab").end()
    shipper(here, place).look()
    failed = []

    class Breaking:
        def __init__(self, file):
            self._file = file

        def read(self, size):
            failed.append(size)
            if len(failed) == 1:
                raise TimeoutError("the store is slow")
            return self._file.read(size)

        def close(self):
            self._file.close()

    real = place.open
    place.open = lambda name: Breaking(real(name))
    assert fetch(store_of(place), target).faults == []

    class Endless(Breaking):
        def read(self, size):
            return b"\n" * size

    place.open = lambda name: Endless(real(name))
    monkeypatch.setattr("bussrv.archive.fetching.bounds.MANIFEST", 1 << 20)
    with pytest.raises(JournalError, match="manifest at the store has more than"):
        fetch(store_of(place), target.with_name("other"))


def test_a_record_may_be_older_than_its_segment(here, place):
    """It waited to be written: the time between is in the segment before."""
    here.mkdir()
    kept = Kept(here, rotation=EACH)
    times = []
    for name in "abcd":
        times.append(kept.clock.utc())
        entry = make_entry([stamp(ev.AuthSucceeded(actor=name), kept.clock)])
        kept.clock.advance(2)
        kept.writer.commit([entry])
        kept.idle(1)
    kept.end()
    shipper(here, place).look()
    for moment in (Moment(time=time + 1_000_000 * add) for time in times for add in (0, 1, 2, 3)):
        with at_hand([place.directory.as_uri()], [moment]) as found:
            assert snapshots_by_server(found, [moment]) == snapshots_by_server([here], [moment]), moment


@pytest.mark.dear
def test_the_past_is_the_same_there_as_here(tmp_path):
    """Of every record and every time, from as few segments as it takes."""
    here, place = tmp_path / "hall", Hooked(tmp_path / "there")
    write_journal(here, events=4000, rotation=Rotation(bytes=20_000))
    shipper(here, place).look()
    url = place.directory.as_uri()
    records = every_record(here)
    numbers = [Moment(seq=each.seq) for each in records[:: len(records) // 15]]
    times = [Moment(time=each.time + add) for each in records[:: len(records) // 15] for add in (-1, 0, 1)]
    assert len(list_segments(here)) > 5
    for each in (END, *numbers, *times, Moment(time=0)):
        with at_hand([url], [each]) as found:
            assert snapshots_by_server(found, [each]) == snapshots_by_server([here], [each]), each
            assert len(list_segments(found[0])) <= 4
    pair = [times[3], times[20]]
    with at_hand([url], pair) as found:
        assert snapshots_by_server(found, pair) == snapshots_by_server([here], pair)
    last = records[-1].seq
    with pytest.raises(JournalError, match=f"journal {url} ends with record {last}"), at_hand([url], [END]) as found:
        snapshots_by_server(found, [Moment(seq=last + 1)])
