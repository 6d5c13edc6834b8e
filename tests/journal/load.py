"""A process that writes a journal as fast as it can and says what was acknowledged; killed by a test."""

import sys
from pathlib import Path

from bussrv import events as ev
from bussrv.clock import SystemClock
from bussrv.journal.record import Stamped
from bussrv.journal.recovery import JournalLock, recover
from bussrv.journal.writer import BatchWriter, FileJournal
from tests.journal.support import FakeReactor

OUTSTANDING = 20


def main(directory, boot):
    lock = JournalLock(directory)
    recovered = recover(directory, lambda event, time: None)
    clock, reactor = SystemClock(), FakeReactor()
    # Small segments, so that some are begun and ended all the time.
    batches = BatchWriter(
        directory, "server", boot, last_seq=recovered.last_seq, sync="always", clock=clock, segment_bytes=20_000
    )
    journal = FileJournal(batches, reactor)
    asked = 0

    def ask(_=None):
        nonlocal asked
        asked += 1
        size = asked % 50
        events = [ev.ServiceRegistered(service=f"{boot}.{asked}", actor="x" * size)] * (1 + asked % 3)
        done = journal.append([Stamped(clock.utc(), clock.mono(), event) for event in events])
        done.addCallback(acknowledge).addCallback(ask)

    def acknowledge(records):
        for record in records:
            sys.stdout.write(f"{record.seq} {record.event.service}\n")
        sys.stdout.flush()

    for _ in range(OUTSTANDING):
        ask()
    reactor.run_until(lambda: lock is None)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
