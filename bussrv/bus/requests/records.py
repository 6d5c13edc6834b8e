"""Open requests: their askers, the sessions that were asked, and the id that each of these knows a request by."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

from msgspec import Raw, Struct, field

from bussrv.bus.interest.interests import Kind
from bussrv.wire.forwarded import with_value
from bussrv.wire.objects import encode_json

MAX_KEY = 128
"""The most characters of an id that is compared as it is. Longer ids are compared by SHA-256."""

UNIT = 256
"""A request counts as one more for each so many bytes that are remembered of it."""


class Targets(Struct, frozen=True, kw_only=True):
    """The sessions that are given a request, and may answer it.

    :ivar session: the only session of this server that is given it.
    :ivar kind: not ``None``: all sessions of this server that want objects of this kind may be given it.
    :ivar addresses: of these, only sessions with one of these routing ids.
    :ivar joins: how many sessions had joined the network before; later ones are not given it.
    :ivar links: the links that it is sent over.
    :ivar service: the service that it is for, if one provider of that was chosen.
    :ivar behind: the routing id of this provider, if it is a session of another server.
    :ivar asks: then, the open requests that this provider was given for that service; see
        :meth:`bussrv.bus.requests.open_requests.OpenRequests.of_provider`.
    """

    session: str | None = None
    kind: Kind | None = None
    addresses: frozenset[str] | None = None
    joins: int = 0
    links: tuple[str, ...] = ()
    service: str | None = None
    behind: str | None = None
    asks: dict[OpenRequest, None] | None = None

    def size(self) -> int:
        """How many requests it counts as, by the bytes that are remembered."""
        texts = sum(UNIT // 4 + len(each) for each in self.addresses) if self.addresses else 0
        return 1 + len(self.links) // 4 + (texts + (self.kind.length() if self.kind is not None else 0)) // UNIT


class Requester(Struct, eq=False):
    """One client that asks: of this server, or a remote session.

    :ivar session: the session that is given the replies: the client, or the link.
    :ivar name: the routing id of the remote session; empty for a client of this server.
    :ivar is_remote: whether it is a remote session.
    :ivar open: its open requests, the oldest first.
    :ivar answered: its open requests that were replied to, in the order of their first replies.
    :ivar size: how many requests they count as.
    """

    session: str
    name: str
    is_remote: bool
    open: OrderedDict[OpenRequest, None] = field(default_factory=OrderedDict)
    answered: OrderedDict[OpenRequest, None] = field(default_factory=OrderedDict)
    size: int = 0


class OpenRequest(Struct, eq=False):
    """An open request.

    :ivar routing_id: the first of its route: the routing id that its asker had.
    :ivar when: when it was made, in seconds.
    :ivar size: how many requests it counts as.
    :ivar key: its id, as :func:`key_of` has it.
    :ivar requester_id: its id as JSON; only if it is shown under another one, or ``key`` does not tell it.
    :ivar provider_id: the id that sessions of this server know it by, which may answer it; ``None``: its own.
    :ivar older: an open request that it replaces as soon as somebody is given it.
    :ivar watched: if several were asked: the session of this server that may answer it, if there is only one.
    :ivar is_forsaken: whether no session of this server is left that may answer it.
    """

    asker: Requester
    routing_id: str
    asked: Targets
    when: float
    size: int
    key: str
    requester_id: bytes | None = None
    provider_id: str | None = None
    older: OpenRequest | None = None
    watched: str | None = None
    is_forsaken: bool = False

    @property
    def shown_key(self) -> str:
        """The id that it is shown under, as :func:`key_of` has it."""
        return self.key if self.provider_id is None else key_of(self.provider_id)

    @property
    def id(self) -> Any:
        """Its id, as an answer says it in ``in-reply-to``."""
        if self.requester_id is not None:
            return Raw(self.requester_id)
        kind, _, value = self.key.partition(" ")
        return value if kind == "str" else bool(int(value)) if kind == "bool" else int(value, 16)

    def as_shown(self, metadata: bytes) -> bytes:
        """The metadata of the request, with the id that it is shown under."""
        return metadata if self.provider_id is None else with_value(metadata, "id", encode_json(self.provider_id))

    @property
    def is_answered(self) -> bool:
        """Whether it was replied to."""
        return self in self.asker.answered


def key_of(request_id: Any) -> str:
    """An id as it is compared: by kind and value, so 1 is not true, not 1.0 and not "1".

    It is text, whose hashes nobody can foresee: many numbers have the same hash in Python, and would be slow to find.
    """
    if type(request_id) is str:  # Most are, and each request and reply comes here.
        text = "str " + request_id
    elif isinstance(request_id, int):
        text = f"{type(request_id).__name__} {request_id:x}"
    else:
        text = f"{type(request_id).__name__} {request_id}"
    if len(text) <= MAX_KEY:
        return text
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def tells_id(key: str) -> bool:
    """Whether :func:`key_of` kept the id itself, and not only a digest or a number that may be written in many ways."""
    return key.startswith(("str ", "int ", "bool "))


def is_id(value: Any) -> bool:
    """Whether a value can be the id of a request."""
    return isinstance(value, (str, int, float))
