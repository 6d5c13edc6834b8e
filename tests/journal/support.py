"""For the tests of the journal and the registry: a clock, a disk and a reactor that do as they are told."""

import errno
import os
import queue
import threading
from collections import Counter
from pathlib import Path

from msgspec.structs import replace
from twisted.internet.interfaces import IReactorFromThreads
from zope.interface import implementer

from bussrv import events as ev
from bussrv.journal.batch import BatchWriter, make_entry
from bussrv.journal.chain import START, line_hash
from bussrv.journal.digests import digests_of
from bussrv.journal.files import Files
from bussrv.journal.header import Header
from bussrv.journal.manifest import MANIFEST_NAME, Seal
from bussrv.journal.manifest_file import ManifestFile, read_manifest
from bussrv.journal.reading import read_journal
from bussrv.journal.record import Stamped, encode
from bussrv.journal.recovery import recover
from bussrv.journal.segment import SegmentFile, list_segments
from bussrv.registry.state.fold import RegistryFold
from bussrv.registry.state.state import RegistryState

PATIENCE = 20.0
"""How many seconds a test waits for the writer thread before it fails."""


class FakeClock:
    """Stands still until it is told otherwise; in microseconds."""

    def __init__(self, utc=1_800_000_000_000_000, mono=0):
        self.now_utc = utc
        self.now_mono = mono

    def utc(self):
        return self.now_utc

    def mono(self):
        return self.now_mono

    def advance(self, seconds):
        self.now_utc += int(seconds * 1_000_000)
        self.now_mono += int(seconds * 1_000_000)


@implementer(IReactorFromThreads)
class FakeReactor:
    """Runs what threads ask for in the thread of the test, and only while the test waits for something. Its turns are
    over at once."""

    def __init__(self):
        self._calls = queue.SimpleQueue()
        self.thread = threading.current_thread()

    def callFromThread(self, function, *args, **kwargs):
        self._calls.put((function, args, kwargs))

    def seconds(self):
        return 0.0

    def callLater(self, delay, function):
        assert delay == 0
        function()

    def run_one(self):
        """Wait for one call and run it."""
        function, args, kwargs = self._calls.get(timeout=PATIENCE)
        assert threading.current_thread() is self.thread
        function(*args, **kwargs)

    def run_until(self, condition):
        while not condition():
            self.run_one()

    def wait(self, deferred):
        """The result of a Deferred, or its failure raised."""
        results = []
        deferred.addBoth(results.append)
        self.run_until(lambda: results)
        if hasattr(results[0], "raiseException"):
            results[0].raiseException()
        return results[0]


class Disk(Files):
    """Files that are counted, and that fail or halt when they are told to.

    :ivar failing: the names of the methods of which every call fails.
    :ivar calls: how often each method was called, by name.
    """

    def __init__(self):
        self.failing = set()
        self.errno = errno.EIO
        self.calls = Counter()
        self.in_sync = threading.Event()
        self._may_sync = threading.Event()
        self._may_sync.set()
        self._fail_at = frozenset()

    def halt(self):
        """From now on a sync does not return, until :meth:`go_on`."""
        self.in_sync.clear()
        self._may_sync.clear()

    def go_on(self):
        self._may_sync.set()

    def fail_at(self, numbers):
        """Fail the calls of these numbers, counted over all methods from now on; the first is 0."""
        self._fail_at = frozenset(self.calls.total() + number for number in numbers)

    def create(self, path, *args):
        self._call("create")
        return super().create(path, *args)

    def open(self, path, *args):
        self._call("open")
        return super().open(path, *args)

    def reopen(self, path):
        self._call("reopen")
        return super().reopen(path)

    def write(self, descriptor, data):
        try:
            self._call("write")
        except OSError:
            # As a disk does that fills up: a part of it is there.
            super().write(descriptor, data[: len(data) // 2])
            raise
        super().write(descriptor, data)

    def sync(self, descriptor):
        self.in_sync.set()
        assert self._may_sync.wait(PATIENCE)
        self._call("sync")

    def truncate(self, descriptor, size):
        self._call("truncate")
        super().truncate(descriptor, size)

    def rename(self, path, target):
        self._call("rename")
        super().rename(path, target)

    def remove(self, path):
        self._call("remove")
        super().remove(path)

    def set_mode(self, path, mode):
        self._call("set_mode")
        super().set_mode(path, mode)

    def sync_directory(self, directory):
        self._call("sync_directory")

    def _call(self, name):
        number = self.calls.total()
        self.calls[name] += 1
        if name in self.failing or number in self._fail_at:
            raise OSError(self.errno, os.strerror(self.errno))


def stamp(event, clock=None):
    clock = clock or FakeClock()
    return Stamped(clock.utc(), clock.mono(), event)


def note(text):
    """A stamped event that can be told apart."""
    return stamp(ev.AuthSucceeded(actor=text))


def fact(text):
    return make_entry([note(text)])


def actors(directory: Path):
    """What :func:`note` wrote, and the names of other events, in the order of the journal."""
    return [record.event.actor or ev.event_name(record.event) for record in every_record(directory)]


def every_record(directory: Path):
    """The records of a journal whose lines are held against each other; none of a directory without segments."""
    return list(read_journal(directory)) if list_segments(directory) else []


def chained(directory: Path, *segments, server="hall", boot="boot"):
    """A journal of these segments, as a server writes it but for the manifest.

    :param segments: the records of each, of which ``prev`` is set here; headers bear the server and boot of the first.
    :returns: the lines of the records, by segment.
    """
    directory.mkdir(exist_ok=True)
    fold, last, previous, lines = RegistryFold(), START, None, []
    for records in segments:
        states = fold.states()
        first = records[0]
        header = Header(
            prev=last,
            segment=first.seq,
            parts=len(states),
            time=first.time,
            server=first.server,
            boot=first.boot,
            previous=previous,
        )
        file = SegmentFile(directory, header, states)
        last = file.good.hash
        lines.append([])
        for each in records:
            text = encode(replace(each, prev=last))
            last = line_hash(text)
            lines[-1].append(text)
            fold.apply(each.event, each.time)
        file.write(b"".join(lines[-1]), last, list(records))
        file.mark_good()
        file.close()
        previous = file.good.extent().as_previous()
    return lines


def writer(directory, *, recovered=None, fold=None, server="server", boot="boot", sync="always", clock=None, **options):
    """A writer that goes on where a journal ends, unless it is told where."""
    if recovered is None:
        fold = RegistryFold()
        recovered = recover(directory, fold)
    return BatchWriter(
        directory,
        server,
        boot,
        recovered=recovered,
        fold=RegistryFold() if fold is None else fold,
        sync=sync,
        clock=clock or FakeClock(),
        **options,
    )


def replay(directory):
    """The registry that a journal says, after checking that it can be opened."""
    fold = RegistryFold()
    recover(directory, fold)
    return fold.state


def fold(records):
    state = RegistryState()
    for record in records:
        state.apply(record.event, record.time)
    return state


def digest_of(path):
    """The size of a segment, and its digest."""
    found = digests_of(path)
    return found.size, found.digest


def contents(directory):
    """The files of a directory, by name."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def vouch(directory, extents, *, closed=True):
    """Seal segments in the manifest of a directory."""
    path = directory / MANIFEST_NAME
    seals = [
        Seal(
            time=FakeClock().utc(),
            server="server",
            segment=each.segment,
            closed=closed,
            bytes=each.bytes,
            digest=each.digest,
            records=each.records,
            first_seq=each.first_seq,
            last_seq=each.last_seq,
            first_time=each.first_time,
            last_time=each.last_time,
        )
        for each in extents
    ]
    ManifestFile(path, read_manifest(path), files=Disk()).append(seals)


def last_entry(directory):
    """The hash of the last line of the manifest of a directory."""
    manifest = read_manifest(directory / MANIFEST_NAME)
    return manifest.last_hash if manifest.entries else None


STORY = [
    [
        ev.SessionOpened(session="b1.1", routing_id="ann", protocol="objects", peer="10.0.0.1:1"),
        ev.ServiceRegistered(session="b1.1", service="tv"),
        ev.SessionOpened(session="b1.2", routing_id="bob", protocol="inbus", peer="10.0.0.2:2", persistent=True),
        ev.SubscriptionAdded(session="b1.2", service="tv", options={"version": 2}),
    ],
    [
        ev.ServiceRegistered(session="b1.2", service="radio"),
        ev.SessionOpened(session="b2.1", routing_id="cid", protocol="spp", peer="10.0.0.3:3"),
        ev.SessionIdentified(session="b2.1", routing_id="cid", routing_ids=("hall",), actor="cid@example"),
        ev.SessionClosed(session="b1.1", reason="client-closed", duration=5_000_000),
    ],
    [
        ev.ServiceRegistered(session="b2.1", service="door"),
        ev.SubscriptionAdded(session="b2.1", service="radio"),
        ev.ServiceUnregistered(session="b1.2", service="radio"),
        ev.ServiceRegistered(session="b1.2", service="gate"),
    ],
]
"""What happens in three boots: records 1 to 4, 5 to 8 and 9 to 12."""


def story(directory, *, sealed_records=None, vouched=True):
    """A journal of three segments: that of ``STORY``.

    :param vouched: whether there is a manifest in which the first two are sealed.
    :param sealed_records: how many records of the last one are sealed; all of them: as closed.
    """
    directory.mkdir(exist_ok=True)
    clock = FakeClock()
    for number, events in enumerate(STORY, start=1):
        boot = writer(directory, boot=f"b{number}", clock=clock, last_seal=lambda: last_entry(directory), files=Disk())
        for count, event in enumerate(events, start=1):
            clock.advance(1)
            boot.commit([make_entry([stamp(event, clock)])])
            if number == len(STORY) and count == sealed_records and count < len(events):
                vouch(directory, [boot.extent()], closed=False)
        boot.close()
        if vouched and (number < len(STORY) or sealed_records == len(events)):
            vouch(directory, boot.closed)


def lines_of(path):
    return path.read_bytes().splitlines(keepends=True)
