"""Clocks of linked servers: how far each is ahead, measured by pings.

Attributes in brackets may be left out::

    -> ping   id to route                          to a linked server
    <- pong   in-reply-to routing-id to [time]     its time of day, such as ``2026-11-21T14:02:03.123456Z``

Of a round trip one half is not known, as in NTP (RFC 5905). So of the last answers the one with the shortest round trip
counts. An answer that contradicts older ones says that a clock was set since, and the older ones are forgotten. A
server that does not say its time has no clock here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct, field

from bussrv.bus.links.facts import LinkFacts
from bussrv.journal.record import format_time, parse_time
from bussrv.turns.clock import Clock

MOST_ANSWERS = 8
"""The most answers of a server that are compared."""

SLACK = 0.001
"""Seconds by which two answers may differ besides: clocks run at different speeds, and times are rounded."""

_SECOND = 1_000_000


class ClockAhead(Struct, frozen=True):
    """How far the clock of a server is ahead, in seconds, give or take half of the round trip."""

    ahead: float
    round_trip: float

    def contradicts(self, other: ClockAhead) -> bool:
        """Whether no clock that nobody sets gives both answers."""
        return abs(self.ahead - other.ahead) > (self.round_trip + other.round_trip) / 2 + SLACK


class _Asked(Struct):
    """The last question to one server, and its answers.

    :ivar id: of the last ping; empty: it was answered.
    :ivar sent: when, by the clock that nobody sets, in microseconds.
    """

    id: str = ""
    sent: int = 0
    answers: deque[ClockAhead] = field(default_factory=lambda: deque(maxlen=MOST_ANSWERS))


class LinkClocks:
    """The clocks of all linked servers.

    :param links: says which links are up.
    :param tell: tells a linked server.
    """

    def __init__(
        self,
        server_id: str,
        clock: Clock,
        new_id: Callable[[], str],
        links: Callable[[], Iterable[LinkFacts]],
        tell: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._server_id = server_id
        self._clock = clock
        self._new_id = new_id
        self._links = links
        self._tell = tell
        self._asked: dict[str, _Asked] = {}

    def ask(self) -> None:
        """Ask every linked server that may be a bussrv."""
        linked = [each for each in self._links() if each.tells_all]
        known, self._asked = self._asked, {}
        for link in linked:
            ping_id, session_id = self._new_id(), link.session_id
            asked = self._asked[session_id] = known.get(session_id) or _Asked()
            asked.id, asked.sent = ping_id, self._clock.mono()
            ping = {"event": "ping", "id": ping_id, "to": link.server_id, "route": [self._server_id]}
            self._tell(session_id, ping)

    def hear(self, session_id: str, reply_id: object, time: object) -> None:
        """A linked server answers. Only an answer to the last ping that has a time counts."""
        asked = self._asked.get(session_id)
        if asked is None or not asked.id or reply_id != asked.id or not isinstance(time, str):
            return
        asked.id = ""
        try:
            theirs = parse_time(time)
        except ValueError:
            return
        trip = max(0, self._clock.mono() - asked.sent)
        heard = ClockAhead((theirs - self._clock.utc() + trip / 2) / _SECOND, trip / _SECOND)
        if any(map(heard.contradicts, asked.answers)):
            asked.answers.clear()
        asked.answers.append(heard)

    def of(self, session_id: str) -> ClockAhead | None:
        """The clock of the server at the other end of a link; ``None``: it has not said its time."""
        asked = self._asked.get(session_id)
        return None if asked is None else min(asked.answers, key=lambda each: each.round_trip, default=None)

    def now(self) -> str:
        """The time of day, as it is said to others."""
        return format_time(self._clock.utc())
