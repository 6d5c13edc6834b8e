"""A server with clients that do all day what examples need: publish, provide, request, come and go."""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress

from bussrv.client import inbus
from bussrv.client.objects import ObjectsClient
from tests.forked import ForkedServer

EVERY = 0.05
"""Seconds between two rounds."""

CALLED = ("hall-tv", "kiosk-1", "kiosk-2")
"""Clients that do nothing, until an operator closes them."""


class Clients:
    """They do it in a thread, until :meth:`close`."""

    def __init__(self, server: ForkedServer) -> None:
        self._server = server
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join(10)

    def _run(self) -> None:
        # The server may be drained meanwhile.
        with suppress(ConnectionError), ExitStack() as stack:
            for name in CALLED:
                stack.enter_context(ObjectsClient(port=self._server.port("objects"))).subscribe(routing_id=name)
            client = stack.enter_context(ObjectsClient(port=self._server.port("objects")))
            client.subscribe(subscriptions=["@services/request", "@services/reply", "@error"])
            for service in ("tv", "hall/lamp", "clock"):
                client.register(service)
            while not self._ended.wait(EVERY):
                self._round(client)

    def _round(self, client: ObjectsClient) -> None:
        for service in ("tv", "hall/lamp"):
            client.send({"type": "text/plain", "sender": service}, b"channel 5")
        inbus.publish("hall/gauge", b"21.5", server=self._server.addresses["inbus"])
        client.register("brief")
        client.unregister("brief")
        for service in ("clock", "upper"):
            client.send({"event": "services/request", "name": service, "id": service, "type": "text/plain"}, b"x")
        with suppress(TimeoutError):
            while True:
                found = client.receive(0)
                if found.metadata.get("event") == "services/request":
                    client.reply(found, b"12:00", "text/plain")
