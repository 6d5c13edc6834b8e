"""Exchanges of sessions with filters: they ask services and answer requests, though they are no members.

Whatever is for such a session alone, a request, a reply or an error, comes to it as a publication. Its wire format says
which one. The session gets it as any other, if it is subscribed to the service of that and may watch it.

A session with filters that only publishes on a service is one of its providers, too. It is given no requests.
"""

from __future__ import annotations

from msgspec import Struct, field

from bussrv.bus.groups.frames import Delivery
from bussrv.bus.groups.receivers import Receivers
from bussrv.bus.interest.vocabulary import REPLYING, REQUEST
from bussrv.bus.interfaces import AsPublication
from bussrv.registry.state.state import RegistryState
from bussrv.values import Publication, check_publication


class _Exchanging(Struct, eq=False):
    """One session.

    :ivar as_publication: makes the publications that are given to it.
    :ivar answered: the services that it answers requests for.
    """

    as_publication: AsPublication
    answered: set[str] = field(default_factory=set)


class Exchanges:
    """The sessions with filters that ask or answer; see :class:`bussrv.bus.interfaces.IExchanges`."""

    def __init__(self, state: RegistryState, receivers: Receivers) -> None:
        self._state = state
        self._receivers = receivers
        self._filtering = receivers.filtering
        self._sessions: dict[str, _Exchanging] = {}
        self._answering: dict[str, dict[str, None]] = {}  # the sessions that answer, by service

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._sessions

    def begin(self, session_id: str, as_publication: AsPublication) -> None:
        """A session takes part from now on."""
        if session_id not in self._sessions:
            self._sessions[session_id] = _Exchanging(as_publication)
            self._receivers.number(session_id)

    def end(self, session_id: str) -> None:
        """A session is closed."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            for service in session.answered:
                self._remove(session_id, service)

    def answer(self, session_id: str, service: str) -> None:
        """A session answers requests for a service, as soon as it has registered it and is subscribed to it."""
        self._sessions[session_id].answered.add(service)
        self._answering.setdefault(service, {})[session_id] = None

    def stop_answering(self, session_id: str, service: str) -> None:
        """A session answers no more requests for a service, if it did."""
        session = self._sessions.get(session_id)
        if session is not None and service in session.answered:
            session.answered.discard(service)
            self._remove(session_id, service)

    def _remove(self, session_id: str, service: str) -> None:
        del self._answering[service][session_id]
        if not self._answering[service]:
            del self._answering[service]

    def is_answered(self, service: str) -> bool:
        """Whether some session answers requests for a service."""
        return any(self.answers(session_id, service) for session_id in self._answering.get(service, ()))

    def answered_by(self, session_id: str) -> frozenset[str]:
        """The services that a session answers requests for, or is about to."""
        session = self._sessions.get(session_id)
        return frozenset(session.answered) if session is not None else frozenset()

    def answers(self, session_id: str, service: str) -> bool:
        """Whether a session answers requests for a service."""
        state = self._state
        is_subscribed = self.answers_for(session_id, service) and state.subscription(session_id, service) is not None
        return is_subscribed and state.provides(session_id, service)

    def answers_for(self, session_id: str, service: str) -> bool:
        """Whether a session answers requests for a service, or is about to."""
        session = self._sessions.get(session_id)
        return session is not None and service in session.answered

    def accepts(self, session_id: str, event: str | None) -> bool:
        """Whether a session may be given an object with this event, if it is for it alone."""
        session = self._sessions.get(session_id)
        return session is not None and (event in REPLYING or (event == REQUEST and bool(session.answered)))

    def is_subscribed(self, session_id: str, service: str) -> bool:
        """Whether a session would be given publications on a service."""
        return self._filtering.covers(session_id, service)

    def give(self, session_id: str, delivery: Delivery) -> bool:
        """Give a session what is for it alone. :returns: whether it is given it."""
        try:
            publication = self._sessions[session_id].as_publication(delivery)
            if publication is None:
                return False
            check_publication(publication)
        except Exception:
            # Its wire format, perhaps a plugin, is at fault, and not who asks or answers.
            self._filtering.fail(session_id)
            return False
        return self.publish_to(session_id, publication)

    def publish_to(self, session_id: str, publication: Publication) -> bool:
        """Give one session a publication, and nobody else. :returns: whether it is given it."""
        return self._filtering.give(session_id, publication)
