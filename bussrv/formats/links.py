"""Linked servers: what a server says to a server over Object System. Source: seed 002, and the deployed dialect.

``->`` is the server that dialed, ``<-`` the one that was dialed; attributes in brackets may be left out::

    -> routing/subscribe         [id] role:"server" routing-id subscriptions:["*"] [directory] [route]
    <- routing/subscribe/reply   [in-reply-to] routing-id routing-ids
    <- routing/subscribe         the same of the other server, once
    -> routing/subscribe/reply
    <> the words of bussrv.bus.tidings, about every session that each can reach
    <> routing/announcement/neighbors   neighbors        the servers that one is linked with; told to nobody else
    <> every other object, with the ``route`` it has, to which each server adds itself

What is asked of this server itself (``ping``, ``routing/neighbors``) is answered to the first of ``route``.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from bussrv.addresses import host_of
from bussrv.bus.tidings import TIDINGS
from bussrv.bus.ways import Way, Ways
from bussrv.errors import Refused
from bussrv.formats.framed import FramedProtocol, Identify
from bussrv.registry.throttle import Throttle
from bussrv.wire.objects import BusObject, max_relayed

log = Logger()

NEVER_PASSED_ON = ("routing/subscribe", "routing/subscribe/reply", "routing/announcement/neighbors")
"""What servers say to servers, and is for no client to see."""

_REPLIES = ("services/register/reply", "services/unregister/reply", "routing/neighbors/reply", "pong")

SERVED = frozenset((*TIDINGS, *NEVER_PASSED_ON))
"""What is never routed, whoever said it first."""

COMPLAINT_RATE = 0.1
"""How often a second the log says of one link what was refused, once the first few were said."""

COMPLAINT_BURST = 5

# After how many seconds without an answer the other end counts as gone, and from when on it is asked.
_DEAD_AFTER = 30
_IDLE = 15


class ServerLink:
    """One connection to another server.

    :param identify: reads who the other server is, and what it wants, from the attributes of its subscription.
    :param dialed: whether this server dialed the other one.
    :ivar server_id: the routing id of the other server; empty until it has said who it is.
    """

    def __init__(self, protocol: FramedProtocol, identify: Identify, dialed: bool) -> None:
        self.server_id = ""
        self._protocol = protocol
        self._bus = protocol.bus
        self._identify = identify
        self._dialed = dialed
        self._complaints = Throttle(COMPLAINT_RATE, COMPLAINT_BURST, protocol.reactor.seconds)

    def subscribe(self) -> None:
        """Ask the other server for what it has."""
        fields = {
            "event": "routing/subscribe",
            "id": f"{self._protocol.session_id}.link",
            "role": "server",
            "routing-id": self._bus.server_id,
            "subscriptions": ["*"],
            "directory": True,
            "route": [self._bus.server_id],
        }
        self._bus.tell(self._protocol.session_id, fields)

    async def join(self, obj: BusObject) -> None:
        """The other server subscribed: the link stands, once that is durable.

        :raises Refused: it does not.
        """
        fields = obj.fields()
        identity, interest = self._identify(fields)
        server_id = identity.routing_id
        if server_id is None:
            raise Refused("bad-subscription", "a server subscribes with its routing-id")
        self.server_id = server_id
        most = max_relayed(self._bus.settings.max_metadata)
        self._ways = Ways(self._protocol.session_id, server_id, self._bus.server_id, most)
        self._may_link(server_id)
        await self._bus.links.admit(server_id, self._dialed)
        try:
            await self._bus.registry.identify(identity, interest)
        except Refused:
            self._bus.links.unbar(server_id)
            raise
        self._protocol.answer(obj, {"event": "routing/subscribe/reply", "routing-id": server_id, "routing-ids": []})
        if not self._dialed:
            self.subscribe()
        tells_all = fields.get("directory") is True
        self._bus.links.up(
            self._protocol.session_id, self._protocol.link, interest, tells_all=tells_all, dialed=self._dialed
        )

    def _may_link(self, server_id: str) -> None:
        if server_id == self._bus.server_id:
            raise Refused("link-to-itself", f"both servers of the link have the routing id {server_id}")
        if self._dialed:
            return
        peer = self._bus.registry.state.sessions[self._protocol.session_id].peer
        if not _is_allowed(peer, self._bus.settings.link_allow):
            raise Refused("link-not-allowed", f"servers may not link from {host_of(peer)}; --link-allow lets them")

    def route_run(self, run: Iterator[BusObject]) -> BusObject | None:
        """Pass on objects, up to one that :meth:`received` has to look at. :returns: that, taken from the run."""
        if self._bus.links.settled() is not None:
            return next(run, None)
        obj: BusObject | None = self._bus.relay_run(self._ways, run, SERVED)
        return obj

    def received(self, obj: BusObject) -> None:
        """The other server said something."""
        try:
            way = self._ways.of(obj.head.route)
            if obj.head.event in TIDINGS:
                self._bus.links.hear(self._protocol.session_id, obj.fields(), way.route)
            elif not self._is_for_this_server(obj, way.route):
                self._pass_on(obj, way)
        except Refused as refusal:
            self._bus.counters[refusal.reason] += 1
            if self._complaints.admit(refusal.reason) is not None:
                log.warn("link to {server}: {why}", server=self.server_id, why=refusal.message)

    def _is_for_this_server(self, obj: BusObject, route: list[str]) -> bool:
        """Serve what is asked of this server. :returns: whether that was so."""
        head = obj.head
        if head.event in NEVER_PASSED_ON:
            return True
        is_addressed = head.to in (self._bus.server_id, [self._bus.server_id])
        if not is_addressed and (head.to is not None or len(route) > 1):
            return False
        if head.event == "ping":
            self._answer(obj, route, {"event": "pong", "routing-id": self._bus.server_id})
        elif head.event == "routing/neighbors":
            neighbors = self._bus.links.neighbors()
            self._answer(obj, route, {"event": "routing/neighbors/reply", "neighbors": neighbors})
        elif head.event == "error":
            log.warn("link to {server}: it says: {error}", server=self.server_id, error=obj.fields().get("message"))
        else:
            return is_addressed or head.event in _REPLIES
        return True

    def _answer(self, obj: BusObject, route: list[str], fields: dict[str, Any]) -> None:
        self._protocol.answer(obj, {**fields, "to": route[0], "route": [self._bus.server_id]})

    def _pass_on(self, obj: BusObject, way: Way) -> None:
        """Route an object, behind what was told before it: its sender may be known only from that."""
        settled = self._bus.links.settled()
        if settled is None:
            self._bus.relay(way, obj)
        else:
            self._protocol.busy_with(self._pass_on_later(obj, way, settled))

    async def _pass_on_later(self, obj: BusObject, way: Way, settled: Deferred[None]) -> None:
        await settled
        self._bus.relay(way, obj)


def watch_closely(transport: Any) -> None:
    """Notice within a minute that the other end of a connection is gone without having said so."""
    for option, value in (("TCP_KEEPIDLE", _IDLE), ("TCP_KEEPINTVL", _IDLE // 3), ("TCP_KEEPCNT", 3)):
        _set_option(transport, option, value)
    _set_option(transport, "TCP_USER_TIMEOUT", _DEAD_AFTER * 1000)


def _set_option(transport: Any, option: str, value: int) -> None:
    number = getattr(socket, option, None)
    handle = getattr(transport, "getHandle", lambda: None)()
    if number is not None and isinstance(handle, socket.socket) and handle.family in (socket.AF_INET, socket.AF_INET6):
        handle.setsockopt(socket.IPPROTO_TCP, number, value)


def _is_allowed(peer: str, networks: Iterable[IPv4Network | IPv6Network]) -> bool:
    """Whether servers may link from an address: from this machine always."""
    try:
        address = ip_address(host_of(peer).strip("[]").partition("%")[0])
    except ValueError:
        # The path of a local socket.
        return True
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped or address
    return address.is_loopback or any(address in network for network in networks)
