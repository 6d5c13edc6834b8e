"""Attackers, and clients that are out of order: what they can do, and what is known of what they did.

It goes through the registry like everything else, so the journal stays sound.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from bussrv import events as ev
from bussrv.journal.record import Stamped
from bussrv.registry.state.session import SERVER_ROLE
from bussrv.registry.state.state import RegistryState
from bussrv.turns.clock import Clock

if TYPE_CHECKING:
    from bussrv.registry.changes.registry import Registry


class Attack(Struct, kw_only=True, omit_defaults=True):
    """A description of an attack. Times are UTC microseconds.

    :ivar address: the address of the attacker.
    :ivar other: the address of another client that takes part.
    :ivar tried: how many attempts there were: guesses, connections, registrations…
    :ivar service: the service that it is about; nobody else uses it.
    :ivar routing_id: the routing id that it is about.
    :ivar begin: the time of the first record from that address; 0: the server stopped before.
    :ivar end: the time of the last record from that address.
    :ivar events: how many records from that address there are, by event.
    :ivar suppressed: how many more were left out, as far as these records say so.
    :ivar complete: whether it was over before the server stopped.
    """

    kind: str
    address: str
    other: str | None = None
    service: str | None = None
    routing_id: str | None = None
    tried: int = 0
    begin: int = 0
    end: int = 0
    events: dict[str, int] = field(default_factory=dict)
    suppressed: int = 0
    complete: bool = False

    def saw(self, stamped: Stamped) -> None:
        """A record from its address is written."""
        name = ev.event_name(stamped.event)
        self.events[name] = self.events.get(name, 0) + 1
        self.suppressed += stamped.event.suppressed or 0
        self.begin = self.begin or stamped.time
        self.end = stamped.time


class Place(Protocol):
    """The world as attackers know it."""

    server: str
    written: int
    registry: Registry
    state: RegistryState

    @property
    def clock(self) -> Clock:
        """The clock of the server."""

    def after(self, micros: float, action: Callable[[], None]) -> None:
        """Have something done so much later, unless the server crashes before."""

    def identify(self, session_id: str, routing_id: str | None, role: str | None = None) -> None:
        """A member of the object network says who it is, and wants everything."""

    def leave(self, session_id: str, reason: str) -> None:
        """A session ends, with whatever traffic it had."""

    def expire(self, session_id: str) -> None:
        """A lease runs out, and with it the session."""

    def crash(self) -> None:
        """The server is gone without a word, and back a while later."""


class Attacker:
    """The actions of a script.

    :param place: the server that it attacks.
    :param number: the number of the attack, unique at that server.
    :param other: the address of another client that takes part.
    """

    def __init__(self, place: Place, attack: Attack, random: Random, number: int, other: str) -> None:
        self.place = place
        self.attack = attack
        self.random = random
        self.number = number
        self._other = other

    def other(self) -> str:
        """The address of the other client that takes part."""
        self.attack.other = self._other
        return self._other

    def peer(self, address: str | None = None) -> str:
        """An address to come from, with a port."""
        return f"{address or self.attack.address}:{self.random.randrange(32_768, 61_000)}"

    def connect(self, protocol: str, address: str | None = None, persistent: bool = False) -> str:
        """Open a session. :returns: its id."""
        return self.place.registry.open_session(protocol, self.peer(address), persistent).id

    def identify(self, session_id: str, routing_id: str | None = None, role: str | None = None) -> None:
        """Say who one is. The registry decides whether one gets that routing id."""
        if self.is_there(session_id):
            self.place.identify(session_id, routing_id, role)

    def join(self, routing_id: str | None = None, address: str | None = None) -> str:
        """Become a member of the object network. :returns: the id of the session."""
        session_id = self.connect("objects", address)
        self.identify(session_id, routing_id)
        return session_id

    def link(self, routing_id: str) -> str:
        """Link another server. :returns: the id of its session."""
        session_id = self.connect("objects", self.other())
        self.identify(session_id, routing_id, SERVER_ROLE)
        return session_id

    def provide(self, session_id: str, service: str) -> None:
        """Register a service, if the session is still there."""
        if self.is_there(session_id):
            self.attack.tried += 1
            self.place.registry.register_service(session_id, service)

    def cause(self, event: ev.Event) -> None:
        """Have something written down, at the rate at which strangers may."""
        self.place.registry.note_from_stranger(event)

    def is_there(self, session_id: str) -> bool:
        """Whether the server knows the session still."""
        return session_id in self.place.state.sessions

    def leave(self, session_id: str, reason: str) -> None:
        """End the session, if it is still there."""
        if self.is_there(session_id):
            self.place.leave(session_id, reason)

    def pause(self, least: float, most: float) -> float:
        """Some seconds, in microseconds."""
        return self.random.uniform(least, most) * 1_000_000
