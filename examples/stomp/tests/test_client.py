"""stomp.py talks to a real server: it publishes, subscribes, exchanges heart-beats, and is told errors."""

import queue
from collections.abc import Iterator
from typing import Any

import pytest
import stomp  # type: ignore[import-untyped]

from bussrv.client.blocking import Message, connect
from bussrv.testing.server import RunningServer

PATIENCE = 20.0


class Listener(stomp.ConnectionListener):  # type: ignore[misc]
    """Keeps what comes."""

    def __init__(self) -> None:
        self.came: queue.Queue[Any] = queue.Queue()

    def on_message(self, frame: Any) -> None:
        self.came.put((frame.headers["destination"], frame.body))

    def on_error(self, frame: Any) -> None:
        self.came.put(("error", frame.headers["message"]))

    def on_receipt(self, frame: Any) -> None:
        self.came.put(("receipt", frame.headers["receipt-id"]))

    def next(self) -> Any:
        return self.came.get(timeout=PATIENCE)


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with RunningServer("off", ["--stomp", "0"]) as started:
        yield started


def connected(server: RunningServer, **options: Any) -> tuple[Any, Listener]:
    client = stomp.Connection12([server.addresses["stomp"]], **options)
    listener = Listener()
    client.set_listener("", listener)
    client.connect(wait=True)
    return client, listener


def test_what_one_client_sends_another_one_is_given(server: RunningServer) -> None:
    sender, _ = connected(server)
    receiver, heard = connected(server, heartbeats=(20_000, 20_000))
    receiver.subscribe("door: front", id="1", receipt="subscribed")
    assert heard.next() == ("receipt", "subscribed")
    sender.send("door: front", "open")
    assert heard.next() == ("door: front", "open")
    receiver.unsubscribe("1", receipt="done")
    assert heard.next() == ("receipt", "done")
    sender.disconnect()
    receiver.disconnect()


def test_clients_of_other_formats_are_given_it_too(server: RunningServer) -> None:
    host, port = server.addresses["objects"]
    sender, _ = connected(server)
    with connect(f"bus://{host}:{port}") as member, member.subscribe("lamp") as publications:
        sender.send("lamp", "on", content_type="text/plain")
        given = next(each for each in publications if isinstance(each, Message))
    assert (given.payload, given.type) == (b"on", "text/plain")
    sender.disconnect()


def test_an_error_is_told_and_ends_the_connection(server: RunningServer) -> None:
    client, heard = connected(server)
    client.send("bus/clock", "noon")
    assert heard.next() == ("error", "reserved-name")
