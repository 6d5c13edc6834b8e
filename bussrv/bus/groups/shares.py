"""Shared subscriptions: of the sessions that share a filter under one name, one is given each publication, in turn.

Source: MQTT 5.0, section 4.8.2. A session that has several gets a publication once for each that chooses it, besides
what its other subscriptions bring. A durable session without a client is given one if no other session can be.

A session is chosen when what was collected is sent: in slices, if there are many shared subscriptions. Each of them is
a group of the fan-out for that, and brings its publications in their order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from msgspec import Struct, field

from bussrv.bus.groups.fanout import NO_FRAMES, Fanout, Group
from bussrv.bus.groups.frames import Delivery
from bussrv.bus.interest.pattern_index import PatternMap
from bussrv.bus.interest.total import TotalInterest
from bussrv.bus.interfaces import IEncoding, IFilteringLink
from bussrv.memory.bundle import Bundle
from bussrv.policy.permissions.permissions import Permissions
from bussrv.service_patterns import filter_of

MAX_SERVICES = 1 << 14
"""Of how many services it is remembered which shared subscriptions cover them."""


class Sharer(NamedTuple):
    """A session that shares a filter, in a group of its own for that."""

    group: Group
    link: IFilteringLink


class Sharing(Struct, eq=False):
    """The sessions that share a filter.

    :ivar sharers: the next one first.
    :ivar waiting: what was collected for them.
    :ivar group: what the fan-out knows them by.
    """

    sharers: OrderedDict[str, Sharer] = field(default_factory=OrderedDict)
    waiting: list[Delivery] = []
    group: Group = field(default_factory=lambda: Group(NO_FRAMES))


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
            sharing = self._sharing[wanted] = Sharing()
            self._add(wanted, sharing)
        self._hand_out(sharing)
        group = Group(encoding, permissions=permissions)
        group.links[session_id] = link
        sharing.sharers[session_id] = Sharer(group, link)

    def remove(self, wanted: str, session_id: str) -> None:
        """A session shares a filter no more, if it did."""
        sharing = self._sharing.get(wanted)
        if sharing is None or session_id not in sharing.sharers:
            return
        self._hand_out(sharing)
        del sharing.sharers[session_id]
        if not sharing.sharers:
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
        """Send the sessions that share a filter what was collected for them."""
        self._hand_out(self._sharing[wanted])

    def give(self, service: str, deliveries: Sequence[Delivery]) -> None:
        """Give publications on a service to one session of each shared subscription that covers it."""
        for sharing in self._on(service):
            sharing.waiting += deliveries
            self._fanout.add_piece(sharing.group, partial(self._made, sharing))

    def _made(self, sharing: Sharing, _: Group) -> Sequence[bytes]:
        self._hand_out(sharing)
        return ()

    def _hand_out(self, sharing: Sharing) -> None:
        """Send what was collected for those who share a filter to one of them each, in turn."""
        waiting, sharing.waiting = sharing.waiting, []
        chosen: dict[Sharer, list[bytes]] = {}
        for each in waiting:
            found = self._choose(sharing, each)
            if found is not None:
                chosen.setdefault(found[0], []).append(found[1])
        for sharer, frames in chosen.items():
            self._send(sharer, Bundle(frames))

    def _send(self, sharer: Sharer, bundle: Bundle) -> None:
        try:
            sharer.link.send(bundle)
        except Exception:
            self._fanout.fail(sharer.group)  # The link is a plugin's, perhaps. The others are sent theirs.

    def _choose(self, sharing: Sharing, delivery: Delivery) -> tuple[Sharer, bytes] | None:
        """The next session that can be given a publication, and its frame; ``None``: no session can."""
        publication, sharers = delivery.publication, sharing.sharers
        assert publication is not None, "what is shared is a publication"
        for session_id in sorted(sharers, key=lambda each: sharers[each].link.is_away):
            sharer = sharers[session_id]
            sharers.move_to_end(session_id)
            if sharer.group.permissions.may("watch", publication.service):
                frame = self._fanout.frame(sharer.group, delivery)
                if frame is not None:
                    return sharer, frame
        return None

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
