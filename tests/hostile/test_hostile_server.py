"""A real server, to which everything hostile is sent while a well-behaved pair talks over it."""

from __future__ import annotations

import contextlib
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bussrv.client.business import BusinessClient
from bussrv.client.objects import ObjectsClient
from bussrv.testing.server import RunningServer
from bussrv.wire.objects import ObjectReader, encode
from tests.hostile.cases import rows_for
from tests.hostile.memory import resident
from tests.hostile.rows import SERVICE, VOCABULARIES, Answered, Closed, Dropped, Refused, Routed, Row, Vocabulary
from tests.hosts import HOSTS, is_there, listening_on
from tests.size import sample

pytestmark = pytest.mark.processes

NUMBERED = "application/x-numbered"
MAX_GROWTH = 8 << 20
"""The most bytes of resident memory that a second pass over all rows may add to what the first one left."""

PATIENCE = 30.0
CHUNK = 1 << 16


class Intruder:
    """A raw connection."""

    def __init__(self, vocabulary: Vocabulary, address: tuple[str, int]) -> None:
        self.vocabulary = vocabulary
        self._socket = socket.create_connection(address, PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = ObjectReader(max_metadata=1 << 20)

    def send(self, data: bytes) -> None:
        """Send; the server may have closed the connection meanwhile."""
        with contextlib.suppress(ConnectionError):
            self._socket.sendall(data)

    def join(self) -> None:
        self.send(encode({**self.vocabulary.join(), "id": "join"}))
        assert self.told("join")[-1]["event"] == self.vocabulary.joined

    def told(self, until: str) -> list[dict[str, Any]]:
        """What it is told until something is in reply to ``until``, or the connection is closed."""
        told: list[dict[str, Any]] = []
        while True:
            while (event := self._reader.next_event()) is not None:
                told.append(event.fields())  # type: ignore[union-attr]
                if told[-1].get("in-reply-to") == until:
                    return told
            try:
                data = self._socket.recv(CHUNK)
            except ConnectionResetError:
                data = b""
            if not data:
                return told
            self._reader.feed(data)

    def close(self) -> None:
        self._socket.close()


class Pair:
    """Two clients, of which each sends the other numbers, and takes them in order."""

    def __init__(self, server: RunningServer) -> None:
        self._stack = contextlib.ExitStack()
        self._objects = self._stack.enter_context(ObjectsClient(port=server.port("objects")))
        self._business = self._stack.enter_context(BusinessClient(port=server.port("business")))
        # It takes questions for every name, so that nobody is told that there is no such service.
        self._objects.subscribe(subscriptions=[NUMBERED, "@services/request", "@services/discovery"])
        self._objects.register(SERVICE)
        self._business.register(receive="no_echo", subscribe=[NUMBERED])
        self._sent = 0

    def say(self) -> None:
        for client in (self._objects, self._business):
            client.send(
                {"type": NUMBERED, "number": self._sent, "to": self._address_beside(client)}, b"%d" % self._sent
            )
        self._sent += 1

    def _address_beside(self, client: ObjectsClient | BusinessClient) -> str | None:
        return self._business.routing_id if client is self._objects else self._objects.routing_id

    def listen(self) -> None:
        """Each takes the number that was sent last: none is missing, none comes twice or too early."""
        for client in (self._objects, self._business):
            while (taken := client.receive(PATIENCE)).metadata.get("type") != NUMBERED:
                pass
            assert (taken.metadata["number"], taken.payload) == (self._sent - 1, b"%d" % (self._sent - 1))

    def close(self) -> None:
        self._stack.close()


def attack(server: RunningServer, pair: Pair, host: str, vocabulary: Vocabulary, row: Row) -> None:
    intruder = Intruder(vocabulary, (host, server.port(vocabulary.name)))
    if row.member:
        intruder.join()
    intruder.send(row.build(vocabulary))
    pair.say()
    intruder.send(encode({**vocabulary.join(), "id": "probe"}))
    told = intruder.told("probe")
    intruder.close()
    pair.listen()
    expect(vocabulary, row, told)


def expect(vocabulary: Vocabulary, row: Row, told: list[dict[str, Any]]) -> None:
    """What the intruder was told is what the row says, and behind it, unless it was closed, the answer to its probe."""
    outcome = row.outcome
    if isinstance(outcome, Closed):
        # A member may be told before that somebody came or went.
        said = told[-1:] if row.member and not any("in-reply-to" in each for each in told[:-1]) else told
        assert [(fields["event"], fields.get("reason")) for fields in said] == [("error", outcome.reason)], row.name
        return
    assert (told[-1]["event"], told[-1]["in-reply-to"]) == (vocabulary.joined, "probe"), row.name
    answers = Counter(fields.get("reason", fields["event"]) for fields in told[:-1] if "in-reply-to" in fields)
    if isinstance(outcome, Refused) and outcome.in_reply_to is not None:
        assert answers == {outcome.reason: outcome.times}, row.name
    elif isinstance(outcome, Answered):
        assert list(answers.values()) == [outcome.times], row.name
    elif isinstance(outcome, (Routed, Dropped)):
        assert not answers, row.name


def attack_with_everything(server: RunningServer, pair: Pair, host: str) -> None:
    for vocabulary in VOCABULARIES:
        for row in sample(rows_for(vocabulary), 6):
            attack(server, pair, host, vocabulary, row)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_good_pair_notices_nothing_the_server_does_not_grow(tmp_path: Path) -> None:
    """First over IPv4, then over IPv6 where there is such: a port on ``::`` has both."""
    first, *_, second = [host for host in HOSTS if is_there(host)] * 2
    options = listening_on("::" if is_there("::") else first)
    with RunningServer(tmp_path / "journal", ("--server-id", "hall", *options)) as server:
        pair = Pair(server)
        attack_with_everything(server, pair, first)
        before = resident(server)
        attack_with_everything(server, pair, second)
        after = resident(server)
        pair.close()
        assert server.process.poll() is None
        assert server.stop() == 0
    assert not [line for line in server.lines if "Traceback" in line or "Unhandled" in line]
    assert after - before <= MAX_GROWTH, f"{after - before} bytes more"
