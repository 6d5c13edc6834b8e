"""Traffic between the servers of a network: objects and bytes a second on each hop, by how the servers are joined."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from networks import Network

from bussrv.bus.links.advertisement_fields import NOTIFY, events_between
from bussrv.bus.links.paths import RemoteSession
from bussrv.uplink.crossing.frames import overhead
from bussrv.uplink.crossing.peers import Beat, encode_entry
from bussrv.uplink.nats.settings import BEAT
from bussrv.uplink.nats.subjects import Subjects
from bussrv.wire.objects import encode

OBJECT = 120
"""Bytes of an object when it leaves its server."""

NODES = 3
"""Servers of the engine. Uplinks are connected with them in turn."""

BRANCHES = 10
"""Servers below each one of a tree."""

SERVERS, INTO, NODE_TO_NODE, OUT, RECEIVED = "sent", "into", "between", "out", "received"
"""Hops: from servers, to the engine, between its servers, from it, to servers."""


@dataclass
class Crossing:
    """Figures a second.

    :ivar objects: on each hop.
    :ivar size: bytes on each hop.
    :ivar needed: copies that somebody wants at the server where they arrive, the first of each object there.
    :ivar busiest: objects that each server receives and sends.
    :ivar busiest_size: bytes that each server receives and sends.
    :ivar told: bytes of advertisements, over links or out of the engine.
    :ivar beats: bytes of heartbeats, and of frames without objects, out of the engine.
    """

    objects: Counter[str] = field(default_factory=Counter)
    size: Counter[str] = field(default_factory=Counter)
    needed: float = 0.0
    busiest: Counter[int] = field(default_factory=Counter)
    busiest_size: Counter[int] = field(default_factory=Counter)
    told: float = 0.0
    beats: float = 0.0

    def hop(self, hop: str, objects: float, size: float, server: int | None = None) -> None:
        """Objects pass a hop.

        :param size: bytes of each.
        :param server: the one that sends or receives them.
        """
        self.objects[hop] += objects
        self.size[hop] += objects * size
        if server is not None:
            self.busiest[server] += objects
            self.busiest_size[server] += objects * size


@dataclass(frozen=True)
class Flow:
    """Objects that are for everybody who wants them.

    :ivar subject: where they are published in NATS, below the root of the net.
    :ivar wanted: the other servers on which somebody wants them.
    :ivar subscribed: the other servers whose uplinks subscribe to the subject.
    """

    home: int
    subject: str
    rate: float
    wanted: frozenset[int]
    subscribed: frozenset[int]


def flows(network: Network) -> Iterator[Flow]:
    """All flows of a network."""
    everybody = frozenset(range(len(network.servers)))
    observing = frozenset(number for number, wants in enumerate(network.wants) if wants.types)
    of_type: dict[int, set[int]] = {}
    of_service: dict[int, set[int]] = {}
    for number, wants in enumerate(network.wants):
        for each in wants.types:
            of_type.setdefault(each, set()).add(number)
        for each in wants.services:
            of_service.setdefault(each, set()).add(number)
    subjects = Subjects("net")
    for place, service in enumerate(network.services):
        named = of_service.get(place, set())
        wanted = (named | of_type.get(service.content_type, set())) - {service.home}
        # An uplink with a member that wants content by its type subscribes to all publications.
        subscribed = (observing | named) - {service.home}
        subject = subjects.publication(service.name)
        yield Flow(service.home, subject, service.rate, frozenset(wanted), subscribed)
    for (home, content_type), rate in network.objects.items():
        wanted = frozenset(of_type.get(content_type, set()) - {home})
        # All servers have members that want events, which come on the same subjects.
        yield Flow(home, subjects.of("obj", network.servers[home]), rate, wanted, everybody - {home})


# Links.


def mesh(network: Network) -> Crossing:
    """Each server is linked with each other one, and forwards what it gets from one to all the others."""
    crossing = Crossing()
    servers = range(len(network.servers))
    others = len(network.servers) - 1
    again = _longer(2)
    for flow in flows(network):
        crossing.needed += flow.rate * len(flow.wanted)
        crossing.hop(SERVERS, flow.rate * others, OBJECT, flow.home)
        for server in servers:
            if server != flow.home:
                crossing.hop(RECEIVED, flow.rate, OBJECT, server)
                crossing.hop(RECEIVED, flow.rate * (others - 1), again, server)
                crossing.hop(SERVERS, flow.rate * (others - 1), again, server)
    for (home, other), rate in network.addressed.items():
        crossing.needed += rate
        crossing.hop(SERVERS, rate, OBJECT, home)
        crossing.hop(RECEIVED, rate, OBJECT, other)
    crossing.told = network.changes * len(servers) * others**2 * advertisement()
    return crossing


def tree(network: Network, branches: int = BRANCHES) -> Crossing:
    """The server ``n`` is linked with ``(n - 1) // branches``."""
    crossing = Crossing()
    count = len(network.servers)
    links: list[list[int]] = [[] for _ in range(count)]
    for server in range(1, count):
        above = (server - 1) // branches
        links[server].append(above)
        links[above].append(server)
    before = [_from(home, links) for home in range(count)]
    for home, rate, wanted in _by_home(network):
        crossing.needed += wanted
        for server, (sender, hops) in before[home].items():
            crossing.hop(SERVERS, rate, _longer(hops), sender)
            crossing.hop(RECEIVED, rate, _longer(hops), server)
    for (home, other), rate in network.addressed.items():
        crossing.needed += rate
        for hops, (sender, server) in enumerate(pairwise(_path(home, other, before[home])), 1):
            crossing.hop(SERVERS, rate, _longer(hops), sender)
            crossing.hop(RECEIVED, rate, _longer(hops), server)
    crossing.told = network.changes * count * (count - 1) * advertisement()
    return crossing


def _by_home(network: Network) -> Iterator[tuple[int, float, float]]:
    """Of each server: objects a second for everybody, and copies of them that are wanted."""
    rates: Counter[int] = Counter()
    wanted: Counter[int] = Counter()
    for flow in flows(network):
        rates[flow.home] += flow.rate
        wanted[flow.home] += flow.rate * len(flow.wanted)
    yield from ((home, rate, wanted[home]) for home, rate in rates.items())


def _from(home: int, links: Sequence[Sequence[int]]) -> dict[int, tuple[int, int]]:
    """From which server each other one gets what ``home`` sends, and over how many links."""
    found: dict[int, tuple[int, int]] = {}
    waiting = deque([(home, 0)])
    while waiting:
        server, hops = waiting.popleft()
        for other in links[server]:
            if other != home and other not in found:
                found[other] = (server, hops + 1)
                waiting.append((other, hops + 1))
    return found


def _path(home: int, other: int, before: dict[int, tuple[int, int]]) -> list[int]:
    path = [other]
    while path[-1] != home:
        path.append(before[path[-1]][0])
    return path[::-1]


def _longer(hops: int) -> int:
    """Bytes of an object on its way over so many links: each server adds itself to the route."""
    return OBJECT + (hops - 1) * len(',"site-00"')


def advertisement() -> int:
    """Bytes of the advertisement of a session."""
    remote = RemoteSession(routing_id="1" * 16, path=("site-00",), is_member=True, session="1" * 16)
    return sum(len(encode(each)) for each in events_between(None, remote, NOTIFY[1]))


# NATS.


def nats(network: Network, *, has_interest: bool) -> Crossing:
    """Each server has an uplink to a cluster of NATS.

    :param has_interest: whether only those objects cross that somebody wants elsewhere, and each goes only to the
        servers that are subscribed. Otherwise all objects go to all servers.
    """
    crossing = Crossing()
    everybody = frozenset(range(len(network.servers)))
    for flow in flows(network):
        crossing.needed += flow.rate * len(flow.wanted)
        if has_interest and not flow.wanted:
            continue
        _cross(crossing, network, flow, flow.subscribed if has_interest else everybody - {flow.home})
    subjects = Subjects("net")
    for (home, other), rate in network.addressed.items():
        crossing.needed += rate
        flow = Flow(home, subjects.of("to", network.servers[other]), rate, frozenset({other}), frozenset({other}))
        _cross(crossing, network, flow, flow.wanted)
    pairs = len(network.servers) * (len(network.servers) - 1)
    crossing.told = pairs * network.changes * advertisement()
    crossing.beats += pairs * heartbeat(network.servers[0]) / BEAT
    return crossing


def _cross(crossing: Crossing, network: Network, flow: Flow, to: Collection[int]) -> None:
    """Objects go from their server through NATS to others."""
    rate = flow.rate
    crossing.hop(SERVERS, rate, OBJECT, flow.home)
    size = framed(network.servers[flow.home], flow.subject)
    crossing.hop(INTO, rate, size)
    nodes = {server % NODES for server in to} - {flow.home % NODES}
    crossing.hop(NODE_TO_NODE, rate * len(nodes), size)
    crossing.hop(OUT, rate * len(to), size)
    for server in to:
        crossing.hop(RECEIVED, rate, OBJECT, server)
    crossing.beats += len(to) * closings(rate) * closing(network.servers[flow.home], flow.subject)


def framed(origin: str, subject: str) -> int:
    """Bytes of an object in NATS, alone in its frame, with the line ``PUB``; ``MSG`` is like it.

    An uplink sends what it has read at once. Only in a burst, several objects of a subject share a frame.
    """
    return OBJECT + overhead(origin, 1) + _line(subject)


def _line(subject: str) -> int:
    return len(f"PUB {subject} {OBJECT}\r\n\r\n")


def closings(rate: float) -> float:
    """How often a subject is closed in a second: something was sent between two heartbeats, and nothing after that."""
    return -math.expm1(-rate * BEAT) * math.exp(-rate * BEAT) / BEAT


def closing(origin: str, subject: str) -> int:
    """Bytes of a frame without objects, which closes a subject."""
    return overhead(origin, 0) + _line(subject)


def heartbeat(server: str) -> int:
    """Bytes of a heartbeat."""
    return len(encode_entry(Beat("0" * 16, 1_000))) + _line(Subjects("net").of("beat", server))
