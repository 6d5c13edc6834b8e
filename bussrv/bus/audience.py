"""The audience: every session that can be given something, in groups, kept in step with the registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from bussrv.bus.delivery import Fanout, Group
from bussrv.bus.interest import Kind, passes
from bussrv.interfaces import IEncoding, ISessionLink
from bussrv.values import Interest

MAX_KINDS = 4096
"""How many kinds of objects the audience remembers the recipients of, before it begins anew."""

MAX_KIND_LENGTH = 1024
"""The most characters of a kind that is remembered: what it looks at comes from clients."""

_InterestKey = tuple[IEncoding, Interest, str | None]


class Seat(Struct, eq=False):
    """Where one session sits: its link, and its group in the object network once it is a member."""

    link: ISessionLink
    group: Group | None = None


class Audience:
    """Finds who wants an object or a publication.

    :param fanout: told who joins a group or leaves it, so that nobody gets what was sent before it joined, or misses
        what was sent before it left.
    """

    def __init__(self, fanout: Fanout) -> None:
        self._fanout = fanout
        self._seats: dict[str, Seat] = {}
        self._members: dict[_InterestKey, Group] = {}
        self._watchers: dict[str, dict[IEncoding, Group]] = {}
        self._watched: dict[str, set[str]] = {}
        self._by_kind: dict[Kind, tuple[Group, ...]] = {}

    def seat(self, session_id: str, link: ISessionLink) -> None:
        """A session can be reached by ``link``."""
        self._seats[session_id] = Seat(link)

    def link(self, session_id: str) -> ISessionLink | None:
        """The way out to a session."""
        seat = self._seats.get(session_id)
        return seat.link if seat is not None else None

    def group_of(self, session_id: str) -> Group | None:
        """The group of a member of the object network; ``None`` for every other session."""
        seat = self._seats.get(session_id)
        return seat.group if seat is not None else None

    def join(self, session_id: str, interest: Interest, vocabulary: str | None) -> None:
        """A session is a member of the object network from now on, or has another interest."""
        seat = self._seats.get(session_id)
        if seat is None:
            return
        self._leave_group(session_id, seat)
        encoding = seat.link.encoding_for(None)
        key = (encoding, interest, vocabulary)
        group = self._members.get(key)
        if group is None:
            group = self._members[key] = Group(encoding, interest, vocabulary)
            self._by_kind.clear()
        self._fanout.join(group, session_id, seat.link)
        seat.group = group

    def watch(self, session_id: str, service: str, options: dict[str, Any] | None) -> None:
        """A session is given what is published on ``service`` from now on, encoded as ``options`` ask for."""
        seat = self._seats.get(session_id)
        if seat is None:
            return
        groups = self._watchers.setdefault(service, {})
        encoding = seat.link.encoding_for(options)
        group = groups.get(encoding)
        if group is None:
            group = groups[encoding] = Group(encoding)
        self._fanout.join(group, session_id, seat.link)
        self._watched.setdefault(session_id, set()).add(service)

    def unwatch(self, session_id: str, service: str) -> None:
        """A session is not given what is published on ``service`` any more."""
        groups = self._watchers.get(service, {})
        for encoding, group in tuple(groups.items()):
            if session_id not in group.links:
                continue
            self._fanout.leave(group, session_id)
            if not group.links:
                del groups[encoding]
        if not groups:
            self._watchers.pop(service, None)
        self._watched.get(session_id, set()).discard(service)

    def catch_up(self, session_id: str) -> None:
        """Send a session what was collected for it."""
        group = self.group_of(session_id)
        if group is not None:
            self._fanout.send_one(group, session_id)
        for service in self._watched.get(session_id, ()):
            for group in self.watching(service):
                self._fanout.send_one(group, session_id)

    def leave(self, session_id: str) -> None:
        """A session is gone."""
        seat = self._seats.pop(session_id, None)
        if seat is not None:
            self._leave_group(session_id, seat)
        for service in tuple(self._watched.get(session_id, ())):
            self.unwatch(session_id, service)
        self._watched.pop(session_id, None)

    def _leave_group(self, session_id: str, seat: Seat) -> None:
        group, seat.group = seat.group, None
        if group is None:
            return
        self._fanout.leave(group, session_id)
        if not group.links and group.interest is not None:
            del self._members[(group.encoding, group.interest, group.vocabulary)]
            self._by_kind.clear()

    def wanting(self, kind: Kind) -> tuple[Group, ...]:
        """The groups of members that want objects of that kind."""
        groups = self._by_kind.get(kind)
        if groups is None:
            groups = tuple(group for group in self._members.values() if group.interest and passes(group.interest, kind))
            if len(self._by_kind) >= MAX_KINDS:
                self._by_kind.clear()
            if kind.length() <= MAX_KIND_LENGTH:
                self._by_kind[kind] = groups
        return groups

    def watching(self, service: str) -> Iterable[Group]:
        """The groups of sessions that subscribed to a service."""
        return self._watchers[service].values() if service in self._watchers else ()

    def member_groups(self) -> Iterator[Group]:
        """Every group of members of the object network."""
        yield from self._members.values()
