"""Object System: the vocabulary of clients, services and servers. Source: seed 002, and the deployed dialect.

The framing is that of :mod:`bussrv.wire.objects`. Attributes in brackets may be left out; ``->`` client to server::

    -> routing/subscribe   [id] [receive_mode] [types] [routing-id] [routing-ids] [role]
                           or, in the deployed dialect, [subscriptions] instead of receive_mode and types
                           and, as extensions, [services] [gaps]
    <- routing/subscribe/reply          [in-reply-to] routing-id routing-ids [subscriptions] [services]
    <- routing/subscribe/notify         routing-id routing-ids [role]      of another member
    <- routing/subscribe/notification   the same, in the deployed dialect
    <- routing/disconnect               routing-id
    -> routing/neighbors                id to           <- routing/neighbors/reply     in-reply-to neighbors
    -> services/register    [id] name [announce]        <- services/register/reply     [in-reply-to] name
    -> services/unregister  [id] [name]                 <- services/unregister/reply   [in-reply-to] [name]
    -> services/request     [id] name ...               to one provider, and to those who observe
    -> services/reply       in-reply-to [to] ...        to the requester
    -> services/discovery   [id] [name]                 <- services/discovery/reply    [in-reply-to] name routing-id
                                                                                       protocol route
    -> ping                 [id]                        <- pong                        [in-reply-to] routing-id
    <- services/gap         [name] [lost] reason sender-server, if it subscribed with gaps
    <- error                [in-reply-to] reason message

Every other object is routed as it is, with ``route``, and with ``id`` if it has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from bussrv.bus.interest.interests import mode_interest, rule_interest
from bussrv.formats.objects.members import MemberProtocol
from bussrv.formats.objects.server_link import LINK, SERVED, ServerLink, watch_closely
from bussrv.formats.objects.vocabulary import Vocabulary, echoed, routing_id, routing_ids, text
from bussrv.net.tls.link_tokens import is_private
from bussrv.plugin import Claims, IBus, Refused, StreamFactory, StreamListener
from bussrv.policy.logins.credentials import Proof
from bussrv.policy.permissions.permissions import content
from bussrv.values import Interest
from bussrv.wire.objects import BusObject


def claims(member: MemberProtocol, fields: dict[str, Any]) -> tuple[Claims, Interest]:
    """The claims and the interest of a subscription.

    :raises Refused: ``bad-subscription``.
    """
    interest: Interest
    settings = member.settings
    if "subscriptions" in fields:
        interest, vocabulary = rule_interest(fields["subscriptions"], settings), "rules"
    else:
        receive = next((fields[key] for key in ("receive_mode", "receive-mode", "receive") if key in fields), None)
        interest, vocabulary = mode_interest(receive, fields.get("types"), settings), "objects"
    claimed = Claims(
        session_id=member.session_id,
        routing_id=routing_id(fields.get("routing-id"), "routing-id"),
        routing_ids=routing_ids(fields.get("routing-ids"), settings.max_routing_ids),
        claimed=text(fields.get("user")),
        name=text(fields.get("name")),
        role="server" if fields.get("role") == "server" else None,
        vocabulary=vocabulary,
    )
    return claimed, interest


def join_network(member: MemberProtocol, obj: BusObject) -> None:
    """``routing/subscribe``: the session is a member of the network, with this interest, from now on."""
    fields = obj.fields()
    if fields.get("role") == "server":
        member.busy_with(member.join_server(obj))
    else:
        member.join(obj, partial(claims, member), echoed(fields))


def discover(member: MemberProtocol, obj: BusObject) -> None:
    """``services/discovery``: one reply for each provider of the service, or of all services.

    Services that never register answer for themselves: questions for unregistered names are routed as any event.
    """
    if not _is_for_server(member, obj):
        member.pass_on(obj)
        return
    name = obj.fields().get("name")
    if name is None:
        member.busy_with(_discover_all(member, obj))
    elif isinstance(name, str) and name in member.bus.registry.state.services and _sees(member, name):
        member.busy_with(member.answer_long(_providers(member, obj, [name])))
    elif _may_ask(member):
        member.request(obj)
    else:
        member.refuse_request(obj, name)


async def _discover_all(member: MemberProtocol, obj: BusObject) -> None:
    await member.answer_long(_providers(member, obj, member.bus.service_names()))
    if _may_ask(member):
        member.pass_on(obj)


def _may_ask(member: MemberProtocol) -> bool:
    """Whether services that did not register may be asked, too: the question goes to all members."""
    return member.permissions().may("send", content("services/discovery", ""))


def _providers(member: MemberProtocol, obj: BusObject, names: list[str]) -> Iterator[bytes]:
    """The replies for the providers of some services, looked up when the reply is made.

    Of a service that the client may not know of there is none. Providers that it may not know of are told as one,
    without their routing ids.
    """
    state, server_id = member.bus.registry.state, member.bus.server_id
    for name in names:
        if not _sees(member, name):
            yield b""
            continue
        hidden = False
        for provider in tuple(state.services.get(name, ())):
            session = state.sessions.get(provider)
            if session is None:
                continue
            if not member.permissions().sees_session(session.routing_id):
                hidden = True
                continue
            about = {"name": name, "routing-id": session.routing_id, "protocol": session.protocol}
            # Deployed clients take the first of the route for the provider.
            route = [session.routing_id, session.home or server_id]
            yield member.frame_of(obj, {"event": "services/discovery/reply", **about, "route": route})
        if hidden:
            yield member.frame_of(obj, {"event": "services/discovery/reply", "name": name, "route": [server_id]})


def _sees(member: MemberProtocol, service: str) -> bool:
    return member.permissions().sees_service(service)


def ping(member: MemberProtocol, obj: BusObject) -> None:
    """``ping``: answered by the server, unless it is addressed to somebody else."""
    if _is_for_server(member, obj):
        member.answer(obj, {"event": "pong", "routing-id": member.bus.server_id})
    else:
        member.pass_on(obj)


def neighbors(member: MemberProtocol, obj: BusObject) -> None:
    """``routing/neighbors``: the servers that this one is linked with, if it is addressed to this one."""
    if not _is_for_server(member, obj):
        member.pass_on(obj)
        return
    visible = [each for each in member.bus.links.neighbors() if member.permissions().sees_session(each)]
    about = {"to": member.session().routing_id, "neighbors": visible}
    member.answer(obj, {"event": "routing/neighbors/reply", **about})


def _is_for_server(member: MemberProtocol, obj: BusObject) -> bool:
    return obj.head.to in (None, member.bus.server_id, [member.bus.server_id])


OBJECT_SYSTEM = Vocabulary(
    joining=("routing/subscribe",),
    events={
        "routing/subscribe": join_network,
        "routing/neighbors": neighbors,
        "services/register": MemberProtocol.register,
        "services/unregister": MemberProtocol.unregister,
        "services/request": MemberProtocol.request,
        "services/discovery": discover,
        "ping": ping,
    },
)


async def link(member: MemberProtocol, obj: BusObject, name: str | None) -> None:
    """``routing/subscribe`` of another server: a link. See :mod:`bussrv.formats.objects.server_link`.

    :param name: the name that the other server has proved to have, by its TLS certificate, when it was dialed.
    """
    server = ServerLink(member, member.bus, partial(claims, member), member.dialed)
    try:
        if member.is_member:
            raise Refused("bad-subscription", "a client of this server cannot become a server")
        await _identify_server(member, name)
        await server.join(obj)
    except Refused as refusal:
        member.note_limit(refusal)
        member.refuse(obj.head.id, refusal.reason, refusal.message, **{"routing-id": member.bus.server_id})
        if refusal.reason != "bad-subscription":
            member.end(refusal.reason)
        return
    # Another link may have replaced it at once.
    if not member.has_ended:
        member.linked_with(server, SERVED)
        watch_closely(member.transport)


async def _identify_server(member: MemberProtocol, name: str | None) -> None:
    """Find out who the other server is, by the first of: a token or a secret, its certificate, its network.

    :raises Refused: it may not link.
    """
    peer = member.session().peer
    if member.has_credentials and not is_private(member.transport, peer):
        raise member.identification.unencrypted()
    if not member.has_credentials and member.session().actor is None and member.bus.access.judges:
        proof = _proof_of_server(member, name) or member.bus.identity.of_network(peer, LINK)
        if proof is not None:
            await member.identification.prove(proof)
    await member.log_in_as_offered()


def _proof_of_server(member: MemberProtocol, name: str | None) -> Proof | None:
    """The proof of the server that was dialed, by its certificate: the user of that, or else its name."""
    if name is None:
        return None
    outcome = member.bus.identity.of_certificate(member.transport.tls.getpeercert())
    return outcome if isinstance(outcome, Proof) else Proof(name, "certificate", None)


class ObjectsProtocol(MemberProtocol):
    """One connection of Object System: of a client, or of a server that has dialed this one."""

    FORMAT = "objects"
    VOCABULARY = OBJECT_SYSTEM

    async def join_server(self, obj: BusObject) -> None:
        """Link with another server."""
        await link(self, obj, None)


def listen(bus: IBus, endpoint: str, reactor: Any) -> StreamListener:
    """Serve Object System; see :meth:`bussrv.interfaces.IWireFormat.listen`."""
    return StreamListener(StreamFactory(ObjectsProtocol, bus, reactor), endpoint, reactor)
