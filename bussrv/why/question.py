"""The object, publication or request that is asked about."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bussrv.bus.interest.vocabulary import REPLYING
from bussrv.errors import JournalError
from bussrv.registry.state.session import Session
from bussrv.values import OCTET_STREAM
from bussrv.wire.head import Fault
from bussrv.wire.objects import BusObject, encode_metadata, read_head

MOST_BYTES = 8 << 20
"""The most bytes of a payload that is made for a question."""


class Question(Struct, frozen=True, kw_only=True):
    """What is asked about: an object with these attributes, or a publication on a service of a wire format other than
    the object network.

    :ivar fields: the attributes of the object; ``None``: it is a publication.
    :ivar service: the service of the publication.
    :ivar content_type: its content type.
    :ivar size: the bytes of the payload.
    :ivar sender: names the session that sends it; ``None``: a provider of the service that it is published on, or else
        somebody.
    :ivar turn: names the session whose turn it was, of several that are given requests or publications in turn;
        ``None``: the traffic would say that, and it is not in a journal.
    :ivar asker: names the session that asked what a reply is for; ``None``: likewise.
    """

    fields: dict[str, Any] | None = None
    service: str | None = None
    content_type: str = OCTET_STREAM
    size: int = 1
    sender: str | None = None
    turn: str | None = None
    asker: str | None = None

    @property
    def is_reply(self) -> bool:
        """Whether it is for the session that asked."""
        return self.fields is not None and str(self.fields.get("event")).lower() in REPLYING

    @property
    def published_on(self) -> str | None:
        """The service that it is, or may be, a publication on."""
        if self.fields is None:
            return self.service
        sender = self.fields.get("sender")
        return sender if isinstance(sender, str) else None

    def knowing(self, turn: str | None, asker: str | None) -> Question:
        """The same question of somebody who knows of the traffic what no journal has.

        :raises ValueError: nobody asks for this, or its sender is not named.
        """
        if asker is not None and not self.is_reply:
            raise ValueError("an asker goes with a reply, or an error, of a named sender")
        if asker is not None and self.sender is None:
            raise ValueError("an asker goes with a reply of a named sender")
        return replace(self, turn=turn, asker=asker)

    def payload(self) -> bytes:
        """A payload of the size."""
        return bytes(min(self.size, MOST_BYTES))

    def object(self) -> BusObject:
        """The object."""
        assert self.fields is not None
        metadata = encode_metadata(self.fields, self.payload())
        return BusObject(metadata, read_head(metadata), self.payload())


def about_object(text: str, sender: str | None = None) -> Question:
    """A question about an object.

    :param text: its attributes as JSON. ``size`` says how many bytes of payload it has.
    :raises ValueError: they are no object of JSON.
    """
    try:
        fields = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"{text!r} is not the JSON of an object's attributes: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError(f'{text!r} is not the JSON of an object\'s attributes, such as {{"type":"text/plain"}}')
    size = fields.get("size", 0)
    if not isinstance(size, int) or not 0 <= size <= MOST_BYTES:
        raise ValueError(f"size is a whole number of bytes, at most {MOST_BYTES}")
    try:
        found = Question(
            fields={name: value for name, value in fields.items() if name != "size"}, size=size, sender=sender
        )
        found.object()
    except (msgspec.DecodeError, ValueError, Fault) as error:
        raise ValueError(f"{text!r} is no object: {error}") from None
    return found


def about_publication(service: str, content_type: str = OCTET_STREAM, sender: str | None = None) -> Question:
    """A question about a publication on a service, by a client of any wire format."""
    return Question(service=service, content_type=content_type, sender=sender)


def about_request(service: str, sender: str | None = None) -> Question:
    """A question about a request for a service."""
    return Question(fields={"event": "services/request", "name": service, "id": "why"}, size=0, sender=sender)


def is_named(session: Session, text: str) -> bool:
    """Whether a person who says ``text`` may mean a session: by its user, its name, its routing ids, its address with
    the port or without, or its id.
    """
    host = session.peer.rpartition(":")[0].removeprefix("[").removesuffix("]")
    own = (session.id, session.routing_id, *session.routing_ids, session.actor, session.claimed, session.name)
    return text in own or text in (session.peer, host)


class NobodyFound(JournalError):
    """No session is called so at the moment."""
