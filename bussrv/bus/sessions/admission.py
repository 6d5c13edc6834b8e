"""Admission of sessions: limits to all of them, to those of one address, and to new ones a second.

``--max-sessions``, ``--max-sessions-per-address``, ``--max-connects``; for Inbus ``--inbus-max-sessions`` and
``--inbus-max-sessions-per-address``.

Inbus has a budget of its own: sources of datagrams can be forged, and a forger must not keep out other clients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import ClassVar

from zope.interface import implementer

from bussrv import events as ev
from bussrv.addresses import address_key, is_exempt
from bussrv.counts.throttle import Throttle
from bussrv.errors import OverLimit
from bussrv.journal.record import Stamped
from bussrv.registry.changes.observers import Kinds
from bussrv.registry.interfaces import IRegistry, IRegistryObserver
from bussrv.settings import Settings

INBUS = "inbus"
"""The protocol whose sessions are counted apart."""


class CountedSessions:
    """Sessions that are counted together.

    :param limits: the options of its limits: to all sessions, and to those of one address.
    """

    def __init__(self, limits: tuple[str, str], settings: Settings, seconds: Callable[[], float]) -> None:
        self._limit, self._limit_per_address = limits
        self._settings = settings
        self._connects = Throttle(settings.max_connects, settings.max_connects_burst, seconds)
        self._keys: dict[str, str] = {}
        self._by_key: Counter[str] = Counter()
        self._expected = 0

    def check(self, peer: str) -> None:
        """Check that one more session may come from the address ``peer``.

        :raises OverLimit: ``too-many-sessions`` or ``too-many-connects``.
        """
        settings = self._settings
        most = self._most(self._limit)
        if len(self._keys) >= most:
            raise _too_many("too-many-sessions", "sessions", self._limit, most)
        if is_exempt(peer, settings.trusted_network):
            return
        key, most = address_key(peer), self._most(self._limit_per_address)
        if self._by_key[key] >= most:
            raise _too_many("too-many-sessions", f"sessions from {key}", self._limit_per_address, most)
        if self._connects.admit(key) is None:
            most = settings.max_connects
            raise _too_many("too-many-connects", f"new sessions a second from {key}", "max-connects", most)

    def _most(self, limit: str) -> int:
        most: int = getattr(self._settings, limit.replace("-", "_"))
        return most

    def copy_limits(self) -> None:
        """Take the limits of the settings again."""
        self._connects.limit(self._settings.max_connects, self._settings.max_connects_burst)

    def entered(self, session_id: str, peer: str) -> None:
        """A session was opened."""
        self._keys[session_id] = key = address_key(peer)
        self._by_key[key] += 1

    def expect(self, peer: str) -> Callable[[], None]:
        """Count a session that is not open yet. :returns: counts it no more."""
        self._expected += 1
        # No session has such an id.
        expected = f"expected {self._expected}"
        self.entered(expected, peer)
        return lambda: self.left(expected)

    def left(self, session_id: str) -> None:
        """A session was closed; it may be one of another budget."""
        key = self._keys.pop(session_id, None)
        if key is not None:
            self._by_key[key] -= 1
            if not self._by_key[key]:
                del self._by_key[key]


@implementer(IRegistryObserver)
class Admission:
    """Counts the sessions of this server by the address they come from. Durable ones count while they are connected:
    otherwise those that are away could keep their own clients out.

    :param seconds: a clock, in seconds.
    """

    KINDS: ClassVar[Kinds] = frozenset({ev.SessionOpened, ev.SessionLeft, ev.SessionResumed, ev.SessionClosed})

    def __init__(
        self, registry: IRegistry, settings: Settings, counters: Counter[str], seconds: Callable[[], float]
    ) -> None:
        self._registry = registry
        self._counters = counters
        self._inbus = CountedSessions(("inbus-max-sessions", "inbus-max-sessions-per-address"), settings, seconds)
        self._connections = CountedSessions(("max-sessions", "max-sessions-per-address"), settings, seconds)
        for session in registry.state.sessions.values():
            if session.home is None and not session.is_away:
                self._budget(session.protocol).entered(session.id, session.peer)

    def copy_limits(self) -> None:
        """Take the limits of the settings again."""
        for each in (self._inbus, self._connections):
            each.copy_limits()

    def admit(self, protocol: str, peer: str) -> None:
        """Check that one more session of a wire format may be opened from an address.

        :raises OverLimit: ``too-many-sessions`` or ``too-many-connects``. That is counted and journaled.
        """
        try:
            self._budget(protocol).check(peer)
        except OverLimit as refusal:
            self._counters[refusal.limit] += 1
            self._registry.note_from_stranger(ev.limit_reached(refusal, protocol=protocol, peer=peer))
            raise

    def expect(self, protocol: str, peer: str, is_admitted: bool = False) -> Callable[[], None]:
        """Check the same, unless the session is admitted, and count it before it is open.

        :returns: counts it no more.
        """
        if not is_admitted:
            self.admit(protocol, peer)
        return self._budget(protocol).expect(peer)

    def registry_changed(self, stamped: Stamped) -> None:
        """Count sessions that come and go; see :class:`IRegistryObserver`."""
        event = stamped.event
        if isinstance(event, ev.SessionResumed) or (isinstance(event, ev.SessionOpened) and event.home is None):
            self._budget(event.protocol).entered(event.session or "", event.peer or "")
        elif isinstance(event, (ev.SessionLeft, ev.SessionClosed)):
            self._budget(event.protocol).left(event.session or "")

    def _budget(self, protocol: str | None) -> CountedSessions:
        return self._inbus if protocol == INBUS else self._connections


def _too_many(reason: str, what: str, limit: str, most: int) -> OverLimit:
    return OverLimit(reason, f"more than {most} {what}", limit, most)
