"""Small journals in which the records disagree with each other, and some in which they only seem to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from bussrv import events as ev
from tests.audit.case import Case
from tests.audit.journals import START, STEP, Writer

HOUR = 3600 * 1_000_000


def begun(server: str) -> tuple[Writer, str]:
    """A boot with a session that is open."""
    writer = Writer(server)
    writer.start()
    writer.open(writer.id(1))
    return writer, writer.id(1)


def subscribe(writer: Writer, session: str, service: str | None) -> None:
    writer.write(ev.SubscriptionAdded(session=session, service=service, protocol="objects"))


def unsubscribe(writer: Writer, session: str, service: str | None, reason: str | None = None) -> None:
    writer.write(ev.SubscriptionRemoved(session=session, service=service, protocol="objects", reason=reason))


def shift(writer: Writer, time: int = 0, mono: int = 0) -> None:
    """The last record has another stamp."""
    last = writer.records[-1]
    writer.records[-1] = replace(last, time=last.time + time, mono=last.mono + mono)


def before_it_was_opened(server: str) -> Case:
    writer = Writer(server)
    writer.start()
    session, other = writer.id(1), writer.id(2)
    writer.write(ev.SessionIdentified(session=session))
    writer.open(session)
    subscribe(writer, other, "tv")
    unsubscribe(writer, other, "tv")
    return Case(
        [
            ("session-record-before-opening", {"session": session, "first_seq": 2, "last_seq": 3}),
            (
                "session-record-before-opening",
                {"session": other, "first_seq": 4, "last_seq": 5, "message": "never opened"},
            ),
        ],
        [writer.records],
    )


def after_it_was_closed(server: str) -> Case:
    """What it was refused may come late."""
    writer, session = begun(server)
    writer.register(session, "tv")
    writer.unregister(session, "tv")
    writer.close(session)
    writer.write(ev.ServiceRefused(session=session, service="tv", reason="reserved-name"))
    subscribe(writer, session, "tv")
    writer.register(session, "tv")
    place = {"server": server, "boot": f"{server}-1", "session": session}
    return Case([("session-record-after-end", {**place, "first_seq": 5, "last_seq": 8})], [writer.records])


def miscounted(server: str) -> Case:
    writer = Writer(server)
    writer.start()
    counters = [
        {"bytes_out": 4096},
        {"objects_out": 3},
        {"objects_in": 3},
        {"objects_in": -1, "bytes_in": 5},
        {"duration": -1},
        {"bytes_in": 7},
        {"objects_out": 1, "bytes_out": 7},
    ]
    for number, given in enumerate(counters, 1):
        writer.open(writer.id(number))
        writer.close(writer.id(number), **given)
    writer.open(writer.id(8), home="attic")
    writer.close(writer.id(8), objects_out=1, bytes_out=7)
    # A handshake and a close frame, and what is impossible there, too.
    for number, given in enumerate(({"bytes_in": 180, "bytes_out": 129}, {"objects_out": 1, "bytes_in": 180}), 9):
        writer.open(writer.id(number), protocol="websocket")
        writer.close(writer.id(number), protocol="websocket", **given)
    wrong = [*range(1, 6), 8, 10]
    return Case(
        [
            ("session-miscounted", {"session": writer.id(each), "first_seq": 2 * each + 1, "last_seq": 2 * each + 1})
            for each in wrong
        ],
        [writer.records],
    )


def of_another_duration(server: str) -> Case:
    """By more than a minute from what the times of the records say."""
    writer = Writer(server)
    writer.start()
    for number, duration in enumerate((STEP + 60_000_000, STEP + 60_250_000, STEP), 1):
        writer.open(writer.id(number))
        writer.close(writer.id(number), duration=duration)
    return Case(
        [("session-duration-wrong", {"session": writer.id(2), "first_seq": 4, "last_seq": 5, "message": "61.5 s"})],
        [writer.records],
    )


def while_the_wall_clock_was_set(server: str) -> Case:
    """A duration is off only if it fits neither clock. The monotonic clocks of two boots cannot be compared."""
    writer = Writer(server)
    writer.start()
    sessions = [writer.id(number) for number in range(1, 5)]
    for session in sessions:
        writer.open(session, persistent=True)
    for session, duration in zip(sessions, (4 * STEP, 4 * STEP + HOUR, 4 * STEP + 2 * HOUR), strict=False):
        writer.close(session, duration=duration)
        shift(writer, time=HOUR)
    writer.stop()
    writer.start()
    writer.close(sessions[3], duration=7 * STEP)
    shift(writer, time=HOUR)
    wrong = [(sessions[2], 4, 8), (sessions[3], 5, 11)]
    backwards = {"first_seq": 9, "last_seq": 9}
    return Case(
        [
            *(
                ("session-duration-wrong", {"session": session, "first_seq": first, "last_seq": last})
                for session, first, last in wrong
            ),
            ("time-backwards", {"server": server, **backwards}),
        ],
        [writer.records],
    )


def services_twice(server: str) -> Case:
    writer, session = begun(server)
    writer.register(session, "tv")
    writer.register(session, "tv")
    writer.register(session, "radio")
    writer.unregister(session, "tv")
    writer.close(session)
    place = {"server": server, "boot": f"{server}-1", "session": session}
    return Case(
        [
            ("service-registered-twice", {**place, "service": "tv", "first_seq": 4, "last_seq": 4}),
            ("service-never-unregistered", {**place, "service": "radio", "first_seq": 5, "last_seq": 7}),
        ],
        [writer.records],
    )


def subscriptions(server: str) -> Case:
    """The interest in objects is one subscription, that in a service another."""
    writer, session = begun(server)
    subscribe(writer, session, None)
    subscribe(writer, session, "tv")
    unsubscribe(writer, session, None, reason="replaced")
    subscribe(writer, session, None)
    subscribe(writer, session, "tv")
    writer.write(ev.SubscriptionRenewed(session=session, service="tv"))
    writer.write(ev.SubscriptionRenewed(session=session, service="radio"))
    unsubscribe(writer, session, "tv")
    unsubscribe(writer, session, "tv")
    unsubscribe(writer, session, "door", reason="lease-expired")
    place = {"server": server, "boot": f"{server}-1", "session": session}
    return Case(
        [
            ("subscription-added-twice", {**place, "service": "tv", "first_seq": 7, "last_seq": 7}),
            ("subscription-not-added", {**place, "service": "radio", "first_seq": 9}),
            ("subscription-not-added", {**place, "service": "tv", "first_seq": 11}),
            ("subscription-not-added", {**place, "service": "door", "first_seq": 12}),
        ],
        [writer.records],
    )


def services_of_a_member(server: str) -> Case:
    """It subscribes to objects and to services, then to others, while the policy takes one of them from it."""
    writer, session = begun(server)
    for service in (None, "tv", "radio"):
        subscribe(writer, session, service)
    unsubscribe(writer, session, None, reason="replaced")
    subscribe(writer, session, None)
    unsubscribe(writer, session, "tv")
    subscribe(writer, session, "clock")
    unsubscribe(writer, session, "tv", reason="permission-withdrawn")
    return Case([], [writer.records])


def lost_while_it_was_being_ended(server: str) -> Case:
    """A lease runs out while the end that was asked for is on its way to the disk: both are written."""
    writer, session = begun(server)
    subscribe(writer, session, "tv")
    unsubscribe(writer, session, "tv")
    unsubscribe(writer, session, "tv", reason="lease-expired")
    writer.register(session, "tv")
    writer.unregister(session, "tv")
    writer.write(ev.ServiceUnregistered(session=session, service="tv", reason="lease-expired"))
    return Case([], [writer.records])


def lost_right_after_the_disk_failed(server: str) -> Case:
    """The registry had not heard yet what was refused; a while later it has."""
    writer, session = begun(server)
    other = writer.id(2)
    writer.open(other)
    writer.register(session, "radio")
    writer.write(ev.JournalDegraded(message="no space left on device"))
    writer.write(ev.JournalRestored(refused=2))
    writer.write(ev.ServiceUnregistered(session=session, service="tv", reason="client-closed"))
    writer.close(session)
    for _ in range(8):
        writer.write(ev.ConfigReloaded())
    writer.write(ev.ServiceUnregistered(session=other, service="tv", reason="client-closed"))
    writer.close(other, duration=15 * STEP)
    return Case([("service-not-registered", {"session": other, "first_seq": 17})], [writer.records])


def time_backwards(server: str) -> Case:
    """Within a segment, from one to the next, and from one boot to the next; less than some seconds do not count."""
    writer, _ = begun(server)
    writer.write(ev.ConfigReloaded())
    shift(writer, time=-2 * HOUR)
    writer.write(ev.ConfigReloaded())
    writer.write(ev.ConfigReloaded())
    shift(writer, time=-HOUR)
    writer.write(ev.ConfigReloaded())
    writer.write(ev.ConfigReloaded())
    shift(writer, time=-STEP - 4_999_999)
    writer.close(writer.id(1), duration=6 * STEP)
    writer.stop()
    writer.start()
    shift(writer, time=-HOUR, mono=-8 * STEP)
    text = writer.records
    backwards = [("time-backwards", {"server": server, "first_seq": seq, "last_seq": seq}) for seq in (3, 5, 10)]
    return Case([*backwards], [text[:4], text[4:9], text[9:]])


def clock_backwards(server: str) -> Case:
    """What the journal writes on its own is stamped later than what it writes behind that."""
    writer, _ = begun(server)
    writer.write(ev.JournalDegraded(message="no space left on device"))
    shift(writer, time=HOUR, mono=HOUR)
    writer.write(ev.ConfigReloaded())
    writer.write(ev.ConfigReloaded())
    shift(writer, mono=-2 * STEP)
    writer.write(ev.ConfigReloaded())
    shift(writer, mono=-4 * STEP)
    text = writer.records
    place = {"server": server, "boot": f"{server}-1"}
    return Case(
        [("clock-backwards", {**place, "first_seq": seq, "last_seq": seq}) for seq in (5, 6)], [text[:5], text[5:]]
    )


def boots_that_began_wrong(server: str) -> Case:
    """Without a beginning, with two of them, and with something before it; the journal may write before."""
    writer = Writer(server)
    writer.write(ev.ConfigReloaded())
    writer.stop()
    writer.start()
    writer.write(ev.ServerStarted(version="0.1.0"))
    writer.stop()
    writer.start()
    first, second = writer.records[-1], replace(writer.records[-1], event=ev.ConfigReloaded())
    writer.records[-1:] = [second, replace(first, seq=first.seq + 1)]
    writer.seq += 1
    writer.stop()
    writer.start()
    pruned = ev.JournalPruned(segment=1, last_seq=2, bytes=3, digest="4")
    writer.records[-1:] = [replace(writer.records[-1], event=pruned), replace(writer.records[-1], seq=writer.seq)]
    writer.seq += 1
    writer.write(ev.ConfigReloaded())
    return Case(
        [
            ("boot-not-started", {"server": server, "boot": f"{server}-0", "first_seq": 1, "last_seq": 1}),
            ("boot-started-twice", {"boot": f"{server}-1", "first_seq": 3, "last_seq": 4}),
            ("boot-not-started", {"boot": f"{server}-2", "first_seq": 6, "last_seq": 6}),
        ],
        [writer.records],
    )


def boots_in_disorder(server: str) -> Case:
    """Records behind the stop, but for those of the journal, and a boot among another one."""
    writer, _ = begun(server)
    writer.close(writer.id(1))
    writer.stop()
    writer.write(ev.JournalRestored(refused=0))
    writer.write(ev.ConfigReloaded())
    stopped = writer.boot
    writer.start()
    writer.write(ev.ServerRecovered(sessions_closed=0))
    writer.boot = stopped
    writer.write(ev.ConfigReloaded())
    return Case(
        [
            ("boot-record-after-stop", {"boot": f"{server}-1", "first_seq": 4, "last_seq": 9}),
            ("boot-interleaved", {"boot": f"{server}-2", "first_seq": 7, "last_seq": 8}),
        ],
        [writer.records],
    )


def boots_that_recovered_wrong(server: str) -> Case:
    """Not at all, without need, and of another number of sessions; one that only just began need not say it."""
    writer, _ = begun(server)
    writer.start()
    writer.start()
    writer.write(ev.ServerRecovered(sessions_closed=2))
    writer.close(f"{server}-1.1", reason="server-crashed")
    writer.write(ev.ConfigReloaded())
    writer.start()
    writer.write(ev.ConfigReloaded())
    writer.stop()
    writer.start()
    writer.write(ev.ServerRecovered(sessions_closed=0))
    writer.stop()
    writer.start()
    writer.write(ev.ServerRecovered(sessions_closed=0, torn_bytes=5))
    return Case(
        [
            ("boot-miscounted", {"server": server, "boot": f"{server}-3", "first_seq": 5, "last_seq": 5}),
            ("boot-not-recovered", {"boot": f"{server}-4", "first_seq": 8, "last_seq": 8}),
            ("boot-recovered-after-stop", {"boot": f"{server}-5", "first_seq": 12, "last_seq": 12}),
        ],
        [writer.records],
    )


def in_the_middle_of_recovering(server: str) -> Case:
    """What is left open is closed next, if nothing comes between; a disk that fails is nothing."""
    writer, _ = begun(server)
    writer.open(writer.id(2))
    writer.start()
    writer.write(ev.ServerRecovered(sessions_closed=2))
    writer.write(ev.JournalDegraded(message="no space left on device"))
    writer.close(f"{server}-1.1", reason="server-crashed")
    return Case([], [writer.records])


DURABLE: dict[str, Any] = {"persistent": True, "expiry": HOUR, "actor": "ann", "protocol": "mqtt"}


def leave(writer: Writer, session: str, reason: str = "connection-lost", kept: int = HOUR) -> None:
    until = START + writer.seq * STEP + kept
    writer.write(ev.SessionLeft(session=session, until=until, reason=reason, actor="ann", protocol="mqtt"))


def resume(writer: Writer, session: str, actor: str = "ann") -> None:
    writer.write(ev.SessionResumed(session=session, expiry=HOUR, actor=actor, protocol="mqtt", peer="192.0.2.9:5"))


def begun_durable(server: str) -> tuple[Writer, str]:
    writer = Writer(server)
    writer.start()
    writer.open(writer.id(1), **DURABLE)
    return writer, writer.id(1)


def away_and_back(server: str) -> Case:
    """Over a stop and a crash; the policy takes a subscription from it while it is away. Another one is closed then."""
    writer, session = begun_durable(server)
    subscribe(writer, session, "tv")
    writer.register(session, "radio")
    writer.unregister(session, "radio")
    leave(writer, session, "server-stopped")
    writer.stop()
    writer.start()
    unsubscribe(writer, session, "tv", reason="permission-withdrawn")
    resume(writer, session)
    subscribe(writer, session, "tv")
    other = writer.id(1)
    writer.open(other, **DURABLE)
    writer.start()
    writer.write(ev.ServerRecovered(sessions_closed=0))
    leave(writer, session, "server-crashed")
    leave(writer, other, "server-crashed")
    resume(writer, session)
    writer.close(other, reason="session-expired", duration=6 * STEP)
    return Case([], [writer.records])


def away_and_not_back(server: str) -> Case:
    """It left twice; it came back twice; it did what only a client that is there can do, also by itself."""
    writer, session = begun_durable(server)
    subscribe(writer, session, "tv")
    leave(writer, session)
    writer.write(ev.SubscriptionRenewed(session=session, service="tv", protocol="mqtt"))
    unsubscribe(writer, session, "tv")
    leave(writer, session)
    resume(writer, session)
    resume(writer, session)
    writer.close(session, duration=8 * STEP)
    leave(writer, session)
    place = {"server": server, "boot": f"{server}-1", "session": session}
    return Case(
        [
            ("session-changed-while-away", {**place, "first_seq": 5, "last_seq": 6}),
            ("session-left-twice", {**place, "first_seq": 4, "last_seq": 7}),
            ("session-resumed-unleft", {**place, "first_seq": 9, "last_seq": 9}),
            ("session-record-after-end", {**place, "first_seq": 10, "last_seq": 11}),
        ],
        [writer.records],
    )


def away_for_too_long(server: str) -> Case:
    """An hour after it was to end, while the server runs. Until the server is back, it cannot close it."""
    writer, session = begun_durable(server)
    leave(writer, session, kept=0)
    writer.seq += HOUR // STEP
    writer.write(ev.ConfigReloaded())
    writer.start()
    other = writer.id(1)
    writer.open(other, **DURABLE)
    leave(writer, other, kept=STEP)
    writer.seq += HOUR // STEP
    writer.write(ev.ConfigReloaded())
    writer.records = [replace(each, seq=seq) for seq, each in enumerate(writer.records, 1)]
    return Case(
        [
            ("session-kept-too-long", {"session": session, "boot": f"{server}-1", "first_seq": 3, "last_seq": 3}),
            ("boot-not-recovered", {"boot": f"{server}-2"}),
        ],
        [writer.records],
    )


CONSISTENCY_CASES: list[Callable[[str], Case]] = [
    before_it_was_opened,
    after_it_was_closed,
    miscounted,
    of_another_duration,
    while_the_wall_clock_was_set,
    services_twice,
    subscriptions,
    services_of_a_member,
    lost_while_it_was_being_ended,
    lost_right_after_the_disk_failed,
    time_backwards,
    clock_backwards,
    boots_that_began_wrong,
    boots_in_disorder,
    boots_that_recovered_wrong,
    in_the_middle_of_recovering,
    away_and_back,
    away_and_not_back,
    away_for_too_long,
]
