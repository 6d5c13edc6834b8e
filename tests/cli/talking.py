"""What tests of the commands that talk over the bus have in common."""

from __future__ import annotations

import json

from bussrv.cli.connection import ConnectionOptions
from bussrv.cli.traffic.receiving import ReceivedPublication, Receiving
from bussrv.client.spp import SppClient
from tests.cli.conftest import Place

NOWHERE: dict[str, None] = dict.fromkeys(("server", "profile", "ca", "certificate", "key", "user", "secret_file"))
HERE = ConnectionOptions(**NOWHERE, token_file=None, tls=False, insecure=False, timeout=10.0)
PATIENCE = 50.0
HOSTILE = "5\x1b]0;gone\x07\u202e\r\n\x9b31m"


def watching(place: Place) -> SppClient:
    """A client that waits for what a command does, which may have to start before, on a machine with much to do."""
    return SppClient(port=place.server.port("spp"), timeout=PATIENCE)


def await_record(place: Place, event: str, service: str, count: int = 1) -> None:
    """Wait until the registry says so often that something happened to a service."""
    with watching(place) as registry:
        registry.subscribe("bus/registry")
        seen = 0
        while seen < count:
            (*_, message) = (registry.next_event(),)
            if getattr(message, "service", None) != "bus/registry" or not getattr(message, "message", b""):
                continue
            state = json.loads(message.message)
            if "subscriptions" in state:
                seen += sum(each["service"] == service for each in state["subscriptions"])
            else:
                seen += (state["event"], state.get("service")) == (event, service)


def await_service(place: Place, service: str) -> None:
    with watching(place) as watcher:
        watcher.wait_for(lambda event: event.service == service)


def next_of(receiver: Receiving) -> ReceivedPublication:
    """The next publication."""
    found = receiver.receive(10)
    assert isinstance(found, ReceivedPublication)
    return found
