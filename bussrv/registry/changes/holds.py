"""Routing ids that are held for the clients that had them: no other client gets one right after its owner has left."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from bussrv.addresses import address_key
from bussrv.registry.state.session import SERVER_ROLE, Session
from bussrv.settings import Settings


class _Hold(Struct, frozen=True):
    """For which actor or address a routing id is held, and until when, in seconds."""

    actor: str | None
    address: str
    until: float


class HeldIds:
    """Routing ids that sessions of this server asked for and gave up. They are not held across a restart.

    :param settings: for how long a routing id is held, and how many are; beyond that the oldest is free.
    :param server_id: the routing id of this server, which no client gets.
    :param seconds: a clock, in seconds, that never steps back.
    """

    def __init__(self, settings: Settings, server_id: str, seconds: Callable[[], float]) -> None:
        self._settings = settings
        self._server_id = server_id
        self._seconds = seconds
        self._asked: set[str] = set()
        self._held: OrderedDict[str, _Hold] = OrderedDict()

    def __len__(self) -> int:
        """How many are held, expired ones included."""
        return len(self._held)

    def granted(self, session: Session, wanted: str | None, routing_id: str) -> None:
        """Note that a session asked for a routing id, and was given one."""
        if wanted == routing_id and session.home is None:
            self._asked.add(session.id)

    def ended(self, session: Session) -> None:
        """Hold the routing id of a session that ended, if it asked for it."""
        if session.id not in self._asked:
            return
        self._asked.discard(session.id)
        seconds = self._settings.routing_id_hold
        if seconds > 0:
            hold = _Hold(session.actor, address_key(session.peer), self._seconds() + seconds)
            self._held[session.routing_id] = hold
            self._held.move_to_end(session.routing_id)
        most = self._settings.max_held_ids
        while self._held and (len(self._held) > most or self._first().until <= self._seconds()):
            self._held.popitem(last=False)

    def _first(self) -> _Hold:
        return next(iter(self._held.values()))

    def is_kept_from(self, session: Session, routing_id: str, role: str | None = None) -> bool:
        """Whether a routing id is this server's own, or held for another actor and another address than of ``session``.

        Held routing ids are given to servers, which may have several addresses, and to remote sessions.
        """
        if routing_id == self._server_id:
            return True
        hold = self._held.get(routing_id)
        if hold is None or hold.until <= self._seconds() or role == SERVER_ROLE or session.home is not None:
            return False
        is_same_actor = hold.actor is not None and hold.actor == session.actor
        return not is_same_actor and hold.address != address_key(session.peer)
