"""Routes of forwarded objects: facts that follow from a route, found once for each route. Pure."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct

from bussrv.bus.batches import Source
from bussrv.bus.paths import MAX_HOPS
from bussrv.bus.recipients import Origin
from bussrv.bus.seen import origin_of
from bussrv.errors import Refused
from bussrv.wire.forwarded import route_ending
from bussrv.wire.objects import encode_json

MAX_ROUTES = 4096
"""How many routes of one link are remembered before all of them are forgotten."""

MAX_ROUTE = 256
"""The most ids of a route."""

MAX_REMEMBERED_ROUTE = 1024
"""The most bytes of a route that is remembered: another server determines its length."""

_decode_route = msgspec.json.Decoder(list[str]).decode


class RouteFacts(Struct, frozen=True):
    """Facts that follow from the route of an object that came over a link.

    :ivar route: the route without marks; its last id is the server at the other end of the link.
    :ivar is_own: whether that server itself is the sender.
    :ivar leads_nowhere: whether an advertisement with this route is useless: it was here, or its route is too long.
    :ivar refusal: the counter of objects with this route, if they are not forwarded.
    :ivar sender: the origin of the objects, for :class:`bussrv.bus.seen.Seen`.
    :ivar source: the origin of the objects, for routing.
    :ivar ending: the bytes that plain metadata with this route ends with.
    :ivar longest: the most bytes of such metadata that can be forwarded with this server added to the route.
    """

    route: list[str]
    is_own: bool
    leads_nowhere: bool
    refusal: str | None
    sender: int
    source: Source
    ending: bytes
    longest: int


class RouteCache:
    """The routes of one link, with their facts.

    Ids after the server at the other end are marks: see :mod:`bussrv.bus.marks`. They are kept, after this server's id.
    Another bussrv keeps them there, too, so the ids before them are hops. A server that goes by the route alone appends
    itself after marks. Ids that are unclear for that reason are kept after this server's id as well, and count as hops
    unless they are known to be servers, which may have been marked.

    :param link: the session of the other server; ``neighbour_id`` is its routing id.
    :param server_id: the routing id of this server.
    :param max_metadata: the most bytes of metadata that are forwarded.
    :param is_exact: whether the other server is a bussrv.
    :param is_server: tells whether a known server has an id.
    """

    def __init__(
        self,
        link: str,
        neighbour_id: str,
        server_id: str,
        max_metadata: int,
        is_exact: bool = False,
        is_server: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._is_exact = is_exact
        self._is_server = is_server
        self._link = link
        self._neighbour_id = neighbour_id
        self._server_id = server_id
        self._max_metadata = max_metadata
        self._known: dict[bytes, RouteFacts] = {}

    def of(self, route: Raw) -> RouteFacts:
        """The facts of a ``route``, raw as it came; empty if the object has none.

        :raises Refused: ``bad-attribute``: it is no route.
        """
        came = bytes(route)
        facts = self._known.get(came)
        if facts is None:
            facts = self._find(came)
            if len(self._known) >= MAX_ROUTES:
                self._known.clear()
            # A route that is too long may not be, once more servers are known.
            if len(came) <= MAX_REMEMBERED_ROUTE and facts.refusal != "link-too-far":
                self._known[came] = facts
        return facts

    def _find(self, came: bytes) -> RouteFacts:
        try:
            route = _decode_route(came) if came else []
        except msgspec.DecodeError as error:
            raise Refused("bad-attribute", "route is an array of strings") from error
        is_endless = len(route) > MAX_ROUTE
        # No server stands in a route twice, whatever came.
        route = list(dict.fromkeys([*route, self._neighbour_id]))
        passed, marks = _split(route, self._neighbour_id)
        hops, unclear = (passed, []) if self._is_exact else _certain(passed)
        onward = [*hops, self._server_id, *unclear, *marks]
        ending, written = route_ending(came), encode_json(onward)
        return RouteFacts(
            route=passed,
            is_own=len(passed) == 1,
            leads_nowhere=is_endless or self._server_id in route,
            refusal=self._refusal(route, [*hops, *self._unknown(unclear)], is_endless),
            sender=origin_of(onward[:2]),
            source=Source(Origin("", onward, self._link, bool(unclear or marks)), written, len(ending)),
            ending=ending,
            longest=self._max_metadata - len(route_ending(written)) + len(ending),
        )

    def _unknown(self, unclear: list[str]) -> list[str]:
        return [each for each in unclear if not self._is_server(each)]

    def _refusal(self, route: list[str], hops: list[str], is_endless: bool) -> str | None:
        if self._server_id in route:
            return "link-loop"
        return "link-too-far" if is_endless or len(hops) > MAX_HOPS else None


def _split(route: list[str], neighbour_id: str) -> tuple[list[str], list[str]]:
    """The hops up to the server at the other end, and the marks after it."""
    place = route.index(neighbour_id) + 1
    return route[:place], route[place:]


def _certain(passed: list[str]) -> tuple[list[str], list[str]]:
    """The certain hops, and the ids that may be marks, of a route from a server that goes by the route alone.

    The sender, its home and that server are hops. An id between them is a hop or a mark.
    """
    return [*passed[:2], *passed[2:][-1:]], passed[2:-1]
