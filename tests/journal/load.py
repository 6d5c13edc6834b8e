"""A process that writes a journal as fast as it can and says what was acknowledged; killed by a test."""

import sys
from pathlib import Path

from bussrv import events as ev
from bussrv.journal.batch import BatchWriter, Rotation
from bussrv.journal.lock import JournalLock
from bussrv.journal.record import Stamped
from bussrv.journal.recovery import recover
from bussrv.journal.writer import FileJournal
from bussrv.registry.state.fold import RegistryFold
from bussrv.turns.clock import SystemClock
from tests.journal.support import FakeReactor

OUTSTANDING = 20


def main(directory, boot):
    lock = JournalLock(directory)
    fold = RegistryFold()
    recovered = recover(directory, fold)
    clock, reactor = SystemClock(), FakeReactor()
    # Small segments, so that some are begun and ended all the time.
    rotation = Rotation(bytes=20_000)
    batches = BatchWriter(
        directory, "server", boot, recovered=recovered, fold=fold, sync="always", clock=clock, rotation=rotation
    )
    journal = FileJournal(batches, reactor)
    # So that there is something in the snapshots.
    journal.append_fact(Stamped(clock.utc(), clock.mono(), ev.SessionOpened(session=boot, routing_id=boot)))
    asked = 0

    def ask(_=None):
        nonlocal asked
        asked += 1
        size = asked % 50
        name = f"{boot}.{asked}"
        events = [ev.ServiceRegistered(session=boot, service=name, actor="x" * size)] * (1 + asked % 3)
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
