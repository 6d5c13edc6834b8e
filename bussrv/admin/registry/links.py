"""``/api/v1/links``: the servers that this one is linked with, or tries to link with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from bussrv.admin.http.routes import Call
from bussrv.admin.interfaces import AdministeredServer
from bussrv.admin.registry.collections import Page, page_of
from bussrv.bus.interfaces import IBus
from bussrv.bus.links.facts import LinkFacts
from bussrv.bus.links.lost_links import LostLink
from bussrv.journal.record import format_time
from bussrv.net.session.client_link import StreamLink
from bussrv.registry.state.session import SERVER_ROLE


class LinkItem(Struct, frozen=True, kw_only=True):
    """A link to another server.

    :ivar routing_id: the routing id of the other server; ``None``: it is not known yet.
    :ivar address: the address of the other server, or the last one; of a link that was never up, the endpoint that is
        dialed, or nothing.
    :ivar state: ``down``: the link was lost, or was expected and never came up; ``dialing``: this server dials, and no
        server has answered yet.
    :ivar dialed: whether this server dials; ``false``: the other one does, or nobody that is known if there is no
        address.
    :ivar since: when it came up.
    :ivar lost: when it was lost; of a server of ``--expect-link`` that was never there, the start of this one.
    :ivar reason: why it was lost; ``null``: it was never up.
    :ivar neighbors: the routing ids of the servers that the other one is linked with, except this one.
    :ivar sessions: how many sessions the other server advertises, those of servers after it included. `/api/v1/servers`
        counts each session once.
    :ivar waiting_bytes: bytes that wait to be sent over the link; ``None``: it is not up.
    :ivar round_trip: seconds to the other server and back on the network, as the system measures them; ``None``: it
        does not say.
    """

    routing_id: str | None
    address: str
    session: str | None
    state: Literal["up", "down", "dialing"]
    dialed: bool
    since: str | None
    neighbors: list[str]
    sessions: int
    lost: str | None = None
    reason: str | None = None
    waiting_bytes: int | None = None
    round_trip: float | None = None


async def list_all(call: Call) -> Page:
    """The servers that this one is linked with, or should be."""
    return await page_of(call, _items(call.server))


def _items(server: AdministeredServer) -> Iterator[LinkItem]:
    links = server.bus.links.all()
    for link in links:
        yield _up(server, link)
    linked = {link.server_id for link in links}
    missing = {each.server_id: each for each in server.bus.links.missing()}
    for each in server.dialed():
        if each.server not in linked:
            yield _down(each.server, each.address, True, missing.pop(each.server or "", None))
    for lost in missing.values():
        yield _down(lost.server_id, lost.peer or "", lost.dialed, lost)


def _down(server_id: str | None, address: str, dialed: bool, lost: LostLink | None) -> LinkItem:
    return LinkItem(
        routing_id=server_id,
        address=address,
        session=None,
        state="dialing" if server_id is None else "down",
        dialed=dialed,
        since=None,
        neighbors=[],
        sessions=0,
        lost=None if lost is None else format_time(lost.time),
        reason=None if lost is None else lost.reason,
    )


def _up(server: AdministeredServer, link: LinkFacts) -> LinkItem:
    bus = server.bus
    session = bus.registry.state.sessions.get(link.session_id)
    advertised = [each for each in bus.links.paths.over(link.session_id) if each.routing_id != link.server_id]
    neighbors = (each.routing_id for each in advertised if each.role == SERVER_ROLE and len(each.path) == 2)
    return LinkItem(
        routing_id=link.server_id,
        address=link.peer,
        session=link.session_id,
        state="up",
        dialed=link.dialed,
        since=None if session is None else format_time(session.opened),
        neighbors=sorted(neighbors),
        sessions=sum(each.role != SERVER_ROLE for each in advertised),
        **lag(bus, link),
    )


def lag(bus: IBus, link: LinkFacts) -> dict[str, Any]:
    """The lag of a link: the bytes that wait, and the round trip on the network."""
    way = bus.link_of(link.session_id)
    return {
        "waiting_bytes": None if way is None else way.waiting,
        "round_trip": way.round_trip if isinstance(way, StreamLink) else None,
    }
