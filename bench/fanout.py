"""What an object costs inside the server: parse, route, fan out; sockets left out.

Feeds chunks of objects to one connection and counts what its subscribers are given; everything is switched on but the
disk.

    python bench/fanout.py --subscribers 50 --payload 16 --objects 100000
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time

from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock

from bussrv.bus.bus import Bus
from bussrv.clock import SystemClock
from bussrv.formats.objects import ObjectsProtocol
from bussrv.formats.stream import StreamFactory
from bussrv.journal.memory import MemoryJournal
from bussrv.registry.registry import Registry
from bussrv.server.service import new_id
from bussrv.settings import Settings

CHUNK = 128 << 10


class NullTransport:
    """Takes everything, and counts it."""

    def __init__(self) -> None:
        self.taken = 0
        self.writes = 0

    def write(self, data: bytes) -> None:
        self.taken += len(data)
        self.writes += 1

    def getPeer(self) -> IPv4Address:  # noqa: N802
        return IPv4Address("TCP", "127.0.0.1", 1)

    def registerProducer(self, producer: object, streaming: bool) -> None:  # noqa: N802
        """Never full."""


def connect(factory: StreamFactory, subscription: bytes) -> tuple[ObjectsProtocol, NullTransport]:
    protocol = factory.buildProtocol(None)
    transport = NullTransport()
    protocol.makeConnection(transport)
    protocol.dataReceived(subscription + b"\0")
    return protocol, transport


def run(subscribers: int, payload: int, objects: int, own_ids: bool) -> float:
    """Deliveries per second of this process."""
    registry = Registry(MemoryJournal(), SystemClock(), new_id, server_id="bench", boot="bench")
    reactor = Clock()
    bus = Bus(registry, Settings(announce="off"), "bench", new_id, SystemClock(), reactor)
    factory = StreamFactory(ObjectsProtocol, bus, reactor)
    publisher, _ = connect(factory, b'{"event":"routing/subscribe","receive_mode":"none"}')
    members = [connect(factory, b'{"event":"routing/subscribe"}') for _ in range(subscribers)]
    identity = b',"id":"%012d"' if own_ids else b""
    template = b'{"type":"text/plain","size":%d%b}\0' % (payload, identity)
    stream = b"".join((template % number if own_ids else template) + bytes(payload) for number in range(objects))
    before = [transport.taken for _, transport in members]
    started = time.perf_counter()
    for start in range(0, len(stream), CHUNK):
        publisher.dataReceived(stream[start : start + CHUNK])
    elapsed = time.perf_counter() - started
    assert all(member.traffic.objects_out == objects + 1 for member, _ in members)
    assert all(transport.taken > taken for (_, transport), taken in zip(members, before, strict=True))
    return objects * subscribers / elapsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscribers", type=int, default=50)
    parser.add_argument("--payload", type=int, default=16, help="bytes")
    parser.add_argument("--objects", type=int, default=100_000)
    parser.add_argument("--no-ids", action="store_true", help="objects without an id: the server makes one")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    arguments = (options.subscribers, options.payload, options.objects, not options.no_ids)
    if options.profile:
        profile = cProfile.Profile()
        profile.runcall(run, *arguments)
        pstats.Stats(profile).sort_stats("tottime").print_stats(15)
        return
    rate = run(*arguments)
    print(f"{rate / 1e6:.2f} M deliveries/s, {options.subscribers / rate * 1e6:.2f} us an object")


if __name__ == "__main__":
    main()
