"""The sums of a running server, made of its records one by one, in tables of bounded size.

A table that is full drops the entry that was used longest ago. So neither a thousand addresses nor a million made-up
names of users take more memory, and the address that goes on is not the one that is dropped. What the tables had no
room for is counted.

An incident ends when nothing more of it happened for a while (``QUIET``). An audit judges a whole period at once, as if
that while had no end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator

from msgspec import Struct, field

from bussrv import events as ev
from bussrv.events import Event, event_name
from bussrv.incidents.judging import MOST_SOURCES, NOTABLE, SOURCES, STORM, Incident, is_incident
from bussrv.incidents.neighbours import Neighbours
from bussrv.incidents.tally import Table, Tally, cut, is_quiet
from bussrv.incidents.use import Presence
from bussrv.incidents.vocabulary import LOGIN, REFUSALS, address_of
from bussrv.journal.record import Record

MOST_ADDRESSES = 4_096
"""The most addresses that are kept apart."""

MOST_USERS = 4_096
"""The most users whose failed logins are kept apart."""

MOST_NAMES = 8
"""The most users whose failed logins are kept apart for one address."""

MOST_GUESSING = 64
"""The most addresses that are counted of those that failed to log in as one user."""

MOST_WITNESSES = 64
"""The most witnesses that are kept apart."""

_MINUTE = 60_000_000
_OTHER_NAMES = "\0others"


class _Logins(Struct):
    """The failed logins of an address, by user."""

    by_user: dict[str | None, Tally] = {}

    def add(self, record: Record, number: int) -> None:
        user: str | None = cut(record.event.claimed)
        if user not in self.by_user and len(self.by_user) >= MOST_NAMES:
            user = _OTHER_NAMES
        if user not in self.by_user:
            self.by_user[user] = Tally()
        self.by_user[user].add(record, LOGIN, number)


class _Openings(Struct):
    """The sessions that an address opened: those of the minute that goes on, and those of storms before."""

    minute: int = -1
    now: Tally = field(default_factory=Tally)
    storms: Tally = field(default_factory=Tally)

    def add(self, record: Record, number: int) -> None:
        minute = record.time // _MINUTE
        if minute != self.minute:
            self.storms = self.of_storms()
            self.minute, self.now = minute, Tally()
        self.now.join(Tally(number, first_seq=record.seq, begin=record.time, end=record.time))

    def of_storms(self) -> Tally:
        """All sessions of storms."""
        both = Tally()
        both.join(self.storms)
        if self.now.number >= STORM:
            both.join(self.now)
        return both


class _Address(Struct):
    """The trouble with an address. ``end`` is the last time of any, ``total`` how many there are of all together."""

    logins: _Logins | None = None
    refused: Tally | None = None
    openings: dict[str | None, _Openings] = {}
    end: int = 0
    total: int = 0


class _User(Struct):
    """The failed logins as a user."""

    tally: Tally
    addresses: set[str]


class _Witness(Struct):
    """The refusals of a witness, and the reason of the last one.

    :ivar over: when it cosigned again, UTC microseconds; ``None``: it has not.
    """

    tally: Tally = field(default_factory=Tally)
    message: str = ""
    over: int | None = None


class Sums:
    """The sums of the records of one server.

    :param server: its id.
    :param over: is told each incident that is over.
    :param follows_links: whether lost links are among them. A running server knows them better than its records do.
    :ivar not_kept: how often a table had no room, by table.
    :ivar presence: sessions, routing ids and services.
    """

    def __init__(self, server: str, over: Callable[[Incident], None], *, follows_links: bool = True) -> None:
        self.server = server
        self.not_kept: Counter[str] = Counter()
        self._tell = over
        self.presence = Presence(server, self.not_kept, self._is_over)
        self._neighbours = Neighbours(server, self.not_kept, self._is_over, follows_links=follows_links)
        self._addresses: Table[str, _Address] = Table(MOST_ADDRESSES, _Address, self._drop_address)
        self._users: Table[str, _User] = Table(MOST_USERS, lambda: _User(Tally(), set()), self._drop_user)
        self._witnesses: Table[str, _Witness] = Table(MOST_WITNESSES, _Witness, self._drop_witness)
        self._crashes = Tally()
        self._down: int | None = None
        self._boot: str | None = None
        self._stopped = False
        self._last: tuple[int, int] | None = None

    def begin_after(self, seq: int, time: int, *, stopped: bool) -> None:
        """Say which record was the last one before those that come, and whether its boot stopped in an orderly way.

        :param time: UTC microseconds.
        """
        self._last, self._stopped = (seq, time), stopped

    def take(self, records: Iterable[Record]) -> None:
        """Take in records, in their order."""
        for record in records:
            if record.boot != self._boot:
                self._begin(record)
            self._last = record.seq, record.time
            take = _TAKES.get(type(record.event))
            if take is not None:
                take(self, record)

    def _begin(self, record: Record) -> None:
        """Another boot of the server."""
        last = self._last
        if last is not None and not self._stopped:
            seq, time = last
            self._crashes.join(Tally(1, first_seq=seq, begin=time, end=time))
            self._down = max(self._down or 0, record.time - time, 0)
        self._boot, self._stopped = record.boot, False

    def _stop(self, record: Record) -> None:
        self._stopped = True

    def _refuse(self, record: Record) -> None:
        event = record.event
        name, number = event_name(event), 1 + (event.suppressed or 0)
        address = cut(address_of(event.peer))
        if name == LOGIN and event.claimed is not None:
            user = self._users.used(cut(event.claimed) or "")
            user.tally.add(record, name, number)
            if address is not None and len(user.addresses) < MOST_GUESSING:
                user.addresses.add(address)
        if address is None:
            return
        found = self._addresses.used(address)
        found.end = max(found.end, record.time)
        found.total += number
        if name == LOGIN:
            if found.logins is None:
                found.logins = _Logins()
            found.logins.add(record, number)
        else:
            if found.refused is None:
                found.refused = Tally()
            found.refused.add(record, name, number)

    def _opened(self, record: Record) -> None:
        event = record.event
        self.presence.opened(record)
        address = cut(address_of(event.peer))
        if address is None or getattr(event, "home", None) is not None:
            return
        found = self._addresses.used(address)
        found.end = max(found.end, record.time)
        openings = found.openings.get(event.protocol)
        if openings is None:
            openings = found.openings[event.protocol] = _Openings()
        openings.add(record, 1 + (event.suppressed or 0))
        found.total += 1 + (event.suppressed or 0)

    def _not_cosigned(self, record: Record) -> None:
        event = record.event
        assert isinstance(event, ev.SealRefused)
        found = self._witnesses.used(cut(event.witness) or "")
        found.tally.add(record, event_name(event))
        found.message, found.over = cut(event.message) or "", None

    def _cosigned(self, record: Record) -> None:
        event = record.event
        assert isinstance(event, ev.SealWitnessed)
        found = self._witnesses.get(cut(event.witness) or "")
        if found is not None and found.over is None:
            found.over = record.time

    # Sums.

    def rows(self, now: int) -> Iterator[Incident]:
        """The sums at a moment, UTC microseconds: all incidents, and perhaps sums that are none."""
        guessing = dict(self._guessed())
        yield from guessing.values()
        for address, found in self._addresses.items():
            if found.total >= NOTABLE:
                yield from self._of_address(address, found, guessing)
        if self._crashes.number:
            yield self._crash()
        for name, witness in self._witnesses.items():
            yield self._of_witness(name, witness)
        yield from self._neighbours.rows(now)
        yield from self.presence.rows(now)

    def _guessed(self) -> Iterator[tuple[str, Incident]]:
        """The users whose secrets are guessed at."""
        for name, user in self._users.items():
            if len(user.addresses) >= SOURCES:
                row = self._guessing(name, user)
                if is_incident(row):
                    yield name, row

    def incidents(self, now: int) -> list[Incident]:
        """The incidents that go on at a moment."""
        return [row for row in self.rows(now) if is_incident(row)]

    def _guessing(self, name: str, user: _User) -> Incident:
        tally = user.tally
        return Incident(
            what="guessing",
            server=self.server,
            claimed=name,
            number=tally.number,
            others=len(user.addresses),
            sources=tuple(sorted(user.addresses)[:MOST_SOURCES]),
            first_seq=tally.first_seq,
            begin=tally.begin,
            end=tally.end,
        )

    def _of_address(self, address: str, found: _Address, guessed: Container[str | None]) -> Iterator[Incident]:
        if found.logins is not None:
            logins = Tally()
            for name, tally in found.logins.by_user.items():
                if name not in guessed:
                    logins.join(tally)
            if logins.number:
                yield self._address(address, logins, 0)
        refused, storms = Tally(), Tally()
        if found.refused is not None:
            refused.join(found.refused)
        for openings in found.openings.values():
            storms.join(openings.of_storms())
        if storms.number:
            number = refused.number
            # The sessions of a storm have no one name.
            storms.claimed_by = storms.acted_by = None
            refused.join(storms)
            refused.number = number
        if refused.number or storms.number:
            yield self._address(address, refused, storms.number)

    def _address(self, address: str, tally: Tally, openings: int) -> Incident:
        return Incident(
            what="address",
            server=self.server,
            address=address,
            number=tally.number,
            others=openings,
            kinds=tuple(sorted(tally.events)),
            claimed=None if tally.claimed == _OTHER_NAMES else tally.claimed,
            actor=tally.actor,
            first_seq=tally.first_seq,
            begin=tally.begin,
            end=tally.end,
        )

    def _crash(self) -> Incident:
        tally = self._crashes
        return Incident(
            what="crash",
            server=self.server,
            number=tally.number,
            seconds=None if self._down is None else self._down / 1_000_000,
            first_seq=tally.first_seq,
            begin=tally.begin,
            end=tally.end,
        )

    def _of_witness(self, name: str, witness: _Witness) -> Incident:
        tally = witness.tally
        return Incident(
            what="witness",
            server=self.server,
            subject=name,
            number=tally.number,
            lasts=witness.over is None,
            detail=witness.message,
            first_seq=tally.first_seq,
            begin=tally.begin,
            end=tally.end,
        )

    def forget(self, before: int) -> None:
        """Forget that of which nothing happened since a moment. Its incidents are over."""
        # Both tables are in the order of use.
        guessed = {name for name, _ in self._guessed()}
        for address, found in self._addresses.items():
            if not is_quiet(found.end, before):
                break
            self._addresses.forget(address)
            for row in self._of_address(address, found, guessed):
                self._is_over(row)
        for name, user in self._users.items():
            if not is_quiet(user.tally.end or 0, before):
                break
            self._users.forget(name)
            self._is_over(self._guessing(name, user))
        if self._crashes.number and is_quiet(self._crashes.end or 0, before):
            self._is_over(self._crash())
            self._crashes, self._down = Tally(), None
        for name, witness in self._witnesses.items():
            if witness.over is not None and is_quiet(witness.over, before):
                self._witnesses.forget(name)
                self._is_over(self._of_witness(name, witness))
        self._neighbours.forget(before)
        self.presence.forget(before)

    def _is_over(self, row: Incident) -> None:
        if is_incident(row):
            self._tell(row)

    def _drop_address(self, address: str, found: _Address) -> None:
        self.not_kept["addresses"] += 1
        for row in self._of_address(address, found, set()):
            self._is_over(row)

    def _drop_witness(self, name: str, witness: _Witness) -> None:
        self.not_kept["witnesses"] += 1
        self._is_over(self._of_witness(name, witness))

    def _drop_user(self, name: str, user: _User) -> None:
        self.not_kept["users"] += 1
        self._is_over(self._guessing(name, user))


def _of_presence(take: Callable[[Presence, Record], None]) -> Callable[[Sums, Record], None]:
    return lambda sums, record: take(sums.presence, record)


_TAKES: dict[type[Event], Callable[[Sums, Record], None]] = {
    **{each: Sums._refuse for each in ev.EVENT_CLASSES if event_name(each) in REFUSALS},
    ev.SessionOpened: Sums._opened,
    ev.ServerStopped: Sums._stop,
    ev.LinkDown: lambda sums, record: sums._neighbours.link(record),
    ev.LinkUp: lambda sums, record: sums._neighbours.link(record),
    ev.LinkForgotten: lambda sums, record: sums._neighbours.link(record),
    ev.LinkClock: lambda sums, record: sums._neighbours.clock(record),
    ev.SealRefused: Sums._not_cosigned,
    ev.SealWitnessed: Sums._cosigned,
    ev.SessionIdentified: _of_presence(Presence.identified),
    ev.AuthSucceeded: _of_presence(Presence.identified),
    ev.SessionClosed: _of_presence(Presence.closed),
    ev.SessionLeft: _of_presence(Presence.left),
    ev.SessionResumed: _of_presence(Presence.resumed),
    ev.ServiceRegistered: _of_presence(Presence.registered),
    ev.ServiceUnregistered: _of_presence(Presence.unregistered),
}
"""What each event adds to."""

JUDGED: tuple[type[Event], ...] = (*_TAKES, ev.ServerStarted)
"""The events that sums are made of. A boot begins with one of them."""
