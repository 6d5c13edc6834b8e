"""The cost of an object inside the server: parse, route, fan out; without sockets.

It feeds chunks of objects to one connection and counts the deliveries to its subscribers. All of the server takes part
except the disk.

- ``--linked``: the connection is that of another server, which forwards the objects. A third server receives them, too.
- ``--again``: the third server then forwards all of them once more.
- ``--named``: the connection publishes on a service, and its subscribers want nothing but the publications on that.
- ``--rules``: there is a policy of so many rules. The last one allows everything.
- ``--tap``: an operator has opened a tap.

    python bench/fanout.py --subscribers 50 --payload 16 --objects 100000
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path

from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock

from bussrv.bus.bus import Bus
from bussrv.bus.taps.tap import TapFilter
from bussrv.compiled import HOT_PATH
from bussrv.formats.objects.object_system import ObjectsProtocol
from bussrv.journal.memory import MemoryJournal
from bussrv.net.session.factory import StreamFactory
from bussrv.policy.permissions.access import Access
from bussrv.policy.permissions.file import parse_policy
from bussrv.policy.permissions.rules import Rules
from bussrv.registry.changes.registry import Registry
from bussrv.server.running.process import tune_collector
from bussrv.server.running.service import new_id
from bussrv.settings import Settings
from bussrv.turns.clock import SystemClock

CHUNK = 120 << 10

RIGHTS = "".join(f'{action} = "*"\n' for action in ("send", "observe", "publish", "watch", "address"))


class NullTransport:
    """A transport that takes all output, and counts it."""

    def __init__(self) -> None:
        self.taken = 0
        self.writes = 0

    def send_now(self, data: bytes) -> int:
        return self.send_some((data,))

    def send_some(self, pieces: Sequence[bytes | memoryview]) -> int:
        size = sum(map(len, pieces))
        self.taken += size
        self.writes += 1
        return size

    def write(self, data: bytes) -> None:
        self.send_now(data)

    def getPeer(self) -> IPv4Address:
        return IPv4Address("TCP", "127.0.0.1", 1)

    def registerProducer(self, producer: object, streaming: bool) -> None:
        """Never call the producer: this transport is never full."""

    def pauseProducing(self) -> None:
        """Part of a chunk is served later. The next chunk comes after that."""

    resumeProducing = pauseProducing


def connect(factory: StreamFactory, subscription: bytes) -> tuple[ObjectsProtocol, NullTransport]:
    protocol = factory.buildProtocol(None)
    transport = NullTransport()
    protocol.makeConnection(transport)
    protocol.dataReceived(subscription + b"\0")
    return protocol, transport


def identity(number: int, own_ids: bool) -> bytes:
    return b',"id":"%012d"' % number if own_ids else b""


def stream_of(objects: int, payload: int, own_ids: bool, route: bytes) -> bytes:
    about = b'{"type":"text/plain","size":%d%b%b}\0'
    said = (about % (payload, identity(number, own_ids), route) for number in range(objects))
    return bytes(payload).join([*said, b""])


def server(factory: StreamFactory, server_id: bytes) -> ObjectsProtocol:
    """A linked server."""
    about = b'{"event":"routing/subscribe","role":"server","routing-id":"%b","subscriptions":["*"],"directory":true}'
    return connect(factory, about % server_id)[0]


def feed(publisher: ObjectsProtocol, stream: bytes, reactor: Clock) -> float:
    """The seconds of CPU that a stream takes."""
    started = time.process_time()
    for start in range(0, len(stream), CHUNK):
        publisher.dataReceived(stream[start : start + CHUNK])
        reactor.advance(0)
    return time.process_time() - started


def policy(rules: int) -> Rules | None:
    """A policy whose last rule allows everything; ``None`` for a policy without rules."""
    others = [RIGHTS.replace("*", f"room{number}/*") for number in range(rules - 1)]
    text = "".join(f"[[rule]]\n{rights}" for rights in (*others, RIGHTS))
    return parse_policy(text, Path("policy.toml"), ["objects"]) if rules else None


def run(options: argparse.Namespace) -> float:
    """The seconds of CPU that one object takes."""
    registry = Registry(MemoryJournal(), SystemClock(), new_id, server_id="bench", boot="bench")
    reactor = Clock()
    bus = Bus(
        registry,
        Settings(announce="off", link_allow=(ip_network("127.0.0.1"),)),
        "bench",
        new_id,
        SystemClock(),
        reactor,
        access=Access(policy(options.rules)),
    )
    if options.tap:
        bus.taps.open(TapFilter(rate=options.tap), actor=None, peer="127.0.0.1:1", protocol="admin", most=1 << 20)
    factory = StreamFactory(ObjectsProtocol, bus, reactor)
    if options.linked or options.again:
        publishers = [server(factory, server_id) for server_id in (b"cellar-server", b"attic-server")]
        routes = [b',"route":["%024d","cellar-server"]', b',"route":["%024d","cellar-server","attic-server"]']
        routes = [route % 1 for route in routes]
    else:
        publishers = [connect(factory, b'{"event":"routing/subscribe","receive_mode":"none"}')[0]]
        routes = [b""]
    wanted = b""
    if options.named:
        publishers[0].dataReceived(b'{"event":"services/register","name":"tv"}\0')
        wanted = b',"types":"none","services":["tv"]'
    subscription = b'{"event":"routing/subscribe"%b}' % wanted
    members = [connect(factory, subscription) for _ in range(options.subscribers)]
    streams = [stream_of(options.objects, options.payload, not options.no_ids, route) for route in routes]
    before = [transport.taken for _, transport in members]
    tune_collector()
    elapsed = feed(publishers[0], streams[0], reactor)
    assert all(member.traffic.objects_out == options.objects + 1 for member, _ in members)
    assert all(transport.taken > taken for (_, transport), taken in zip(members, before, strict=True))
    if options.again:
        elapsed = feed(publishers[1], streams[1], reactor)
        assert all(member.traffic.objects_out == options.objects + 1 for member, _ in members)
    return elapsed / options.objects


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscribers", type=int, default=50, help="of every object; at least 1")
    parser.add_argument("--payload", type=int, default=16, help="bytes")
    parser.add_argument("--objects", type=int, default=100_000)
    parser.add_argument("--no-ids", action="store_true", help="objects without an id: the server makes one")
    parser.add_argument("--linked", action="store_true", help="another server forwards the objects")
    parser.add_argument("--again", action="store_true", help="the same objects come once more over another link")
    parser.add_argument("--named", action="store_true", help="publications on a service that the subscribers named")
    parser.add_argument("--rules", type=int, default=0, help="rules of a policy")
    parser.add_argument("--tap", type=int, default=0, help="objects a second that a tap shows, which nobody reads")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    if options.again and options.no_ids:
        parser.error("--again needs ids: the server cannot recognize an object without one (drop --no-ids)")
    if options.named and (options.linked or options.again):
        parser.error("--named is for publications of a member (drop --linked and --again)")
    if options.subscribers < 1:
        parser.error("--subscribers: nothing is delivered without one")
    if options.profile:
        profile = cProfile.Profile()
        profile.runcall(run, options)
        pstats.Stats(profile).sort_stats("tottime").print_stats(15)
        return
    seconds = run(options)
    about = f"{seconds * 1e6:.2f} us of CPU an object, hot path in {HOT_PATH}"
    # With --again, nothing is delivered.
    deliveries = "" if options.again else f", {options.subscribers / seconds / 1e6:.2f} M deliveries a second of CPU"
    print(f"{about}, {options.subscribers} subscribers{deliveries}")


if __name__ == "__main__":
    main()
