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

Every other object is routed as it is, to and from members of either vocabulary. So are ``services/request`` and
``services/reply`` of Object System, with ``error`` ``no-such-service`` if nobody could take a request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bussrv.bus.interest.interests import mode_interest
from bussrv.bus.interest.vocabulary import EXCHANGED
from bussrv.bus.interfaces import IBus
from bussrv.formats.objects.members import FramedProtocol, routing_id, routing_ids, text
from bussrv.net.listening import StreamListener
from bussrv.net.session.factory import StreamFactory
from bussrv.registry.state.session import Claims
from bussrv.values import Interest
from bussrv.wire.objects import BusObject, encode_json


class BusinessProtocol(FramedProtocol):
    """One connection of Business Object."""

    FORMAT = "business"
    JOINING = ("client/register", "clients/register")

    def register_client(self, obj: BusObject) -> None:
        """``client/register``: the session is a member of the network, with this interest, from now on."""
        self.join(obj, self._claims)

    def _claims(self, fields: dict[str, Any]) -> tuple[Claims, Interest]:
        key = "subscribe" if "subscribe" in fields else "subscriptions"
        claims = Claims(
            session_id=self.session_id,
            routing_id=routing_id(fields.get("unique-routing-id"), "unique-routing-id"),
            routing_ids=routing_ids(fields.get("routing-ids"), self._bus.settings.max_routing_ids),
            claimed=text(fields.get("user")),
            name=text(fields.get("name")),
            vocabulary="business",
        )
        return claims, mode_interest(fields.get("receive"), fields.get(key), self._bus.settings, key)

    def list_services(self, obj: BusObject) -> None:
        """``services/list``: the names of all services that the client may know, of whatever format."""
        self.busy_with(self.answer_long(self._names(obj)))

    def _names(self, obj: BusObject) -> Iterator[bytes]:
        for names in self._bus.visible_names(self.permissions()):
            if names is None:
                yield b""
            else:
                yield self.frame_of(
                    obj, {"event": "services/list/reply", "type": "application/json"}, encode_json(names)
                )

    EVENTS = {  # noqa: RUF012
        "client/register": register_client,
        "clients/register": register_client,
        "services/register": FramedProtocol.register,
        "services/unregister": FramedProtocol.unregister,
        "services/list": list_services,
        "services/request": FramedProtocol.request,
    }
    SERVED = frozenset(EVENTS) - EXCHANGED
    COMMANDS = frozenset(EVENTS) - frozenset(JOINING)


def listen(bus: IBus, endpoint: str, reactor: Any) -> StreamListener:
    """Serve Business Object; see :meth:`bussrv.interfaces.IWireFormat.listen`."""
    return StreamListener(StreamFactory(BusinessProtocol, bus, reactor), endpoint, reactor)
