"""The registry over a journal on disk that fails now and then: it is what the journal says, after every restart too."""

from itertools import count
from random import Random

import pytest

from bussrv.errors import Refused
from bussrv.journal.batch import Rotation
from bussrv.journal.recovery import recover
from bussrv.journal.writer import FileJournal
from bussrv.registry.changes.registry import Registry
from bussrv.registry.state.fold import RegistryFold
from bussrv.registry.state.session import Claims
from bussrv.values import ModeInterest, Traffic
from tests.journal.support import Disk, FakeClock, FakeReactor, every_record, replay, writer
from tests.registry.support import SERVER, Watcher

BOOTS, STEPS = 3, 300
CALLS = ["create", "reopen", "write", "sync", "truncate", "rename", "remove", "sync_directory"]
NAMES = ["tv", "radio", "door", "gate"]


class Boot:
    """One run of the registry, with as many changes outstanding as there happen to be."""

    def __init__(self, directory, disk, random, number):
        self._disk, self._random = disk, random
        self._reactor = FakeReactor()
        fold = RegistryFold()
        recovered = recover(directory, fold, disk)
        # The registry is ahead of the journal; the fold is what the journal says.
        self.state = fold.state.copy()
        boot = f"boot{number}"
        batches = writer(
            directory, recovered=recovered, fold=fold, boot=boot, rotation=Rotation(bytes=5000), files=disk
        )
        self._journal = FileJournal(batches, self._reactor)
        ids = count()
        self.registry = Registry(
            self._journal, FakeClock(), lambda: f"{boot}-{next(ids)}", server_id=SERVER, boot=boot, state=self.state
        )
        self.watcher = Watcher()
        self.watcher.view = self.state.copy()
        self.registry.observe(self.watcher)
        self.outstanding = 0
        self.outcomes = set()

    def written(self, state):
        """Without those sessions that came while the disk failed, and have done nothing since."""
        known = state.copy()
        for session in state.sessions.values():
            if session.id in self.registry._deferred_openings.waiting:
                del known.sessions[session.id]
            else:
                known.opened_at(session.id, self.state.sessions[session.id].opened)
        return known

    def run(self):
        for _ in range(STEPS):
            if self._random.random() < 0.1:
                self._disk.failing = {self._random.choice(CALLS)}
            elif self._random.random() < 0.3:
                self._disk.failing = set()
            self._do_something()
            while self.outstanding > self._random.randrange(12):
                self._reactor.run_one()
        self._disk.failing = set()
        self._reactor.run_until(lambda: not self.outstanding)
        self._reactor.wait(self._journal.close())

    def _do_something(self):
        registry, choice = self.registry, self._random.choice
        open_sessions = list(self.state.sessions)
        if len(open_sessions) < 4:
            registry.open_session("objects", "10.0.0.1:1")
            return
        session_id, name = choice(open_sessions), choice(NAMES)
        claims = Claims(session_id=session_id, routing_id=choice(NAMES), routing_ids=(choice(NAMES),))
        choice(
            [
                lambda: registry.close_session(session_id, "client-closed", Traffic()),
                lambda: registry.lose_service(session_id, name, "lease-expired"),
                lambda: registry.lose_subscription(session_id, name, "lease-expired"),
                lambda: self._ask(registry.identify(claims, ModeInterest())),
                lambda: self._ask(registry.register_service(session_id, name)),
                lambda: self._ask(registry.register_service(session_id, name)),
                lambda: self._ask(registry.unregister_service(session_id, name)),
                lambda: self._ask(registry.subscribe(session_id, name, {"n": self._random.randrange(9)})),
                lambda: self._ask(registry.unsubscribe(session_id, name)),
            ]
        )()

    def _ask(self, deferred):
        self.outstanding += 1
        deferred.addErrback(lambda failure: self.outcomes.add(failure.check(Refused) and failure.value.reason))
        deferred.addCallback(self._settled)

    def _settled(self, _):
        self.outstanding -= 1


@pytest.mark.dear
@pytest.mark.parametrize("seed", range(8))
def test_the_registry_is_what_the_journal_says(tmp_path, seed):
    disk, outcomes = Disk(), set()
    for number in range(BOOTS):
        boot = Boot(tmp_path, disk, Random(f"{seed} {number}"), number)
        boot.run()
        outcomes |= boot.outcomes
        assert replay(tmp_path) == boot.written(boot.state) == boot.written(boot.watcher.view)
    assert None not in outcomes
    assert "journal-unavailable" in outcomes
    records = every_record(tmp_path)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    own = [session.routing_id for session in boot.state.sessions.values()]
    assert len(own) == len(set(own))
