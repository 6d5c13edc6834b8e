"""What no sound server writes, once more: one record after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Any, NamedTuple

from bussrv import events as ev
from bussrv.journal.record import Record

MINUTE = 60_000_000
HOUR = 60 * MINUTE
TEN_SECONDS = 10_000_000
FIVE_SECONDS = 5_000_000
ONLY_OBJECTS = {"objects", "business", "spp", "inbus"}

SERVICE = (ev.ServiceRegistered, ev.ServiceUnregistered)
SUBSCRIPTION = (ev.SubscriptionAdded, ev.SubscriptionRemoved, ev.SubscriptionRenewed)
MOVES = (ev.SessionLeft, ev.SessionResumed)
CHANGES = (ev.SessionIdentified, *MOVES, *SERVICE, *SUBSCRIPTION)
OF_JOURNAL = (ev.JournalDegraded, ev.JournalRestored, ev.JournalSalvaged, ev.JournalPruned)
BEFORE_ALL_ELSE = (
    *OF_JOURNAL,
    ev.ServerStarted,
    ev.ServerRecovered,
    ev.SessionLeft,
    ev.SessionClosed,
    ev.ServiceUnregistered,
    ev.SubscriptionRemoved,
    ev.LinkDown,
)

Rows = list[dict[str, Any]]


class Placed(NamedTuple):
    """A record, and the number of the segment it is in."""

    record: Record
    segment: int


def findings(placed: Iterable[Placed], given: Sequence[Record] = (), since: int = 0) -> Rows:
    """What is found, without words.

    :param given: what the registry was before, as records.
    :param since: what was before that is not told, UTC microseconds.
    """
    servers: dict[str, list[Placed]] = defaultdict(list)
    for each in placed:
        servers[each.record.server].append(each)
    judge = Judge(given)
    for mine in servers.values():
        mine.sort(key=lambda each: order(each.record))
        judge.learn([each.record for each in mine])
    for mine in servers.values():
        judge.boots_and_times(mine)
    judge.sessions()
    return [row for at, row in judge.found if at >= since]


def order(record: Record) -> tuple[int, int, int]:
    return record.seq, record.time, record.mono


def is_loss(record: Record) -> bool:
    return record.event.reason not in (None, "replaced")


class Boot:
    def __init__(self, records: list[Record]) -> None:
        self.id = records[0].boot
        self.records = records
        self.first, self.last = records[0], records[-1]
        self.begun = min(each.time for each in records)
        self.ended = max(each.time for each in records)
        self.settled = [each for each in records if not isinstance(each.event, BEFORE_ALL_ELSE)]

    def of(self, *kinds: type[ev.Event]) -> list[Record]:
        return [each for each in self.records if isinstance(each.event, kinds)]


class Judge:
    def __init__(self, given: Sequence[Record]) -> None:
        self.found: list[tuple[int, dict[str, Any]]] = []
        self.given = given
        self.servers: dict[str, list[Record]] = {}
        self.boots: dict[str, list[Boot]] = {}

    def find(self, kind: str, at: int, first: int, last: int, **place: Any) -> None:
        names = ("server", "boot", "session", "service")
        row = {"kind": kind, "first_seq": first, "last_seq": last, **{name: place.get(name) for name in names}}
        self.found.append((at, row))

    def learn(self, records: list[Record]) -> None:
        server = records[0].server
        boots: dict[str, list[Record]] = defaultdict(list)
        for record in records:
            boots[record.boot].append(record)
        self.servers[server] = records
        self.boots[server] = sorted(map(Boot, boots.values()), key=lambda boot: (boot.first.seq, boot.begun, boot.id))

    # Boots.

    def boots_and_times(self, placed: list[Placed]) -> None:
        server, latest = placed[0].record.server, 0
        for before, boot in pairwise([None, *self.boots[server]]):
            assert boot is not None
            self.one_boot(server, before, boot, latest)
            latest = max(latest, boot.last.seq)
        self.times(server, placed)

    def one_boot(self, server: str, before: Boot | None, boot: Boot, latest: int) -> None:
        place = {"server": server, "boot": boot.id}
        starts, stops, recovered = (
            [each.seq for each in boot.of(kind)] for kind in (ev.ServerStarted, ev.ServerStopped, ev.ServerRecovered)
        )
        settled = boot.settled[0].seq if boot.settled else None
        is_stopped = before is not None and any(each.seq == before.last.seq for each in before.of(ev.ServerStopped))
        if (before or boot.first.seq == 1) and settled and (not starts or settled < starts[0]):
            self.find("boot-not-started", boot.begun, settled, settled, **place)
        if starts and starts[-1] > starts[0]:
            self.find("boot-started-twice", boot.ended, starts[0], starts[-1], **place)
        if boot.first.seq < latest:
            self.find("boot-interleaved", boot.begun, boot.first.seq, min(latest, boot.last.seq), **place)
        last = max((each.seq for each in boot.records if not isinstance(each.event, OF_JOURNAL)), default=0)
        if stops and last > stops[0]:
            self.find("boot-record-after-stop", boot.ended, stops[0], last, **place)
        salvaged = boot.of(ev.JournalSalvaged)
        if before and not is_stopped and starts and settled and not recovered and not salvaged:
            self.find("boot-not-recovered", boot.begun, starts[0], starts[0], **place)
        said = [each.event for each in boot.of(ev.ServerRecovered)]
        if is_stopped and said and not salvaged and not any(each.torn_bytes for each in said):
            self.find("boot-recovered-after-stop", boot.begun, recovered[0], recovered[0], **place)
        closed = sum(each.event.reason == "server-crashed" for each in boot.of(ev.SessionClosed))
        if said and settled and max(each.sessions_closed for each in said) != closed:
            self.find("boot-miscounted", boot.begun, recovered[0], recovered[0], **place)

    # Times.

    def times(self, server: str, placed: list[Placed]) -> None:
        segments: dict[int, list[Record]] = defaultdict(list)
        for record, segment in placed:
            if not isinstance(record.event, OF_JOURNAL):
                segments[segment].append(record)
        ends = []
        for records in segments.values():
            for before, record in pairwise(records):
                self.two_records(server, before, record)
            ends.append((records[0], True))
            if len(records) > 1:
                ends.append((records[-1], False))
        ends.sort(key=lambda end: order(end[0]))
        for (before, _), (record, begins) in pairwise(ends):
            if begins:
                self.two_records(server, before, record)

    def two_records(self, server: str, before: Record, record: Record) -> None:
        place = {"server": server, "boot": record.boot}
        if record.time < before.time - FIVE_SECONDS:
            self.find("time-backwards", record.time, record.seq, record.seq, **place)
        if record.boot == before.boot and record.mono < before.mono:
            self.find("clock-backwards", record.time, record.seq, record.seq, **place)

    # Sessions.

    def sessions(self) -> None:
        mine: dict[str, list[Record]] = defaultdict(list)
        for record in [*self.given, *(each for records in self.servers.values() for each in records)]:
            wanted = (ev.SessionOpened, ev.SessionClosed, *CHANGES)
            if record.event.session is not None and isinstance(record.event, wanted):
                mine[record.event.session].append(record)
        for session, records in mine.items():
            Session(self, session, sorted(records, key=order)).judge()

    def is_known(self, server: str, boot: str) -> bool:
        begun = {each.id for boots in self.boots.values() for each in boots if each.of(ev.ServerStarted)}
        return self.servers[server][0].seq == 1 or boot in begun

    def end_of(self, server: str, boot_id: str) -> int | None:
        """When a boot was over, and with it what it had opened."""
        boots = self.boots[server]
        for number, boot in enumerate(boots):
            later = [each for other in boots[number + 1 :] for each in other.settled if each.seq > boot.last.seq]
            if boot.id == boot_id and (boot.of(ev.ServerStopped) or later):
                return boot.ended
        return None

    def ran_after(self, server: str, moment: int) -> bool:
        """Whether a boot ran for more than an hour after a moment."""
        return any(boot.ended - max(boot.begun, moment) > HOUR for boot in self.boots[server])

    def is_refused(self, record: Record, loss: bool) -> bool:
        """Whether a failure of the disk explains it."""
        latest = None
        for each in self.servers[record.server]:
            if each.seq >= record.seq:
                break
            if isinstance(each.event, ev.JournalDegraded | ev.JournalRestored | ev.ServerStarted):
                latest = each
        if latest is None or isinstance(latest.event, ev.ServerStarted):
            return False
        is_over = isinstance(latest.event, ev.JournalRestored)
        return not is_over or (loss and record.mono <= latest.mono + TEN_SECONDS)


class Session:
    def __init__(self, judge: Judge, session: str, records: list[Record]) -> None:
        self.all = judge
        self.id = session
        self.records = records
        self.server = records[0].server
        self.boot = session.rpartition(".")[0] or None
        self.opened = [each for each in records if isinstance(each.event, ev.SessionOpened)]
        self.closed = [each for each in records if isinstance(each.event, ev.SessionClosed)]
        mine = [each for each in records if each in self.opened or not self.is_given(each)]
        self.latest = max((each.time for each in mine), default=0)
        self.changes = [each for each in records if isinstance(each.event, CHANGES) and not self.is_given(each)]

    def is_given(self, record: Record) -> bool:
        return any(record is each for each in self.all.given)

    @property
    def is_known(self) -> bool:
        return self.all.is_known(self.server, self.boot or "")

    def find(self, kind: str, at: int, first: int, last: int, service: str | None = None) -> None:
        place = {"server": self.server, "boot": self.boot, "session": self.id, "service": service}
        self.all.find(kind, at, first, last, **place)

    def judge(self) -> None:
        self.openings()
        self.beginning_and_end()
        self.moves()
        if self.closed:
            self.closing()
        topics: dict[tuple[bool, str | None], list[Record]] = defaultdict(list)
        for record in self.records:
            if isinstance(record.event, (*SERVICE, *SUBSCRIPTION)):
                topics[isinstance(record.event, SERVICE), record.event.service].append(record)
        for (_, service), records in topics.items():
            self.topic(service, records)

    def openings(self) -> None:
        opened, closed = self.opened, self.closed
        if len(opened) > 1:
            first = opened[-1] if any(self.is_given(each) for each in opened) else opened[0]
            self.find("session-opened-twice", self.latest, first.seq, opened[-1].seq)
        if len(closed) > 1:
            self.find("session-closed-twice", self.latest, closed[0].seq, closed[-1].seq)
        if closed and not opened and self.is_known:
            self.find("session-closed-unopened", self.latest, closed[0].seq, closed[0].seq)
        if opened and not closed and not any(each.event.persistent for each in opened):
            end = self.all.end_of(self.server, self.boot or "")
            if end is not None:
                self.find("session-never-closed", end, opened[0].seq, opened[0].seq)

    def beginning_and_end(self) -> None:
        opened, closed, changes = self.opened, self.closed, self.changes
        early = [each.seq for each in [*closed, *changes] if opened and each.seq < opened[0].seq]
        if early:
            self.find("session-record-before-opening", self.latest, min(early), opened[0].seq)
        elif changes and not opened and not closed and self.is_known:
            self.find("session-record-before-opening", self.latest, changes[0].seq, changes[-1].seq)
        if closed and changes and changes[-1].seq > closed[0].seq:
            self.find("session-record-after-end", self.latest, closed[0].seq, changes[-1].seq)

    def moves(self) -> None:
        """Whether it was away when it came back, and whether it did nothing meanwhile."""
        life = [*takewhile(lambda each: not isinstance(each.event, ev.SessionClosed), self.records)]
        places = [place for place, each in enumerate(life) if isinstance(each.event, MOVES)]
        for before, place, after in zip([None, *places], places, [*places[1:], len(life)], strict=False):
            last = None if before is None else life[before]
            self.move(last if last and isinstance(last.event, ev.SessionLeft) else None, life[place])
            if isinstance(life[place].event, ev.SessionLeft):
                self.while_away(life[place + 1 : after])
        end = life[places[-1]] if places and not self.closed else None
        if end and isinstance(end.event, ev.SessionLeft) and self.all.ran_after(self.server, end.event.until):
            self.find("session-kept-too-long", end.event.until, end.seq, end.seq)

    def move(self, left: Record | None, record: Record) -> None:
        if isinstance(record.event, ev.SessionLeft):
            if left is not None:
                self.find("session-left-twice", self.latest, left.seq, record.seq)
        elif left is None and (self.opened or self.is_known):
            self.find("session-resumed-unleft", self.latest, record.seq, record.seq)

    def while_away(self, records: Sequence[Record]) -> None:
        own = [each for each in records if isinstance(each.event, CHANGES) and not self.is_given(each)]
        taken = [each for each in own if isinstance(each.event, ev.SubscriptionRemoved) and is_loss(each)]
        changed = [each.seq for each in own if each not in taken]
        if changed:
            self.find("session-changed-while-away", self.latest, changed[0], changed[-1])

    def closing(self) -> None:
        is_far = any(each.event.home is not None for each in self.opened)
        said = [each.event for each in self.closed]
        negative = any(
            min(each.duration, each.objects_in, each.objects_out, each.bytes_in, each.bytes_out) < 0 for each in said
        )
        uneven = any(
            (each.objects_out > 0 and each.bytes_out == 0)
            or (each.objects_out == 0 and each.bytes_out > 0 and each.protocol in ONLY_OBJECTS)
            or (each.objects_in > 0 and each.bytes_in == 0)
            for each in said
        )
        carried = any(max(each.objects_in, each.objects_out, each.bytes_in, each.bytes_out) > 0 for each in said)
        if negative or uneven or (is_far and carried):
            self.find("session-miscounted", self.latest, self.closed[0].seq, self.closed[-1].seq)
        if not negative and len(self.opened) == 1 and len(self.closed) == 1:
            lasted = max(0, self.closed[0].time - self.opened[0].time)
            is_off = abs(said[0].duration - lasted) > MINUTE
            if self.opened[0].boot == self.closed[0].boot and not self.is_given(self.opened[0]):
                # The wall clock may have been set meanwhile.
                is_off = is_off and abs(said[0].duration - (self.closed[0].mono - self.opened[0].mono)) > MINUTE
            if is_off:
                self.find("session-duration-wrong", self.latest, self.opened[0].seq, self.closed[0].seq)

    def topic(self, service: str | None, records: list[Record]) -> None:
        """A service that it provides, or something that it subscribes to."""
        end = self.closed[0] if self.closed else None
        for before, record in pairwise([None, *records]):
            assert record is not None
            in_time = end is None or record.seq <= end.seq
            if in_time and not self.is_given(record):
                self.step(service, before, record)
        last = records[-1]
        if isinstance(last.event, ev.ServiceRegistered) and end is not None and last.seq < end.seq:
            latest = max(self.closed, key=lambda each: each.mono)
            if not self.all.is_refused(Record(end.seq, end.time, latest.mono, end.server, end.boot, end.event), True):
                at = max(each.time for each in self.closed)
                self.find("service-never-unregistered", at, last.seq, end.seq, service)

    def step(self, service: str | None, before: Record | None, record: Record) -> None:
        was_there = before is not None and not isinstance(before.event, ev.ServiceUnregistered | ev.SubscriptionRemoved)
        ends = isinstance(record.event, ev.ServiceUnregistered | ev.SubscriptionRemoved)
        begins = isinstance(record.event, ev.ServiceRegistered | ev.SubscriptionAdded)
        of_service = isinstance(record.event, SERVICE)
        if begins and was_there:
            kind = "service-registered-twice" if of_service else "subscription-added-twice"
        elif not begins and not was_there:
            if before is None and not self.is_known and not self.opened:
                return
            if before is not None and ends and is_loss(record):
                return
            kind = "service-not-registered" if of_service else "subscription-not-added"
        else:
            return
        if not self.all.is_refused(record, is_loss(record)):
            self.find(kind, record.time, record.seq, record.seq, service)


def in_order(rows: Rows) -> Iterator[tuple[Any, ...]]:
    """For comparison."""
    names = ("kind", "server", "boot", "first_seq", "last_seq", "session", "service")
    return iter(sorted((tuple(row[name] for name in names) for row in rows), key=str))
