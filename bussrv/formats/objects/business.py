"""Business Object: the older vocabulary. Source: seed 000, and the deployed spelling ``clients/register``.

The framing is that of :mod:`bussrv.wire.objects`. Attributes in brackets may be left out; ``->`` client to server::

    -> client/register     [id] [receive] [subscribe] [services] [name] [user] [unique-routing-id] [routing-ids]
    <- client/register/reply       [in-reply-to] routing-id routing-ids [services]
    -> clients/register    the same, with [subscriptions] for [subscribe]
    <- clients/register/reply
    -> services/register   [id] name          <- services/register/reply     [in-reply-to] name
    -> services/unregister [id] [name]        <- services/unregister/reply   [in-reply-to] [name]
    -> services/list       [id]               <- services/list/reply         [in-reply-to], payload: JSON array of names
    <- error               [in-reply-to] reason message

Every other object is routed as it is, to and from members of either vocabulary. So are ``services/request`` and
``services/reply`` of Object System, with ``error`` ``no-such-service`` if nobody could take a request.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from bussrv.bus.interest.interests import mode_interest
from bussrv.formats.objects.members import MemberProtocol
from bussrv.formats.objects.vocabulary import Vocabulary, routing_id, routing_ids, text
from bussrv.plugin import Claims, IBus, StreamFactory, StreamListener
from bussrv.values import Interest
from bussrv.wire.objects import BusObject, encode_json


def register_client(member: MemberProtocol, obj: BusObject) -> None:
    """``client/register``: the session is a member of the network, with this interest, from now on."""
    member.join(obj, partial(_claims, member), {})


def _claims(member: MemberProtocol, fields: dict[str, Any]) -> tuple[Claims, Interest]:
    key = "subscribe" if "subscribe" in fields else "subscriptions"
    claims = Claims(
        session_id=member.session_id,
        routing_id=routing_id(fields.get("unique-routing-id"), "unique-routing-id"),
        routing_ids=routing_ids(fields.get("routing-ids"), member.settings.max_routing_ids),
        claimed=text(fields.get("user")),
        name=text(fields.get("name")),
        vocabulary="business",
    )
    return claims, mode_interest(fields.get("receive"), fields.get(key), member.settings, key)


def list_services(member: MemberProtocol, obj: BusObject) -> None:
    """``services/list``: the names of all services that the client may know, of whatever format."""
    member.busy_with(member.answer_long(_names(member, obj)))


def _names(member: MemberProtocol, obj: BusObject) -> Iterator[bytes]:
    for names in member.bus.visible_names(member.permissions()):
        if names is None:
            yield b""
        else:
            about = {"event": "services/list/reply", "type": "application/json"}
            yield member.frame_of(obj, about, encode_json(names))


BUSINESS_OBJECT = Vocabulary(
    joining=("client/register", "clients/register"),
    events={
        "client/register": register_client,
        "clients/register": register_client,
        "services/register": MemberProtocol.register,
        "services/unregister": MemberProtocol.unregister,
        "services/list": list_services,
        "services/request": MemberProtocol.request,
    },
)


class BusinessProtocol(MemberProtocol):
    """One connection of Business Object."""

    FORMAT = "business"
    VOCABULARY = BUSINESS_OBJECT


def listen(bus: IBus, endpoint: str, reactor: Any) -> StreamListener:
    """Serve Business Object; see :meth:`bussrv.interfaces.IWireFormat.listen`."""
    return StreamListener(StreamFactory(BusinessProtocol, bus, reactor), endpoint, reactor)
