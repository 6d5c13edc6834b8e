"""A plain client of the Object System, and the base of that of Business Object. Source: seed 002: Object System."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Callable, Iterator
from typing import Any

from bussrv.client._stream import OWN, StreamClient, Timeout
from bussrv.client.core.payload import as_payload, hyphenated
from bussrv.client.core.provided import answer_to
from bussrv.client.core.rules import FOR_REQUESTS
from bussrv.client.errors import BusError, said_in
from bussrv.client.events import Object
from bussrv.client.tls import Tls
from bussrv.errors import TOO_MANY_LOGINS, RemoteProtocolError
from bussrv.values import OCTET_STREAM
from bussrv.wire.objects import MAX_METADATA, MAX_PAYLOAD, BadObject, ObjectReader, encode

__all__ = ["SUBSCRIBE", "BusError", "Object", "ObjectsClient"]

MODES = ("receive_mode", "receive-mode", "receive")

SUBSCRIBE = (
    *(*MODES, "types", "subscriptions"),
    *("routing-id", "routing-ids", "role", "user", "secret", "token", "name"),
)
"""Attributes of a subscription; the server ignores all others."""


class FramedClient(StreamClient[Object]):
    """Exchanges objects with other clients and with services: blocking, for one thread, a context manager.

    Objects that come while the client waits for something else are kept, in order, for later calls. For the errors of
    every call, and ``timeout``, see :class:`StreamClient`. A call that waits for an answer raises :exc:`BusError` if
    that is an error, and :exc:`RuntimeError` if the client subscribed to receive nothing, so no answer would come.

    :param max_payload: the most bytes of payload to accept.
    :ivar routing_id: this client's own address, once it has joined the network.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 7890,
        timeout: float | None = 10.0,
        max_payload: int = MAX_PAYLOAD,
        tls: Tls | ssl.SSLContext | None = None,
    ) -> None:
        reader = ObjectReader(MAX_METADATA, max_payload)
        reader.expect_server()
        self.routing_id: str | None = None
        self._names: set[str] = set()
        self._is_deaf = False
        self._latest: Object | None = None
        super().__init__(reader, host, port, timeout, tls)

    def send(self, metadata: dict[str, Any], payload: bytes = b"") -> None:
        """Send an object.

        :param metadata: its attributes; ``size`` is added. One with a payload has to have a ``type``.
        :raises TypeError: ``payload`` is no bytes, or ``metadata`` no dict.
        :raises TimeoutError: the server did not take it in time; the client is closed then.
        """
        if not isinstance(metadata, dict):
            raise TypeError(f"metadata is a dict, not {type(metadata).__name__}")
        self._send(encode(metadata, as_payload(payload)))

    def receive(self, timeout: Timeout = OWN) -> Object:
        """The next object that was not taken yet; also an ``error`` object that answers no request of this client."""
        return self._take(timeout)

    def request(
        self,
        name: str,
        payload: bytes = b"",
        type: str = OCTET_STREAM,  # noqa: A002
        timeout: Timeout = OWN,
        **attributes: Any,
    ) -> Object:
        """Ask a service, and wait for its reply.

        :param type: the content type of the payload, if there is one.
        :param attributes: further metadata of the request; ``_`` in their names is sent as ``-``.
        :raises BusError: nobody provides the service (``no-such-service``), its provider went before it answered
            (``provider-gone``), or the server refused the request.
        """
        fields = {"event": "services/request", "name": name, **hyphenated(attributes)}
        return self._ask(fields | ({"type": type} if payload else {}), payload, timeout)

    def requests(self, timeout: float | None = None) -> Iterator[Object]:
        """The requests that come for the services of this client, one after the other: the loop of a service::

            for asked in client.requests():
                client.reply(asked, b"12:00", type="text/plain")

        A client that registered no service gets all requests. Other objects that come meanwhile are dropped.

        :param timeout: how long to wait for each, in seconds; ``None`` for ever.
        """
        self._check_receives("requests")
        while True:
            yield self._wait_for(self._is_asked, self._deadline(timeout, "no request came"), keeps_others=False)

    def _is_asked(self, each: Object) -> bool:
        """Requests for unregistered names are given to every client that wants them."""
        asked = each.metadata.get("event") == "services/request"
        return asked and (not self._names or each.metadata.get("name", each.metadata.get("service")) in self._names)

    def reply(self, request: Object, payload: bytes = b"", type: str = OCTET_STREAM) -> None:  # noqa: A002
        """Answer a ``services/request`` that was received.

        :param type: the content type of the payload, if there is one.
        """
        asked = request.metadata
        name = {"name": asked["name"]} if "name" in asked else {}
        fields = {"event": "services/reply", **name, **answer_to(asked)}
        self.send(fields | ({"type": type} if payload else {}), payload)

    def _register_service(self, name: str) -> dict[str, Any]:
        """Provide a service: requests for it come as objects, to be answered with :meth:`reply`.

        :returns: the metadata of ``services/register/reply``; it comes when the registration is on the server's disk.
        """
        answer = self._ask({"event": "services/register", "name": name}).metadata
        self._names.add(name)
        return answer

    def _unregister_service(self, name: str | None = None) -> dict[str, Any]:
        """Provide a service no longer; without a name: none.

        :returns: the metadata of ``services/unregister/reply``.
        """
        self._names.intersection_update(() if name is None else self._names - {name})
        return self._ask({"event": "services/unregister"} | ({} if name is None else {"name": name})).metadata

    def _join(self, fields: dict[str, Any], mode: Any) -> dict[str, Any]:
        """Subscribe. The reply comes with every receive mode, and nothing else with ``none``."""
        with self._alone():
            reply = self._exchange(fields).metadata
            self._is_deaf = mode == "none"
            self.routing_id = reply.get("routing-id")
            return reply

    def _check_receives(self, what: str) -> None:
        if self._is_deaf:
            raise RuntimeError(
                f"{what}: this client subscribed with the receive mode 'none', so the server sends it no answer; "
                "a client that only publishes subscribes with types='none' instead"
            )

    def _ask(self, fields: dict[str, Any], payload: bytes = b"", timeout: Timeout = OWN) -> Object:
        """Send an object, and wait for its answer, if one would come."""
        self._check_receives(fields["event"])
        return self._exchange(fields, payload, timeout)

    def _exchange(self, fields: dict[str, Any], payload: bytes = b"", timeout: Timeout = OWN) -> Object:
        """Send an object with a fresh id, and wait for the object with that ``in-reply-to``.

        Send it again if too many logins wait: the server prefers a secret that it was given before.
        """
        with self._alone():
            deadline = self._deadline(timeout, f"no answer to {fields['event']} came")
            while True:
                identifier = new_id()
                self.send({**fields, "id": identifier}, payload)
                answer = self._wait_for(_answers(identifier), deadline)
                if answer.metadata.get("reason") != TOO_MANY_LOGINS:
                    return _checked(answer)

    def _next_event(self) -> Object | None:
        found = self._reader.next_event()
        if isinstance(found, BadObject):
            raise RemoteProtocolError(found.reason, found.message)
        if found is None:
            return None
        self._latest = Object(found.fields(), found.payload, len(found.metadata) + len(found.payload))
        return self._latest

    def _weigh(self, event: Object) -> int:
        return event.size

    def _last_words(self) -> BusError | None:
        return _error_in(self._latest) if self._latest is not None else None


class ObjectsClient(FramedClient):
    """Exchanges objects with other clients and with services: blocking, for one thread, a context manager.

    For the errors of every call see :class:`FramedClient`.
    """

    def subscribe(self, **attributes: Any) -> dict[str, Any]:
        """Join the network, or change the subscription. Before this, the server forwards no objects of this client.

        :param attributes: the attributes of ``routing/subscribe``, such as ``receive_mode="no_echo"``,
            ``types=["text/*"]``, ``routing_ids=["news"]``; ``_`` is sent as ``-``, except in ``receive_mode``.
            ``SUBSCRIBE`` has them all. For a server that requires a login: ``user`` and ``secret``, or ``token``.
        :returns: the metadata of ``routing/subscribe/reply``.
        :raises TypeError: there is no such attribute.
        """
        fields = hyphenated(attributes)
        for name in fields:
            if name not in SUBSCRIBE:
                raise TypeError(f"subscribe has no {name!r}; there are: {', '.join(SUBSCRIBE)}")
        # As the server reads it: rules go before a mode.
        mode = None if "subscriptions" in fields else next((fields[key] for key in MODES if key in fields), None)
        return self._join({"event": "routing/subscribe", **fields}, mode)

    def subscribe_for_requests(self, **attributes: Any) -> dict[str, Any]:
        """Join the network to ask services, or to publish, and receive nothing that others send to everybody.

        A client with another subscription that is idle for long does not read what it receives. If too much waits for
        it, the server disconnects it (``slow-consumer``).

        :param attributes: as :meth:`subscribe` has them, without ``receive_mode``, ``types`` and ``subscriptions``.
        :returns: the metadata of ``routing/subscribe/reply``. Raises as :meth:`subscribe` does.
        """
        for name in attributes:
            if name.replace("_", "-") in ("receive-mode", "receive", "types", "subscriptions"):
                raise TypeError(f"subscribe_for_requests has no {name!r}: it says itself what the client receives")
        return self.subscribe(subscriptions=list(FOR_REQUESTS), **attributes)

    def ping(self, timeout: Timeout = OWN) -> dict[str, Any]:
        """Ask the server for a sign of life.

        :returns: the metadata of ``pong``, among it the ``routing-id`` of the server.
        """
        return self._ask({"event": "ping"}, timeout=timeout).metadata

    register = FramedClient._register_service
    unregister = FramedClient._unregister_service

    def discover(self, name: str | None = None) -> list[dict[str, Any]]:
        """The registered providers of a service, or of all: the metadata of one ``services/discovery/reply`` each.

        The protocol does not mark the last reply. So a ``ping`` follows the question, and the server answers in order.
        Programs that answer the question without having registered may do so later; their replies are ordinary objects.

        :returns: an empty list when nobody does.
        """
        self._check_receives("discover")
        question, ping = new_id(), new_id()
        found: list[dict[str, Any]] = []
        with self._alone():
            deadline = self._deadline(OWN, "no answer to services/discovery came")
            self.send({"event": "services/discovery", "id": question} | ({} if name is None else {"name": name}))
            self.send({"event": "ping", "id": ping})
            while True:
                answer = self._wait_for(_answers(question, ping), deadline)
                if answer.metadata["in-reply-to"] == ping:
                    return found
                if (answer.metadata.get("event"), answer.metadata.get("reason")) != ("error", "no-such-service"):
                    found.append(_checked(answer).metadata)


def new_id() -> str:
    """An id for an object, which no other has."""
    return secrets.token_hex(12)


def _answers(*identifiers: str) -> Callable[[Object], bool]:
    """Tells whether an object answers one of these."""
    return lambda each: each.metadata.get("in-reply-to") in identifiers


def _checked(answer: Object) -> Object:
    """The answer itself. :raises BusError: it is an ``error`` object."""
    error = _error_in(answer)
    if error is not None:
        raise error
    return answer


def _error_in(answer: Object) -> BusError | None:
    return BusError(*said_in(answer.metadata)) if answer.metadata.get("event") == "error" else None
