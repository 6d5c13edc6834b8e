"""Receivers: every session that objects or publications can be sent to, in groups, in step with the registry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from bussrv.bus.delivery import Fanout, Group
from bussrv.bus.interest import Kind
from bussrv.bus.interfaces import IEncoding, ISessionLink
from bussrv.values import Interest

MAX_REMEMBERED = 1 << 20
"""How many groups are remembered as those that want a kind, all kinds together, before all of that is forgotten."""

KIND_COSTS = 64
"""A kind takes as much memory as so many groups, beside the groups that want it."""

MOST_GONE = 64
"""So many groups more than there are may be remembered after they are gone."""

MAX_KIND_LENGTH = 1024
"""The most characters of a kind that is remembered: what it looks at comes from clients."""

_InterestKey = tuple[IEncoding, Interest, str | None]


class Seat(Struct, eq=False):
    """The link of one session, and its group once it is a member of the object network.

    :ivar joined: how many sessions had joined the network when it did, counting itself.
    """

    link: ISessionLink
    group: Group | None = None
    joined: int = 0


class Wanting(Struct):
    """The groups that want objects of one kind.

    :ivar changes: how often groups had come and gone when this was last right.
    """

    groups: tuple[Group, ...]
    changes: int


class Receivers:
    """Finds the receivers of an object or a publication.

    :param fanout: told who joins a group or leaves it, so that nobody gets what was sent before it joined, or misses
        what was sent before it left.
    :ivar joins: how many sessions have joined the network so far.
    :ivar tried: how many groups were asked so far whether they want a kind.
    """

    def __init__(self, fanout: Fanout) -> None:
        self._fanout = fanout
        self.joins = 0
        self._seats: dict[str, Seat] = {}
        self._member_groups: dict[_InterestKey, Group] = {}
        self._subscriber_groups: dict[str, dict[IEncoding, Group]] = {}
        self._services_of: dict[str, set[str]] = {}
        self.tried = 0
        self._changes = 0
        self._came: dict[Group, int] = {}
        self._gone = 0
        self._by_kind: dict[Kind, Wanting] = {}
        self._remembered = 0

    def seat(self, session_id: str, link: ISessionLink) -> None:
        """A session can be reached by ``link``."""
        self._seats[session_id] = Seat(link)

    def link(self, session_id: str) -> ISessionLink | None:
        """The link to a session's client."""
        seat = self._seats.get(session_id)
        return seat.link if seat is not None else None

    def group_of(self, session_id: str) -> Group | None:
        """The group of a member of the object network; ``None`` for every other session."""
        seat = self._seats.get(session_id)
        return seat.group if seat is not None else None

    def had_joined(self, session_id: str, joins: int) -> bool:
        """Whether a session was among the first ``joins`` that joined the network."""
        seat = self._seats.get(session_id)
        return seat is not None and 0 < seat.joined <= joins

    def join(self, session_id: str, interest: Interest, vocabulary: str | None) -> None:
        """A session is a member of the object network from now on, or has another interest."""
        seat = self._seats.get(session_id)
        if seat is None:
            return
        if not seat.joined:
            self.joins += 1
            seat.joined = self.joins
        self._leave_group(session_id, seat)
        encoding = seat.link.encoding_for(None)
        key = (encoding, interest, vocabulary)
        group = self._member_groups.get(key)
        if group is None:
            group = self._member_groups[key] = Group(encoding, interest, vocabulary)
            self._changes += 1
            self._came[group] = self._changes
        self._fanout.join(group, session_id, seat.link)
        seat.group = group

    def subscribe(self, session_id: str, service: str, options: dict[str, Any] | None) -> None:
        """A session gets the publications on ``service`` from now on, encoded as ``options`` ask for."""
        seat = self._seats.get(session_id)
        if seat is None:
            return
        groups = self._subscriber_groups.setdefault(service, {})
        encoding = seat.link.encoding_for(options)
        group = groups.get(encoding)
        if group is None:
            group = groups[encoding] = Group(encoding)
        self._fanout.join(group, session_id, seat.link)
        self._services_of.setdefault(session_id, set()).add(service)

    def unsubscribe(self, session_id: str, service: str) -> None:
        """A session no longer gets the publications on ``service``."""
        groups = self._subscriber_groups.get(service, {})
        for encoding, group in tuple(groups.items()):
            if session_id not in group.links:
                continue
            self._fanout.leave(group, session_id)
            if not group.links:
                del groups[encoding]
        if not groups:
            self._subscriber_groups.pop(service, None)
        self._services_of.get(session_id, set()).discard(service)

    def catch_up(self, session_id: str) -> None:
        """Send a session its collected frames."""
        group = self.group_of(session_id)
        if group is not None:
            self._fanout.send_one(group, session_id)
        for service in self._services_of.get(session_id, ()):
            for group in self.subscribed_to(service):
                self._fanout.send_one(group, session_id)

    def leave(self, session_id: str) -> None:
        """A session is gone."""
        seat = self._seats.pop(session_id, None)
        if seat is not None:
            self._leave_group(session_id, seat)
        for service in tuple(self._services_of.get(session_id, ())):
            self.unsubscribe(session_id, service)
        self._services_of.pop(session_id, None)

    def _leave_group(self, session_id: str, seat: Seat) -> None:
        group, seat.group = seat.group, None
        if group is None:
            return
        self._fanout.leave(group, session_id)
        if not group.links and group.interest is not None:
            del self._member_groups[(group.encoding, group.interest, group.vocabulary)]
            del self._came[group]
            self._changes += 1
            self._gone += 1
            if self._gone > len(self._came) + MOST_GONE:
                self._forget_kinds()

    def wanting(self, kind: Kind) -> tuple[Group, ...]:
        """The groups of members that want objects of that kind."""
        wanting = self._by_kind.get(kind)
        if wanting is not None and wanting.changes == self._changes:
            return wanting.groups
        if wanting is None:
            groups = self._newer(0, kind)
        else:
            groups = (*(group for group in wanting.groups if group.links), *self._newer(wanting.changes, kind))
        self._remember(kind, groups)
        return groups

    def _newer(self, changes: int, kind: Kind) -> tuple[Group, ...]:
        """The groups that want objects of a kind, of those that came after so many changes."""
        newer: list[Group] = []
        for group in reversed(self._came):
            if self._came[group] <= changes:
                break
            self.tried += 1
            if group.wants(kind):
                newer.append(group)
        return tuple(reversed(newer))

    def _remember(self, kind: Kind, groups: tuple[Group, ...]) -> None:
        if kind.length() > MAX_KIND_LENGTH:
            return
        former = self._by_kind.pop(kind, None)
        self._remembered += len(groups) - len(former.groups) if former is not None else KIND_COSTS + len(groups)
        if self._remembered > MAX_REMEMBERED:
            self._forget_kinds()
            self._remembered = KIND_COSTS + len(groups)
        self._by_kind[kind] = Wanting(groups, self._changes)

    def _forget_kinds(self) -> None:
        self._by_kind.clear()
        self._remembered = self._gone = 0

    def subscribed_to(self, service: str) -> Iterable[Group]:
        """The groups of sessions that subscribed to a service."""
        return self._subscriber_groups[service].values() if service in self._subscriber_groups else ()
