"""Most objects that come over links are forwarded by the compiled module; see :mod:`bussrv.bus.routing.compiled`.

The origin of a member's objects is known before they come. Objects of a linked server say theirs in the ``route`` that
their metadata ends with. The module goes on as long as that is the same; senders that alternate take a step for each
change. It leaves out objects that came before over another link: it has the table of
:class:`bussrv.bus.routing.seen.CompiledSeen`. What comes of an object is the same as in
:mod:`bussrv.bus.routing.forward`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Raw

from bussrv.bus.routing.compiled import CompiledRouter, PlanTable, Prepared
from bussrv.bus.routing.compiled_result import INCOMPLETE, NEEDS_PYTHON, ScanResult
from bussrv.bus.routing.forward import Forwarder
from bussrv.bus.routing.parts import RoutingParts
from bussrv.bus.routing.route_cache import MAX_REMEMBERED_ROUTE
from bussrv.bus.routing.seen import CompiledSeen, Seen
from bussrv.errors import Refused, RemoteProtocolError
from bussrv.policy.permissions.permissions import Permissions
from bussrv.wire.forwarded import route_ending
from bussrv.wire.head import Fault, read_head
from bussrv.wire.objects import NUL, ObjectReader

if TYPE_CHECKING:
    from bussrv._speedups import Plans

MOST_TABLES = 512
"""The most tables of all links, of 8 KiB each. Beyond it all are forgotten."""

MOST_ROUTES = 4096
"""The most routes of all links that are remembered. Beyond it all are forgotten."""

NOBODY = 0
"""The number of all senders that are no sessions of this server."""


class CompiledForwarder:
    """Forwards stretches of linked servers, while everything that they have advertised is in the registry."""

    def __init__(
        self,
        parts: RoutingParts,
        router: CompiledRouter,
        forwarder: Forwarder,
        seen: Seen | CompiledSeen,
    ) -> None:
        self._router = router
        self._forwarder = forwarder
        self._audience = parts.audience
        self._links = parts.links
        self._publisher = parts.publisher
        self._seen = seen.table if isinstance(seen, CompiledSeen) else None
        self._tables: dict[tuple[frozenset[str], frozenset[str], Permissions], PlanTable] = parts.audience.cache()
        self._latest: dict[str, Prepared] = parts.audience.cache()
        self._known: dict[tuple[str, bytes], Prepared | None] = parts.audience.cache()

    def route_input(self, session_id: str, reader: ObjectReader) -> ScanResult | None:
        """Forward objects of a linked server from its reader; ``None``: nothing was tried, they have to be read."""
        make = self._router.ready()
        if make is None or self._seen is None or self._links.all_durable() is not None:
            return None
        stretch = reader.stretch()
        if stretch is None:
            return None
        find = partial(self._find, session_id, make, stretch[2][0])
        prepared: Prepared | int | None = self._latest.get(session_id)
        if not isinstance(prepared, Prepared) or not self._is_right(prepared):
            prepared = find(*stretch[:2])
        if isinstance(prepared, int):
            reader.skip(0, reads_on=prepared == NEEDS_PYTHON, in_vain=True)
            return ScanResult(0, prepared)
        try:
            result = self._router.route_stretch(prepared, reader, stretch, find)
        finally:
            self._publisher.flush_publications()
        self._forwarder.count(result.objects, result.duplicates)
        return result

    def _is_right(self, prepared: Prepared) -> bool:
        """Whether the sender still provides what it did. Only advertisements say so, perhaps before the registry."""
        generation = self._audience.generation
        if prepared.generation == generation:
            return True
        return prepared.is_right(generation, self._links.provided(prepared.source.origin.route))

    def _forget(self) -> None:
        self._tables.clear()
        self._latest.clear()
        self._known.clear()

    def _find(
        self, session_id: str, make: Callable[[bool], Plans], max_metadata: int, data: bytes, begin: int
    ) -> Prepared | int:
        """Find what is prepared for the route of an object; see :data:`bussrv.bus.routing.compiled.Find`."""
        end = data.find(NUL, begin)
        if end < 0:
            return INCOMPLETE if len(data) - begin <= max_metadata else NEEDS_PYTHON
        try:
            route = bytes(read_head(data[begin:end]).route)
        except (RemoteProtocolError, Fault):
            return NEEDS_PYTHON
        if len(route) > MAX_REMEMBERED_ROUTE:
            return NEEDS_PYTHON
        key = (session_id, route)
        prepared = self._known.get(key)
        if key not in self._known or (prepared is not None and not self._is_right(prepared)):
            if len(self._known) >= MOST_ROUTES or len(self._tables) >= MOST_TABLES:
                self._forget()
            prepared = self._known[key] = self._prepare(session_id, make, route)
        if prepared is None:
            return NEEDS_PYTHON
        self._latest[session_id] = prepared
        return prepared

    def _prepare(self, session_id: str, make: Callable[[bool], Plans], route: bytes) -> Prepared | None:
        """``None``: objects with that route have to be read."""
        assert self._seen is not None
        try:
            facts = self._forwarder.facts(session_id, Raw(route))
        except Refused:
            return None
        if facts.refusal is not None or facts.is_from_neighbour:
            return None
        source = facts.source
        origin = source.origin
        provided = self._links.provided(origin.route)
        key = (provided, self._links.passed(origin.route), origin.permissions)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = PlanTable(make, provided)
        context = (self._seen, facts.ending, facts.origin_key % (1 << 64), facts.longest)
        tail, generation = route_ending(source.route) + NUL, self._audience.generation
        return Prepared(source, table, tail, NOBODY, context, generation)
