"""For the tests of the journal and the registry: a clock, a disk and a reactor that do as they are told."""

import errno
import os
import queue
import threading
from collections import Counter
from pathlib import Path

from twisted.internet.interfaces import IReactorFromThreads
from zope.interface import implementer

from bussrv import events as ev
from bussrv.journal import segment
from bussrv.journal.record import Stamped
from bussrv.journal.recovery import recover
from bussrv.journal.segment import list_segments, read_segment
from bussrv.journal.writer import BatchWriter, make_entry
from bussrv.registry.state import RegistryState

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
    """Runs what threads ask for in the thread of the test, and only while the test waits for something."""

    def __init__(self):
        self._calls = queue.SimpleQueue()
        self.thread = threading.current_thread()

    def callFromThread(self, function, *args, **kwargs):
        self._calls.put((function, args, kwargs))

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


class Disk:
    """Stands in for ``os`` in :mod:`bussrv.journal.segment`: counts, fails or halts what is done to the disk.

    :ivar failing: the names of which every call fails.
    :ivar calls: how often each name was called, by name.
    """

    def __init__(self, monkeypatch):
        self.failing = set()
        self.calls = Counter()
        self.in_sync = threading.Event()
        self._may_sync = threading.Event()
        self._may_sync.set()
        self._fail_at = frozenset()
        monkeypatch.setattr(segment, "os", self)

    def __getattr__(self, name):
        return getattr(os, name)

    def halt(self):
        """From now on a sync does not return, until :meth:`go_on`."""
        self.in_sync.clear()
        self._may_sync.clear()

    def go_on(self):
        self._may_sync.set()

    def fail_at(self, numbers):
        """Fail the calls of these numbers, counted over all names from now on; the first is 0."""
        self._fail_at = frozenset(self.calls.total() + number for number in numbers)

    def fdatasync(self, descriptor):
        self.in_sync.set()
        assert self._may_sync.wait(PATIENCE)
        self._call("fdatasync")

    def fsync(self, descriptor):
        self._call("fsync")

    def open(self, *args):
        self._call("open")
        return os.open(*args)

    def write(self, descriptor, data):
        try:
            self._call("write")
        except OSError:
            # As a disk does that fills up: a part of it is there.
            os.write(descriptor, data[: len(data) // 2])
            raise
        return os.write(descriptor, data)

    def _call(self, name):
        number = self.calls.total()
        self.calls[name] += 1
        if name in self.failing or number in self._fail_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


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
    return [record for path in list_segments(directory) for record in read_segment(path)]


def writer(directory, *, last_seq=0, boot="boot", sync="always", clock=None, **options):
    return BatchWriter(directory, "server", boot, last_seq=last_seq, sync=sync, clock=clock or FakeClock(), **options)


def replay(directory):
    """The registry that a journal says, after checking that it can be opened."""
    state = RegistryState()
    recover(directory, state.apply)
    return state


def fold(records):
    state = RegistryState()
    for record in records:
        state.apply(record.event, record.time)
    return state
