"""The link of an uplink with its server: that of a linked server that dials. Pure.

``->`` is the uplink; see :mod:`bussrv.formats.objects.server_link`::

    -> routing/subscribe         id role:"server" routing-id subscriptions:["*"] directory interest understands route
                                 [token]
    <- routing/subscribe/reply, then the server subscribes, too, with max-metadata max-payload
    -> routing/subscribe/reply
    <> objects, advertisements, and what each wants
"""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct

from bussrv.bus.interest.vocabulary import FAREWELL
from bussrv.bus.links.advertisement_fields import NAMES
from bussrv.errors import RemoteProtocolError
from bussrv.wire.objects import MAX_METADATA, MAX_PAYLOAD, BadObject, BusObject, ObjectReader, encode

_SUBSCRIBE = "routing/subscribe"


class Limits(Struct, frozen=True):
    """The most bytes of objects that the server takes, as it says.

    :ivar metadata: of its clients; linked servers may send a little more.
    """

    metadata: int = MAX_METADATA
    payload: int = MAX_PAYLOAD


LIMITS = Limits()
"""Those of a server that does not say them."""


class LinkRefused(Exception):
    """The server refuses the link.

    :ivar reason: a code of :data:`bussrv.errors.REASONS`.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{message} ({reason})")
        self.reason = reason


class ILinked(Protocol):
    """Whoever uses a link."""

    def linked(self, server: str, understood: frozenset[str], limits: Limits) -> None:
        """The link stands.

        :param server: the routing id of the server.
        :param limits: its limits of objects.
        :param understood: words for what it may be told besides advertisements.
        """

    def received(self, objs: list[BusObject]) -> None:
        """The server sent objects."""


class ServerLink:
    """One connection to the server.

    :param node: the routing id of the net.
    :param max_payload: the most bytes of the payload of an object.
    :param user: is told when the link stands, and of objects.
    """

    def __init__(self, node: str, max_payload: int, user: ILinked) -> None:
        self._node = node
        self._reader = ObjectReader(MAX_METADATA, max_payload)
        self._reader.expect_server()
        self._user = user
        self._stands = False

    def greeting(self, token: str | None) -> bytes:
        """The first bytes to send.

        :param token: proves to the server who this is; ``None``: nothing does.
        """
        fields: dict[str, Any] = {
            "event": _SUBSCRIBE,
            "id": "uplink",
            "role": "server",
            "routing-id": self._node,
            "subscriptions": ["*"],
            "directory": True,
            "interest": True,
            "understands": [NAMES],
            "route": [self._node],
        }
        return encode(fields | ({} if token is None else {"token": token}))

    def farewell(self, reason: str) -> bytes:
        """The last bytes to send.

        :param reason: why the link ends: a code of :data:`bussrv.errors.REASONS`.
        """
        return encode({"event": FAREWELL, "reason": reason, "route": [self._node]})

    def feed(self, data: bytes) -> bytes:
        """Bytes came. :returns: what is to be sent.

        :raises RemoteProtocolError: they are malformed.
        :raises LinkRefused: the server refuses the link.
        """
        reader, answer = self._reader, b""
        reader.feed(data)
        while True:
            objs = list(reader.batch()) if self._stands else []
            if not objs:
                event = reader.next_event()
                if event is None:
                    return answer
                if isinstance(event, BadObject):
                    raise RemoteProtocolError(event.reason, event.message)
                objs = [event]
            if self._stands:
                self._user.received(objs)
            else:
                answer += self._join(objs[0])

    def _join(self, obj: BusObject) -> bytes:
        """The server says whether the link stands. :returns: the answer."""
        fields = obj.fields()
        if obj.head.event == "error":
            raise LinkRefused(str(fields.get("reason")), str(fields.get("message")))
        if obj.head.event != _SUBSCRIBE:
            return b""
        server = fields.get("routing-id")
        if fields.get("role") != "server" or not isinstance(server, str) or fields.get("directory") is not True:
            raise RemoteProtocolError("link-refused", "what was dialed is no bussrv server")
        self._stands = True
        words = fields.get("understands")
        understood = frozenset(each for each in words if isinstance(each, str)) if words else frozenset()
        self._user.linked(server, understood, _limits(fields))
        about: dict[str, Any] = {"in-reply-to": fields.get("id"), "routing-id": server, "routing-ids": []}
        return encode({"event": f"{_SUBSCRIBE}/reply", **about})


def _limits(fields: dict[str, Any]) -> Limits:
    """The limits that a subscription of a server says."""
    metadata, payload = fields.get("max-metadata"), fields.get("max-payload")
    return Limits(
        metadata if isinstance(metadata, int) else LIMITS.metadata,
        payload if isinstance(payload, int) else LIMITS.payload,
    )
