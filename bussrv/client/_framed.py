"""Base of the clients of Object System and Business Object: objects, requests and their answers."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Iterator
from typing import Any

from bussrv.client._stream import OWN, Deadline, StreamClient, Timeout, by_one_thread
from bussrv.client.core.payload import as_payload, hyphenated
from bussrv.client.errors import BusError
from bussrv.client.events import Object
from bussrv.client.tls import Tls
from bussrv.errors import TOO_MANY_LOGINS, RemoteProtocolError
from bussrv.values import OCTET_STREAM
from bussrv.wire.objects import MAX_METADATA, MAX_PAYLOAD, BadObject, ObjectReader, encode


class _Reader:
    """Objects with decoded metadata, and the last of them."""

    def __init__(self, max_payload: int) -> None:
        self._reader = ObjectReader(MAX_METADATA, max_payload)
        self._reader.expect_server()
        self.last: Object | None = None

    def feed(self, data: bytes) -> None:
        self._reader.feed(data)

    def next_event(self) -> Object | None:
        event = self._reader.next_event()
        if event is None:
            return None
        if isinstance(event, BadObject):
            raise RemoteProtocolError(event.reason, event.message)
        self.last = Object(event.fields(), event.payload, len(event.metadata) + len(event.payload))
        return self.last


class FramedClient(StreamClient[Object]):
    """Sends and receives objects: blocking, for one thread, a context manager.

    Objects that come while the client waits for something else are kept, in order, for later calls.

    :param timeout: how long connecting, sending and waiting may take unless a call says otherwise, in seconds;
        ``None`` for ever.
    :param max_payload: the most bytes of payload to accept.
    :param tls: connect over TLS; ``None``: in the clear.
    :raises ConnectionError: the server cannot be reached, or does not prove who it is.
    :raises TimeoutError: it does not answer.
    """

    def __init__(
        self,
        host: str,
        port: int,
        timeout: float | None,
        max_payload: int = MAX_PAYLOAD,
        tls: Tls | ssl.SSLContext | None = None,
    ) -> None:
        self._objects = _Reader(max_payload)
        self._names: set[str] = set()
        self._is_deaf = False
        self.routing_id: str | None = None
        super().__init__(self._objects, host, port, timeout, tls)

    def send(self, metadata: dict[str, Any], payload: bytes = b"") -> None:
        """Send an object.

        :param metadata: its attributes; ``size`` is added. One with a payload has to have a ``type``.
        :raises TypeError: ``payload`` is no bytes, or ``metadata`` no dict.
        :raises TimeoutError: the server did not take it in time; the client is closed then.
        :raises ConnectionError: the connection ended, or the client was closed.
        """
        if not isinstance(metadata, dict):
            raise TypeError(f"metadata is a dict, not {type(metadata).__name__}")
        self._send(encode(metadata, as_payload(payload)))

    def receive(self, timeout: Timeout = OWN) -> Object:
        """The next object that was not taken yet; also an ``error`` object that answers no request of this client.

        :param timeout: the limit in seconds; ``None``: there is none; by default the client's own.
        :raises TimeoutError: none came in time.
        :raises ConnectionError: the connection ended, or the client was closed.
        :raises bussrv.errors.RemoteProtocolError: the server sent something malformed.
        """
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

        :param name: the name of the service.
        :param type: the content type of the payload, if there is one.
        :param timeout: the limit in seconds; ``None``: there is none; by default the client's own.
        :param attributes: further metadata of the request; ``_`` in their names is sent as ``-``.
        :raises BusError: nobody provides the service (``no-such-service``), its provider went before it answered
            (``provider-gone``), or the server refused the request.
        :raises RuntimeError: the client subscribed to receive nothing, so no reply would come.
        :raises TimeoutError: no reply came in time.
        :raises ConnectionError: the connection ended, or the client was closed.
        """
        fields = {"event": "services/request", "name": name, **hyphenated(attributes)}
        if payload:
            fields["type"] = type
        return self._ask(fields, payload, timeout)

    def requests(self, timeout: float | None = None) -> Iterator[Object]:
        """The requests that come for the services of this client, one after the other: the loop of a service::

            for asked in client.requests():
                client.reply(asked, b"12:00", type="text/plain")

        A client that registered no service gets all requests. Other objects that come meanwhile are dropped.

        :param timeout: how long to wait for each, in seconds; ``None`` for ever.
        :raises RuntimeError: the client subscribed to receive nothing, so no request would come.
        :raises TimeoutError: none came in time.
        :raises ConnectionError: the connection ended, or the client was closed.
        :raises bussrv.errors.RemoteProtocolError: the server sent something malformed.
        """
        self._check_receives("requests")
        within = "" if timeout is None else f" within {timeout:g} s"
        while True:
            deadline = Deadline(timeout, f"no request came from {self._where}{within}")
            yield self._next(self._is_asked, deadline)

    def _is_asked(self, each: Object) -> bool:
        """Requests for unregistered names are given to every client that wants them."""
        asked = each.metadata.get("event") == "services/request"
        named = each.metadata.get("name", each.metadata.get("service"))
        return asked and (not self._names or named in self._names)

    def reply(self, request: Object, payload: bytes = b"", type: str = OCTET_STREAM) -> None:  # noqa: A002
        """Answer a ``services/request`` that was received.

        :param type: the content type of the payload, if there is one.
        """
        asked = request.metadata
        fields: dict[str, Any] = {"event": "services/reply"}
        if "name" in asked:
            fields["name"] = asked["name"]
        if asked.get("id") is not None:
            fields["in-reply-to"] = asked["id"]
        route = asked.get("route")
        if isinstance(route, list) and route:
            fields["to"] = route[0]
        if payload:
            fields["type"] = type
        self.send(fields, payload)

    def _register_service(self, name: str) -> dict[str, Any]:
        answer = self._ask({"event": "services/register", "name": name}).metadata
        self._names.add(name)
        return answer

    def _unregister_service(self, name: str | None) -> dict[str, Any]:
        self._names.intersection_update(() if name is None else self._names - {name})
        fields = {"event": "services/unregister"}
        return self._ask(fields if name is None else {**fields, "name": name}).metadata

    @by_one_thread
    def _join(self, fields: dict[str, Any], mode: Any) -> dict[str, Any]:
        """Subscribe. The reply comes with every receive mode, and nothing else with ``none``."""
        was_deaf, self._is_deaf = self._is_deaf, False
        try:
            reply = self._ask_to_join(fields).metadata
        except BaseException:
            self._is_deaf = was_deaf
            raise
        self._is_deaf = mode == "none"
        self.routing_id = reply.get("routing-id")
        return reply

    @by_one_thread
    def _ask_to_join(self, fields: dict[str, Any]) -> Object:
        """Ask, and again if too many logins wait: the server prefers a secret that it was given before."""
        deadline = self._deadline(OWN, f"no answer to {fields['event']}")
        while True:
            identifier = new_id()
            self.send({**fields, "id": identifier})
            try:
                return self._answer(identifier, deadline)
            except BusError as error:
                if error.reason != TOO_MANY_LOGINS:
                    raise

    def _check_receives(self, what: str) -> None:
        if self._is_deaf:
            raise RuntimeError(
                f"{what}: this client subscribed with the receive mode 'none', so the server sends it no answer; "
                "a client that only publishes subscribes with types='none' instead"
            )

    @by_one_thread
    def _ask(self, fields: dict[str, Any], payload: bytes = b"", timeout: Timeout = OWN) -> Object:
        """Send an object with a fresh id, and wait for the object with that ``in-reply-to``.

        :raises RuntimeError: no answer would come.
        """
        self._check_receives(fields["event"])
        identifier = new_id()
        deadline = self._deadline(timeout, f"no answer to {fields['event']}")
        self.send({**fields, "id": identifier}, payload)
        return self._answer(identifier, deadline)

    def _answer(self, identifier: str, deadline: Deadline) -> Object:
        return checked(self._wait_for(lambda each: each.metadata.get("in-reply-to") == identifier, deadline))

    def _weigh(self, event: Object) -> int:
        return event.size

    def _last_words(self) -> BusError | None:
        last = self._objects.last
        return _bus_error(last) if last is not None and last.metadata.get("event") == "error" else None


def new_id() -> str:
    """An id for an object, which no other has."""
    return secrets.token_hex(12)


def checked(answer: Object) -> Object:
    """The answer itself. :raises BusError: it is an ``error`` object."""
    if answer.metadata.get("event") == "error":
        raise _bus_error(answer)
    return answer


def says_no_such_service(answer: Object) -> bool:
    """Whether an answer is an ``error`` object with the reason ``no-such-service``."""
    fields = answer.metadata
    return fields.get("event") == "error" and fields.get("reason") == "no-such-service"


def _bus_error(error: Object) -> BusError:
    fields = error.metadata
    return BusError(str(fields.get("reason", "unknown")), str(fields.get("message", "the server gave no message")))
