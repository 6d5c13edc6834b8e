"""Why something ended, for how long services had no provider, and since when clients were away: what the records near a
record say of it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

from msgspec import Struct

from bussrv.inspection.timeline.scan import CHANGES, NAMES, PROVIDES, REPLACED, Boot, Found, Server

CRASHED, STOPPED, LINK_LOST = "server-crashed", "server-stopped", "link-lost"
"""The reasons that neighbouring records explain, beside ``REPLACED``."""

LEFT, RESUMED, CLOSED = "session.left", "session.resumed", "session.closed"
BOOTS = ("server.started", "server.recovered")

_CAUSED = {"server.stopped": STOPPED, **dict.fromkeys(BOOTS, CRASHED)}
"""The reasons of what these events of the same boot caused."""

_BEGINS = ("service.registered", "subscription.added")
_ENDS = ("service.unregistered", "subscription.removed")
# These may stand between the end of a service and the end of the session that caused it.
_BETWEEN = (*_ENDS, "link.down")


class Turn(Struct, gc=False):
    """A change of the providers of a service.

    :ivar providers: their number after it.
    :ivar missing_since: at a first provider, the moment when the last one before it went; ``None`` if there was none.
    :ivar missing_until, next_session: at the end of the last provider, the moment and the session of the next one.
    """

    about: str
    is_on: bool
    providers: int
    missing_since: int | None = None
    missing_until: int | None = None
    next_session: str | None = None


class Neighbours:
    """The records that explain a record, as indices. Few records are asked about, so they are found when they are.

    :param found: all records in order.
    """

    def __init__(self, found: Sequence[Found]) -> None:
        self._found = found
        self._sessions: dict[str | None, list[int]] = {}
        self._links: dict[str, list[int]] = {}
        self._names: dict[str | None, list[int]] = {}
        of_session = self._sessions.setdefault
        for at, each in enumerate(found):
            event = each.event
            of_session(each.session, []).append(at)
            if event in NAMES:
                self._names.setdefault(each.names.routing_id, []).append(at)
            elif event == "link.down" and not each.is_given:
                self._links.setdefault(each.boot, []).append(at)

    def following(self, at: int) -> int | None:
        """The next record of the session that is not the end of a service."""
        return next((later for later in self._later(at) if self._found[later].event not in _BETWEEN), None)

    def returned(self, at: int) -> int | None:
        """The next return of the client of the session, or its end."""
        return next((later for later in self._later(at) if self._found[later].event in (RESUMED, CLOSED)), None)

    def left(self, at: int) -> int | None:
        """The last time that the client left before."""
        indices = self._sessions[self._found[at].session]
        before = (indices[number] for number in range(bisect_left(indices, at) - 1, -1, -1))
        return next((earlier for earlier in before if self._found[earlier].event == LEFT), None)

    def down(self, at: int) -> int | None:
        """The link that was lost last before, in the same boot; that itself, if it is one."""
        indices = self._links.get(self._found[at].boot, [])
        number = bisect_right(indices, at)
        return indices[number - 1] if number else None

    def taker(self, at: int) -> str | None:
        """The next session with the routing id. Only closings ask for it."""
        indices = self._names.get(self._found[at].names.routing_id, [])
        number = bisect_right(indices, at)
        return self._found[indices[number]].session if number < len(indices) else None

    def _later(self, at: int) -> Iterator[int]:
        indices = self._sessions[self._found[at].session]
        return islice(indices, bisect_right(indices, at), None)


class Causes:
    """What explains the records of one server.

    :ivar turns: the changes of the providers of services, by the indices of records.
    :ivar ends: the indices of records with which a session ceased to provide or want the service ``name``.
    :ivar missed: those with which a service went or came back that one of the subjects wanted.
    """

    def __init__(self, server: Server, name: str) -> None:
        self._found = server.found
        self._subjects = server.subjects
        self._services = server.services
        self._name = name
        self._near = Neighbours(server.found)
        self._silent = dict(_silences(server.boots))
        self._boots = server.boots
        self.turns: dict[int, list[Turn]] = {}
        self.ends: set[int] = set()
        self.missed: set[int] = set()
        self._follow_services()

    # Services.

    def _follow_services(self) -> None:
        provided: dict[str, dict[str, None]] = defaultdict(dict)
        wanted: dict[str, dict[str, None]] = defaultdict(dict)
        held: dict[str, dict[str, None]] = defaultdict(dict)
        last: dict[str, tuple[int, Turn]] = {}
        for at, each in enumerate(self._found):
            session, service = each.session, each.service
            if session is None:
                continue
            if each.event == CLOSED:
                for about in held.pop(session, ()):
                    for kind in (provided, wanted):
                        if session in kind[about]:
                            self._change(at, about, False, (provided, wanted, last), kind is provided)
            elif each.event in CHANGES and service in self._services:
                held[session][service] = None
                kind = provided if each.event in PROVIDES else wanted
                is_on = each.event in _BEGINS
                if (session in kind[service]) != is_on:
                    self._change(at, service, is_on, (provided, wanted, last), kind is provided)

    def _change(self, at: int, about: str, is_on: bool, state: tuple[Any, Any, Any], is_provided: bool) -> None:
        """A session begins or ceases to provide or want a service."""
        provided, wanted, last = state
        session = self._found[at].session
        sessions = (provided if is_provided else wanted)[about]
        if is_on:
            sessions[session] = None
        else:
            del sessions[session]
            if about == self._name:
                self.ends.add(at)
        if is_provided:
            self._turn(at, Turn(about, is_on, len(sessions)), last)
            is_turn = len(sessions) == int(is_on)
            if is_turn and session not in self._subjects and not self._subjects.isdisjoint(wanted[about]):
                self.missed.add(at)

    def _turn(self, at: int, turn: Turn, last: dict[str, tuple[int, Turn]]) -> None:
        each = self._found[at]
        if turn.is_on and turn.providers == 1 and turn.about in last:
            before, gone = last[turn.about]
            turn.missing_since = before
            gone.missing_until, gone.next_session = each.moment, each.session
        last[turn.about] = each.moment, turn
        self.turns.setdefault(at, []).append(turn)

    # Ends.

    def closing(self, at: int) -> int | None:
        """The closing of the session that the end of a service or a subscription is due to; ``None``: none."""
        each, later = self._found[at], self._near.following(at)
        reason = each.reason
        if each.event not in _ENDS or later is None or reason is None:
            return None
        closing = self._found[later]
        return later if closing.event == CLOSED and closing.reason == reason else None

    def lost_link(self, at: int) -> int | None:
        """The lost link that caused a record."""
        return self._near.down(at) if self._found[at].reason == LINK_LOST else None

    def boots_behind(self, chosen: Sequence[int]) -> Iterator[int]:
        """The stops, and the boots after a crash, that caused some records."""
        caused = (self._found[at] for at in chosen if self._found[at].reason is not None)
        reasons = {(each.boot, each.reason) for each in caused}
        for at, each in enumerate(self._found):
            if (each.boot, _CAUSED.get(each.event)) in reasons:
                yield at

    def explanation(self, at: int) -> dict[str, Any]:
        """The columns that explain a record:

        - ``with_session``: whether a service or a subscription ended because its session did,
        - ``crashed_after`` and ``back_at``: a crash,
        - ``link`` and ``link_reason``: a lost link,
        - ``newcomer``: the session that replaced this one,
        - ``left_at``: when the client that is back now left,
        - ``absence_over``: when the client that leaves now was back, or its session was closed; ``resumed``: which.
        """
        each = self._found[at]
        row: dict[str, Any] = {}
        if each.event in _ENDS:
            row["with_session"] = self.closing(at) is not None
        if self.is_crash(at) and each.boot in self._silent:
            row["crashed_after"] = self._silent[each.boot]
            row["back_at"] = self._boots[each.boot].begun
        down = self.lost_link(at)
        if down is not None:
            lost = self._found[down]
            row["link"], row["link_reason"] = lost.names.routing_id, lost.reason
        newcomer = self.newcomer(at)
        if newcomer is not None:
            row["newcomer"] = newcomer
        left = self._near.left(at) if each.event == RESUMED else None
        if left is not None:
            row["left_at"] = self._found[left].moment
        returned = self._near.returned(at) if each.event == LEFT else None
        if returned is not None:
            over = self._found[returned]
            row["absence_over"], row["resumed"] = over.moment, over.event == RESUMED
        return row

    def newcomer(self, at: int) -> str | None:
        """The session that replaced the session of a record."""
        each = self._found[at]
        if each.reason != REPLACED or each.names.routing_id is None or each.event == "subscription.removed":
            return None
        taker = self._near.taker(at)
        return taker if taker != each.session else None

    def is_crash(self, at: int) -> bool:
        """Whether a record is due to a crash of the server."""
        return self._found[at].reason == CRASHED or self._found[at].event in BOOTS

    def is_open_before(self, at: int) -> bool:
        """Whether an earlier record than all of these may explain a record."""
        each, near = self._found[at], self._near
        if any(turn.is_on and turn.providers == 1 and turn.missing_since is None for turn in self.turns.get(at, ())):
            return True
        if self.is_crash(at) and self._is_first_boot(each.boot):
            return True
        is_lost = each.reason == LINK_LOST and near.down(at) is None
        return is_lost or (each.event == RESUMED and near.left(at) is None)

    def _is_first_boot(self, boot: str) -> bool:
        return boot in self._boots and self._boots[boot].first == min(each.first for each in self._boots.values())

    def is_open_after(self, at: int) -> bool:
        """Whether a later record than all of these may explain a record."""
        each, near = self._found[at], self._near
        if any(not turn.is_on and not turn.providers and turn.missing_until is None for turn in self.turns.get(at, ())):
            return True
        reason = each.reason
        if each.event in _ENDS and reason is not None and near.following(at) is None:
            return True
        is_replaced = reason == REPLACED and each.names.routing_id is not None and near.taker(at) is None
        return is_replaced or (each.event == LEFT and near.returned(at) is None)


def _silences(boots: dict[str, Boot]) -> Iterator[tuple[str, int]]:
    """The last moment before each boot that follows a crash."""
    order = sorted(boots, key=lambda boot: boots[boot].first)
    for before, boot in pairwise(order):
        if not boots[before].is_stopped:
            yield boot, boots[before].ended
