"""A registry whose journal does as the test says, and one who watches it."""

from functools import partial
from itertools import count

from zope.interface import implementer

from bussrv import events as ev
from bussrv.registry.changes.registry import Registry
from bussrv.registry.interfaces import IRegistryObserver
from bussrv.registry.outcome import as_deferred
from bussrv.registry.state.state import RegistryState
from bussrv.testing.journal import SteeredJournal
from bussrv.values import ModeInterest, Traffic
from tests.journal.support import FakeClock

SERVER = "server-id"
EVERYTHING, NOTHING = ModeInterest(), ModeInterest(receive="none")


@implementer(IRegistryObserver)
class Watcher:
    """Remembers what it was told, and folds it."""

    def __init__(self):
        self.told = []
        self.view = RegistryState()

    def registry_changed(self, stamped):
        self.told.append(stamped.event)
        self.view.apply(stamped.event, stamped.time)

    def names(self):
        return [ev.event_name(event) for event in self.told]


class NoShortWay:
    """Leaves every change of services to the registry."""

    def register(self, *_):
        return False

    unregister = register


class Bench:
    """A registry with everything around it."""

    def __init__(self, journal=None, settings=None, clock=None):
        self.journal = SteeredJournal("hall", "boot") if journal is None else journal
        self.clock = FakeClock() if clock is None else clock
        numbers = count(1)
        self.registry = Registry(
            self.journal, self.clock, lambda: f"fresh{next(numbers)}", server_id=SERVER, boot="boot", settings=settings
        )
        self._short_way = self.registry._service_changes
        self.watcher = Watcher()
        self.registry.observe(self.watcher)

    @property
    def state(self):
        return self.registry.state

    @property
    def planned(self):
        """What is kept of changes that are on their way."""
        return {name: kept for name, kept in vars(self.registry._planned).items() if name != "state" and kept}

    def take_short_way(self, is_taken):
        """Whether usual changes of services are made in the short way from now on."""
        self.registry._service_changes = self._short_way if is_taken else NoShortWay()

    def open(self, peer="10.0.0.1:1000", protocol="objects"):
        """The id of a new session."""
        return self.registry.open_session(protocol, peer).id

    def records(self, kind=ev.Event):
        return [record.event for record in self.journal.records if isinstance(record.event, kind)]

    def names(self):
        return [ev.event_name(event) for event in self.records()]


def outcome_of(deferred):
    """What became of a Deferred: empty, its result, or the reason why it was refused."""
    outcomes = []
    deferred.addCallbacks(outcomes.append, lambda failure: outcomes.append(failure.value.reason))
    return outcomes


def unregister_all(bench, session_id):
    """Ask for the end of all services of a session. :returns: as :func:`outcome_of`."""
    return outcome_of(as_deferred(partial(bench.registry.ask_to_unregister_all, session_id)))


def close(bench, session_id, reason="client-closed"):
    bench.registry.close_session(session_id, reason, Traffic())
