"""Receivers: every session that objects or publications can be sent to, in groups.

A *group* (:class:`bussrv.bus.groups.fanout.Group`) is made of members with equal interest and the same permissions, of
subscribers of one service, or of sessions with equal filters (:class:`bussrv.bus.interfaces.IFilteringLink`), that get
the same bytes. A member that is subscribed to services is in one group all the same, and so is a session with filters:
it gets each publication once, in order with everything else.

To find the receivers of an object, each group would have to be asked whether it wants objects of its *kind*
(:class:`bussrv.bus.interest.interests.Kind`). So the answers are remembered for each kind. When groups come, only these
are asked. Those that are subscribed to the service of a publication, by its name or by a pattern, are looked up.

:class:`bussrv.bus.bus.Bus` observes the registry and calls the methods here, so that receivers and registry agree.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from msgspec import Struct

from bussrv.bus.generation import Generation
from bussrv.bus.groups.by_service import GroupsByService
from bussrv.bus.groups.fanout import Fanout, Group
from bussrv.bus.groups.filtering import FilteringSessions
from bussrv.bus.interest.interests import Kind
from bussrv.bus.interest.total import TotalInterest
from bussrv.bus.interfaces import IEncoding, IFilteringLink, ISessionLink
from bussrv.policy.permissions.permissions import EVERYTHING, Permissions
from bussrv.values import Interest, ModeInterest

MAX_REMEMBERED = 1 << 20
"""The most answers that are remembered, counted in groups over all kinds. Beyond it all are forgotten."""

KIND_COSTS = 64
"""A remembered kind counts as this many groups, in addition to the groups that want it."""

MOST_GONE = 64
"""Answers keep groups alive that have no members left. All answers are forgotten when the number of such groups exceeds
the number of groups with members by more than this."""

MAX_KIND_LENGTH = 1024
"""The most characters of a kind that is remembered. Clients choose its length."""

NO_SERVICES: frozenset[str] = frozenset()

_InterestKey = tuple[IEncoding, Interest, str | None, Permissions, frozenset[str], bool]


class Receiver(Struct, eq=False):
    """One session.

    :ivar group: its group, once it is a member of the object network.
    :ivar joined: its number in the order in which sessions became members, or took part in exchanges otherwise, from
        1; 0: it did not.
    :ivar hears_gaps: see :class:`Group`.
    """

    link: ISessionLink
    group: Group | None = None
    joined: int = 0
    hears_gaps: bool = False


class KindGroups(Struct):
    """The groups that want objects of one kind.

    :ivar groups: all of them.
    :ivar interested: those of them that want such objects by their interest.
    :ivar changes: the value of ``Receivers._changes`` when they were found. Later changes are not in ``groups`` yet.
    """

    groups: tuple[Group, ...]
    interested: tuple[Group, ...]
    changes: int


class Receivers:
    """Finds the receivers of an object or a publication.

    :param fanout: is told when a session joins or leaves a group. So a session gets nothing that was sent before it
        joined, and misses nothing that was sent before it left.
    :param generation: ends when the filters of a session change.
    :ivar total: what all of them want together.
    :ivar filtering: the sessions with filters.
    :ivar joins: how many sessions have become members, or took part in exchanges otherwise, so far.
    :ivar members: the sessions of members.
    :ivar groups_asked: how many times a group was asked so far whether it wants a kind.
    """

    def __init__(self, fanout: Fanout, generation: Generation) -> None:
        self._fanout = fanout
        self.joins = 0
        self.members: set[str] = set()
        self._receivers: dict[str, Receiver] = {}
        self._member_groups: dict[_InterestKey, Group] = {}
        self.total = total = TotalInterest()
        self._members_on = GroupsByService(total)
        self.filtering = FilteringSessions(fanout, total, generation)
        self._subscriber_groups: dict[str, dict[tuple[IEncoding, Permissions], Group]] = {}
        self._services_of: dict[str, set[str]] = {}
        self.groups_asked = 0
        # Changes are numbered: a group of members came, or went because its last member left.
        self._changes = 0
        self._came_at: dict[Group, int] = {}
        self._gone_since_forgetting = 0
        self._by_kind: dict[Kind, KindGroups] = {}
        self._remembered = 0

    def add(self, session_id: str, link: ISessionLink) -> None:
        """A session can be reached by ``link``. It receives nothing until :meth:`join` or :meth:`subscribe`."""
        self._receivers[session_id] = Receiver(link)
        if IFilteringLink.providedBy(link):
            self.filtering.add(session_id, link)

    def link(self, session_id: str) -> ISessionLink | None:
        """The link to a session's client."""
        receiver = self._receivers.get(session_id)
        return receiver.link if receiver is not None else None

    def group_of(self, session_id: str) -> Group | None:
        """The group of a member of the object network; ``None`` for every other session."""
        receiver = self._receivers.get(session_id)
        return receiver.group if receiver is not None else None

    def had_joined(self, session_id: str, joins: int) -> bool:
        """Whether a session was a member already when ``joins`` sessions had become members."""
        receiver = self._receivers.get(session_id)
        return receiver is not None and 0 < receiver.joined <= joins

    def number(self, session_id: str) -> None:
        """A session takes part in exchanges: it may be given every request from now on."""
        receiver = self._receivers[session_id]
        if not receiver.joined:
            self.joins += 1
            receiver.joined = self.joins

    def join(
        self,
        session_id: str,
        interest: Interest,
        vocabulary: str | None,
        permissions: Permissions = EVERYTHING,
        services: frozenset[str] = NO_SERVICES,
    ) -> None:
        """A session becomes a member of the object network, or a member has another interest or other permissions.

        :param services: the names and patterns that it is subscribed to.
        """
        receiver = self._receivers.get(session_id)
        if receiver is None:
            return
        self.number(session_id)
        self.members.add(session_id)
        self._leave_group(session_id, receiver)
        for service in tuple(self._services_of.get(session_id, ())):
            self.unsubscribe(session_id, service)
        if isinstance(interest, ModeInterest) and interest.receive == "none":
            services = NO_SERVICES
        encoding = receiver.link.encoding_for(None)
        key = (encoding, interest, vocabulary, permissions, services, receiver.hears_gaps)
        group = self._member_groups.get(key)
        if group is None:
            group = self._member_groups[key] = Group(*key)
            self._changes += 1
            if group.has_interest:
                self._came_at[group] = self._changes
            self._members_on.add(group)
            self.total.interest_came(interest)
        self._fanout.join(group, session_id, receiver.link)
        receiver.group = group

    def permissions_changed(self, session_id: str, permissions: Permissions) -> None:
        """A session has these permissions from now on."""
        if session_id in self.filtering:
            self.filtering.permissions_changed(session_id, permissions)
        group = self.group_of(session_id)
        if group is not None and group.permissions is not permissions:
            self._regroup(session_id, group, permissions, frozenset(group.services))

    def hear_gaps(self, session_id: str, *, hears_gaps: bool) -> None:
        """A member is told of lost objects, or is not, from now on."""
        receiver = self._receivers.get(session_id)
        if receiver is None or receiver.hears_gaps == hears_gaps:
            return
        receiver.hears_gaps = hears_gaps
        if receiver.group is not None:
            self._regroup(session_id, receiver.group, receiver.group.permissions, frozenset(receiver.group.services))

    def hearing_gaps(self, service: str | None) -> list[Group]:
        """The groups of members that are told of lost publications on a service; ``None``: of all lost objects."""
        groups = self._member_groups.values() if service is None else self.members_on(service)
        return [group for group in groups if group.hears_gaps and not group.is_deaf]

    def _regroup(self, session_id: str, group: Group, permissions: Permissions, services: frozenset[str]) -> None:
        """A member of ``group`` has these permissions, and is subscribed to these services, from now on."""
        assert group.interest is not None, "members have an interest"
        self.join(session_id, group.interest, group.vocabulary, permissions, services)

    def subscribe(
        self, session_id: str, service: str, options: dict[str, Any] | None, permissions: Permissions = EVERYTHING
    ) -> None:
        """A session gets the publications on ``service`` from now on. Only members and sessions with filters have
        patterns.

        :param options: those of its subscription, such as the version of Inbus. They determine the encoding.
        :param permissions: those by which the service shows it what it may know of. A member has its own. Those of a
            session with filters.
        """
        receiver = self._receivers.get(session_id)
        if receiver is None:
            return
        if session_id in self.filtering:
            self.filtering.subscribe(session_id, service, options, permissions)
            return
        member = receiver.group
        if member is not None:
            if not (member.is_deaf or service in member.services):
                self._regroup(session_id, member, member.permissions, frozenset({*member.services, service}))
            return
        groups = self._subscriber_groups.get(service)
        if groups is None:
            groups = self._subscriber_groups[service] = {}
            self.total.service_came(service)
        key = (receiver.link.encoding_for(options), permissions)
        group = groups.get(key)
        if group is None:
            group = groups[key] = Group(key[0], permissions=permissions)
        self._fanout.join(group, session_id, receiver.link)
        self._services_of.setdefault(session_id, set()).add(service)

    def unsubscribe(self, session_id: str, service: str) -> None:
        """A session no longer gets the publications on ``service``."""
        if session_id in self.filtering:
            self.filtering.unsubscribe(session_id, service)
            return
        member = self.group_of(session_id)
        if member is not None:
            if service in member.services:
                self._regroup(session_id, member, member.permissions, frozenset(member.services - {service}))
            return
        groups = self._subscriber_groups.get(service)
        if groups is None:
            return
        for key, group in tuple(groups.items()):
            if session_id not in group.links:
                continue
            self._fanout.leave(group, session_id)
            if not group.links:
                del groups[key]
        if not groups:
            del self._subscriber_groups[service]
            self.total.service_went(service)
        self._services_of.get(session_id, set()).discard(service)

    def catch_up(self, session_id: str) -> None:
        """Send a session its collected frames now, so that an answer can be sent after them."""
        if session_id in self.filtering:
            self.filtering.catch_up(session_id)
        group = self.group_of(session_id)
        if group is not None and (group.pending or group.overrides):
            self._fanout.send_one(group, session_id)
        for service in self._services_of.get(session_id, ()):
            for group in self.subscribed_to(service):
                self._fanout.send_one(group, session_id)

    def remove(self, session_id: str) -> None:
        """A session is closed. It is sent its collected frames."""
        receiver = self._receivers.pop(session_id, None)
        if receiver is not None:
            self._leave_group(session_id, receiver)
        self.members.discard(session_id)
        self.filtering.remove(session_id)
        for service in tuple(self._services_of.get(session_id, ())):
            self.unsubscribe(session_id, service)
        self._services_of.pop(session_id, None)

    def _leave_group(self, session_id: str, receiver: Receiver) -> None:
        group, receiver.group = receiver.group, None
        if group is None:
            return
        self._fanout.leave(group, session_id)
        if not group.links and group.interest is not None:
            services = frozenset(group.services)
            who = (group.encoding, group.interest, group.vocabulary)
            about = (*who, group.permissions, services, group.hears_gaps)
            del self._member_groups[about]
            self._came_at.pop(group, None)
            self._members_on.remove(group)
            self.total.interest_went(group.interest)
            self._changes += 1
            self._gone_since_forgetting += 1
            if self._gone_since_forgetting > len(self._came_at) + MOST_GONE:
                self._forget_kinds()

    def wanting(self, kind: Kind) -> tuple[Group, ...]:
        """The groups of members that want objects of that kind: first those that do by their interest, in the order in
        which the groups came.
        """
        known = self._by_kind.get(kind)
        if known is not None and known.changes == self._changes:
            return known.groups
        if known is None:
            interested = self._came_after(0, kind)
        else:
            still = (group for group in known.interested if group.links)
            interested = (*still, *self._came_after(known.changes, kind))
        subscribed = () if kind.service is None else self.members_on(kind.service)
        groups = (*interested, *(group for group in subscribed if not group.wants_broadcast(kind)))
        self._remember(kind, KindGroups(groups, interested, self._changes))
        return groups

    def _came_after(self, change: int, kind: Kind) -> tuple[Group, ...]:
        """Of the groups that came after the change with this number, those that want objects of a kind."""
        newer: list[Group] = []
        for group in reversed(self._came_at):
            if self._came_at[group] <= change:
                break
            self.groups_asked += 1
            if group.wants_broadcast(kind):
                newer.append(group)
        return tuple(reversed(newer))

    def _remember(self, kind: Kind, found: KindGroups) -> None:
        if kind.length() > MAX_KIND_LENGTH:
            return
        former, number = self._by_kind.pop(kind, None), len(found.groups)
        self._remembered += number - len(former.groups) if former is not None else KIND_COSTS + number
        if self._remembered > MAX_REMEMBERED:
            self._forget_kinds()
            self._remembered = KIND_COSTS + number
        self._by_kind[kind] = found

    def _forget_kinds(self) -> None:
        self._by_kind.clear()
        self._remembered = self._gone_since_forgetting = 0

    def has_subscribers(self, service: str) -> bool:
        """Whether some session is subscribed to a service, and may be sent publications."""
        return bool(self.members_on(service)) or any(group.links for group in self.subscribed_to(service))

    def members_on(self, service: str) -> Collection[Group]:
        """The groups of members that are subscribed to a service, by its name or by a pattern, and may watch it; except
        those that receive nothing.
        """
        return self._members_on.on(service)

    def subscribed_to(self, service: str) -> Collection[Group]:
        """The groups of the subscribers of a service, except members: by encoding, and by what they may know of."""
        groups = self._subscriber_groups[service].values() if service in self._subscriber_groups else ()
        filtering = self.filtering.on(service)
        return [*groups, *filtering] if filtering else groups
