"""A journal against a list of what was acknowledged, whatever is written, fails, or is started again."""

import gzip
import os
import shutil
import tempfile
from contextlib import suppress
from itertools import count
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from twisted.internet.defer import Deferred

from bussrv import events as ev
from bussrv.errors import JournalError
from bussrv.journal.batch import Rotation, make_entry
from bussrv.journal.chain import line_hash
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.reading import SegmentReader
from bussrv.journal.recovery import recover
from bussrv.journal.segment import is_compressed, list_segments
from bussrv.registry.state.fold import RegistryFold
from tests.journal.support import (
    Disk,
    FakeClock,
    every_record,
    fold,
    last_entry,
    lines_of,
    replay,
    stamp,
    vouch,
    writer,
)
from tests.size import sized

CALLS = ["create", "reopen", "write", "sync", "truncate", "rename", "remove", "sync_directory"]
SESSIONS = st.sampled_from(["s1", "s2", "s3"])
SERVICES = st.sampled_from(["tv", "radio"])
OWN_WORDS = (ev.JournalDegraded, ev.JournalRestored)

changes = st.one_of(
    st.builds(ev.SessionOpened, session=SESSIONS, routing_id=st.sampled_from(["ann", "bob"]), peer=st.just("p")),
    st.builds(ev.SessionIdentified, session=SESSIONS, routing_ids=st.lists(SERVICES, max_size=2).map(tuple)),
    st.builds(ev.SessionClosed, session=SESSIONS, duration=st.just(1)),
    st.builds(ev.ServiceRegistered, session=SESSIONS, service=SERVICES),
    st.builds(ev.ServiceUnregistered, session=SESSIONS, service=SERVICES),
    st.builds(ev.SubscriptionAdded, session=SESSIONS, service=SERVICES, options=st.just({"version": 2})),
    st.builds(ev.SubscriptionRemoved, session=SESSIONS, service=SERVICES),
)
batches = st.lists(st.tuples(st.booleans(), st.lists(changes, min_size=1, max_size=3)), max_size=3)


class JournalMachine(RuleBasedStateMachine):
    @initialize(sync=st.sampled_from(["always", "interval", "off"]), size=st.sampled_from([1, 1500, 1 << 20]))
    def begin(self, sync, size):
        self.directory = Path(tempfile.mkdtemp())
        self.disk, self.clock = Disk(), FakeClock()
        self.options = {"sync": sync, "rotation": Rotation(bytes=size, age=100.0)}
        self.numbers, self.boots = count(), count()
        self.acknowledged = []
        self.kept_back = []
        self.open()

    def open(self):
        self.fold = RegistryFold()
        recovered = recover(self.directory, self.fold, self.disk)
        assert recovered.salvaged is None
        vouch(self.directory, [each for each in recovered.unsealed if each.records])
        self.kept_back = []
        self.writer = writer(
            self.directory,
            recovered=recovered,
            fold=self.fold,
            boot=f"boot{next(self.boots)}",
            clock=self.clock,
            files=self.disk,
            last_seal=lambda: last_entry(self.directory),
            **self.options,
        )

    def teardown(self):
        if not hasattr(self, "directory"):
            return
        self.restart(is_orderly=True, tail=b"")
        self.check_each_segment()
        shutil.rmtree(self.directory)

    # What is written.

    @rule(several=st.lists(batches, min_size=1, max_size=4))
    def commit_all(self, several):
        for wanted in several:
            self.commit(wanted)

    def commit(self, wanted):
        entries = []
        for is_asked, events in wanted:
            stamped = [stamp(replace(event, actor=f"e{next(self.numbers)}"), self.clock) for event in events]
            entries.append(make_entry(stamped, Deferred() if is_asked else None))
        try:
            written = self.writer.commit(entries)
        except OSError:
            assert self.writer.degraded
            self.kept_back += [each.event for entry in entries if entry.done is None for each in entry.stamped]
            return
        assert not self.writer.degraded
        now = self.kept_back + [each.event for entry in entries for each in entry.stamped]
        told = [record.event for entry in written for record in entry.records]
        assert [event for event in told if not isinstance(event, OWN_WORDS)] == now
        self.acknowledged += now
        self.kept_back = []

    @rule(seconds=st.sampled_from([0.5, 1.0, 60.0, 101.0]))
    def wait(self, seconds):
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([-3600, 3600]))
    def set_clock(self, seconds):
        self.clock.now_utc += seconds * 1_000_000

    @rule()
    def rotate(self):
        try:
            self.writer.rotate()
        except OSError:
            # The segment has ended all the same.
            assert self.writer.segment is None

    # What is done with segments.

    @rule()
    def seal(self):
        vouch(self.directory, self.writer.closed)
        self.writer.closed.clear()

    @rule()
    @precondition(lambda self: self.writer.segment and not self.writer.closed and not self.writer.degraded)
    def seal_what_grows(self):
        vouch(self.directory, [self.writer.extent()], closed=False)

    @rule()
    @precondition(lambda self: not self.writer.closed and not self.writer.degraded)
    def compress(self):
        for path in list_segments(self.directory)[:-1]:
            if not is_compressed(path):
                path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), 1))
                path.unlink()

    @rule()
    @precondition(lambda self: not self.writer.closed and not self.writer.degraded)
    def forget(self):
        paths = list_segments(self.directory)
        for path in paths[:-2]:
            path.unlink()

    # What goes wrong.

    @rule(calls=st.sets(st.sampled_from(CALLS), min_size=1, max_size=3), wanted=batches)
    def fail(self, calls, wanted):
        self.disk.failing = calls
        self.commit(wanted)

    @rule(numbers=st.sets(st.integers(0, 12), min_size=1, max_size=3), several=st.lists(batches, max_size=4))
    def fail_soon(self, numbers, several):
        self.disk.fail_at(numbers)
        for wanted in several:
            self.commit(wanted)

    @rule()
    def heal(self):
        self.disk.failing = set()
        self.disk.fail_at([])

    @rule(is_orderly=st.booleans(), tail=st.sampled_from([b"", b'{"v":4', bytes(100)]))
    def restart(self, is_orderly, tail):
        if is_orderly or self.writer._unmended is not None:
            # What was refused, and could not be cut off before a crash, is there as if it had been written.
            self.heal()
            self.commit([])
            self.writer.close()
            vouch(self.directory, self.writer.closed)
        elif self.writer.segment:
            with list_segments(self.directory)[-1].open("ab") as file:
                file.write(tail)
        self.disk.fail_at([])
        failing, self.disk.failing = self.disk.failing, set()
        self.open()
        self.disk.failing = failing
        self.check()

    @rule(number=st.integers(0, 8))
    def restart_on_a_disk_that_fails(self, number):
        self.restart(is_orderly=True, tail=b"")
        self.commit([(False, [ev.ConfigReloaded()])])
        if self.writer.segment and not self.writer.degraded:
            with list_segments(self.directory)[-1].open("ab") as file:
                file.write(b"torn")
        self.disk.fail_at([number])
        with suppress(JournalError):
            recover(self.directory, RegistryFold(), self.disk)
        self.disk.fail_at([])
        self.open()
        self.check()

    # What has to be so.

    @invariant()
    def check(self):
        if not hasattr(self, "directory") or self.writer.degraded:
            return
        records = every_record(self.directory)
        own = [record.event for record in records if not isinstance(record.event, OWN_WORDS)]
        assert own == self.acknowledged[len(self.acknowledged) - len(own) :]
        if records:
            assert [record.seq for record in records] == list(range(records[0].seq, records[-1].seq + 1))
            if records[0].seq == 1:
                assert own == self.acknowledged
                assert self.fold.state == fold(records)

    def check_each_segment(self):
        """Each says by itself what the registry was before it, and after it."""
        before = None
        for path in list_segments(self.directory):
            found = RegistryFold()
            reader = SegmentReader(path, take=found.take)
            lines = list(reader.read())
            if before is not None:
                assert found.state == before
            for line in lines:
                found.apply(line.record.event, line.record.time)
            reader.close()
            before = found.state
            self.check_alone(path, reader.header.seal, before)
        if before is not None:
            assert before == self.fold.state

    def check_alone(self, path, seal, state):
        """A directory that holds nothing but a segment, and the manifest that there was when it was begun."""
        with tempfile.TemporaryDirectory() as name:
            alone = Path(name)
            os.link(path, alone / path.name)
            if seal is not None:
                lines = lines_of(self.directory / MANIFEST_NAME)
                hashes = [line_hash(text) for text in lines]
                (alone / MANIFEST_NAME).write_bytes(b"".join(lines[: hashes.index(seal) + 1]))
            assert replay(alone) == state


TestJournal = JournalMachine.TestCase
TestJournal.settings = settings(max_examples=sized(40), stateful_step_count=25)
