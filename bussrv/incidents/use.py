"""Who came back to a durable session, and who provided a service at which time.

All tables are bounded. Records say what the audit sees in them: see ``absences`` and ``uptimes`` in
:mod:`bussrv.audit.sql`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from msgspec import Struct

from bussrv import events as ev
from bussrv.incidents.identities import Identities
from bussrv.incidents.judging import Incident
from bussrv.incidents.tally import Table, Tally, cut, is_quiet
from bussrv.incidents.vocabulary import LEFT, address_of
from bussrv.journal.pseudonyms import is_pseudonym
from bussrv.journal.record import Record

MOST_SESSIONS = 100_000
"""The most open sessions that are followed."""

MOST_SERVICES = MOST_SESSIONS
"""The most services that are followed."""

MOST_LOST = 10_000
"""The most services that are down, or were lately. A look has to look at each of them."""

MOST_RETURNS = 1_000
"""The most sessions that another user came back to."""

SECOND = 1_000_000

UNKNOWN = "\0unknown"
"""The owner of a session whose name in the journal is not known."""

Over = Callable[[Incident], None]
"""Is told the sums that are dropped."""


class OpenSession(Struct):
    """A session that is open.

    :ivar owner: the user that it belongs to.
    :ivar routing_id: the one that it said last.
    :ivar services: those that it provides.
    """

    opened: int
    owner: str | None = None
    routing_id: str | None = None
    is_far: bool = False
    is_away: bool = False
    services: dict[str, None] | None = None


class ServiceUse(Struct):
    """The times at which a service was provided.

    :ivar providers: the sessions that provide it.
    :ivar down_since: when the last provider went; ``None``: there is one.
    :ivar up_since: when the present time of providers began, if ``down_since`` is still that of before: whoever comes
        and goes at the same moment has not provided it.
    :ivar lost: whether a provider was lost then, and did not leave.
    :ivar last_end: when a provider went last. ``is_last_lost``: whether one was lost at that time.
    :ivar seen: the latest time at which it was still down, whichever way the clock was set since.
    :ivar outages: how many times without a provider are over; of these the ``longest`` in microseconds.
    """

    providers: dict[str, None] = {}
    down_since: int | None = None
    up_since: int | None = None
    lost: bool = False
    seen: int = 0
    last_end: int = -1
    is_last_lost: bool = False
    outages: int = 0
    longest: int = 0
    begin: int = 0
    end: int = 0

    def settle(self, now: int) -> None:
        """Once time has passed since it is provided again, the time without a provider is over."""
        up, down = self.up_since, self.down_since
        if up is None or now <= up:
            return
        self.up_since = self.down_since = None
        if down is None or up <= down or not self.lost:
            return
        self.outages += 1
        if up - down > self.longest:
            self.longest, self.begin, self.end = up - down, down, up


class Presence:
    """The open sessions of one server, their routing ids, and the services that they provide.

    :param server: its id.
    :param not_kept: counts what the tables had no room for.
    :param over: is told the sums that are dropped.
    """

    def __init__(self, server: str, not_kept: Counter[str], over: Over) -> None:
        self.server = server
        self.sessions: dict[str, OpenSession] = {}
        self._not_kept = not_kept
        self._over = over
        # A look covers these: of very many services, few.
        self._lost: dict[str, None] = {}
        self._unprovided: dict[str, None] = {}
        self._ids = Identities(server, not_kept, over)
        self._services: Table[str, ServiceUse] = Table(MOST_SERVICES, ServiceUse, self._drop_service)
        self._returns: Table[str, tuple[Tally, list[str | None]]] = Table(
            MOST_RETURNS, lambda: (Tally(), []), self._drop_return
        )

    # What there was before the first record.

    def add(self, session: str, opened: int, owner: str | None, routing_id: str | None, home: str | None) -> None:
        """A session that was open already."""
        if len(self.sessions) < MOST_SESSIONS:
            self.sessions[session] = OpenSession(opened, owner, None, home is not None)
            self._has_id(session, routing_id)
        else:
            self._not_kept["sessions"] += 1

    def add_provider(self, session: str, service: str) -> None:
        """A session provided a service already."""
        self._provide(session, cut(service) or "")

    # Records.

    def opened(self, record: Record) -> None:
        """A session is open."""
        event = record.event
        assert isinstance(event, ev.SessionOpened)
        if event.session is not None:
            self.add(event.session, record.time, event.actor, event.routing_id, event.home)

    def identified(self, record: Record) -> None:
        """A session said who it is, or proved it."""
        event = record.event
        found = self.sessions.get(event.session or "")
        if found is None:
            return
        if event.actor is not None and found.owner is None:
            found.owner = event.actor
        if isinstance(event, ev.SessionIdentified):
            self._has_id(event.session or "", event.routing_id)

    def _has_id(self, session: str, routing_id: str | None) -> None:
        found = self.sessions[session]
        name = cut(routing_id)
        if name is None or name == found.routing_id or found.is_far:
            return
        if found.routing_id is not None:
            self._ids.leave(found.routing_id, found.opened, session)
        found.routing_id = name
        self._ids.take(name, found.opened, session)

    def closed(self, record: Record) -> None:
        """A session is closed. It provides nothing any more."""
        event = record.event
        session = event.session or ""
        found = self.sessions.get(session)
        if found is None:
            return
        self._has_id(session, event.routing_id)
        for service in tuple(found.services or ()):
            self._withdraw(session, service, record.time, event.reason)
        del self.sessions[session]
        if found.routing_id is not None:
            self._ids.close(found.routing_id, found.opened, session, record.time)

    def left(self, record: Record) -> None:
        """The client of a durable session is gone."""
        found = self.sessions.get(record.event.session or "")
        if found is not None:
            found.is_away = True

    def resumed(self, record: Record) -> None:
        """The client of a durable session is back."""
        event = record.event
        session = event.session or ""
        found = self.sessions.get(session)
        if found is None or not found.is_away:
            return
        found.is_away = False
        if found.owner != UNKNOWN and _is_other(found.owner, event.actor):
            tally, addresses = self._returns.used(session)
            tally.add(record, "session.resumed")
            address = cut(address_of(event.peer))
            if address not in addresses[:2]:
                addresses.append(address)

    def registered(self, record: Record) -> None:
        """A session provides a service."""
        event = record.event
        if event.session is None or event.service is None or event.session not in self.sessions:
            return
        service = cut(event.service) or ""
        is_down = self._services.used(service).providers == {}
        use = self._provide(event.session, service)
        self._unprovided.pop(service, None)
        if is_down:
            use.up_since = record.time

    def _provide(self, session: str, service: str) -> ServiceUse:
        use = self._services.used(service)
        use.providers[session] = None
        found = self.sessions.get(session)
        if found is not None:
            found.services = found.services or {}
            found.services[service] = None
        return use

    def unregistered(self, record: Record) -> None:
        """A session provides a service no longer."""
        event = record.event
        if event.session is not None and event.service is not None:
            self._withdraw(event.session, cut(event.service) or "", record.time, event.reason)

    def _withdraw(self, session: str, service: str, time: int, reason: str | None) -> None:
        found, use = self.sessions.get(session), self._services.get(service)
        if found is not None and found.services is not None:
            found.services.pop(service, None)
        if use is None or session not in use.providers:
            return
        del use.providers[session]
        is_lost = reason not in LEFT
        use.is_last_lost = is_lost or (use.is_last_lost and time == use.last_end)
        use.last_end = time
        if use.providers:
            return
        self._unprovided[service] = None
        use.settle(time)
        if use.up_since is None:
            use.down_since, use.lost, use.seen = time, use.is_last_lost, time
        elif time == use.down_since:
            use.lost = use.lost or use.is_last_lost
        use.up_since = None
        if use.lost and use.down_since is not None:
            self._lost[service] = None
            if len(self._lost) > MOST_LOST:
                del self._lost[next(iter(self._lost))]
                self._not_kept["services"] += 1

    # Sums.

    def rows(self, now: int) -> Iterator[Incident]:
        """The sums at a moment, UTC microseconds."""
        yield from self._ids.rows()
        for session, returns in self._returns.items():
            yield self._takeover(session, returns)
        for service in self._lost:
            provided = self._services.get(service)
            row = None if provided is None else self._outage(service, provided, now)
            if row is not None:
                yield row

    def _takeover(self, session: str, returns: tuple[Tally, list[str | None]]) -> Incident:
        tally, addresses = returns
        return Incident(
            what="takeover",
            server=self.server,
            subject=session,
            number=tally.number,
            begin=tally.begin,
            end=tally.end,
            address=addresses[0] if len(addresses) == 1 else None,
            actor=tally.actor,
        )

    def _outage(self, service: str, use: ServiceUse, now: int) -> Incident | None:
        """The longest outage. ``None``: there was none."""
        use.settle(now)
        number, longest, begin, end, lasts = use.outages, use.longest, use.begin, use.end, False
        use.seen = max(use.seen, now)
        if use.down_since is not None and use.lost and use.seen > use.down_since:
            number += 1
            if use.seen - use.down_since > longest:
                longest, begin, end, lasts = use.seen - use.down_since, use.down_since, use.seen, True
        if not number:
            return None
        return Incident(
            what="outage",
            server=self.server,
            subject=service,
            number=number,
            seconds=longest / SECOND,
            lasts=lasts,
            begin=begin,
            end=end,
        )

    def forget(self, before: int) -> None:
        """Forget what is over since a moment."""
        self._ids.forget(before)
        for session, returns in self._returns.items():
            if is_quiet(returns[0].end or 0, before):
                self._returns.forget(session)
                self._drop_return(session, returns, is_kept=True)
        self._forget_services(before)

    def _forget_services(self, before: int) -> None:
        for service in tuple(self._lost):
            use = self._services.get(service)
            if use is None:
                del self._lost[service]
            elif use.providers and is_quiet(use.end, before):
                self._over_outage(service, use)
                use.outages = use.longest = 0
                del self._lost[service]
        for service in tuple(self._unprovided):
            use = self._services.get(service)
            if use is not None and not is_quiet(use.last_end, before):
                break
            if use is not None and use.lost:
                continue  # It is down until it is provided again.
            del self._unprovided[service]
            self._services.forget(service)
            if use is not None:
                self._over_outage(service, use)

    def _drop_return(self, session: str, returns: tuple[Tally, list[str | None]], *, is_kept: bool = False) -> None:
        self._not_kept["returns"] += not is_kept
        self._over(self._takeover(session, returns))

    def _drop_service(self, service: str, use: ServiceUse) -> None:
        self._not_kept["services"] += 1
        self._over_outage(service, use)

    def _over_outage(self, service: str, use: ServiceUse) -> None:
        row = self._outage(service, use, use.down_since or 0)
        if row is not None:
            self._over(row)


def _is_other(owner: str | None, back: str | None) -> bool:
    """Whether another user came back to a session than its own. A user may have several pseudonyms."""
    if owner is not None and back is not None and is_pseudonym(owner) and is_pseudonym(back):
        return False
    return owner != back
