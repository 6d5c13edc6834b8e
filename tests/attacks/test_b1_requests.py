"""B1: nobody answers, overhears or displaces what others ask, also with another server in between."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bussrv.client.objects import ObjectsClient
from bussrv.testing.server import RunningServer
from tests.forked import ForkedServer

PATIENCE = 10


class Party:
    """A client that hears everything but itself."""

    def __init__(self, server: RunningServer, stack: contextlib.ExitStack) -> None:
        self.client = stack.enter_context(ObjectsClient(port=server.port("objects")))
        self.client.subscribe(receive_mode="no_echo")
        self.routing_id = self.client.routing_id

    def say(self, **fields: Any) -> None:
        self.client.send({key.replace("_", "-"): value for key, value in fields.items()})

    def hear(self, event: str) -> dict[str, Any]:
        """The next object with that event."""
        while True:
            fields: dict[str, Any] = self.client.receive(PATIENCE).metadata
            if fields.get("event") == event:
                return fields

    def heard_until(self, event: str) -> list[dict[str, Any]]:
        """Every event that comes before that one."""
        heard: list[dict[str, Any]] = []
        while True:
            fields = self.client.receive(PATIENCE).metadata
            if fields.get("event") == event:
                return heard
            heard.append(fields)

    def replies(self) -> list[tuple[Any, Any]]:
        """The replies and errors that came so far; the answer to a ping comes after them."""
        self.say(event="ping", id="so far")
        heard = self.heard_until("pong")
        return [(each["in-reply-to"], each.get("n")) for each in heard if each["event"] in ("services/reply", "error")]


@pytest.fixture(params=["one server", "linked servers"])
def parties(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Party, ...]]:
    """A provider, two clients and an attacker; the clients may be on another server than the provider."""
    with contextlib.ExitStack() as stack:
        hall = stack.enter_context(
            ForkedServer(tmp_path / "hall", ("--server-id", "hall", "--link-allow", "127.0.0.0/8"))
        )
        cellar = hall
        if request.param == "linked servers":
            link = ("--server-id", "cellar", "--link", f"tcp:127.0.0.1:{hall.port('objects')}")
            cellar = stack.enter_context(ForkedServer(tmp_path / "cellar", link))
        service = Party(hall, stack)
        parties = (service, *(Party(cellar, stack) for _ in range(3)))
        service.client.register("tv")
        for each in parties[1:]:
            # Until the service is known on the other server.
            while not any(found["name"] == "tv" for found in each.client.discover()):
                pass
        yield parties


@pytest.mark.parametrize("to", [True, False], ids=["with to", "without to"])
def test_each_is_answered_under_its_own_id_by_the_one_it_asked(parties: tuple[Party, ...], to: bool) -> None:
    service, ann, bob, eve = parties
    asked = []
    for client in (ann, bob):
        client.say(event="services/request", name="tv", id=1)
        asked.append(service.hear("services/request"))
    assert asked[0]["id"] != asked[1]["id"]
    for client in (ann, bob):
        for event in ("services/reply", "Services/REPLY", "error", "ERROR"):
            eve.say(event=event, in_reply_to=1, n="forged")
            eve.say(event=event, in_reply_to=1, n="forged", to=client.routing_id)
    assert eve.replies() == []
    for number in (1, 0, 1):
        address = {"to": asked[number]["route"][0]} if to else {}
        service.say(event="services/reply", in_reply_to=asked[number]["id"], n=number, **address)
    service.say(event="whisper", to=[ann.routing_id, bob.routing_id])
    for number, client in enumerate((ann, bob)):
        heard = [each for each in client.heard_until("whisper") if each["event"] == "services/reply"]
        assert [(each["in-reply-to"], each["n"]) for each in heard] == [(1, number)] * (1 + number)
    assert eve.replies() == []
