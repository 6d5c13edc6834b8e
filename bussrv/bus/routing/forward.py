"""Forwarding: objects that a linked server sent are given to their recipients here, and to further servers.

An object may arrive over several links. It is forwarded once: :class:`bussrv.bus.routing.seen.Seen` finds the
duplicates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from operator import length_hint

from msgspec import UNSET, Raw

from bussrv.bus.interfaces import TellSession
from bussrv.bus.links.links import Links
from bussrv.bus.links.rights import Deny
from bussrv.bus.origins import Origin
from bussrv.bus.routing.batch import MOST_GROUPS_ASKED, MOST_NEW_PLANS, BatchRouter
from bussrv.bus.routing.route_cache import NOT_ALLOWED, RouteCache, RouteFacts
from bussrv.bus.routing.seen import CompiledSeen, Seen
from bussrv.bus.routing.single import SingleRouter
from bussrv.bus.shared import Shared
from bussrv.errors import OverLimit, Refused
from bussrv.events import limit_reached
from bussrv.wire.forwarded import with_route
from bussrv.wire.objects import BusObject


class Forwarder:
    """Forwards objects of linked servers. Objects with the same route are forwarded as one batch where possible.

    :param router: forwards a single object.
    :param deny: called with what a link may not do.
    :param tell: tells a linked server.
    :param max_metadata: the most bytes of metadata that are forwarded.
    :param new_id: makes an object id; see :func:`bussrv.wire.forwarded.with_route`.
    """

    def __init__(
        self,
        shared: Shared,
        *,
        links: Links,
        batches: BatchRouter,
        seen: Seen | CompiledSeen,
        router: SingleRouter,
        deny: Deny,
        tell: TellSession,
        max_metadata: int,
        new_id: Callable[[], str],
    ) -> None:
        self._server_id = shared.server_id
        self._links = links
        self._batches = batches
        self._seen = seen
        self._counters = shared.counters
        self._registry = shared.registry
        self._router = router
        self._deny = deny
        self._tell = tell
        self._max_metadata = max_metadata
        self._new_id = new_id
        self._caches: dict[str, RouteCache] = {}

    def route_of(self, session_id: str, obj: BusObject) -> RouteFacts:
        """The facts of the route of an object that came over a link.

        :param session_id: the session of the server at the other end.
        :raises Refused: ``bad-attribute``: its ``route`` is not an array of strings.
        """
        return self.facts(session_id, obj.head.route)

    def facts(self, session_id: str, route: Raw) -> RouteFacts:
        """The facts of a route; see :meth:`route_of`."""
        return self._cache_of(session_id).of(route)

    def _cache_of(self, session_id: str) -> RouteCache:
        cache = self._caches.get(session_id)
        if cache is None:
            link = self._links.get(session_id)
            assert link is not None, "only links that are up forward objects"
            is_server, permissions = self._links.is_server, link.group.permissions
            cache = RouteCache(
                session_id, link.server_id, self._server_id, self._max_metadata, link.tells_all, is_server, permissions
            )
            self._caches[session_id] = cache
        return cache

    def forget(self, session_id: str) -> None:
        """A session is closed, or has other permissions. If it is a link, forget the routes of that link."""
        self._caches.pop(session_id, None)

    def forward(self, facts: RouteFacts, obj: BusObject) -> None:
        """Forward an object, unless its route forbids it or it is a duplicate. These are counted.

        :param facts: those of its route.
        """
        self._counters["link-objects"] += 1
        if facts.refusal == NOT_ALLOWED:
            origin = facts.source.origin
            self._deny(origin.asker, origin.permissions, "tell", facts.route[0])
        elif facts.refusal is not None:
            self._counters[facts.refusal] += 1
        elif obj.head.id not in (None, UNSET) and not self._seen.add(facts.origin_key, obj.head.id):
            self._counters["link-duplicate"] += 1
        else:
            self._forward_new(facts, obj)

    def _forward_new(self, facts: RouteFacts, obj: BusObject) -> None:
        origin = facts.source.origin
        metadata = with_route(obj, facts.source.route, self._new_id)
        if len(metadata) > self._max_metadata:
            self._counters["metadata-too-large"] += 1
            return
        try:
            self._router.route_one(origin, obj, metadata, self._links.provided(origin.route))
        except OverLimit as refusal:
            self._refuse(origin, obj, refusal)
        except Refused:
            # The policy does not allow it to the other server, which is no news to the sender's own server.
            pass

    def _refuse(self, origin: Origin, obj: BusObject, refusal: OverLimit) -> None:
        """A request was refused: say so over the link that it came over."""
        link = origin.asker
        self._counters[refusal.limit] += 1
        self._counters[refusal.reason] += 1
        self._registry.note_from_stranger(limit_reached(refusal, **self._registry.state.sessions[link].about()))
        about = {"in-reply-to": obj.fields().get("id"), "to": origin.route[0], "route": [self._server_id]}
        self._tell(link, {"event": "error", **about, "reason": refusal.reason, "message": refusal.message})

    def forward_batch(self, session_id: str, batch: Iterator[BusObject]) -> BusObject | None:
        """Forward the objects of a batch, up to one that has to be handled by itself.

        An object has to be handled by itself if it has a ``to``, a bad route, or the neighbour itself as its sender.
        The batch also ends early if many groups had to be asked whether they want a new kind of object: the rest waits
        for the next slice.

        :param session_id: the session of the server at the other end.
        :returns: an object that was taken from the batch and not forwarded: handle it next. ``None``: there is none.
        """
        routes = self._cache_of(session_id)
        received = new = 0
        asked_before = self._batches.asked
        obj = next(batch, None)
        while obj is not None:
            try:
                facts = routes.of(obj.head.route)
            except Refused:
                break
            if facts.is_from_neighbour or obj.head.to is not None:
                break
            alike, after = self._take_alike(facts, obj, batch) if facts.refusal is None else ([], obj)
            if alike:
                received += len(alike)
                new += self._forward_alike(facts, alike)
                obj = after
            else:
                self.forward(facts, obj)
                obj = next(batch, None)
            if self._batches.asked - asked_before > MOST_GROUPS_ASKED:
                break
        self.count(received, received - new)
        return obj

    def count(self, received: int, duplicates: int) -> None:
        """Count objects that came over links, and how many of them were duplicates."""
        if received:
            self._counters["link-objects"] += received
        if duplicates:
            self._counters["link-duplicate"] += duplicates

    def _take_alike(
        self, facts: RouteFacts, first: BusObject, batch: Iterator[BusObject]
    ) -> tuple[list[BusObject], BusObject | None]:
        """Take objects that can be routed together: they have the same route, an id, and no ``to``.

        No more are taken after ``MOST_NEW_PLANS`` changes of kind, because each kind may need a new route plan.

        :param facts: those of the route of ``first``.
        :returns: these objects, and the one that was taken from the batch after them, if any.
        """
        ending, longest, unset = facts.ending, facts.longest, UNSET
        alike: list[BusObject] = []
        kinds, last = 0, first.head
        for obj in chain((first,), batch):
            head, metadata = obj.head, obj.metadata
            if head.type != last.type or head.event != last.event or head.natures:
                kinds += 1
                if kinds > MOST_NEW_PLANS:
                    return alike, obj
            last = head
            if not metadata.endswith(ending) or len(metadata) > longest or head.id is None or head.id is unset:
                return alike, obj
            if head.to is not None:
                return alike, obj
            alike.append(obj)
        return alike, None

    def _forward_alike(self, facts: RouteFacts, objs: list[BusObject]) -> int:
        """Forward objects of one route, except duplicates. :returns: how many were forwarded."""
        new = self._seen.new_of(facts.origin_key, objs)
        if new:
            provided = self._links.provided(facts.source.origin.route)
            batch = iter(new)
            while length_hint(batch):
                obj = self._batches.route_batch(facts.source, provided, batch)
                if obj is not None:
                    self._forward_new(facts, obj)
        return len(new)
