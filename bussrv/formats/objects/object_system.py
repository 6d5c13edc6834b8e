"""Object System: the vocabulary of clients, services and servers. Source: seed 002, and the deployed dialect.

The framing is that of :mod:`bussrv.wire.objects`. Attributes in brackets may be left out; ``->`` client to server::

    -> routing/subscribe   [id] [receive_mode] [types] [routing-id] [routing-ids] [role]
                           or, in the deployed dialect, [subscriptions] instead of receive_mode and types
    <- routing/subscribe/reply          [in-reply-to] routing-id routing-ids [subscriptions]
    <- routing/subscribe/notify         routing-id routing-ids [role]      of another member
    <- routing/subscribe/notification   the same, in the deployed dialect
    <- routing/disconnect               routing-id
    -> routing/neighbors                id to           <- routing/neighbors/reply     in-reply-to neighbors
    -> services/register    [id] name                   <- services/register/reply     [in-reply-to] name
    -> services/unregister  [id] [name]                 <- services/unregister/reply   [in-reply-to] [name]
    -> services/request     [id] name ...               to one provider, and to those who observe
    -> services/reply       in-reply-to [to] ...        to the requester
    -> services/discovery   [id] [name]                 <- services/discovery/reply    [in-reply-to] name routing-id
                                                                                       protocol route
    -> ping                 [id]                        <- pong                        [in-reply-to] routing-id
    <- error                [in-reply-to] reason message

Every other object is routed as it is, with ``route``, and with ``id`` if it has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twisted.internet.defer import Deferred

from bussrv.bus.interest.interests import mode_interest, rule_interest
from bussrv.bus.interest.vocabulary import EXCHANGED
from bussrv.bus.interfaces import IBus
from bussrv.bus.routing.compiled_result import ScanResult
from bussrv.errors import Refused
from bussrv.formats.objects.members import FramedProtocol, routing_id, routing_ids, text
from bussrv.formats.objects.server_link import LINK, SERVED, ServerLink, watch_closely
from bussrv.net.listening import StreamListener
from bussrv.net.session.factory import StreamFactory
from bussrv.net.tls.link_tokens import is_private
from bussrv.policy.logins.credentials import Proof
from bussrv.policy.permissions.permissions import content
from bussrv.registry.state.session import Claims
from bussrv.values import Interest
from bussrv.wire.objects import BadObject, BusObject, ObjectReader


class ObjectsProtocol(FramedProtocol):
    """One connection of Object System."""

    FORMAT = "objects"
    JOINING = ("routing/subscribe",)

    _server: ServerLink | None = None

    def received(self, event: BusObject | BadObject) -> None:
        """An object came; those of a linked server have other meanings than those of a client."""
        if self._server is not None and isinstance(event, BusObject):
            self._server.received(event)
        else:
            super().received(event)

    def reason_of_end(self, reason: str) -> str:
        """Servers say why they end a link; one that does not has died, or the network has."""
        return reason if self._server is None else self._server.farewell or "connection-lost"

    def end(self, reason: str, most: float | None = None) -> Deferred[None]:
        """End the session; a linked server is told why."""
        if self._server is not None and not self.has_ended:
            self._server.say_farewell(reason)
        return super().end(reason, most)

    def route_batch(self, batch: Iterator[BusObject]) -> BusObject | None:
        """Route objects; a linked server forwards those of others."""
        return super().route_batch(batch) if self._server is None else self._server.route_batch(batch)

    def splice(self, reader: ObjectReader) -> ScanResult | None:
        """Route objects without reading each of them; a linked server forwards those of others."""
        return super().splice(reader) if self._server is None else self._server.splice(reader)

    def join_network(self, obj: BusObject) -> None:
        """``routing/subscribe``: the session is a member of the network, with this interest, from now on."""
        if obj.fields().get("role") == "server":
            self.busy_with(self.join_server(obj))
        else:
            self.join(obj, self.claims)

    async def join_server(self, obj: BusObject) -> None:
        """``routing/subscribe`` of another server: a link. See :mod:`bussrv.formats.objects.server_link`."""
        server = ServerLink(self, self._bus, self.claims, self.dialed)
        try:
            if self._member:
                raise Refused("bad-subscription", "a client of this server cannot become a server")
            await self._identify_server()
            await server.join(obj)
        except Refused as refusal:
            self.note_limit(refusal)
            self.refuse(obj.head.id, refusal.reason, refusal.message, **{"routing-id": self._bus.server_id})
            if refusal.reason != "bad-subscription":
                self.end(refusal.reason)
            return
        # Another link may have replaced it at once.
        if not self.has_ended:
            self.joined()
            self.expect_server(SERVED)
            self._server = server
            self.is_link = True
            watch_closely(self.transport)

    async def _identify_server(self) -> None:
        """Find out who the other server is, by the first of: a token or a secret, its certificate, its network.

        :raises Refused: it may not link.
        """
        peer, name = self.session().peer, self.by_name()
        if self.has_credentials and not is_private(self.transport, peer):
            raise self.identification.unencrypted()
        if not self.has_credentials and self.session().actor is None and self._bus.access.judges:
            proof = self._proof_of_server(name) or self._bus.identity.of_network(peer, LINK)
            if proof is not None:
                await self.identification.prove(proof)
        await self.log_in()

    def _proof_of_server(self, name: str | None) -> Proof | None:
        """The proof of the server that was dialed, by its certificate: the user of that, or else its name."""
        if name is None:
            return None
        outcome = self._bus.identity.of_certificate(self.transport.tls.getpeercert())
        return outcome if isinstance(outcome, Proof) else Proof(name, "certificate", None)

    def by_name(self) -> str | None:
        """The name that the other server has proved to have, by its TLS certificate, when it was dialed."""
        return None

    def claims(self, fields: dict[str, Any]) -> tuple[Claims, Interest]:
        """The claims and the interest of a subscription.

        :raises Refused: ``bad-subscription``.
        """
        interest: Interest
        settings = self._bus.settings
        if "subscriptions" in fields:
            interest, vocabulary = rule_interest(fields["subscriptions"], settings), "rules"
        else:
            receive = next((fields[key] for key in ("receive_mode", "receive-mode", "receive") if key in fields), None)
            interest, vocabulary = mode_interest(receive, fields.get("types"), settings), "objects"
        claims = Claims(
            session_id=self.session_id,
            routing_id=routing_id(fields.get("routing-id"), "routing-id"),
            routing_ids=routing_ids(fields.get("routing-ids"), settings.max_routing_ids),
            claimed=text(fields.get("user")),
            name=text(fields.get("name")),
            role="server" if fields.get("role") == "server" else None,
            vocabulary=vocabulary,
        )
        return claims, interest

    def echoed(self, obj: BusObject) -> dict[str, Any]:
        """Deployed subscribers expect their rules in the reply, as they sent them."""
        fields = obj.fields()
        return {"subscriptions": fields["subscriptions"]} if "subscriptions" in fields else {}

    def discover(self, obj: BusObject) -> None:
        """``services/discovery``: one reply for each provider of the service, or of all services.

        Services that never register answer for themselves: questions for unregistered names are routed as any event.
        """
        if not self._is_for_server(obj):
            self.pass_on(obj)
            return
        name = obj.fields().get("name")
        if name is None:
            self.busy_with(self._discover_all(obj))
        elif isinstance(name, str) and name in self._bus.registry.state.services and self._sees(name):
            self.busy_with(self.answer_long(self._providers(obj, [name])))
        elif self._may_ask():
            self.request(obj)
        else:
            self.refuse_request(obj, name)

    async def _discover_all(self, obj: BusObject) -> None:
        await self.answer_long(self._providers(obj, self._bus.service_names()))
        if self._may_ask():
            self.pass_on(obj)

    def _may_ask(self) -> bool:
        """Whether services that did not register may be asked, too: the question goes to all members."""
        return self.permissions().may("send", content("services/discovery", ""))

    def _providers(self, obj: BusObject, names: list[str]) -> Iterator[bytes]:
        """The replies for the providers of some services, looked up when the reply is made.

        Of a service that the client may not know of there is none. Providers that it may not know of are told as one,
        without their routing ids.
        """
        state = self._bus.registry.state
        for name in names:
            if not self._sees(name):
                yield b""
                continue
            hidden = False
            for provider in tuple(state.services.get(name, ())):
                session = state.sessions.get(provider)
                if session is None:
                    continue
                if not self.permissions().sees_session(session.routing_id):
                    hidden = True
                    continue
                about = {"name": name, "routing-id": session.routing_id, "protocol": session.protocol}
                # Deployed clients take the first of the route for the provider.
                route = [session.routing_id, session.home or self._bus.server_id]
                yield self.frame_of(obj, {"event": "services/discovery/reply", **about, "route": route})
            if hidden:
                route = [self._bus.server_id]
                yield self.frame_of(obj, {"event": "services/discovery/reply", "name": name, "route": route})

    def _sees(self, service: str) -> bool:
        return self.permissions().sees_service(service)

    def ping(self, obj: BusObject) -> None:
        """``ping``: answered by the server, unless it is addressed to somebody else."""
        if self._is_for_server(obj):
            self.answer(obj, {"event": "pong", "routing-id": self._bus.server_id})
        else:
            self.pass_on(obj)

    def neighbors(self, obj: BusObject) -> None:
        """``routing/neighbors``: the servers that this one is linked with, if it is addressed to this one."""
        if not self._is_for_server(obj):
            self.pass_on(obj)
            return
        visible = [each for each in self._bus.links.neighbors() if self.permissions().sees_session(each)]
        about = {"to": self.session().routing_id, "neighbors": visible}
        self.answer(obj, {"event": "routing/neighbors/reply", **about})

    def _is_for_server(self, obj: BusObject) -> bool:
        return obj.head.to in (None, self._bus.server_id, [self._bus.server_id])

    EVENTS = {  # noqa: RUF012
        "routing/subscribe": join_network,
        "routing/neighbors": neighbors,
        "services/register": FramedProtocol.register,
        "services/unregister": FramedProtocol.unregister,
        "services/request": FramedProtocol.request,
        "services/discovery": discover,
        "ping": ping,
    }
    SERVED = frozenset(EVENTS) - EXCHANGED
    COMMANDS = frozenset(EVENTS) - frozenset(JOINING)


def listen(bus: IBus, endpoint: str, reactor: Any) -> StreamListener:
    """Serve Object System; see :meth:`bussrv.interfaces.IWireFormat.listen`."""
    return StreamListener(StreamFactory(ObjectsProtocol, bus, reactor), endpoint, reactor)
