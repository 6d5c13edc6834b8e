"""An engine in memory, and uplinks of servers in memory to it, on the clock of a fabric."""

from collections.abc import Iterator
from random import Random
from typing import Any

from bussrv.uplink.crossing.node import Node
from bussrv.uplink.crossing.server_link import Limits, ServerLink
from bussrv.uplink.nats.settings import BEAT, LAPSE
from bussrv.uplink.nats.subjects import Subjects, covers
from tests.bus.links.fabric import LATENCY, End, Fabric

NET = "office"
NODE = f"uplink/{NET}"
MOST = 4096
REDIAL = 0.5


class MemoryEngine:
    """Gives messages to all who are subscribed, in order; keeps those of directories.

    :ivar loses: the part of the messages that get lost on the way to somebody.
    """

    def __init__(self, clock: Any) -> None:
        self.clock = clock
        self.uplinks: list[MemoryUplink] = []
        self.kept: dict[str, list[bytes]] = {}
        self.loses = 0.0
        self.messages = 0
        self._random = Random(1)

    def publish(self, sender: "MemoryUplink", subject: str, data: bytes) -> None:
        """A message is on its way."""
        self.messages += 1
        if ".reg." in subject:
            kept = self.kept.setdefault(subject, [])
            if b'"reset":true' in data:
                kept.clear()
            kept.append(data)
        for uplink in self.uplinks:
            is_heard = any(covers(each, subject) for each in uplink.listens_to)
            if uplink is not sender and is_heard and self._random.random() >= self.loses:
                self.clock.callLater(LATENCY, uplink.came, subject, data)


class MemoryUplink:
    """The uplink of a server: what the program does, without a program. Like a cable, it can be unplugged."""

    def __init__(self, engine: MemoryEngine, fabric: Fabric, name: str) -> None:
        self.is_plugged = True
        self.name = name
        self.node: Node | None = None
        self.listens_to: set[str] = set()
        self._engine = engine
        self._clock = engine.clock
        self._listener = fabric[name]
        self._end: Any = None
        engine.uplinks.append(self)
        self.dial()
        self._beat()

    # The link: this is the protocol at its end, and its user.

    def dial(self) -> None:
        if self.is_plugged and self._end is None:
            self._end, listening = End(self._clock, LATENCY), End(self._clock, LATENCY)
            self._end.other, listening.other = listening, self._end
            self._end.protocol = self
            self._link = ServerLink(NODE, 16 << 20, self)
            listening.protocol = self._listener.factory("objects").buildProtocol(listening.getPeer())
            listening.protocol.makeConnection(listening)
            self._end.write(self._link.greeting(None))
        self._clock.callLater(REDIAL, self.dial)

    def dataReceived(self, data: bytes) -> None:
        answer = self._link.feed(data)
        if answer:
            self._end.write(answer)
        self.flush()

    def connectionLost(self, reason: Any) -> None:
        if self.node is not None:
            self._engine.publish(self, SUBJECTS.of("beat", self.name), self.node.beat(left=True))
        self._end = self.node = None
        self.listens_to = set()

    def linked(self, server: str, understood: frozenset[str], limits: Limits) -> None:
        self.boots = getattr(self, "boots", 0) + 1
        boot = f"{self.name}{self.boots:07}".encode()
        self.node = Node(server, NODE, boot, SUBJECTS, max_payload=16 << 20, limits=limits, understood=understood)

    def received(self, objs: Any) -> None:
        assert self.node is not None
        self.node.received(objs)

    # The engine.

    def flush(self) -> None:
        if self.node is None:
            return
        for subject, data, _ in self.node.to_publish(MOST):
            self._engine.publish(self, subject, data)
        self.listens_to = self.node.listens_to()
        while self.node.tell():
            pass
        if self.node.to_server:
            self._end.write(b"".join(self.node.to_server))
            self.node.to_server.clear()

    def came(self, subject: str, data: bytes) -> None:
        if self.node is None:
            return
        self.node.came(subject, data, self._clock.seconds())
        for server in sorted(self.node.unknown):
            self._read(server)
        self.flush()

    def _read(self, server: str) -> None:
        assert self.node is not None
        subject = SUBJECTS.of("reg", server)
        for entry in self._engine.kept.get(subject, []):
            self.node.came(subject, entry, self._clock.seconds())

    def _beat(self) -> None:
        if self.node is not None:
            for subject, data in self.node.beats():
                self._engine.publish(self, subject, data)
            self.node.directory.end_loans()
            self.node.lapsed(self._clock.seconds() - LAPSE)
            self.flush()
        self._clock.callLater(BEAT, self._beat)

    # As cables have it.

    def unplug(self) -> None:
        """The uplink is killed."""
        self.is_plugged = False
        if self._end is not None:
            self._end.other.lose(_lost())
            self._end.is_open = False
            self._end = self.node = None
            self.listens_to = set()

    def plug(self) -> None:
        self.is_plugged = True


SUBJECTS = Subjects(NET)


def _lost() -> Exception:
    from twisted.internet.error import ConnectionLost

    return ConnectionLost()


def uplinked(fabric: Fabric, *names: str) -> MemoryEngine:
    """Give these servers uplinks to one engine."""
    engine = MemoryEngine(fabric.clock)
    for name in names:
        fabric.cables[name, NODE] = MemoryUplink(engine, fabric, name)  # type: ignore[assignment]
    return engine


def nodes(engine: MemoryEngine) -> Iterator[Node]:
    return (uplink.node for uplink in engine.uplinks if uplink.node is not None)
