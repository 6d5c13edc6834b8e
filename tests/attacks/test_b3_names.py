"""B3: nobody takes the routing id of a client that lost its connection, or a name that looks like one of the server."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bussrv.testing.server import RunningServer
from bussrv.wire.objects import BusObject, ObjectReader, encode
from tests.forked import ForkedServer

OWNER, THIEF = "127.0.0.1", "127.0.0.2"
HOLD = 2


class Client:
    """A connection from an address of one's choice."""

    def __init__(self, server: RunningServer, address: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port("objects")), 10, source_address=(address, 0))
        self._reader = ObjectReader()

    def ask(self, **fields: Any) -> dict[str, Any]:
        """The answer to an object."""
        self._socket.sendall(encode({**{key.replace("_", "-"): value for key, value in fields.items()}, "id": "?"}))
        while True:
            for obj in iter(self._reader.next_event, None):
                assert isinstance(obj, BusObject)
                if obj.fields().get("in-reply-to") == "?":
                    return obj.fields()
            data = self._socket.recv(65536)
            assert data, "the connection ended"
            self._reader.feed(data)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with ForkedServer(tmp_path / "journal", ("--routing-id-hold", str(HOLD))) as server:
        yield server


def granted(server: RunningServer, address: str, **wanted: Any) -> list[str]:
    """The routing ids that a client gets."""
    with contextlib.closing(Client(server, address)) as client:
        reply = client.ask(event="routing/subscribe", **wanted)
        return [reply["routing-id"], *reply["routing-ids"]]


def test_a_routing_id_is_held_for_the_address_that_had_it(server: RunningServer) -> None:
    observer, owner = Client(server, OWNER), Client(server, OWNER)
    observer.ask(event="routing/subscribe")
    assert owner.ask(event="routing/subscribe", routing_id="ann")["routing-id"] == "ann"
    for _ in range(2):
        assert "ann" not in granted(server, THIEF, routing_id="ann")
        assert "ann" not in granted(server, THIEF, routing_ids=["ann", "others"])
        owner.close()
    assert granted(server, THIEF, routing_ids=["others"])[1:] == ["others"]
    assert granted(server, OWNER, routing_id="ann") == ["ann"]
    # It is held anew from then on; at last it is free.
    while "ann" not in (ids := granted(server, THIEF, routing_id="ann")):
        assert ids
    observer.close()


@pytest.mark.parametrize("name", ["BUS/registry", "bus\u2044registry", "\uff42us/x"])
def test_names_that_read_as_those_of_the_server_are_refused(server: RunningServer, name: str) -> None:
    with contextlib.closing(Client(server, OWNER)) as client:
        client.ask(event="routing/subscribe")
        assert client.ask(event="services/register", name=name)["reason"] == "reserved-name"
        for unfit in ("a\u202eb", "\u200b", " a", "a\u2029"):
            assert client.ask(event="services/register", name=unfit)["reason"] == "bad-service-name"
            assert client.ask(event="routing/subscribe", routing_id=unfit)["reason"] == "bad-subscription"
        assert client.ask(event="services/register", name="a\u200db c")["event"] == "services/register/reply"
