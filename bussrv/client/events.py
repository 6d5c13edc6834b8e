"""Everything that a client is told: messages, requests, replies, objects, gaps, and states of the connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from bussrv.wire.objects import decode_fields

__all__ = [
    "Appeared",
    "Change",
    "Down",
    "Gap",
    "Gone",
    "Message",
    "Object",
    "Received",
    "Refusal",
    "Reply",
    "Request",
    "Restored",
    "State",
    "Up",
]


class _Carried(Struct, frozen=True, gc=False):
    """A payload on a service, with the metadata that it came with.

    :ivar service: the service.
    :ivar type: the content type of the payload; ``None``: the wire format, or the sender, does not say.
    :ivar raw: the metadata as it came, a JSON object.
    """

    service: str
    payload: bytes
    type: str | None = None
    raw: bytes = b"{}"

    @property
    def metadata(self) -> dict[str, Any]:
        """Every attribute, decoded anew each time."""
        return decode_fields(self.raw)


def came_from(metadata: dict[str, Any]) -> str | None:
    """The routing id of the session that sent an object with this metadata, if it says so."""
    route = metadata.get("route")
    first = route[0] if isinstance(route, list) and route else None
    return first if isinstance(first, str) else None


class Message(_Carried, frozen=True, gc=False):
    """A publication on a service, or its state.

    In a ``match`` statement its parts are, in this order: service, payload, type, raw. Those of a :class:`Reply` and a
    :class:`Request` are the same.
    """

    @property
    def provider(self) -> str | None:
        """The routing id of the session that published it, if the wire format says."""
        return came_from(self.metadata)


class Reply(_Carried, frozen=True, gc=False):
    """The answer of a service to a request."""

    @property
    def provider(self) -> str | None:
        """The routing id of the session that answered, if there was one."""
        return came_from(self.metadata)


class Request(_Carried, frozen=True, gc=False):
    """A request for a service that this client serves."""

    @property
    def asker(self) -> str | None:
        """The routing id of the session that asks."""
        return came_from(self.metadata)


class Gap(Struct, frozen=True):
    """Messages are missing before the next one.

    :ivar lost: how many, if that is known. While there is no connection, nobody can know.
    :ivar reason: ``overflow``: the queue was full. ``no-sender``: a publication did not name its service. Otherwise the
        reason for which the connection ended, or, with the wire formats of objects, ``objects-lost`` or
        ``objects-expired``: objects of another server were lost on their way to the server of this client.
    """

    lost: int | None
    reason: str


@dataclass(frozen=True)
class Object:
    """An object as it was received.

    :ivar metadata: every attribute, decoded.
    :ivar payload: empty when it has none.
    :ivar size: how many bytes it had, if it was received.
    """

    metadata: dict[str, Any]
    payload: bytes = b""
    size: int = field(default=0, repr=False, compare=False)


class Appeared(Struct, frozen=True):
    """A service, or a session of the object network, is there from now on.

    :ivar name: the name of the service, or the routing id of the session.
    """

    kind: Literal["service", "session"]
    name: str


class Gone(Struct, frozen=True):
    """It is there no more; also of all that were known when the connection ended."""

    kind: Literal["service", "session"]
    name: str


class Up(Struct, frozen=True):
    """The server has accepted the client.

    :ivar address: the address of the server, such as ``hall:7890``.
    :ivar routing_id: the client's own address in the object network, if the wire format has such.
    """

    address: str
    routing_id: str | None = None


class Down(Struct, frozen=True):
    """There is no connection.

    :ivar reason: a stable code, such as ``connection-lost``, ``silent`` or ``slow-consumer``.
    :ivar message: one sentence for a person.
    :ivar retry_in: seconds until the next attempt; ``None``: there is none.
    :ivar unconfirmed: how many publications were written since the server last gave a sign of what it took.
    """

    reason: str
    message: str
    retry_in: float | None
    unconfirmed: int = 0


class Restored(Struct, frozen=True):
    """The server has taken everything again that was subscribed and provided before the connection ended.

    :ivar refused: what it has not taken, with the code of the reason.
    """

    subscriptions: tuple[str, ...]
    services: tuple[str, ...]
    refused: dict[str, str] = {}


class Refusal(Struct, frozen=True):
    """The server refused something that this client had sent without waiting for an answer."""

    reason: str
    message: str


Received: TypeAlias = Message | Gap
Change: TypeAlias = Appeared | Gone
State: TypeAlias = Up | Down | Restored | Refusal
