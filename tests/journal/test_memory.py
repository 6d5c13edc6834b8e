"""The journal that is not on disk, and how tests hold it up."""

from bussrv.errors import JournalUnavailable
from bussrv.journal.memory import MemoryJournal
from bussrv.testing.journal import SteeredJournal
from tests.journal.support import note


def outcome_of(deferred):
    outcomes = []
    deferred.addCallbacks(
        lambda records: outcomes.append([record.seq for record in records]),
        lambda failure: outcomes.append(failure.trap(JournalUnavailable)),
    )
    return outcomes


def kept(journal):
    assert [record.seq for record in journal.records] == list(range(1, len(journal.records) + 1))
    return [record.event.actor for record in journal.records]


def test_all_is_durable_at_once_and_nothing_is_kept():
    journal, followed = MemoryJournal("hall", "boot 1"), []
    journal.follow(followed.extend)
    assert outcome_of(journal.append([note("a"), note("b")])) == [[1, 2]]
    journal.append_fact(note("c"))
    assert [(record.seq, record.server, record.event.actor) for record in followed] == [
        (1, "hall", "a"),
        (2, "hall", "b"),
        (3, "hall", "c"),
    ]
    assert journal.bytes_accepted == 0


def test_what_is_held_becomes_durable_when_it_is_released():
    journal = SteeredJournal("hall", "boot 1")
    journal.hold()
    first, second = outcome_of(journal.append([note("a"), note("b")])), outcome_of(journal.append([note("d")]))
    journal.append_fact(note("e"))
    assert (first, second, kept(journal)) == ([], [], [])
    journal.release(1)
    assert (first, second, kept(journal)) == ([[1, 2]], [], ["a", "b"])
    third = outcome_of(journal.append([note("f")]))
    journal.release()
    assert (first, second, third, kept(journal)) == ([[1, 2]], [[3]], [[5]], ["a", "b", "d", "e", "f"])
    assert outcome_of(journal.append([note("g")])) == [[6]]
    assert (journal.records[0].server, journal.records[0].boot) == ("hall", "boot 1")


def test_what_is_asked_while_it_is_released_comes_last():
    journal = SteeredJournal()
    journal.hold()
    journal.append([note("a")]).addCallback(lambda _: journal.append([note("c")]))
    journal.append([note("b")])
    journal.release()
    assert kept(journal) == ["a", "b", "c"]
    journal.append([note("d")])
    assert kept(journal) == ["a", "b", "c", "d"]


def test_a_failure_refuses_what_is_held_and_keeps_what_happened():
    journal = SteeredJournal()
    journal.hold()
    held = outcome_of(journal.append([note("a")]))
    journal.append_fact(note("b"))
    journal.fail("full")
    assert (held, outcome_of(journal.append([note("c")]))) == ([JournalUnavailable], [JournalUnavailable])
    journal.append_fact(note("d"))
    assert kept(journal) == ["b", "d"]
    journal.fail(None)
    assert outcome_of(journal.append([note("e")])) == [[3]]


def test_a_failure_while_it_is_released_refuses_the_rest():
    journal = SteeredJournal()
    journal.hold()
    journal.append([note("a")]).addCallback(lambda _: journal.fail("full"))
    rest = [outcome_of(journal.append([note(name)])) for name in "bc"]
    journal.release()
    assert rest == [[JournalUnavailable], [JournalUnavailable]]
    assert kept(journal) == ["a"]
