"""Forwarding: an object of a linked server is given to its recipients and to the servers that may not have it, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Set
from itertools import chain
from operator import length_hint

from msgspec import UNSET

from bussrv.bus.batches import MOST_GROUPS_ASKED, MOST_NEW_PLANS, Batches
from bussrv.bus.links import Links
from bussrv.bus.recipients import Origin
from bussrv.bus.route_cache import RouteCache, RouteFacts
from bussrv.bus.seen import Seen
from bussrv.errors import Refused
from bussrv.wire.forwarded import with_route
from bussrv.wire.objects import BusObject

Deliver = Callable[[Origin, BusObject, bytes, Set[str]], int]
"""Delivers an object: its origin, the object, its metadata as it is forwarded, and the services of its sender."""


class Relay:
    """Forwards objects of linked servers, in batches as far as they have the same route and are plain.

    :param max_metadata: the most bytes of metadata that are forwarded.
    :param new_id: as for :func:`bussrv.wire.forwarded.with_route`.
    """

    def __init__(
        self,
        links: Links,
        batches: Batches,
        seen: Seen,
        counters: Counter[str],
        deliver: Deliver,
        server_id: str,
        max_metadata: int,
        new_id: Callable[[], str],
    ) -> None:
        self._server_id = server_id
        self._links = links
        self._batches = batches
        self._seen = seen
        self._counters = counters
        self._deliver = deliver
        self._max_metadata = max_metadata
        self._new_id = new_id
        self._caches: dict[str, RouteCache] = {}

    def route_of(self, session_id: str, obj: BusObject) -> RouteFacts:
        """The route of an object that came over a link.

        :raises Refused: ``bad-attribute``: its ``route`` is none.
        """
        return self._cache_of(session_id).of(obj.head.route)

    def _cache_of(self, session_id: str) -> RouteCache:
        cache = self._caches.get(session_id)
        if cache is None:
            link = self._links.get(session_id)
            assert link is not None, "only links that are up forward objects"
            is_server = self._links.is_server
            cache = RouteCache(
                session_id, link.server_id, self._server_id, self._max_metadata, link.tells_all, is_server
            )
            self._caches[session_id] = cache
        return cache

    def forget(self, session_id: str) -> None:
        """A session is closed; if it was a link, its routes are of no use any more."""
        self._caches.pop(session_id, None)

    def one(self, facts: RouteFacts, obj: BusObject) -> None:
        """Forward an object, unless it was here before."""
        self._counters["link-objects"] += 1
        if facts.refusal is not None:
            self._counters[facts.refusal] += 1
        elif obj.head.id not in (None, UNSET) and not self._seen.add(facts.sender, obj.head.id):
            self._counters["link-duplicate"] += 1
        else:
            self._forward(facts, obj)

    def _forward(self, facts: RouteFacts, obj: BusObject) -> None:
        origin = facts.source.origin
        metadata = with_route(obj, facts.source.route, self._new_id)
        if len(metadata) > self._max_metadata:
            self._counters["metadata-too-large"] += 1
            return
        self._deliver(origin, obj, metadata, self._links.provided(origin.route))

    def batch(self, session_id: str, batch: Iterator[BusObject]) -> BusObject | None:
        """Forward the objects of a batch, up to one that is addressed or may be for this server.

        :returns: that object, taken from the batch. After many groups had to be asked what they want, any object, or
            ``None``: go on with the rest of the batch in the next slice. Otherwise ``None`` at the end of the batch.
        """
        routes = self._cache_of(session_id)
        came = new = 0
        asked_before = self._batches.groups_asked
        obj = next(batch, None)
        while obj is not None:
            try:
                facts = routes.of(obj.head.route)
            except Refused:
                break
            if facts.is_own or obj.head.to is not None:
                break
            plain, after = self._plain(facts, obj, batch) if facts.refusal is None else ([], obj)
            if plain:
                came += len(plain)
                new += self._all(facts, plain)
                obj = after
            else:
                self.one(facts, obj)
                obj = next(batch, None)
            if self._batches.groups_asked - asked_before > MOST_GROUPS_ASKED:
                break
        self._count(came, came - new)
        return obj

    def _count(self, came: int, again: int) -> None:
        if came:
            self._counters["link-objects"] += came
        if again:
            self._counters["link-duplicate"] += again

    def _plain(
        self, facts: RouteFacts, first: BusObject, batch: Iterator[BusObject]
    ) -> tuple[list[BusObject], BusObject | None]:
        """The objects from ``first`` on that are routed together: they have one route. And the one taken after them."""
        ending, longest, unset = facts.ending, facts.longest, UNSET
        plain: list[BusObject] = []
        kinds, last = 0, first.head
        for obj in chain((first,), batch):
            head, metadata = obj.head, obj.metadata
            if head.type != last.type or head.event != last.event or head.natures:
                kinds += 1
                if kinds > MOST_NEW_PLANS:
                    return plain, obj
            last = head
            if not metadata.endswith(ending) or len(metadata) > longest or head.id is None or head.id is unset:
                return plain, obj
            if head.to is not None:
                return plain, obj
            plain.append(obj)
        return plain, None

    def _all(self, facts: RouteFacts, objs: list[BusObject]) -> int:
        """Forward the objects that were not here before. :returns: their number."""
        new = self._seen.new_of(facts.sender, objs)
        if new:
            provided = self._links.provided(facts.source.origin.route)
            batch = iter(new)
            while length_hint(batch):
                obj = self._batches.route(facts.source, provided, batch)
                if obj is not None:
                    self._forward(facts, obj)
        return len(new)
