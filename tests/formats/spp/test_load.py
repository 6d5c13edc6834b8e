"""Many watchers and many subscribers of one service: nothing is lost on SPP, what is dropped on Inbus is counted."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest

from bussrv.wire import inbus, spp
from bussrv.wire.objects import encode
from tests.formats.network import DatagramPort, Member, Network, Watcher
from tests.size import sized

WATCHERS = 200
STALLING = 50
"""How many of the watchers read nothing for a while, again and again."""

SUBSCRIBERS = 200
PUBLICATIONS = 1000 * sized(10)
CHUNK = 100
"""How many publications come in one piece."""

EVERY_LARGE = 1000
LARGE = 70_000
"""Every so many publications are larger than any datagram."""

EVERY_FAILING = 997
"""Every so many datagrams the system does not take."""


class Subscribers:
    """What the network carries to the subscribers; it takes most datagrams.

    :ivar taken: how many, by address.
    """

    def __init__(self, port: DatagramPort) -> None:
        self.taken: Counter[tuple[str, int]] = Counter()
        self.failed = 0
        self._newest: dict[tuple[str, int], int] = {}
        self._numbers: dict[bytes, int] = {}
        self._sent = 0
        port.write = self.write  # type: ignore[method-assign]

    def write(self, datagram: bytes, address: tuple[str, int]) -> None:
        self._sent += 1
        if self._sent % EVERY_FAILING == 0:
            self.failed += 1
            raise BlockingIOError("the buffer is full")
        number = self._numbers.get(datagram)
        if number is None:
            number = self._numbers[datagram] = int(inbus.decode(datagram).payload)
        assert self._newest.get(address, -1) < number
        self._newest[address] = number
        self.taken[address] += 1


class Reading:
    """A watcher that keeps no more than a digest of what it reads."""

    def __init__(self, watcher: Watcher) -> None:
        self.link = watcher.connection.protocol.link
        self._connection = watcher.connection
        self._digest = hashlib.sha256()

    def read(self) -> None:
        self._digest.update(self._connection.take())

    def digest(self) -> bytes:
        self.link.resumeProducing()
        self.read()
        return self._digest.digest()


def payload(number: int) -> bytes:
    return b"%0*d" % (LARGE if number % EVERY_LARGE == 0 else 5, number)


def provider_and_watchers(network: Network) -> tuple[Member, list[Watcher]]:
    member = network.member(receive_mode="none")
    member.send({"event": "services/register", "name": "meter"})
    watchers = [network.watcher() for _ in range(WATCHERS)]
    for watcher in watchers:
        watcher.subscribe("meter")
    return member, watchers


def test_spp_loses_nothing_and_what_inbus_drops_is_counted() -> None:
    network = Network(inbus_max_rate=CHUNK)
    member, watchers = provider_and_watchers(network)
    readers = [Reading(watcher) for watcher in watchers]
    sent = hashlib.sha256(spp.offer("meter") + spp.info("meter", b""))
    for number in range(SUBSCRIBERS):
        network.udp.subscribe("meter", 5000 + number, 1 + number % 2)
    subscribers = Subscribers(network.udp)

    for first in range(0, PUBLICATIONS, CHUNK):
        numbers = range(first, first + CHUNK)
        for reader in readers[:STALLING]:
            reader.link.pauseProducing()
        member.connection.send_bytes(b"".join(encode({"type": "text/plain"}, payload(number)) for number in numbers))
        sent.update(b"".join(spp.info("meter", payload(number)) for number in numbers))
        for reader in readers[: STALLING if first % (3 * CHUNK) else 0]:
            reader.link.resumeProducing()
        for reader in readers:
            reader.read()
        # Every other chunk comes too soon for half of it.
        network.reactor.advance(1 if first % (2 * CHUNK) else 0.5)

    assert {reader.digest() for reader in readers} == {sent.digest()}
    counters = network.bus.counters
    too_large, too_fast = counters["datagram-too-large"], counters["inbus-rate"]
    assert too_large == 2 * PUBLICATIONS // EVERY_LARGE
    assert too_fast > 0
    assert counters["inbus-send-failed"] == subscribers.failed > 0
    wanted = SUBSCRIBERS * (PUBLICATIONS - PUBLICATIONS // EVERY_LARGE)
    assert subscribers.taken.total() == wanted - too_fast - subscribers.failed
    assert len(subscribers.taken) == SUBSCRIBERS
    assert counters.keys() - {"receive-none"} == {"datagram-too-large", "inbus-rate", "inbus-send-failed"}
    assert len(network.journal.records) < 3 * (WATCHERS + SUBSCRIBERS) + 1000


@pytest.mark.dear
def test_coalescing_gives_only_stalled_clients_the_newest_state() -> None:
    network = Network(slow_spp="coalesce", max_outbound=10_000)
    member, watchers = provider_and_watchers(network)
    for watcher in watchers:
        watcher.received()
    taken = 0
    for first in range(0, 1000, CHUNK):
        for watcher in watchers[:STALLING]:
            watcher.connection.protocol.link.pauseProducing()
        numbers = [b"%d" % number for number in range(first, first + CHUNK)]
        member.connection.send_bytes(b"".join(encode({"type": "text/plain"}, number) for number in numbers))
        for watcher in watchers[STALLING:]:
            assert watcher.messages() == numbers
        for watcher in watchers[: STALLING if first % (3 * CHUNK) else 0]:
            watcher.connection.protocol.link.resumeProducing()
            assert watcher.messages() == numbers[-1:]
            taken += 1
    network.reactor.advance(1)
    assert all(watcher.connection.is_open for watcher in watchers)
    waiting = sum(len(watcher.connection.protocol.link._backlog) for watcher in watchers)
    assert network.bus.counters["spp-coalesced"] == 1000 * STALLING - taken - waiting
