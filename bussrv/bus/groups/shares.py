"""Shared subscriptions: of the sessions that share a filter under one name, one is given each publication, in turn.

Source: MQTT 5.0, section 4.8.2. A session that has several gets a publication once for each that chooses it, besides
what its other subscriptions bring. A durable session without a client is given one if no other session can be.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from bussrv.bus.groups.fanout import Fanout, Group
from bussrv.bus.groups.frames import Delivery
from bussrv.bus.interest.pattern_index import PatternMap
from bussrv.bus.interest.total import TotalInterest
from bussrv.bus.interfaces import IEncoding, IFilteringLink
from bussrv.policy.permissions.permissions import Permissions
from bussrv.service_patterns import filter_of

MAX_SERVICES = 1 << 14
"""Of how many services it is remembered which shared subscriptions cover them."""


class Sharer(NamedTuple):
    """A session that shares a filter, in a group of its own for that."""

    group: Group
    link: IFilteringLink


Sharing = OrderedDict[str, Sharer]
"""The sessions that share a filter, the next one first."""


class Shares:
    """Every shared subscription. True: there is one.

    :param fanout: is told of the groups.
    :param total: counts the filters.
    """

    def __init__(self, fanout: Fanout, total: TotalInterest) -> None:
        self._fanout = fanout
        self._total = total
        self._sharing: dict[str, Sharing] = {}  # by ``$share/GROUP/FILTER``
        self._by_filter: PatternMap[dict[str, Sharing]] = PatternMap()
        self._found: dict[str, tuple[Sharing, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._sharing)

    def put(
        self, wanted: str, session_id: str, link: IFilteringLink, encoding: IEncoding, permissions: Permissions
    ) -> None:
        """A session shares a filter, perhaps in another way than before."""
        self.remove(wanted, session_id)
        sharing = self._sharing.get(wanted)
        if sharing is None:
            sharing = self._sharing[wanted] = OrderedDict()
            self._add(wanted, sharing)
        group = Group(encoding, permissions=permissions)
        sharing[session_id] = Sharer(group, link)
        self._fanout.join(group, session_id, link)

    def remove(self, wanted: str, session_id: str) -> None:
        """A session shares a filter no more, if it did."""
        sharing = self._sharing.get(wanted, OrderedDict())
        sharer = sharing.pop(session_id, None)
        if sharer is None:
            return
        self._fanout.leave(sharer.group, session_id)
        if not sharing:
            self._forget(wanted)

    def _add(self, wanted: str, sharing: Sharing) -> None:
        name = filter_of(wanted)
        if name not in self._by_filter:
            self._by_filter[name] = {}
            self._total.service_came(name)
        self._by_filter[name][wanted] = sharing
        self._found.clear()

    def _forget(self, wanted: str) -> None:
        name = filter_of(wanted)
        del self._sharing[wanted], self._by_filter[name][wanted]
        if not self._by_filter[name]:
            del self._by_filter[name]
            self._total.service_went(name)
        self._found.clear()

    def covers(self, service: str) -> bool:
        """Whether there is a shared subscription to a service."""
        return bool(self._sharing) and bool(self._on(service))

    def catch_up(self, wanted: str, session_id: str) -> None:
        """Send a session what was collected for it."""
        self._fanout.send_one(self._sharing[wanted][session_id].group, session_id)

    def give(self, service: str, delivery: Delivery) -> None:
        """Give a publication to one session of each shared subscription that covers its service."""
        for sharing in self._on(service):
            away: list[str] = []
            if not self._give_one(sharing, service, delivery, tuple(sharing), away):
                self._give_one(sharing, service, delivery, away, None)

    def _give_one(
        self, sharing: Sharing, service: str, delivery: Delivery, in_turn: Sequence[str], away: list[str] | None
    ) -> bool:
        """Give a publication to the next session that can be given it. :returns: whether there is one.

        :param away: those whose clients are not there are put off, into this list; ``None``: they are not.
        """
        for session_id in in_turn:
            group, link = sharing[session_id]
            if away is not None and link.is_away:
                away.append(session_id)
                continue
            sharing.move_to_end(session_id)
            if group.permissions.may("watch", service) and self._given(group, delivery):
                return True
        return False

    def _given(self, group: Group, delivery: Delivery) -> bool:
        """Give a publication to a session. :returns: ``False``: it cannot be given it."""
        self._fanout.open(group, None)
        before = len(group.pending)
        self._fanout.add(group, delivery)
        return len(group.pending) > before

    def _on(self, service: str) -> tuple[Sharing, ...]:
        if not self._sharing:
            return ()
        found = self._found.get(service)
        if found is None:
            found = tuple(chain.from_iterable(each.values() for each in self._by_filter.matching(service)))
            if len(self._found) >= MAX_SERVICES:
                self._found.clear()
            self._found[service] = found
        return found
