"""A replica: a bus of parts in memory, made of the registry of a moment. It routes as the server did then.

It has the sessions, subscriptions, services, links and permissions of that moment. It has not what no journal says:
open requests, whose turn it is among several providers, and what linked servers said they want. So a link is given
everything that it may be given: what a server does not want, none of its sessions wants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import fields
from itertools import count
from typing import Any

from twisted.internet.task import Clock as Reactor

from bussrv import events as ev
from bussrv.bus.bus import Bus
from bussrv.bus.links.paths import RemoteSession
from bussrv.bus.origins import Origin
from bussrv.bus.routing.audience import Audience, Everyone, Plan
from bussrv.journal.memory import MemoryJournal
from bussrv.journal.record import Stamped
from bussrv.policy.permissions.access import Access
from bussrv.policy.permissions.rules import Rules
from bussrv.registry.changes.registry import Registry
from bussrv.registry.state.naming import OWN_PROTOCOL
from bussrv.registry.state.session import Session
from bussrv.registry.state.state import RegistryState
from bussrv.settings import Settings
from bussrv.values import InEffect, Interest, ModeInterest, Publication, RuleInterest
from bussrv.why.outlets import Outlet, ServerOutlet, SessionEncodings, outlet_of
from bussrv.wire.objects import BusObject, ObjectReader

SOMEBODY = "somebody"
"""The id and the routing id of the session that stands for a sender that nobody named."""

EVERYTHING = RuleInterest(("*",))
NOTHING = ModeInterest("none", ())


class _Standing:
    """A clock that shows the moment."""

    def __init__(self, utc: int) -> None:
        self._utc = utc

    def utc(self) -> int:
        """The moment."""
        return self._utc

    def mono(self) -> int:
        """No time passes."""
        return 0


class NotingAudience(Audience):
    """Says who gets an object, and notes what it said.

    :ivar plans: each plan, with the origin of its object.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.plans: list[tuple[Origin, Plan]] = []

    def plan(self, origin: Origin, obj: BusObject, provided: Set[str]) -> Plan:
        """See :class:`Audience`."""
        plan = super().plan(origin, obj, provided)
        self.plans.append((origin, plan))
        return plan

    def everyone(self, origin: Origin, publication: Publication) -> Everyone:
        """See :class:`Audience`."""
        plan = super().everyone(origin, publication)
        self.plans.append((origin, plan))
        return plan


class Replica:
    """A bus in the memory.

    :param state: the registry of the moment, which the replica owns from now on.
    :param utc: the moment, UTC microseconds.
    :param pause: called between any two sessions.
    :ivar rules: the rules in effect; ``None``: they are not known, so everything is allowed here.
    :ivar outlets: the links to sessions of this server, by session id.
    :ivar servers: the links to other servers, by session id.
    """

    def __init__(
        self, server_id: str, state: RegistryState, utc: int, pause: Callable[[], object] = lambda: None
    ) -> None:
        self.server_id = server_id
        self.state = state
        self.rules = state.in_effect
        clock, numbers = _Standing(utc), count(1)
        settings = settings_of(self.rules)
        journal = MemoryJournal(server_id, "why")

        def new_id() -> str:
            return f"why-{next(numbers)}"

        registry = Registry(journal, clock, new_id, server_id=server_id, boot="why", state=state, settings=settings)
        access = access_of(self.rules)
        self._reactor = reactor = Reactor()
        self.bus = Bus(registry, settings, server_id, new_id, clock, reactor, access=access, audience=NotingAudience)
        self._clock = clock
        self._encodings = SessionEncodings(self.bus)
        self.outlets: dict[str, Outlet] = {}
        self.servers: dict[str, ServerOutlet] = {}
        for session in tuple(state.sessions.values()):
            if session.home is None and not session.is_link and session.protocol != OWN_PROTOCOL:
                self._put(session)
                pause()
        for session in self.links():
            self._link(session)

    def links(self) -> list[Session]:
        """The sessions that are links to other servers."""
        return [each for each in self.state.sessions.values() if each.is_link]

    def remote_sessions(self) -> list[Session]:
        """The sessions of other servers."""
        return [each for each in self.state.sessions.values() if each.home is not None]

    def _put(self, session: Session) -> None:
        interest = self.interest_of(session.id)
        wanted = self.state.subscribed_by(session.id)
        outlet = outlet_of(session, self._encodings, is_member=interest is not None, wanted=wanted)
        self.outlets[session.id] = outlet
        self.bus.resume(session.id, outlet)
        if interest is not None:
            self._join(session.id, interest)

    def _join(self, session_id: str, interest: Interest) -> None:
        added = ev.SubscriptionAdded(session=session_id, interest=interest)
        self.bus.registry_changed(Stamped(self._clock.utc(), 0, added))

    def interest_of(self, session_id: str) -> Interest | None:
        """The interest of a member in objects; ``None``: it is no member."""
        held = self.state.subscription(session_id, None)
        return None if held is None else held.interest

    def _link(self, session: Session) -> None:
        outlet = self.servers[session.id] = ServerOutlet()
        interest = self.interest_of(session.id) or EVERYTHING
        self.bus.links.up(session.id, outlet, interest, tells_all=True, dialed=False, is_logged=False)

    def tell_paths(self, ways: Mapping[str, Sequence[str]]) -> list[Session]:
        """Say over which servers those of the sessions of other servers are reached.

        :param ways: for each of these servers, the servers on the way to it, itself first and the linked one last.
        :returns: the sessions to which no way is known.
        """
        links = {each.routing_id: each.id for each in self.links()}
        lost = []
        for session in self.remote_sessions():
            way = ways.get(session.home or "")
            if way is None or way[-1] not in links:
                lost.append(session)
                continue
            remote = RemoteSession(
                routing_id=session.routing_id,
                path=tuple(way),
                is_member=self.state.subscription(session.id, None) is not None,
                routing_ids=session.routing_ids,
                role=session.role,
                protocol=session.protocol,
                tells_all=True,
                services=frozenset(self.state.provided_by(session.id)),
            )
            self.bus.links.paths.receive_advertisement(links[way[-1]], remote)
        return lost

    def somebody(self) -> str:
        """The session that stands for a sender that nobody named. It may do everything, and receives nothing."""
        if SOMEBODY not in self.state.sessions:
            session = Session(
                id=SOMEBODY, protocol=OWN_PROTOCOL, routing_id=SOMEBODY, peer="", opened=0, vocabulary="objects"
            )
            self.state.restore([session], {}, [])
            self.bus.resume(SOMEBODY, Outlet(session, self._encodings, is_member=True))
            self._join(SOMEBODY, NOTHING)
        return SOMEBODY

    @property
    def plans(self) -> list[tuple[Origin, Plan]]:
        """What the bus decided, with the origin of each object."""
        audience = self.bus.audience
        assert isinstance(audience, NotingAudience)
        return audience.plans

    def settle(self) -> None:
        """Forget what was sent so far: servers that are linked tell each other of their sessions, and replies are for
        requests.
        """
        self._flush()
        self.plans.clear()
        for outlet in self.outlets.values():
            outlet.given = 0
        for server in self.servers.values():
            server.frames = b""

    def arrived(self) -> list[tuple[str, list[BusObject]]]:
        """The objects for other servers since the last call, by the session of the link."""
        self._flush()
        found = []
        for session_id, outlet in self.servers.items():
            if outlet.frames:
                found.append((session_id, list(_objects(outlet.frames))))
                outlet.frames = b""
        return found

    def _flush(self) -> None:
        self.bus.flush()
        # Slices do the work for many groups, and for links to many sessions. No time passes, so all of them are due.
        self._reactor.advance(0)


def _objects(frames: bytes) -> Iterable[BusObject]:
    reader = ObjectReader(len(frames) + 1, len(frames) + 1)
    reader.feed(frames)
    while (obj := reader.next_event()) is not None:
        if isinstance(obj, BusObject):
            yield obj


def settings_of(rules: InEffect | None) -> Settings:
    """The settings of the moment, as far as the journal has them."""
    limits: Mapping[str, Any] = {} if rules is None else rules.limits
    names = {each.name for each in fields(Settings)}
    known = {name.replace("-", "_"): value for name, value in limits.items()}
    return Settings(**{name: value for name, value in known.items() if name in names})


def access_of(rules: InEffect | None) -> Access:
    """The permissions of the moment. If the rules are not known, everything is allowed."""
    if rules is None:
        return Access()
    return Access(None if rules.policy is None else Rules(rules.policy), asks=rules.asks)
