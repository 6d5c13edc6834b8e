"""A client of the Object System. Source: seed 002: Object System."""

from __future__ import annotations

from typing import Any

from bussrv.client._framed import BusError, FramedClient, Object, checked, hyphenated, new_id, says_no_such_service
from bussrv.wire.objects import MAX_PAYLOAD

__all__ = ["BusError", "Object", "ObjectsClient"]


class ObjectsClient(FramedClient):
    """Exchanges objects with other clients and with services: blocking, for one thread, a context manager.

    :ivar routing_id: this client's own address, once it is subscribed.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 7890,
        timeout: float | None = 10.0,
        max_payload: int = MAX_PAYLOAD,
    ) -> None:
        super().__init__(host, port, timeout, max_payload)

    def subscribe(self, **attributes: Any) -> dict[str, Any]:
        """Join the network; before this the server passes nothing on. Again: changes what is received.

        :param attributes: of ``routing/subscribe``, such as ``receive_mode="no_echo"``, ``types=["text/*"]``,
            ``routing_ids=["news"]``; ``_`` is sent as ``-``, but in ``receive_mode``.
        :returns: the metadata of ``routing/subscribe/reply``.
        :raises BusError: the server refused.
        :raises TimeoutError: no reply came in time.
        :raises ConnectionError: the connection ended, or the client was closed.
        """
        reply = self._ask({"event": "routing/subscribe", **hyphenated(attributes)}).metadata
        self.routing_id = reply.get("routing-id")
        return reply

    def register(self, name: str) -> dict[str, Any]:
        """Provide a service: requests for it come as objects, to be answered with :meth:`reply`.

        :returns: the metadata of ``services/register/reply``; it comes when the registration is on the server's disk.
        :raises BusError: the server refused.
        :raises TimeoutError: no reply came in time.
        :raises ConnectionError: the connection ended, or the client was closed.
        """
        return self._register_service(name)

    def unregister(self, name: str | None = None) -> dict[str, Any]:
        """Provide a service no longer; without a name: none of them. Returns and raises as :meth:`register` does."""
        return self._unregister_service(name)

    def discover(self, name: str | None = None) -> list[dict[str, Any]]:
        """Who provides a service, or any service: the metadata of one ``services/discovery/reply`` for each provider.

        The protocol does not say which reply is the last one. So a ``ping`` is sent behind the question: the server
        answers in order. Programs that listen for the question without ever registering answer later, if at all; their
        replies are objects like any other.

        :returns: an empty list when nobody does.
        :raises BusError: the server refused.
        :raises TimeoutError: the answers did not come in time.
        :raises ConnectionError: the connection ended, or the client was closed.
        """
        question, ping = new_id(), new_id()
        fields = {"event": "services/discovery", "id": question}
        deadline = self._deadline(None, "no answer to services/discovery")
        self.send(fields if name is None else {**fields, "name": name})
        self.send({"event": "ping", "id": ping})
        found: list[dict[str, Any]] = []
        while True:
            answer = self._wait_for(lambda each: each.metadata.get("in-reply-to") in (question, ping), deadline)
            if answer.metadata["in-reply-to"] == ping:
                return found
            if not says_no_such_service(answer):
                found.append(checked(answer).metadata)
