"""Small journals: each shows one thing, and says what is to be found in it."""

from __future__ import annotations

from collections.abc import Callable

from bussrv import events as ev
from tests.audit.case import Case, Expected
from tests.audit.consistency_cases import CONSISTENCY_CASES
from tests.audit.journals import Writer, day

__all__ = ["CASES", "Case", "Expected"]


def sound(server: str) -> Case:
    return Case([], [day(server).records])


def in_segments(server: str) -> Case:
    text = day(server).records
    return Case([], [text[:4], text[4:5], text[5:]])


def old_segments_deleted(server: str) -> Case:
    """What happened to sessions of a boot that is only there in part cannot be judged."""
    writer = Writer(server, seq=100)
    early, late = writer.id(1), writer.id(2)
    writer.unregister(early, "tv")
    writer.close(early)
    writer.stop()
    writer.start()
    writer.unregister(late, "tv")
    writer.close(late, reason="server-crashed")
    return Case([], [writer.records], [100])


def running(server: str) -> Case:
    writer = Writer(server)
    writer.start()
    writer.open(writer.id(1))
    writer.register(writer.id(1), "tv")
    return Case([], [writer.records])


def crashed_and_recovered(server: str) -> Case:
    writer = Writer(server)
    writer.start()
    session = writer.id(1)
    writer.open(session)
    writer.register(session, "tv")
    writer.start()
    writer.write(ev.ServerRecovered(sessions_closed=1))
    writer.unregister(session, "tv")
    writer.close(session, reason="server-crashed")
    return Case([], [writer.records])


def persistent(server: str) -> Case:
    writer = Writer(server)
    writer.start()
    one, other = writer.id(1), writer.id(2)
    writer.open(one, persistent=True, protocol="inbus")
    writer.open(other, persistent=True, protocol="inbus")
    writer.stop()
    writer.start()
    writer.close(one, reason="lease-expired", protocol="inbus")
    return Case([], [writer.records])


def gaps(server: str) -> Case:
    text = day(server).records
    return Case(
        [
            ("seq-gap", {"server": server, "first_seq": 5, "last_seq": 5, "message": ": record 5 is missing"}),
            ("seq-gap", {"server": server, "first_seq": 7, "last_seq": 8, "message": ": records 7 to 8 are missing"}),
            ("session-never-closed", {"session": f"{server}-1.1"}),
            ("session-never-closed", {"session": f"{server}-1.2"}),
        ],
        [text[:4], [text[5], text[8]]],
    )


def gap_at_the_beginning(server: str) -> Case:
    text = day(server).records
    return Case([("seq-gap", {"server": server, "first_seq": 1, "last_seq": 1})], [text[1:]])


def gap_behind_deleted_segments(server: str) -> Case:
    writer = Writer(server, seq=50)
    writer.start()
    return Case([("seq-gap", {"server": server, "first_seq": 48, "last_seq": 49})], [writer.records], [48])


def duplicates(server: str) -> Case:
    text = day(server).records
    return Case(
        [
            ("seq-duplicate", {"first_seq": 1, "last_seq": 1, "message": ": record 1 is there up to 2 times"}),
            ("seq-duplicate", {"first_seq": 5, "last_seq": 6, "message": ": records 5 to 6 are there up to 3 times"}),
            ("service-not-registered", {"first_seq": 6, "service": "tv", "session": f"{server}-1.1"}),
            *[("subscription-added-twice", {"first_seq": 5, "service": "tv", "session": f"{server}-1.2"})] * 2,
        ],
        [text[:1], text[:6], [text[4], text[4], text[5]], text[6:]],
    )


def left_open(server: str) -> Case:
    """In an orderly stop, and in a crash; what the newest boot has open may still be there."""
    writer = Writer(server)
    writer.start()
    writer.open(writer.id(1))
    writer.stop()
    writer.start()
    writer.open(writer.id(1))
    writer.start()
    writer.open(writer.id(1))
    message = "was never closed, though its boot ended"
    return Case(
        [
            ("session-never-closed", {"session": f"{server}-1.1", "boot": f"{server}-1", "first_seq": 2}),
            ("session-never-closed", {"session": f"{server}-2.1", "boot": f"{server}-2", "message": message}),
            ("boot-not-recovered", {"boot": f"{server}-3", "first_seq": 6, "last_seq": 6}),
        ],
        [writer.records],
    )


def left_open_by_the_last_boot(server: str) -> Case:
    writer = Writer(server)
    writer.start()
    writer.open(writer.id(1))
    writer.stop()
    return Case([("session-never-closed", {"session": f"{server}-1.1"})], [writer.records])


def twice(server: str) -> Case:
    writer = Writer(server)
    writer.start()
    session = writer.id(1)
    writer.open(session)
    writer.open(session)
    writer.close(session)
    writer.stop()
    writer.start()
    writer.close(session)
    place = {"server": server, "boot": f"{server}-1", "session": session}
    return Case(
        [
            ("session-closed-twice", {**place, "first_seq": 4, "last_seq": 7, "message": "was closed 2 times"}),
            ("session-opened-twice", {**place, "first_seq": 2, "last_seq": 3, "message": "was opened 2 times"}),
        ],
        [writer.records],
    )


def unopened(server: str) -> Case:
    writer = Writer(server, seq=40)
    writer.close(writer.id(1))
    writer.start()
    writer.close(writer.id(1))
    return Case(
        [("session-closed-unopened", {"session": f"{server}-1.1", "first_seq": 42, "last_seq": 42})],
        [writer.records],
        [40],
    )


def unopened_in_a_complete_journal(server: str) -> Case:
    writer = Writer(server)
    writer.close(writer.id(1))
    return Case([("session-closed-unopened", {"session": f"{server}-0.1", "boot": f"{server}-0"})], [writer.records])


def unregistered(server: str) -> Case:
    writer = Writer(server)
    writer.start()
    session = writer.id(1)
    writer.open(session)
    writer.register(session, "tv")
    writer.unregister(session, "tv")
    writer.unregister(session, "tv")
    writer.unregister(session, "radio")
    writer.register(session, "tv")
    writer.close(session)
    writer.unregister(session, "tv")
    place = {"server": server, "boot": f"{server}-1", "session": session}
    return Case(
        [
            ("service-not-registered", {**place, "service": "tv", "first_seq": 5, "last_seq": 5}),
            ("service-not-registered", {**place, "service": "radio", "message": "radio, which it did not provide"}),
            ("session-record-after-end", {**place, "first_seq": 8, "last_seq": 9}),
        ],
        [writer.records],
    )


def kept_while_the_disk_failed(server: str) -> Case:
    """The registration was refused, then the session was lost: only the end of it was kept."""
    writer = Writer(server)
    writer.start()
    session = writer.id(1)
    writer.open(session)
    writer.write(ev.JournalDegraded(message="no space left on device"))
    writer.unregister(session, "tv")
    writer.close(session)
    writer.write(ev.JournalRestored(refused=1))
    writer.open(writer.id(2))
    writer.unregister(writer.id(2), "radio")
    writer.write(ev.JournalDegraded(message="no space left on device"))
    writer.start()
    writer.write(ev.ServerRecovered(sessions_closed=1))
    writer.open(writer.id(1))
    writer.unregister(writer.id(1), "piano")
    writer.close(f"{server}-1.2", reason="server-crashed")
    return Case(
        [("service-not-registered", {"service": "radio"}), ("service-not-registered", {"service": "piano"})],
        [writer.records],
    )


CASES: list[Callable[[str], Case]] = [
    sound,
    in_segments,
    old_segments_deleted,
    running,
    crashed_and_recovered,
    persistent,
    gaps,
    gap_at_the_beginning,
    gap_behind_deleted_segments,
    duplicates,
    left_open,
    left_open_by_the_last_boot,
    twice,
    unopened,
    unopened_in_a_complete_journal,
    unregistered,
    kept_while_the_disk_failed,
    *CONSISTENCY_CASES,
]
