"""A plain client of the Object System. Source: seed 002: Object System."""

from __future__ import annotations

from typing import Any

from bussrv.client._framed import FramedClient, checked, is_answer_to, new_id
from bussrv.client._stream import OWN, Timeout, by_one_thread
from bussrv.client.core.payload import hyphenated
from bussrv.client.core.rules import FOR_REQUESTS
from bussrv.client.errors import BusError
from bussrv.client.events import Object

__all__ = ["SUBSCRIBE", "BusError", "Object", "ObjectsClient"]

MODES = ("receive_mode", "receive-mode", "receive")

SUBSCRIBE = (
    *(*MODES, "types", "subscriptions"),
    *("routing-id", "routing-ids", "role", "user", "secret", "token", "name"),
)
"""Attributes of a subscription; the server ignores all others."""


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

    @by_one_thread
    def discover(self, name: str | None = None) -> list[dict[str, Any]]:
        """The registered providers of a service, or of all: the metadata of one ``services/discovery/reply`` each.

        The protocol does not mark the last reply. So a ``ping`` follows the question, and the server answers in order.
        Programs that answer the question without having registered may do so later; their replies are ordinary objects.

        :returns: an empty list when nobody does.
        """
        self._check_receives("discover")
        question, ping = new_id(), new_id()
        deadline = self._deadline(OWN, "no answer to services/discovery came")
        self.send({"event": "services/discovery", "id": question} | ({} if name is None else {"name": name}))
        self.send({"event": "ping", "id": ping})
        found: list[dict[str, Any]] = []
        while True:
            answer = self._wait_for(is_answer_to(question, ping), deadline)
            if answer.metadata["in-reply-to"] == ping:
                return found
            if (answer.metadata.get("event"), answer.metadata.get("reason")) != ("error", "no-such-service"):
                found.append(checked(answer).metadata)
