"""The scenarios of the comparison. Each has one workload for every server that takes part, in that server's terms.

Each object has a unique ``id``, another content type than the one before, and 100 bytes of metadata, unless the
scenario says otherwise. A scenario whose name ends in ``-noid`` compares our server with itself: objects without ids
with objects that have them. Brokers without metadata get the bare payload. In the scenarios with rich metadata, their
payload is larger by the size of that metadata: without metadata, an application would send the same facts in there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from compare_servers import (
    BUSSRV,
    DURABLE_REDIS,
    FORMATS,
    MOSQUITTO,
    NATS,
    PEERS,
    QUIET,
    SELECT,
    TRIANGLE,
    UNWATCHED,
    UPLINKED,
    WATCHED,
)

WITHOUT_IDS, WITH_IDS = "without ids", "with ids"
"""The names of two workloads that one server gets in the same scenario."""

WINDOW = 1000
"""Publications in flight, unless the scenario says otherwise."""


@dataclass(frozen=True)
class Workload:
    """The load that one server gets in a scenario.

    :ivar server: the name of the server.
    :ivar parties: the clients, as arguments of the load generator; ``{FORMAT}`` stands for the format and its port.
    :ivar options: options of the load generator.
    :ivar label: its name, if its server gets several workloads in the scenario.
    """

    server: str
    parties: Sequence[str]
    options: Mapping[str, object] = field(default_factory=dict)
    label: str = ""

    @property
    def name(self) -> str:
        """Its name in the results: unique in its scenario, and usually that of the server."""
        return self.label or self.server


@dataclass(frozen=True)
class Scenario:
    """One comparison of servers. Each ratio divides the figure of the first workload by that of another one.

    :ivar quick: whether it belongs to the quick set, too.
    :ivar fresh: whether each measurement starts a server of its own, so that the server's memory is due to it alone.
    :ivar idle: how many sessions do nothing while the server's memory is measured; 0: a rate is measured.
    """

    name: str
    title: str
    workloads: Sequence[Workload]
    quick: bool = False
    fresh: bool = False
    idle: int = 0


def _between(publishers: int, subscribers: int, format_name: str) -> list[str]:
    return [f"pub:{{{format_name}}}:{publishers}", f"sub:{{{format_name}}}:{subscribers}"]


def _peers(publishers: int, subscribers: int, options: Mapping[str, object]) -> list[Workload]:
    return [Workload(peer, _between(publishers, subscribers, FORMATS[peer]), options) for peer in PEERS]


def _broadcast(publishers: int, subscribers: int, **options: object) -> list[Workload]:
    """Every subscriber gets every publication, over objects and over each peer."""
    parties = _between(publishers, subscribers, "objects")
    return [Workload(BUSSRV, parties, options), *_peers(publishers, subscribers, options)]


_RICH: Mapping[str, object] = {"metadata": "100:2048"}


def _rich(publishers: int, subscribers: int) -> list[Workload]:
    """The same with metadata of all sizes, or with payloads larger by that."""
    ours = Workload(BUSSRV, _between(publishers, subscribers, "objects"), _RICH)
    return [ours, *_peers(publishers, subscribers, {"extra": "100:2048"})]


def _subscribed(subscribers: int) -> list[Workload]:
    """A service with SPP subscribers, and the same number of subscribers of each peer."""
    ours = Workload(BUSSRV, _service(subscribers), _few(subscribers))
    return [ours, *_peers(1, subscribers, _few(subscribers))]


def _service(subscribers: int) -> list[str]:
    return ["pub:{objects-service}:1", f"sub:{{spp}}:{subscribers}"]


def _few(subscribers: int) -> dict[str, object]:
    """A tenth of the window for 1,000 subscribers: the slowest server would take seconds for a whole one."""
    return {"window": WINDOW // 10} if subscribers >= 1000 else {}


def _mqtt(*parties: str) -> list[Workload]:
    """The same clients of MQTT, at our server and at mosquitto."""
    return [Workload(server, parties) for server in (BUSSRV, MOSQUITTO)]


def _groups() -> list[Workload]:
    """Ten groups of five: each wants five of ten content types, or subjects, and no two the same."""

    def parties(format_name: str) -> list[str]:
        wanted = [sum(1 << (group + each) % 10 for each in range(5)) for group in range(10)]
        return [f"pub:{{{format_name}}}:1", *(f"sub:{{{format_name}}}:5:{classes:x}" for classes in wanted)]

    formats = {BUSSRV: "objects", **FORMATS}
    return [Workload(server, parties(name), {"classes": 10}) for server, name in formats.items()]


def _requests() -> list[Workload]:
    """Ten requesters and four providers: a service, a queue group, a shared subscription. Redis has none of these."""
    formats = {BUSSRV: "objects", MOSQUITTO: FORMATS[MOSQUITTO], NATS: FORMATS[NATS]}
    return [Workload(server, [f"req:{{{name}}}:10", f"prov:{{{name}}}:4"]) for server, name in formats.items()]


_DATAGRAMS: Mapping[str, object] = {"window": 50, "give_up": 0.3}
"""No more datagrams in flight than the buffers of sockets hold, and no wait for lost ones."""


def _inbus(**options: object) -> list[Workload]:
    return [Workload(server, _between(1, 50, "inbus"), {**_DATAGRAMS, **options}) for server in (BUSSRV, SELECT)]


def _across() -> list[Workload]:
    return [Workload(BUSSRV, ["pub:{inbus2}:1", "sub:{objects}:50", "sub:{spp}:50"], _DATAGRAMS)]


_LINKED = ("pub:{objects-0}:1", "sub:{objects-0}:17", "sub:{objects-1}:17", "sub:{objects-2}:16")
"""One publisher, and 50 subscribers on all servers of the triangle."""


def _linked() -> list[Workload]:
    return [Workload(TRIANGLE, _LINKED), Workload(BUSSRV, _between(1, 50, "objects"))]


def _uplinked(**options: object) -> list[Workload]:
    """One publisher and one subscriber on two servers that are joined by NATS."""
    parties = ["pub:{objects-0}:1", "sub:{objects-1}:1"]
    return [Workload(UPLINKED, parties, {"payload": 20, **options})]


def _without_ids(server: str, parties: Sequence[str], options: Mapping[str, object] | None = None) -> list[Workload]:
    """The same objects without ids, which are shorter by that, and with them, for the same server."""
    with_ids = Workload(server, parties, options or {}, WITH_IDS)
    return [replace(with_ids, options={**with_ids.options, "ids": 0}, label=WITHOUT_IDS), with_ids]


def _stalled() -> list[Workload]:
    formats = {BUSSRV: "objects", **FORMATS}
    options = {"payload": 4096, "window": 100, "seconds": 4}
    return [
        Workload(server, [*_between(1, 49, name), f"stalled:{{{name}}}:1"], options) for server, name in formats.items()
    ]


def _watched(subscribers: int, **options: object) -> list[Workload]:
    return [Workload(server, _between(1, subscribers, "objects"), options) for server in (WATCHED, UNWATCHED)]


def _idle() -> list[Workload]:
    return [Workload(server, [f"idle:{{{name}}}"]) for server, name in {QUIET: "objects", **FORMATS}.items()]


def _announced() -> list[Workload]:
    return [Workload(BUSSRV, ["idle:{objects}"])]


def _churning() -> list[Workload]:
    return [Workload(BUSSRV, ["churn:{objects}:100"]), Workload(DURABLE_REDIS, ["churn:{redis}:100"])]


SCENARIOS = (
    Scenario("a", "1 publisher, 50 subscribers, 16 B", _broadcast(1, 50), quick=True),
    Scenario("a-one", "the same, one publication in flight", _broadcast(1, 50, window=1)),
    Scenario("a-rich", "the same as a, metadata of 100 B to 2 KiB", _rich(1, 50)),
    Scenario("a-business", "the same as a, over business", [Workload(BUSSRV, _between(1, 50, "business"))]),
    Scenario("b", "1 publisher, 50 subscribers, 1 KiB", _broadcast(1, 50, payload=1024), quick=True),
    Scenario("c", "1 publisher, 1,000 subscribers, 100 B", _broadcast(1, 1000, payload=100, **_few(1000)), quick=True),
    Scenario("d", "1 publisher, 1 subscriber, 16 B", _broadcast(1, 1), quick=True),
    Scenario("d-rich", "the same, metadata of 100 B to 2 KiB", _rich(1, 1)),
    Scenario("e", "50 publishers, 1 subscriber, 16 B", _broadcast(50, 1), quick=True),
    Scenario("f", "1,000 publications a second to 10 subscribers, 16 B", _broadcast(1, 10, rate=1000), quick=True),
    Scenario("g", "requests to 4 providers, and replies: two deliveries each", _requests()),
    Scenario("h", "10 groups of 5 subscribers with different interests, 16 B", _groups()),
    Scenario("i", "a service with 50 SPP subscribers, 16 B", _subscribed(50), quick=True),
    Scenario("i-1000", "a service with 1,000 SPP subscribers, 16 B", _subscribed(1000)),
    Scenario("j", "Inbus, 1 publisher, 50 subscribers, 16 B", _inbus(), quick=True),
    Scenario("j-mixed", "the same, each of another size than the one before, up to 256 B", _inbus(extra="1:240")),
    Scenario("k", "1 Inbus publisher, 50 objects clients and 50 SPP subscribers, 16 B", _across()),
    Scenario("l", "three linked servers, 50 subscribers on all of them, 16 B", _linked(), quick=True, fresh=True),
    Scenario("m", "5,000 idle sessions", _idle(), quick=True, fresh=True, idle=5000),
    Scenario("m-announced", "5,000 idle sessions, told of each other", _announced(), fresh=True, idle=5000),
    Scenario("n", "changes of the registry by 100 sessions, durable", _churning(), fresh=True),
    Scenario("p", "the same as a, while an operator watches", _watched(50), fresh=True),
    Scenario("p-steady", "the same as f, while an operator watches", _watched(10, rate=1000), fresh=True),
    Scenario("r", "MQTT, 1 publisher, 50 subscribers, 16 B", _mqtt(*_between(1, 50, "mqtt")), quick=True),
    Scenario("r-one", "MQTT, 1 publisher, 1 subscriber, 16 B", _mqtt(*_between(1, 1, "mqtt"))),
    Scenario("r-confirmed", "the same with QoS 1", _mqtt(*_between(1, 1, "mqtt-confirmed")), quick=True),
    Scenario("r-idle", "10,000 idle sessions of MQTT", _mqtt("idle:{mqtt}"), fresh=True, idle=10_000),
    Scenario("q", "1 publisher, 1 subscriber on servers joined by NATS, 120 B", _uplinked(), quick=True, fresh=True),
    Scenario("q-steady", "the same, 1,000 publications a second", _uplinked(rate=1000), quick=True, fresh=True),
    Scenario("a-noid", "a without ids", _without_ids(BUSSRV, _between(1, 50, "objects"))),
    Scenario("d-noid", "d without ids", _without_ids(BUSSRV, _between(1, 1, "objects"))),
    Scenario("d-rich-noid", "d-rich without ids", _without_ids(BUSSRV, _between(1, 1, "objects"), _RICH)),
    Scenario("e-noid", "e without ids", _without_ids(BUSSRV, _between(50, 1, "objects"))),
    Scenario("i-noid", "i without ids", _without_ids(BUSSRV, _service(50))),
    Scenario("l-noid", "l without ids", _without_ids(TRIANGLE, _LINKED), fresh=True),
    Scenario("o", "1 publisher, 49 subscribers, 4 KiB, and one that reads no more", _stalled(), fresh=True),
)
