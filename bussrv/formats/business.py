"""Business Object: the older vocabulary. Source: seed 000, and the deployed spelling ``clients/register``.

The framing is that of :mod:`bussrv.wire.objects`. Attributes in brackets may be left out; ``->`` client to server::

    -> client/register     [id] [receive] [subscribe] [name] [user] [unique-routing-id] [routing-ids]
    <- client/register/reply       [in-reply-to] routing-id routing-ids
    -> clients/register    the same, with [subscriptions] for [subscribe]
    <- clients/register/reply
    -> services/register   [id] name          <- services/register/reply     [in-reply-to] name
    -> services/unregister [id] [name]        <- services/unregister/reply   [in-reply-to] [name]
    -> services/list       [id]               <- services/list/reply         [in-reply-to], payload: JSON array of names
    <- error               [in-reply-to] reason message

Everything else is routed as it is, to and from members of either vocabulary; so are ``services/request`` and
``services/reply`` of Object System, with ``error`` ``no-such-service`` when nobody was there to take a request.
"""

from __future__ import annotations

from typing import Any

from bussrv.bus.interest import mode_interest
from bussrv.formats.framed import SERVERS_ONLY, FramedProtocol, routing_id, routing_ids, text
from bussrv.formats.listening import StreamListener
from bussrv.formats.stream import StreamFactory
from bussrv.interfaces import IBus
from bussrv.registry.registry import Identity
from bussrv.values import Interest
from bussrv.wire.objects import BusObject, encode_json


class BusinessProtocol(FramedProtocol):
    """One connection of Business Object."""

    FORMAT = "business"
    JOINING = ("client/register", "clients/register")

    def register_client(self, obj: BusObject) -> None:
        """``client/register``: the session is a member of the network, with this interest, from now on."""
        self.join(obj, self._identity)

    def _identity(self, fields: dict[str, Any]) -> tuple[Identity, Interest]:
        key = "subscribe" if "subscribe" in fields else "subscriptions"
        identity = Identity(
            session_id=self.session_id,
            routing_id=routing_id(fields.get("unique-routing-id"), "unique-routing-id"),
            routing_ids=routing_ids(fields.get("routing-ids"), self.bus.settings.max_routing_ids),
            actor=text(fields.get("user")),
            name=text(fields.get("name")),
            vocabulary="business",
        )
        most = self.bus.settings.max_patterns
        return identity, mode_interest(fields.get("receive"), fields.get(key), most, key)

    def list_services(self, obj: BusObject) -> None:
        """``services/list``: the names of all services, of whatever format."""
        names = encode_json(sorted(self.bus.registry.state.services))
        self.answer(obj, {"event": "services/list/reply", "type": "application/json"}, names)

    EVENTS = {  # noqa: RUF012
        **dict.fromkeys(SERVERS_ONLY, FramedProtocol.refuse_reserved),
        "client/register": register_client,
        "clients/register": register_client,
        "services/register": FramedProtocol.register,
        "services/unregister": FramedProtocol.unregister,
        "services/list": list_services,
        "services/request": FramedProtocol.request,
    }


def listen(bus: IBus, endpoint: str, reactor: Any) -> StreamListener:
    """Serve Business Object; see :meth:`bussrv.interfaces.IWireFormat.listen`."""
    return StreamListener(StreamFactory(BusinessProtocol, bus, reactor), endpoint, reactor)
