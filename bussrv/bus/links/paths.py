"""Path-vector routing (as in RFC 4271): the sessions of other servers, and the link over which each is reached. Pure.

Each server advertises to its neighbours every session that it can reach, with the *path*: the servers on the way, home
first. The shortest path to a session is used and advertised further; a path through this server itself is not used.
Advertisements are kept by link: none outlives its link, and a link that comes back begins with none.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Iterator

from msgspec import Struct

from bussrv.registry.state.session import LEASING, SERVER_ROLE

MAX_HOPS = 16
"""The most servers that an object or an advertisement may pass."""

MAX_REMEMBERED = 10_000
"""How many ended sessions are remembered, so that late advertisements of them are recognized."""


class RemoteSession(Struct, frozen=True, kw_only=True):
    """A remote session, as it was advertised.

    :ivar path: the routing ids of the servers on the way to it, its home first.
    :ivar is_member: whether it is a member of the object network; otherwise it only provides services.
    :ivar session: its id at its home; ``None`` if its home does not say.
    :ivar may_answer: whether it may answer requests for services that nobody registered, as far as its home says.
    :ivar answered: the services that it answers requests for, if it may publish under a lease.
    :ivar tells_all: if it is a server: whether it advertises every session that it can reach, as this server does.
    """

    routing_id: str
    path: tuple[str, ...]
    is_member: bool = False
    routing_ids: tuple[str, ...] = ()
    role: str | None = None
    protocol: str = "objects"
    session: str | None = None
    may_answer: bool = True
    tells_all: bool = False
    services: frozenset[str] = frozenset()
    answered: frozenset[str] = frozenset()

    @property
    def home(self) -> str:
        """The server that it belongs to."""
        return self.path[0]

    @property
    def may_take_requests(self) -> bool:
        """Whether it or an unknown client of it may answer requests for services that are not registered."""
        return self.is_member and self.may_answer if self.role != SERVER_ROLE else not self.tells_all

    def answers(self, service: str) -> bool:
        """Whether it takes requests for a service that it provides."""
        return self.protocol not in LEASING or service in self.answered

    def size(self) -> int:
        """How much it counts in ``--max-linked``."""
        return 1 + len(self.routing_ids) + len(self.services)


class Paths:
    """The advertised sessions of each link, and the best path to each. Links are named by their session ids.

    :param told: is called with the routing id of each session of which a link tells something else than before.
    :ivar service_changes: increases whenever :meth:`services_of` may return something else than before.
    """

    def __init__(self, told: Callable[[str], None] = lambda _: None) -> None:
        self._told = told
        self.service_changes = 0
        self._by_link: dict[str, dict[str, RemoteSession]] = {}
        self._by_routing_id: dict[str, dict[str, RemoteSession]] = {}
        self._best: dict[str, str] = {}
        self._sizes: Counter[str] = Counter()
        self._takers: dict[str, str] = {}
        self._takers_over: Counter[str] = Counter()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def receive_advertisement(self, link: str, remote: RemoteSession) -> bool:
        """Take an advertisement of a session, which replaces the one before over the same ``link``.

        :returns: whether the best path to the session, or what is known of it, changed.
        """
        before = self._by_link.setdefault(link, {}).get(remote.routing_id)
        self._sizes[link] += remote.size() - (before.size() if before is not None else 0)
        if remote.services or (before is not None and before.services):
            self.service_changes += 1
        self._by_link[link][remote.routing_id] = remote
        self._by_routing_id.setdefault(remote.routing_id, {})[link] = remote
        if remote != before:
            self._told(remote.routing_id)
        return self._choose(remote.routing_id, before if self._best.get(remote.routing_id) == link else None)

    def forget(self, link: str, routing_id: str) -> bool:
        """A session can no longer be reached over ``link``. :returns: as :meth:`receive_advertisement` does."""
        before = self._by_link.get(link, {}).pop(routing_id, None)
        if before is None:
            return False
        self._sizes[link] -= before.size()
        self.service_changes += bool(before.services)
        self._told(routing_id)
        remotes = self._by_routing_id[routing_id]
        del remotes[link]
        if not remotes:
            del self._by_routing_id[routing_id]
        return self._choose(routing_id, before if self._best.get(routing_id) == link else None)

    def finish(self, routing_id: str, session: str) -> bool:
        """A session has ended, says its home: no link leads to it any more.

        Later advertisements of it were sent by servers that did not know yet: see :meth:`has_ended`.

        :returns: as :meth:`receive_advertisement` does.
        """
        self._ended[session] = None
        if len(self._ended) > MAX_REMEMBERED:
            self._ended.popitem(last=False)
        links = [link for link, remote in self._by_routing_id.get(routing_id, {}).items() if remote.session == session]
        changed = [self.forget(link, routing_id) for link in links]
        return any(changed)

    def has_ended(self, remote: RemoteSession) -> bool:
        """Whether the session has ended, says its home."""
        return remote.session in self._ended

    def services_of(self, routing_id: str, servers: Container[str]) -> frozenset[str]:
        """The services of a session whose home is one of ``servers``, advertised over any link."""
        advertised = self._by_routing_id.get(routing_id, {}).values()
        return frozenset().union(
            *[remote.services for remote in advertised if remote.services and remote.home in servers]
        )

    def advertised_over(self, link: str) -> list[str]:
        """The routing ids of the sessions advertised over a link."""
        return list(self._by_link.get(link, ()))

    def count_over(self, link: str) -> int:
        """How many sessions are advertised over a link; one of them is the server at its other end."""
        return len(self._by_link.get(link, ()))

    def over(self, link: str) -> list[RemoteSession]:
        """The sessions advertised over a link."""
        return list(self._by_link.get(link, {}).values())

    def drop(self, link: str) -> list[str]:
        """The link is gone. :returns: the routing ids of the sessions whose best path changed."""
        changed = [routing_id for routing_id in tuple(self._by_link.get(link, ())) if self.forget(link, routing_id)]
        self._by_link.pop(link, None)
        self._sizes.pop(link, None)
        return changed

    def _choose(self, routing_id: str, replaced: RemoteSession | None) -> bool:
        """Choose the best path anew; ``replaced`` was the best and has changed; ``None``: another one was the best."""
        before = self._best.get(routing_id)
        remotes = self._by_routing_id.get(routing_id)
        if remotes is None:
            self._best.pop(routing_id, None)
            self._count_taker(routing_id, None)
            return before is not None
        best = min(remotes, key=lambda link: (len(remotes[link].path), remotes[link].path, link))
        self._best[routing_id] = best
        self._count_taker(routing_id, best if remotes[best].may_take_requests else None)
        return best != before or (replaced is not None and replaced != remotes[best])

    def _count_taker(self, routing_id: str, link: str | None) -> None:
        """A session may take requests over ``link``; ``None``: it may not."""
        before = self._takers.pop(routing_id, None)
        if before is not None:
            self._takers_over[before] -= 1
            if not self._takers_over[before]:
                del self._takers_over[before]
        if link is not None:
            self._takers[routing_id] = link
            self._takers_over[link] += 1

    def heard(self, link: str, routing_id: str) -> RemoteSession | None:
        """A session as advertised over one link."""
        return self._by_link.get(link, {}).get(routing_id)

    def best(self, routing_id: str) -> RemoteSession | None:
        """A session as advertised with the best path."""
        link = self._best.get(routing_id)
        return self._by_link[link][routing_id] if link is not None else None

    def link_to(self, routing_id: str) -> str | None:
        """The link of the best path to a session."""
        return self._best.get(routing_id)

    def size(self, link: str) -> int:
        """How many sessions, routing ids and services were advertised over a link."""
        return self._sizes[link]

    @property
    def size_of_all(self) -> int:
        """How many sessions, routing ids and services were advertised over all links."""
        return sum(self._sizes.values())

    def may_take_requests(self, link: str) -> bool:
        """Whether a session over a link may answer a request that no registered service answers."""
        return link in self._takers_over

    def __len__(self) -> int:
        """The number of known sessions."""
        return len(self._best)

    def __iter__(self) -> Iterator[str]:
        """The routing ids of all known sessions."""
        return iter(tuple(self._best))
