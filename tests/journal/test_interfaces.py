"""What every :class:`IJournal` promises, run against each there is."""

import pytest
from zope.interface.verify import verifyClass, verifyObject

from bussrv.errors import JournalUnavailable
from bussrv.journal.interfaces import IJournal
from bussrv.journal.writer import FileJournal
from bussrv.testing.journal import SteeredJournal
from tests.journal.support import PATIENCE, every_record, note, writer


class InMemory:
    """Runs the contract against :class:`MemoryJournal`, held up by the test."""

    def __init__(self, tmp_path, disk, reactor):
        self.journal = SteeredJournal("server", "boot")

    def hold(self):
        """From now on nothing becomes durable."""
        self.journal.hold()

    def release(self, failing):
        """What is held becomes durable, or, when the disk fails, is refused."""
        if failing:
            self.journal.fail("full")
            self.journal.fail(None)
        else:
            self.journal.release()

    def wait(self, condition):
        assert condition()

    def records(self):
        return self.journal.records


class OnDisk:
    """Runs the contract against :class:`FileJournal`."""

    def __init__(self, tmp_path, disk, reactor):
        self._directory, self._disk, self._reactor = tmp_path, disk, reactor
        self.journal = FileJournal(writer(tmp_path, files=disk), reactor)

    def hold(self):
        self._disk.halt()
        # Something has to be in the middle of a sync for what follows to queue up.
        self.journal.append_fact(note("held up"))
        assert self._disk.in_sync.wait(PATIENCE)

    def release(self, failing):
        if failing:
            self._disk.failing = {"sync"}
        self._disk.go_on()

    def wait(self, condition):
        self._reactor.run_until(condition)
        self._disk.failing = set()

    def records(self):
        return [record for record in every_record(self._directory) if record.event.actor not in (None, "held up")]


@pytest.fixture(params=[InMemory, OnDisk])
def kind(request, tmp_path, disk, reactor):
    kind = request.param(tmp_path, disk, reactor)
    kind.closed = None
    yield kind
    disk.go_on()
    closed = kind.closed or kind.journal.close()
    kind.wait(lambda: closed.called)


def outcomes_of(*deferreds):
    """What became of Deferreds, in the order in which they fired: number and ``made`` or ``refused``."""
    outcomes = []
    for number, deferred in enumerate(deferreds):
        deferred.addCallbacks(
            lambda _, number=number: outcomes.append((number, "made")),
            lambda failure, number=number: outcomes.append((number, "refused", failure.trap(JournalUnavailable))[:2]),
        )
    return outcomes


def test_it_is_a_journal(kind):
    assert verifyClass(IJournal, type(kind.journal))
    assert verifyObject(IJournal, kind.journal)


def test_records_carry_what_was_written_and_consecutive_numbers(kind):
    results = []
    events = [note("a"), note("b")]
    kind.journal.append(events).addCallback(results.append)
    kind.journal.append_fact(note("c"))
    kind.journal.append([note("d")]).addCallback(results.append)
    kind.wait(lambda: len(results) == 2)
    records = kind.records()
    assert [record.seq for record in records] == [1, 2, 3, 4]
    assert [record.event.actor for record in records] == ["a", "b", "c", "d"]
    assert results == [records[:2], records[3:]]
    for record, stamped in zip(records, events, strict=False):
        assert (record.time, record.mono, record.event) == (stamped.time, stamped.mono, stamped.event)
        assert (record.server, record.boot) == ("server", "boot")


def test_nothing_at_all_is_durable_when_what_came_before_is(kind):
    kind.hold()
    outcomes = outcomes_of(kind.journal.append([note("a")]), kind.journal.append([]), kind.journal.append([note("b")]))
    assert outcomes == []
    kind.release(failing=False)
    kind.wait(lambda: len(outcomes) == 3)
    assert outcomes == [(0, "made"), (1, "made"), (2, "made")]
    assert [record.event.actor for record in kind.records()] == ["a", "b"]


def test_deferreds_fire_in_the_order_of_the_calls(kind):
    kind.hold()
    asked = []
    for number in range(20):
        asked.append(kind.journal.append([note(f"n{number}")] * (number % 3)))
        kind.journal.append_fact(note("fact"))
    outcomes = outcomes_of(*asked)
    assert outcomes == []
    kind.release(failing=False)
    kind.wait(lambda: len(outcomes) == 20)
    assert outcomes == [(number, "made") for number in range(20)]


def test_a_failure_fails_all_that_was_asked_before_it_was_known(kind):
    kind.hold()
    outcomes = outcomes_of(*(kind.journal.append([note(f"n{number}")]) for number in range(5)))
    kind.journal.append_fact(note("fact"))
    kind.release(failing=True)
    kind.wait(lambda: len(outcomes) == 5)
    assert outcomes == [(number, "refused") for number in range(5)]
    later = outcomes_of(kind.journal.append([note("later")]))
    kind.wait(lambda: later)
    assert later == [(0, "made")]
    assert [record.event.actor for record in kind.records()] == ["fact", "later"]


def test_what_a_callback_asks_comes_after_all_earlier_requests(kind):
    kind.hold()
    inner = []
    first = kind.journal.append([note("a")])
    first.addCallback(lambda _: kind.journal.append([note("c")]).addCallback(inner.append))
    kind.journal.append([note("b")])
    kind.release(failing=False)
    kind.wait(lambda: inner)
    assert [record.event.actor for record in kind.records()] == ["a", "b", "c"]


def test_closing_comes_last(kind):
    kind.hold()
    order = outcomes_of(*(kind.journal.append([note("n")]) for _ in range(3)))
    kind.release(failing=False)
    kind.closed = kind.journal.close().addCallback(lambda _: order.append("closed"))
    kind.wait(lambda: "closed" in order)
    assert order == [(0, "made"), (1, "made"), (2, "made"), "closed"]
    assert len(kind.records()) == 3
