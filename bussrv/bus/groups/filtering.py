"""Sessions with filters: each is in one group for all that it is subscribed to, names and patterns."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from bussrv.bus.generation import Generation
from bussrv.bus.groups.by_service import GroupsByService
from bussrv.bus.groups.fanout import NO_FRAMES, Fanout, Group
from bussrv.bus.groups.frames import Delivery
from bussrv.bus.groups.shares import Shares
from bussrv.bus.interest.total import TotalInterest
from bussrv.bus.interfaces import IEncoding, IFilteringLink
from bussrv.policy.permissions.permissions import EVERYTHING, Permissions
from bussrv.service_patterns import filter_of, is_shared
from bussrv.values import Publication

MOST_SHARED = 64
"""A session with more filters has a group of its own: to find another group for each change would take long."""


class _Filtering(Struct, eq=False):
    """One session.

    :ivar filters: the names and patterns that it is subscribed to, each with its options.
    :ivar group: its group, while it has some.
    :ivar is_alone: whether that is its own, and is changed instead of left.
    :ivar shared: its shared subscriptions, which are no part of the group.
    """

    link: IFilteringLink
    filters: dict[str, dict[str, Any] | None]
    permissions: Permissions = EVERYTHING
    group: Group | None = None
    is_alone: bool = False
    shared: dict[str, dict[str, Any] | None] = {}


class FilteringSessions:
    """Every session whose link is an :class:`IFilteringLink`.

    :param fanout: is told when a session joins or leaves a group.
    :param total: counts what they are subscribed to.
    :ivar shares: their shared subscriptions.
    """

    def __init__(self, fanout: Fanout, total: TotalInterest, generation: Generation) -> None:
        self._fanout = fanout
        self._generation = generation
        self._sessions: dict[str, _Filtering] = {}
        self._groups: dict[tuple[IEncoding, Permissions, frozenset[str]], Group] = {}
        self._by_service = GroupsByService(total)
        self.shares = Shares(fanout, total)

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._sessions

    def add(self, session_id: str, link: IFilteringLink) -> None:
        """A session can be reached by ``link``."""
        self._sessions[session_id] = _Filtering(link, {})

    def remove(self, session_id: str) -> None:
        """A session is closed. It is sent its collected frames."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._leave(session_id, session)
            for each in session.shared:
                self.shares.remove(each, session_id)

    def on(self, service: str) -> tuple[Group, ...]:
        """The groups that are subscribed to a service and may watch it."""
        return self._by_service.on(service)

    def covers(self, session_id: str, service: str) -> bool:
        """Whether a session would be given publications on a service, besides those that it shares with others."""
        session = self._sessions.get(session_id)
        return session is not None and session.group is not None and session.group in self.on(service)

    def give(self, session_id: str, publication: Publication, *, may_be_hidden: bool = False) -> bool:
        """Give a publication to one session, if it is subscribed to its service.

        :param may_be_hidden: whether it is given it also if it may not watch the service.
        :returns: whether it is given it.
        """
        session = self._sessions.get(session_id)
        if session is None or not (may_be_hidden or self.covers(session_id, publication.service)):
            return False
        group = session.group
        if group is None:
            return False
        return self._fanout.add_for_one(group, session_id, Delivery(b"", publication.payload, publication))

    def catch_up(self, session_id: str) -> None:
        """Send a session its collected frames now."""
        session = self._sessions[session_id]
        if session.group is not None:
            self._fanout.send_one(session.group, session_id)
        for each in session.shared:
            self.shares.catch_up(each, session_id)

    def subscribe(
        self, session_id: str, service: str, options: dict[str, Any] | None, permissions: Permissions
    ) -> None:
        """A session is subscribed to a name or a pattern, perhaps with other options than before."""
        self.permissions_changed(session_id, permissions)
        session = self._sessions[session_id]
        if is_shared(service):
            session.shared[service] = options
            self._share(session_id, session, service)
            return
        session.filters[service] = options
        if not self._change_alone(session_id, session, service):
            self._regroup(session_id, session)

    def unsubscribe(self, session_id: str, service: str) -> None:
        """A session is not subscribed to a name or a pattern any more."""
        session = self._sessions[session_id]
        if session.shared.pop(service, self) is not self:
            self.shares.remove(service, session_id)
        if service in session.filters:
            del session.filters[service]
            if not (session.filters and self._change_alone(session_id, session, service)):
                self._regroup(session_id, session)

    def permissions_changed(self, session_id: str, permissions: Permissions) -> None:
        """A session has these permissions from now on."""
        session = self._sessions[session_id]
        if session.permissions is not permissions:
            session.permissions = permissions
            self._regroup(session_id, session)
            for each in session.shared:
                self._share(session_id, session, each)

    def _share(self, session_id: str, session: _Filtering, wanted: str) -> None:
        """A session has a shared subscription."""
        filters = {filter_of(wanted): session.shared[wanted]}
        encoding = self._encoding_of(session_id, session, filters, is_alone=True)
        self.shares.put(wanted, session_id, session.link, encoding, session.permissions)

    def _encoding_of(
        self, session_id: str, session: _Filtering, filters: dict[str, dict[str, Any] | None], *, is_alone: bool
    ) -> IEncoding:
        """The encoding for a session with some filters. If its link, perhaps a plugin's, fails, its session ends."""
        try:
            encoding = session.link.encoding_of(filters, is_alone=is_alone)
            hash(encoding)
        except Exception:
            self.fail(session_id)
            return NO_FRAMES
        return encoding

    def fail(self, session_id: str) -> None:
        """The wire format of a session failed, and the exception is being handled: the session ends soon."""
        group = Group(NO_FRAMES)
        group.links[session_id] = self._sessions[session_id].link
        self._fanout.fail(group)

    def _change_alone(self, session_id: str, session: _Filtering, changed: str) -> bool:
        """Change the group of a session that has one of its own. :returns: whether it has."""
        group = session.group
        if group is None or not session.is_alone:
            return False
        assert isinstance(group.services, set)
        is_there = changed in session.filters
        self._fanout.send_one(group, session_id)
        self._generation.end()
        try:
            session.link.refilter(group.encoding, changed, session.filters.get(changed), is_there=is_there)
        except Exception:
            self.fail(session_id)
        if not is_there:
            group.services.remove(changed)
            self._by_service.unsubscribe(group, changed)
        elif changed not in group.services:
            group.services.add(changed)
            self._by_service.subscribe(group, changed)
        return True

    def _regroup(self, session_id: str, session: _Filtering) -> None:
        """Put a session into the group of its filters."""
        self._leave(session_id, session)
        filters, permissions = session.filters, session.permissions
        if not filters:
            return
        session.is_alone = len(filters) > MOST_SHARED
        encoding = self._encoding_of(session_id, session, filters, is_alone=session.is_alone)
        if session.is_alone:
            group = self._add(Group(encoding, permissions=permissions, services={*filters}))
        else:
            key = encoding, permissions, frozenset(filters)
            known = self._groups.get(key)
            group = known or self._add(Group(encoding, permissions=permissions, services=key[2]))
            self._groups[key] = group
        self._fanout.join(group, session_id, session.link)
        session.group = group

    def _add(self, group: Group) -> Group:
        self._by_service.add(group)
        return group

    def _leave(self, session_id: str, session: _Filtering) -> None:
        group, session.group = session.group, None
        if group is None:
            return
        self._fanout.leave(group, session_id)
        if not group.links:
            self._by_service.remove(group)
            if isinstance(group.services, frozenset):
                del self._groups[group.encoding, group.permissions, group.services]
