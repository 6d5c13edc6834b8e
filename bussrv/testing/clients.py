"""Clients of a server in memory: those of :mod:`bussrv.client`, for tests without coroutines.

Each call returns when everything has happened that is due at that moment. A call that has to wait for time to pass,
such as for a slow disk, lets it pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from twisted.internet.defer import Deferred

from bussrv.client.errors import BusError
from bussrv.client.events import Change, Gap, Message, Object, Reply
from bussrv.embedding.client import Client, Handler, Service, Subscription
from bussrv.values import OCTET_STREAM

PATIENCE = 60.0
"""For how many seconds of the clock a call waits."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Moved(Protocol):
    """A server whose clock is moved."""

    def result(self, waited_for: Deferred[Answer], within: float = 0.0) -> Answer:
        """The result of a Deferred, for which so many seconds may pass."""

    def settle(self) -> None:
        """Let everything happen that is due now."""


class MemorySubscription(Generic[Item]):
    """What comes to a client, in order."""

    def __init__(self, server: Moved, subscription: Subscription[Item]) -> None:
        self._server = server
        self._subscription = subscription

    def take(self) -> list[Item | Gap]:
        """What came since the last time.

        :raises BusError: nothing came, and nothing more will.
        """
        self._server.settle()
        return self._subscription.take()

    def stop(self) -> None:
        """End it."""
        self._server.result(self._subscription.stop(), PATIENCE)


class MemoryClient:
    """A client in memory; made by :meth:`bussrv.testing.memory.MemoryServer.client`.

    Errors are those of :mod:`bussrv.client.errors`. What a wire format cannot do is ``Unsupported``.

    :ivar client: the same, with Deferreds.
    """

    def __init__(self, server: Moved, client: Client) -> None:
        self.client = client
        self._server = server

    @property
    def is_up(self) -> bool:
        """Whether the session lasts."""
        self._server.settle()
        return self.client.is_up

    @property
    def routing_id(self) -> str | None:
        """The client's own address in the object network."""
        return self.client.routing_id

    @property
    def ended(self) -> BusError | None:
        """Why the session ended; ``None``: it has not."""
        found: list[BusError] = []
        self.client.when_ended().addCallback(found.append)
        self._server.settle()
        return found[0] if found else None

    def publish(
        self,
        /,
        service: str,
        payload: bytes = b"",
        *,
        type: str = OCTET_STREAM,  # noqa: A002
        confirm: bool = False,
        **attributes: Any,
    ) -> None:
        """Publish on a service; see :meth:`bussrv.embedding.client.Client.publish`."""
        self._wait(self.client.publish(service, payload, type=type, confirm=confirm, **attributes))

    def send(self, metadata: dict[str, Any], payload: bytes = b"") -> None:
        """Send an object of the object network."""
        self._wait(self.client.send(metadata, payload))

    def request(
        self,
        /,
        service: str,
        payload: bytes = b"",
        *,
        type: str = OCTET_STREAM,  # noqa: A002
        timeout: float = 10.0,
        **attributes: Any,
    ) -> Reply:
        """Ask a service. Time passes until there is a reply, or the time is over."""
        answered = self.client.request(service, payload, type=type, timeout=timeout, **attributes)
        return self._server.result(answered, timeout + 1.0)

    def serve(self, name: str, handler: Handler) -> Service:
        """Serve requests; see :meth:`bussrv.embedding.client.Client.serve`."""
        return self._wait(self.client.serve(name, handler))

    def subscribe(self, *services: str, **options: Any) -> MemorySubscription[Message]:
        """Subscribe to services; see :meth:`bussrv.embedding.client.Client.subscribe`."""
        return MemorySubscription(self._server, self._wait(self.client.subscribe(*services, **options)))

    def objects(self, *rules: str) -> MemorySubscription[Object]:
        """Receive objects of the network as they are, with a session of their own."""
        return MemorySubscription(self._server, self._wait(self.client.objects(*rules)))

    def watch(self, call: Callable[[Change | Gap], object] | None = None) -> MemorySubscription[Change]:
        """Be told who appears and goes."""
        return MemorySubscription(self._server, self.client.watch(call=call))

    def close(self) -> None:
        """End the session."""
        self._wait(self.client.close())

    def _wait(self, waited_for: Deferred[Answer]) -> Answer:
        answer = self._server.result(waited_for, PATIENCE)
        self._server.settle()
        return answer
