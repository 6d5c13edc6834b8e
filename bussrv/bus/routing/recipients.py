"""Recipients of one object: its addressees, or every session that wants it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from bussrv.bus.groups.fanout import Fanout, Group
from bussrv.bus.groups.frames import Delivery
from bussrv.bus.groups.receivers import Receivers
from bussrv.bus.interest.interests import Kind
from bussrv.bus.links.link import Link
from bussrv.bus.links.links import Links
from bussrv.bus.origins import Origin
from bussrv.registry.changes.registry import Registry


class Copies(NamedTuple):
    """The two forms of a request.

    :ivar plain: for links, observers, and its sender.
    :ivar shown: for the sessions of this server that may answer it.
    """

    plain: Delivery
    shown: Delivery


class Addressed(NamedTuple):
    """The addressees of an object, as far as this server knows them.

    :ivar addresses: the routing ids that sessions have.
    :ivar local: those of this server's sessions.
    :ivar links: the links to the others, by session.
    :ivar everywhere: whether some address is known to nobody here: it may be on any server.
    """

    addresses: frozenset[str]
    local: tuple[str, ...]
    links: dict[str, Link]
    everywhere: bool


class Recipients:
    """Gives objects to sessions of this server, and to other servers.

    Each method returns how many are given the object, other than its sender, as far as this server knows: a link over
    which somebody may take it counts as one.
    """

    def __init__(
        self,
        registry: Registry,
        server_id: str,
        receivers: Receivers,
        fanout: Fanout,
        links: Links,
        counters: Counter[str],
    ) -> None:
        self._registry = registry
        self._server_id = server_id
        self._receivers = receivers
        self._fanout = fanout
        self._links = links
        self._counters = counters

    def to_all(self, origin: Origin, kind: Kind, copies: Copies) -> int:
        """Give it to every session that wants it."""
        return self.to_members(origin, kind, copies) + self.to_servers(origin, kind, copies)

    def to_members(self, origin: Origin, kind: Kind, copies: Copies) -> int:
        """Give it to every member of this server that wants it."""
        return sum(self._to_group(group, origin.sender, copies) for group in self._receivers.wanting(kind))

    def to_servers(self, origin: Origin, kind: Kind, copies: Copies) -> bool:
        """Give it to every server that may not have it yet; see :meth:`Links.flood`."""
        return bool(self._links) and self._links.flood(copies.plain, kind, origin.route)

    def _to_group(self, group: Group, sender: str, copies: Copies) -> int:
        echoes = sender in group.links
        if copies.shown is copies.plain or not echoes or group.no_echo:
            self._fanout.add(group, copies.shown, sender if group.no_echo else None)
        else:
            self._fanout.add_for_others(group, copies.shown, sender)
            self._fanout.add_for_one(group, sender, copies.plain)
        return len(group.links) - echoes

    def to_observers(self, origin: Origin, kind: Kind, delivery: Delivery, providers: Iterable[str]) -> int:
        """Give it to the members of this server that want it and are not among ``providers``."""
        sender, provided = origin.sender, set(providers)
        others = 0
        for group in self._receivers.wanting(kind):
            if provided.isdisjoint(group.links):
                self._fanout.add(group, delivery, sender if group.no_echo else None)
                others += len(group.links) - (sender in group.links)
                continue
            for member in tuple(group.links):
                if member not in provided:
                    others += self.to_one(origin, member, kind, delivery)
        return others

    def addressed(self, to: str | list[str]) -> Addressed:
        """The addressees of an object."""
        state = self._registry.state
        recipients: dict[str, None] = {}
        known: list[str] = []
        everywhere = False
        for routing_id in dict.fromkeys([to] if isinstance(to, str) else to):
            sessions = state.sessions_at(routing_id)
            if sessions:
                known.append(routing_id)
                recipients.update(dict.fromkeys(sorted(sessions)))
            elif routing_id != self._server_id:
                everywhere = True
        local: list[str] = []
        links: dict[str, Link] = {}
        for recipient in recipients:
            link = self._links.towards(state.sessions[recipient])
            if link is None:
                local.append(recipient)
            else:
                links[link.session_id] = link
        return Addressed(frozenset(known), tuple(local), links, everywhere)

    def to_addressed(self, origin: Origin, addressed: Addressed, kind: Kind, copies: Copies) -> int:
        """Give it to its addressees. An unknown one may be a client of any server."""
        if not addressed.local and not addressed.links:
            self._counters["no-such-recipient"] += 1
        several = len(addressed.local) > 1
        others = 0
        for recipient in addressed.local:
            is_echo = several and recipient == origin.sender
            others += self.to_one(origin, recipient, kind, copies.plain if is_echo else copies.shown)
        if addressed.everywhere and self._links:
            return others + self._links.flood(copies.plain, kind, origin.route)
        return others + self._links.give(addressed.links.values(), copies.plain, kind, origin.route)

    def to_one(self, origin: Origin, recipient: str, kind: Kind, delivery: Delivery) -> bool:
        """Give a member an object that is for it alone, if it wants such objects.

        :returns: whether somebody other than the sender was given it.
        """
        if not self.accepts(recipient, origin.sender, kind):
            return False
        group = self._receivers.group_of(recipient)
        assert group is not None
        self._fanout.add_for_one(group, recipient, delivery)
        return recipient != origin.sender

    def accepts(self, session_id: str, sender: str, kind: Kind) -> bool:
        """Whether a member wants such objects of that sender, if they are for it alone."""
        group = self._group(session_id, sender)
        return group is not None and group.accepts(kind)

    def wants(self, session_id: str, sender: str, kind: Kind) -> bool:
        """Whether a member wants, and may receive, such objects of that sender, if they are for everybody."""
        group = self._group(session_id, sender)
        return group is not None and group.wants(kind)

    def _group(self, session_id: str, sender: str) -> Group | None:
        group = self._receivers.group_of(session_id)
        return None if group is None or (session_id == sender and group.no_echo) else group
