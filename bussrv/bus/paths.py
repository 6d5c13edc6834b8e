"""Which sessions other servers have, and over which link each is reached. Pure.

Each server tells its neighbours of every session that it can reach, and over which servers: the *path*, home first. Of
the paths to one session the shortest is used, and told on; a path that leads through oneself is not. This is
path-vector routing, as in RFC 4271: what is known is kept by link, so nothing that was told over one link can outlive
it, and a link that comes back begins with nothing.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Container, Iterator

from msgspec import Struct

from bussrv.registry.state import SERVER_ROLE

MAX_HOPS = 16
"""The most servers that an object, or word of a session, may pass."""


MAX_REMEMBERED = 10_000
"""How many sessions that are over are remembered, so that late word of them is known to be late."""


class Far(Struct, frozen=True, kw_only=True):
    """A session that another server has, as it was told of.

    :ivar path: the routing ids of the servers that the word of it passed, its home first.
    :ivar is_member: whether it is a member of the object network; one that is not only provides services.
    :ivar session: the id that its home has given it; ``None`` when its home does not say.
    :ivar tells_all: of a server: whether it tells of every session that it can reach, as this one does.
    """

    routing_id: str
    path: tuple[str, ...]
    is_member: bool = False
    routing_ids: tuple[str, ...] = ()
    role: str | None = None
    protocol: str = "objects"
    session: str | None = None
    tells_all: bool = False
    services: frozenset[str] = frozenset()

    @property
    def home(self) -> str:
        """The server whose session it is."""
        return self.path[0]

    @property
    def may_take_requests(self) -> bool:
        """Whether it, or a client of it that it says nothing of, may answer what no registered service answers."""
        return self.is_member if self.role != SERVER_ROLE else not self.tells_all

    def size(self) -> int:
        """How many things were told of it, as ``--max-linked`` counts them."""
        return 1 + len(self.routing_ids) + len(self.services)


class Paths:
    """What was told over each link, and the best of it. Links are named by their session ids."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, Far]] = {}
        self._over: dict[str, dict[str, Far]] = {}
        self._best: dict[str, str] = {}
        self._sizes: Counter[str] = Counter()
        self._over_for_good: OrderedDict[str, None] = OrderedDict()

    def hear(self, link: str, far: Far) -> bool:
        """Something was told over ``link``, instead of what it told of that session before.

        :returns: whether the best that is known of the session is another now.
        """
        before = self._told.setdefault(link, {}).get(far.routing_id)
        self._sizes[link] += far.size() - (before.size() if before is not None else 0)
        self._told[link][far.routing_id] = far
        self._over.setdefault(far.routing_id, {})[link] = far
        return self._choose(far.routing_id, before if self._best.get(far.routing_id) == link else None)

    def forget(self, link: str, routing_id: str) -> bool:
        """Over ``link`` a session cannot be reached any more. :returns: as :meth:`hear` does."""
        before = self._told.get(link, {}).pop(routing_id, None)
        if before is None:
            return False
        self._sizes[link] -= before.size()
        over = self._over[routing_id]
        del over[link]
        if not over:
            del self._over[routing_id]
        return self._choose(routing_id, before if self._best.get(routing_id) == link else None)

    def finish(self, routing_id: str, session: str) -> bool:
        """A session is over, its home says: no link leads to it, whatever was told over others.

        What some of them tell of it afterwards was said before they knew: see :meth:`is_over`.

        :returns: as :meth:`hear` does.
        """
        self._over_for_good[session] = None
        if len(self._over_for_good) > MAX_REMEMBERED:
            self._over_for_good.popitem(last=False)
        links = [link for link, far in self._over.get(routing_id, {}).items() if far.session == session]
        changed = [self.forget(link, routing_id) for link in links]
        return any(changed)

    def is_over(self, far: Far) -> bool:
        """Whether the session has ended, as its home said."""
        return far.session in self._over_for_good

    def services_of(self, routing_id: str, servers: Container[str]) -> frozenset[str]:
        """The services of a session whose home is one of ``servers``, as far as any link told."""
        told = self._over.get(routing_id, {}).values()
        return frozenset().union(*[far.services for far in told if far.services and far.home in servers])

    def drop(self, link: str) -> list[str]:
        """The link is gone. :returns: the routing ids of the sessions whose best is another now."""
        changed = [routing_id for routing_id in tuple(self._told.get(link, ())) if self.forget(link, routing_id)]
        self._told.pop(link, None)
        self._sizes.pop(link, None)
        return changed

    def _choose(self, routing_id: str, replaced: Far | None) -> bool:
        """Find the best again, where ``replaced`` was the best and has changed; ``None``: another one was."""
        before = self._best.get(routing_id)
        over = self._over.get(routing_id)
        if over is None:
            self._best.pop(routing_id, None)
            return before is not None
        best = min(over, key=lambda link: (len(over[link].path), over[link].path, link))
        self._best[routing_id] = best
        return best != before or (replaced is not None and replaced != over[best])

    def heard(self, link: str, routing_id: str) -> Far | None:
        """What was told of a session over one link."""
        return self._told.get(link, {}).get(routing_id)

    def best(self, routing_id: str) -> Far | None:
        """The best that is known of a session."""
        link = self._best.get(routing_id)
        return self._told[link][routing_id] if link is not None else None

    def link_to(self, routing_id: str) -> str | None:
        """The link over which a session is best reached."""
        return self._best.get(routing_id)

    def size(self, link: str) -> int:
        """How many sessions and services were told of over a link."""
        return self._sizes[link]

    def may_take_requests(self, link: str) -> bool:
        """Whether over a link somebody may be reached who answers what no registered service answers."""
        return any(
            far.may_take_requests for far in self._told.get(link, {}).values() if self._best[far.routing_id] == link
        )

    def __iter__(self) -> Iterator[str]:
        """The routing ids of all sessions that are known."""
        return iter(tuple(self._best))
