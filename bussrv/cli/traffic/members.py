"""A member of the object network for the commands, over either of its two wire formats."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bussrv.cli.connection import ConnectionOptions

if TYPE_CHECKING:
    from bussrv.client.business import BusinessClient
    from bussrv.client.objects import Object, ObjectsClient

FORMATS = ("objects", "business")
"""The wire formats that can publish, request and reply."""

PUBLICATIONS = ("*", "!@services/*", "!@routing/*")
"""A rule list that takes all objects except requests: a member that takes requests counts as one that may answer."""

REPLIES = ("@services/reply", "@error")
REQUESTS = ("@services/request",)
"""A provider gets requests only if its rule list takes them. It then gets those for unregistered services, too."""

NOTHING = ("!*",)

_RECEIVE = {PUBLICATIONS: "all", REPLIES: "events_only", REQUESTS: "events_only", NOTHING: "events_only"}
"""The receive mode of Business Object, which has no rule lists, in place of each rule list."""


class Member:
    """A connection that has joined.

    :ivar client: the client of the wire format.
    """

    def __init__(self, client: ObjectsClient | BusinessClient) -> None:
        self.client = client

    def register(self, service: str) -> None:
        """Provide a service.

        :raises BusError: the server refused.
        """
        if hasattr(self.client, "register_service"):
            self.client.register_service(service)
        else:
            self.client.register(service)

    def settle(self, sent: str, timeout: float) -> None:
        """Wait until the server has taken everything that was sent.

        :param sent: the id of the last object that was sent.
        :raises BusError: the server refused that object.
        """
        from bussrv.client._framed import checked, new_id

        if hasattr(self.client, "services"):
            self.client.services()
            answer = self.taken(lambda each: each.metadata.get("in-reply-to") == sent)
            if answer is not None:
                checked(answer)
            return
        ping = new_id()
        self.client.send({"event": "ping", "id": ping})
        answer = self.client.wait_for(lambda each: each.metadata.get("in-reply-to") in (sent, ping), timeout)
        checked(answer)

    def refuse(self, request: Object, reason: str, message: str) -> None:
        """Answer a request with an ``error`` object.

        :param reason: a stable code.
        :param message: a sentence for a person.
        """
        asked = request.metadata
        fields: dict[str, Any] = {"event": "error", "reason": reason, "message": message}
        if asked.get("id") is not None:
            fields["in-reply-to"] = asked["id"]
        route = asked.get("route")
        if isinstance(route, list) and route:
            fields["to"] = route[0]
        self.client.send(fields)

    def asked(self) -> Object | None:
        """The next request for a service of this client; ``None``: none has come. Everything before it is dropped."""
        try:
            return next(self.client.requests(0))
        except TimeoutError:
            return None

    def taken(self, predicate: Any) -> Object | None:
        """The first object that has come already and satisfies ``predicate``; ``None``: none has."""
        try:
            return self.client.wait_for(predicate, 0)
        except TimeoutError:
            return None


@contextmanager
def joined(connection: ConnectionOptions, wire_format: str, wants: Sequence[str]) -> Iterator[Member]:
    """Connect, log in and join the network.

    :param wire_format: one of :data:`FORMATS`.
    :param wants: one of the rule lists of this module.
    :raises BusError: the server refused.
    """
    place = connection.place(wire_format)
    at = (place.address.host, place.address.port, place.timeout)
    who = place.credentials
    if wire_format == "business":
        from bussrv.client.business import BusinessClient

        with BusinessClient(*at, tls=place.tls) as business:
            business.register(_RECEIVE[tuple(wants)], name="bussrv", user=who.user, secret=who.secret, token=who.token)
            yield Member(business)
        return
    from bussrv.client.objects import ObjectsClient

    with ObjectsClient(*at, tls=place.tls) as objects:
        objects.subscribe(subscriptions=list(wants), name="bussrv", **who.given())
        yield Member(objects)


class EventTimeout:
    """The time limit of a command that waits for events.

    :param seconds: the limit, from now; ``None``: there is none.
    """

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self, most: float = 3600.0) -> float:
        """The seconds to wait next, at most ``most``, so that callers can do something now and then."""
        return most if self._end is None else min(most, max(0.0, self._end - time.monotonic()))

    def check(self) -> None:
        """Check the limit, in a loop over events of which none may be the awaited one.

        :raises TimeoutError: the time is over.
        """
        if self.is_over:
            raise TimeoutError("nothing came in time")

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return self._end is not None and time.monotonic() >= self._end
