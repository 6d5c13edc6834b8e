"""What follows from the route that objects of a linked server came with: found out once for each route. Pure."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from bussrv.bus.paths import MAX_HOPS
from bussrv.bus.router import Origin
from bussrv.bus.runs import Source
from bussrv.bus.seen import origin_of
from bussrv.errors import Refused
from bussrv.wire.objects import encode_json
from bussrv.wire.onward import route_ending

MAX_WAYS = 4096
"""How many routes are remembered of one link, before that begins anew."""

MAX_REMEMBERED_ROUTE = 1024
"""The most bytes of a route that is remembered: it comes from another server."""

_decode_route = msgspec.json.Decoder(list[str]).decode


class Way(Struct, frozen=True):
    """The way that objects with one route came.

    :ivar route: that route; the server that passed them on is its last.
    :ivar is_word: whether nobody else is in it: that server says something itself.
    :ivar refusal: the counter of such objects, if they go no further.
    :ivar sender: where they come from, as :class:`bussrv.bus.seen.Seen` knows it.
    :ivar source: the same for routing.
    :ivar ending: what their metadata plainly ends with.
    :ivar longest: the most bytes of metadata that ends so, and is not too much with this server in its route.
    """

    route: list[str]
    is_word: bool
    refusal: str | None
    sender: int
    source: Source
    ending: bytes
    longest: int


class Ways:
    """The ways that objects come over one link.

    :param link: the session of the server at its other end; ``far_id`` is its routing id.
    :param server_id: the routing id of this server.
    :param max_metadata: the most bytes of metadata that go on.
    """

    def __init__(self, link: str, far_id: str, server_id: str, max_metadata: int) -> None:
        self._link = link
        self._far_id = far_id
        self._server_id = server_id
        self._max_metadata = max_metadata
        self._known: dict[bytes, Way] = {}

    def of(self, route: Raw) -> Way:
        """The way of objects with that ``route``, raw as it came; empty when they have none.

        :raises Refused: ``bad-attribute``: it is no route.
        """
        came = bytes(route)
        way = self._known.get(came)
        if way is None:
            way = self._find(came)
            if len(self._known) >= MAX_WAYS:
                self._known.clear()
            if len(came) <= MAX_REMEMBERED_ROUTE:
                self._known[came] = way
        return way

    def _find(self, came: bytes) -> Way:
        try:
            route = _decode_route(came) if came else []
        except msgspec.DecodeError as error:
            raise Refused("bad-attribute", "route is an array of strings") from error
        if route[-1:] != [self._far_id]:
            route = [*route, self._far_id]
        onward = [*route, self._server_id]
        ending, written = route_ending(came), encode_json(onward)
        return Way(
            route=route,
            is_word=len(route) == 1,
            refusal=self._refusal(route),
            sender=origin_of(onward[:2]),
            source=Source(Origin("", onward, self._link), written, len(ending)),
            ending=ending,
            longest=self._max_metadata - len(route_ending(written)) + len(ending),
        )

    def _refusal(self, route: list[str]) -> str | None:
        if self._server_id in route:
            return "link-loop"
        return "link-too-far" if len(route) > MAX_HOPS else None
