"""Linked servers: Object System between two servers. Source: seed 002, and the deployed dialect.

``->`` is the server that dialed, ``<-`` the one that was dialed; attributes in brackets may be left out::

    -> routing/subscribe         [id] role:"server" routing-id subscriptions:["*"] [directory] [interest] [understands]
                                 [max-metadata] [max-payload] [route]
    <- routing/subscribe/reply   [in-reply-to] routing-id routing-ids
    <- routing/subscribe         the same of the other server, once
    -> routing/subscribe/reply
    <> the events of bussrv.bus.links.advertisement_fields, about every session that each can reach
    <> routing/announcement/neighbors   neighbors        the servers that one is linked with; told to nobody else
    <> routing/announcement/gap         objects of another server were lost: bussrv.bus.links.gaps
    <> routing/announcement/interest    what one wants of objects for everybody: bussrv.bus.links.interest_fields
    <> every other object, with the ``route`` it has, to which each server adds itself

Requests to this server itself (``ping``, ``routing/neighbors``) are answered to the first id of ``route``. A ``pong``
has the ``time`` of day; see :mod:`bussrv.bus.link_clocks`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from bussrv.addresses import host_of, is_in, peer_text
from bussrv.bus.interest.vocabulary import FAREWELL, GAP, INTEREST, NEIGHBORS
from bussrv.bus.links.advertisement_fields import ADVERTISEMENTS, NAMES
from bussrv.counts.throttle import Throttle
from bussrv.formats.objects.members import Identify, MemberProtocol
from bussrv.formats.objects.vocabulary import echoed
from bussrv.net.tls.link_tokens import is_private
from bussrv.plugin import REASONS, IBus, Refused, quoted
from bussrv.wire.objects import BusObject

log = Logger()

NEVER_PASSED_ON = ("routing/subscribe", "routing/subscribe/reply", NEIGHBORS, INTEREST, GAP)
"""Events between two servers that no client may see."""

UNDERSTOOD = ("interest", "gap", NAMES)
"""What a server with ``directory`` may say to this one, besides what all of them say."""

_REPLIES = (
    "services/register/reply",
    "services/unregister/reply",
    "routing/neighbors/reply",
    "pong",
    FAREWELL,
)

ENDED_BY_OTHER = ("client-closed", "connection-lost")
"""The reasons of ends that the other server has caused, so that it need not be told."""

SERVED = frozenset((*ADVERTISEMENTS, *NEVER_PASSED_ON))
"""Events between servers. They are never routed, also if a client sent them."""

LINK = "link"
"""The protocol of linked servers in the users of networks; see :meth:`IIdentity.of_network`."""

COMPLAINT_RATE = 0.1
"""Lines of log a second about refusals on one link, after the first few."""

COMPLAINT_BURST = 5

# Seconds without an answer until the other end counts as gone, and until it is probed.
_DEAD_AFTER = 30
_IDLE = 15


class ServerLink:
    """One connection to another server.

    :param identify: reads the claims and the interest of the other server from its subscription.
    :param dialed: whether this server dialed the other one.
    :ivar server_id: the routing id of the other server; empty until it has subscribed.
    :ivar farewell: why the other server ends the link; ``None``: it has not said so.
    """

    def __init__(self, protocol: MemberProtocol, bus: IBus, identify: Identify, dialed: bool) -> None:
        self.server_id = ""
        self.farewell: str | None = None
        self._is_bus = False
        self._protocol = protocol
        self._bus = bus
        self._identify = identify
        self._dialed = dialed
        self._complaints = Throttle(COMPLAINT_RATE, COMPLAINT_BURST, protocol.reactor.seconds)

    def subscribe(self, token: Callable[[], str] | None) -> None:
        """Subscribe to the other server.

        :param token: proves to it who this server is.
        """
        fields = {
            "event": "routing/subscribe",
            "id": f"{self._protocol.session_id}.link",
            "role": "server",
            "routing-id": self._bus.server_id,
            "subscriptions": ["*"],
            "directory": True,
            "understands": UNDERSTOOD,
            "max-metadata": self._bus.settings.max_metadata,
            "max-payload": self._bus.settings.max_payload,
            "route": [self._bus.server_id],
        }
        if token is not None:
            fields["token"] = token()
        self._bus.tell(self._protocol.session_id, fields)

    async def join(self, obj: BusObject) -> None:
        """The other server subscribed: the link stands, once that is durable.

        :raises Refused: it does not.
        """
        fields = obj.fields()
        claims, interest = self._identify(fields)
        server_id = claims.routing_id
        if server_id is None:
            raise Refused("bad-subscription", "a server subscribes with its routing-id")
        self.server_id = server_id
        tells_all = self._is_bus = fields.get("directory") is True
        peer = self._bus.registry.state.sessions[self._protocol.session_id].peer
        self._may_link(server_id, peer)
        async with self._bus.links.admitted(self._protocol.session_id, server_id, dialed=self._dialed):
            # As the reply says, a server has no further ones: its members have.
            await self._bus.registry.identify(replace(claims, routing_ids=()), interest)
            about = {"routing-id": server_id, "routing-ids": [], **echoed(fields)}
            self._protocol.answer(obj, {"event": "routing/subscribe/reply", **about})
            if not self._dialed:
                self.subscribe(self._own_token(peer))
            self._bus.links.up(
                self._protocol.session_id,
                self._protocol.link,
                interest,
                tells_all=tells_all,
                dialed=self._dialed,
                asks_interest=fields.get("interest") is True,
                takes_names=tells_all and NAMES in _understood(fields),
            )

    def _own_token(self, peer: str) -> Callable[[], str] | None:
        """The token for a server that has dialed this one, if it has proved who it is, and nobody else can read it."""
        is_known = self._protocol.session().actor is not None
        return self._bus.links.token if is_known and is_private(self._protocol.transport, peer) else None

    def _may_link(self, server_id: str, peer: str) -> None:
        if server_id == self._bus.server_id:
            raise Refused("link-to-itself", f"both servers of the link have the routing id {server_id}")
        if not self._bus.may(self._protocol.session_id, "link", server_id):
            raise Refused("link-not-allowed", f"the policy does not allow you to link as {quoted(server_id)}")
        is_judged = self._dialed or self._bus.access.policy is not None
        if not is_judged and not is_in(peer, self._bus.settings.link_allow):
            raise Refused("link-not-allowed", f"servers may not link from {host_of(peer)}; --link-allow lets them")

    def received(self, obj: BusObject) -> None:
        """The other server sent an object."""
        try:
            if obj.head.event in ADVERTISEMENTS:
                self._bus.receive_advertisement(self._protocol.session_id, obj)
                self._wait_for_room()
            elif obj.head.event in (INTEREST, GAP):
                self._hear_neighbour(obj)
            elif not self._is_for_this_server(obj, self._bus.route_of(self._protocol.session_id, obj)):
                self._forward(obj)
        except Refused as refusal:
            self._bus.counters[refusal.reason] += 1
            self._complain(refusal.reason, "link to {server} at {peer}, session {session}: {said}", refusal.message)

    def say_farewell(self, reason: str) -> None:
        """Tell the other server why this one ends the link. Others than bussrv might forward it to their clients."""
        if self._is_bus and self.farewell is None and reason not in ENDED_BY_OTHER:
            fields = {"event": FAREWELL, "reason": reason, "route": [self._bus.server_id]}
            self._bus.tell(self._protocol.session_id, fields)

    def _hear_neighbour(self, obj: BusObject) -> None:
        """What the neighbour itself wants, or says was lost. Others than bussrv are not listened to."""
        session_id = self._protocol.session_id
        if not self._is_bus or len(self._bus.route_of(session_id, obj)) > 1:
            return
        receive = self._bus.links.receive_interest if obj.head.event == INTEREST else self._bus.receive_gap
        receive(session_id, obj.fields())

    def _hear_farewell(self, obj: BusObject) -> None:
        reason = obj.fields().get("reason")
        self.farewell = reason if isinstance(reason, str) and reason in REASONS else "client-closed"

    def _complain(self, key: str, text: str, said: Any) -> None:
        """Log a complaint, unless the other server caused too many of the same ``key``."""
        suppressed = self._complaints.admit(key)
        if suppressed is not None:
            shown = f"{text} ({{suppressed}} more not logged)"
            log.warn(
                shown,
                event="link.malformed",
                server=self.server_id,
                session=self._protocol.session_id,
                peer=peer_text(self._protocol.transport.getPeer()),
                said=said,
                suppressed=suppressed,
            )

    def _wait_for_room(self) -> None:
        """Wait if too many advertised sessions are on their way to the journal: those are applied together."""
        room = self._bus.links.room()
        if room is not None:
            self._protocol.busy_with(_until(room))

    def _is_for_this_server(self, obj: BusObject, route: list[str]) -> bool:
        """Serve an object that is for this server. :returns: whether it was."""
        head = obj.head
        if head.event in NEVER_PASSED_ON:
            return True
        is_addressed = head.to in (self._bus.server_id, [self._bus.server_id])
        if not is_addressed and (head.to is not None or len(route) > 1):
            return False
        if head.event == "ping":
            time = self._bus.link_clocks.now()
            self._answer(obj, route, {"event": "pong", "routing-id": self._bus.server_id, "time": time})
        elif head.event == "pong" and is_addressed and len(route) == 1:
            fields = obj.fields()
            self._bus.link_clocks.hear(self._protocol.session_id, fields.get("in-reply-to"), fields.get("time"))
        elif head.event == "routing/neighbors":
            sees = self._protocol.permissions().sees_session
            neighbors = [each for each in self._bus.links.neighbors() if sees(each)]
            self._answer(obj, route, {"event": "routing/neighbors/reply", "neighbors": neighbors})
        elif head.event == "error":
            self._complain(
                "error", "link to {server} at {peer}, session {session}: it says: {said}", obj.fields().get("message")
            )
        elif head.event == FAREWELL and len(route) == 1:
            self._hear_farewell(obj)
        else:
            return is_addressed or head.event in _REPLIES
        return True

    def _answer(self, obj: BusObject, route: list[str], fields: dict[str, Any]) -> None:
        self._protocol.answer(obj, {**fields, "to": route[0], "route": [self._bus.server_id]})

    def _forward(self, obj: BusObject) -> None:
        forwarded = self._bus.forward(self._protocol.session_id, obj)
        if forwarded is not None:
            self._protocol.busy_with(_until(forwarded))


def _understood(fields: dict[str, Any]) -> list[Any]:
    """What a server understands, as its subscription says."""
    understood = fields.get("understands")
    return understood if isinstance(understood, list) else []


async def _until(event: Deferred[None]) -> None:
    await event


def watch_closely(transport: Any) -> None:
    """Detect within a minute that the other end of a connection has vanished."""
    for option, value in (("TCP_KEEPIDLE", _IDLE), ("TCP_KEEPINTVL", _IDLE // 3), ("TCP_KEEPCNT", 3)):
        _set_option(transport, option, value)
    _set_option(transport, "TCP_USER_TIMEOUT", _DEAD_AFTER * 1000)


def _set_option(transport: Any, option: str, value: int) -> None:
    number = getattr(socket, option, None)
    handle = getattr(transport, "getHandle", lambda: None)()
    if number is not None and isinstance(handle, socket.socket) and handle.family in (socket.AF_INET, socket.AF_INET6):
        handle.setsockopt(socket.IPPROTO_TCP, number, value)
