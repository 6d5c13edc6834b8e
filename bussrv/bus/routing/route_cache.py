"""The route cache: facts that follow from the ``route`` of an object that a linked server forwarded. Pure.

A route begins with the sender's routing id, its home, and the further servers that forwarded the object: these are
*hops*. *Marks* are ids of servers that did not forward the object, but are given it by another server; see
:mod:`bussrv.bus.links.marks`. A *route-only server* does not remember objects: it knows only
from the route which servers have them.

Most objects that come over a link have one of a few routes. So the facts are found once for each route.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct

from bussrv.bus.links.paths import MAX_HOPS
from bussrv.bus.origins import Origin, Source
from bussrv.bus.routing.seen import origin_of
from bussrv.errors import Refused
from bussrv.policy.permissions.permissions import EVERYTHING, Permissions
from bussrv.wire.forwarded import route_ending
from bussrv.wire.objects import encode_json

MAX_ROUTES = 4096
"""The most routes of one link that are remembered. Beyond it all are forgotten."""

MAX_ROUTE = 256
"""The most ids of a route. Objects with more are not forwarded."""

MAX_REMEMBERED_ROUTE = 1024
"""The most bytes of a route that is remembered. Another server determines its length."""

NOT_ALLOWED = "not-allowed"

_decode_route = msgspec.json.Decoder(list[str]).decode


class RouteFacts(Struct, frozen=True):
    """Facts that follow from the route of an object that came over a link.

    :ivar route: the route without marks. Its last id is the neighbour: the server at the other end of the link.
    :ivar is_from_neighbour: whether the neighbour itself is the sender.
    :ivar is_unusable: whether an advertisement with this route is of no use, because it has passed this server already,
        or the route is too long.
    :ivar refusal: ``None`` if objects with this route are forwarded; otherwise the counter that counts them.
    :ivar origin_key: a key for the sender and its home, for :class:`bussrv.bus.routing.seen.Seen`.
    :ivar source: the origin of the objects, for routing.
    :ivar ending: the last bytes of metadata with this route, if it is written as bussrv writes it.
    :ivar longest: the most bytes of such metadata. Longer metadata would exceed the limit with this server added.
    """

    route: list[str]
    is_from_neighbour: bool
    is_unusable: bool
    refusal: str | None
    origin_key: int
    source: Source
    ending: bytes
    longest: int


class RouteCache:
    """The routes of one link, with their facts.

    1. Ids after the neighbour are marks.
    2. A neighbour that is bussrv keeps marks after its own id, too. So all ids before it are hops.
    3. A route-only neighbour appends itself after marks. So ids before it may be marks: they are *unclear*.
    4. An unclear id counts as a hop, unless it is the id of a known server, which may have been marked.
    5. When an object is forwarded, marks and unclear ids are kept, after this server's id.

    :param link: the id of the neighbour's session.
    :param neighbour_id: the routing id of the neighbour.
    :param server_id: the routing id of this server.
    :param max_metadata: the most bytes of metadata that are forwarded.
    :param keeps_marks: whether the neighbour is bussrv; otherwise it is route-only.
    :param is_server: tells whether a known server has an id.
    :param permissions: those of the neighbour.
    """

    def __init__(
        self,
        link: str,
        neighbour_id: str,
        server_id: str,
        max_metadata: int,
        keeps_marks: bool = False,
        is_server: Callable[[str], bool] = lambda _: False,
        permissions: Permissions = EVERYTHING,
    ) -> None:
        self._keeps_marks = keeps_marks
        self._is_server = is_server
        self._link = link
        self._neighbour_id = neighbour_id
        self._server_id = server_id
        self._max_metadata = max_metadata
        self._permissions = permissions
        self._known: dict[bytes, RouteFacts] = {}

    def of(self, route: Raw) -> RouteFacts:
        """The facts of a route.

        :param route: the JSON text of the attribute ``route``; empty if the object has none.
        :raises Refused: ``bad-attribute``: it is not an array of strings.
        """
        raw = bytes(route)
        facts = self._known.get(raw)
        if facts is None:
            facts = self._find(raw)
            if len(self._known) >= MAX_ROUTES:
                self._known.clear()
            # When more servers are known, fewer unclear ids count as hops. So a route may be short enough later.
            if len(raw) <= MAX_REMEMBERED_ROUTE and facts.refusal != "link-too-far":
                self._known[raw] = facts
        return facts

    def _find(self, raw: bytes) -> RouteFacts:
        try:
            route = _decode_route(raw) if raw else []
        except msgspec.DecodeError as error:
            raise Refused("bad-attribute", "route is an array of strings") from error
        is_too_long = len(route) > MAX_ROUTE
        # Other servers may send an id twice. It is forwarded once.
        route = list(dict.fromkeys([*route, self._neighbour_id]))
        passed, marks = _split(route, self._neighbour_id)
        hops, unclear = (passed, []) if self._keeps_marks else _certain(passed)
        forwarded = [*hops, self._server_id, *unclear, *marks]
        ending, written = route_ending(raw), encode_json(forwarded)
        origin = Origin("", forwarded, self._link, bool(unclear or marks), self._permissions)
        return RouteFacts(
            route=passed,
            is_from_neighbour=len(passed) == 1,
            is_unusable=is_too_long or self._server_id in route,
            refusal=self._refusal(route, [*hops, *self._not_servers(unclear)], is_too_long) or self._denial(passed[0]),
            origin_key=origin_of(forwarded[:2]),
            source=Source(origin, written, len(ending)),
            ending=ending,
            longest=self._max_metadata - len(route_ending(written)) + len(ending),
        )

    def _not_servers(self, unclear: list[str]) -> list[str]:
        return [each for each in unclear if not self._is_server(each)]

    def _refusal(self, route: list[str], hops: list[str], is_too_long: bool) -> str | None:
        if self._server_id in route:
            return "link-loop"
        return "link-too-far" if is_too_long or len(hops) > MAX_HOPS else None

    def _denial(self, sender: str) -> str | None:
        """A neighbour forwards what it sends itself, and what sessions send that it may tell of."""
        may_tell = sender == self._neighbour_id or self._permissions.may("tell", sender)
        return None if may_tell else NOT_ALLOWED


def _split(route: list[str], neighbour_id: str) -> tuple[list[str], list[str]]:
    """The ids up to the neighbour, and the marks after it."""
    place = route.index(neighbour_id) + 1
    return route[:place], route[place:]


def _certain(passed: list[str]) -> tuple[list[str], list[str]]:
    """The certain hops, and the unclear ids, of a route from a route-only neighbour.

    The sender, its home and the neighbour are hops. An id between them is a hop or a mark.
    """
    return [*passed[:2], *passed[2:][-1:]], passed[2:-1]
