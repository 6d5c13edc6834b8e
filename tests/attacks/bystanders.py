"""Bystanders: well-behaved clients of every wire format that measure how long the server lets them wait.

They run in a process of their own, so that what a test does meanwhile does not count as waiting::

    with RunningServer(tmp_path / "journal") as server, Bystanders(server) as bystanders:
        idle = bystanders.watch(1.0)
        with bystanders.during() as waits:
            attack(server)
        assert waits.worst() < 0.1
        assert waits.p99("objects") < max(0.02, 3 * idle.p99("objects"))

Other programs on the machine take time from the server, and make bystanders wait as well. So waits are those of a
server that has a core to itself: they are multiplied by its *share*, the time that it ran of the time that it could
have run. Linux tells both. So it does of the bystanders' process, and the smaller share counts.

Each bystander has one round trip under way and begins the next ``PAUSE`` seconds after the last one ended:

``objects``   ``ping``, ``pong``
``business``  an object to itself
``inbus``     a publication that it is subscribed to; counted as lost after ``LOST`` seconds
``spp``       the snapshot of a service that it is subscribed to
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from bussrv.addresses import format_address, parse_address
from bussrv.testing.server import RunningServer
from bussrv.wire import inbus, spp
from bussrv.wire.objects import BusObject, ObjectReader, encode
from tests.forked import forked_module

PAUSE = 0.01
LOST = 0.5
PATIENCE = 60.0
SERVICE = "bystanders"
ECHO = "application/x-bystander"
IDLE = 0.3
"""For how long bystanders are measured before an attack, in seconds."""


class Sample(Struct, frozen=True):
    """One round trip. Times are monotonic, in seconds. ``answered`` is ``None`` for a datagram that was lost."""

    name: str
    asked: float
    answered: float | None


class Waits:
    """Round trips of a period, in seconds.

    :ivar share: the time that the server, or the bystanders' process, ran of the time that it could have run, 0 to 1.
    """

    def __init__(self, samples: list[Sample], share: float = 1.0) -> None:
        self.samples = samples
        self.share = share

    def of(self, name: str | None = None) -> list[float]:
        """The round trips of one bystander, or of all, shortest first; those of a server with a core to itself."""
        chosen = (each for each in self.samples if name in (None, each.name))
        return sorted((each.answered - each.asked) * self.share for each in chosen if each.answered is not None)

    def worst(self, name: str | None = None) -> float:
        """The longest; 0 if the period was too short for any."""
        return max(self.of(name), default=0.0)

    def p99(self, name: str | None = None) -> float:
        waits = self.of(name)
        return waits[len(waits) * 99 // 100]

    def lost(self) -> int:
        """How many datagrams were lost."""
        return sum(each.answered is None for each in self.samples)

    def __str__(self) -> str:
        names = sorted({each.name for each in self.samples})
        figures = (f"{name}: p99 {self.p99(name):.4f}, worst {self.worst(name):.4f}" for name in names)
        return f"{'; '.join(figures)} s; {self.lost()} lost of {len(self.samples)}; share {self.share:.2f}"


class Bystanders:
    """A process with a bystander on each wire format, as a context manager.

    :param leave_out: wire formats that nobody watches, such as those that are off. ``spp`` needs ``objects``.
    :param host: the address that they come from; by default the system chooses.
    """

    def __init__(self, server: RunningServer, leave_out: tuple[str, ...] = (), host: str = "") -> None:
        self._names = [name for name in PROBES if name not in leave_out]
        self._server = server.process.pid
        places = [f"{name}={format_address(*server.addresses[name])}" for name in self._names]
        self._process = forked_module(__name__, host, *places)
        self._samples: queue.SimpleQueue[Sample | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="bystanders", daemon=True).start()
        self._ended_after(time.monotonic())

    def watch(self, seconds: float) -> Waits:
        """Measure while nothing else happens."""
        with self.during() as waits:
            time.sleep(seconds)
        return waits

    @contextlib.contextmanager
    def during(self) -> Iterator[Waits]:
        """Measure what happens in the context; the round trips are there at its end, those under way included."""
        waits, begin = Waits([]), time.monotonic()
        processes = self._server, self._process.pid
        before = [scheduled(each) for each in processes]
        yield waits
        waits.share = min(share(first, scheduled(each)) for each, first in zip(processes, before, strict=True))
        ended = self._ended_after(time.monotonic())
        waits.samples = [each for each in ended if each.answered is None or each.answered > begin]

    def expect_no_wait(
        self,
        attack: Callable[[], None],
        idle: Waits,
        most_attacks: int,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        """Attack until no bystander waits, at most so many times; see :func:`nobody_waits`.

        :param prepare: called before each attack; nothing is measured meanwhile.
        """
        most = max(MOST, 3 * idle.worst())
        seen: list[Waits] = []
        while len(seen) < most_attacks and not any(each.worst() < most for each in seen):
            prepare()
            with self.during() as waits:
                attack()
            seen.append(waits)
        assert seen[-1].worst() < most, f"idle {idle}; then {'; '.join(map(str, seen))}"

    def _ended_after(self, moment: float) -> list[Sample]:
        """Every round trip since the last call, up to the first of each bystander that was asked after ``moment``."""
        samples: list[Sample] = []
        missing = set(self._names)
        while missing:
            sample = self._samples.get(timeout=PATIENCE)
            if sample is None:
                raise RuntimeError("the bystanders' process ended: the server closed a connection?")
            if sample.asked <= moment:
                samples.append(sample)
            elif sample.answered is not None:
                missing.discard(sample.name)
        return samples

    def _read(self) -> None:
        for line in self._process.stdout:
            if not line.endswith("\n"):
                break  # It was killed in the middle of a line.
            name, asked, answered = line.split()
            self._samples.put(Sample(name, float(asked), None if answered == "lost" else float(answered)))
        self._samples.put(None)

    def __enter__(self) -> Bystanders:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


def scheduled(process: int) -> tuple[int, int]:
    """How long the first thread of a process has run, and how long it has waited for a core, in ns; see proc(5)."""
    try:
        ran, waited, _ = Path(f"/proc/{process}/task/{process}/schedstat").read_text().split()
    except OSError:
        return 0, 0
    return int(ran), int(waited)


def share(before: tuple[int, int], after: tuple[int, int]) -> float:
    """The time that a thread ran of the time that it could have run, between two results of :func:`scheduled`."""
    ran, waited = after[0] - before[0], after[1] - before[1]
    return ran / (ran + waited) if ran + waited else 1.0


MOST = 0.1
"""How long a bystander may wait, in seconds; on a busy machine three times as long as it does anyway."""

MOST_ATTACKS = 4


def nobody_waits(server: RunningServer, attack: Callable[[], None]) -> None:
    """Attack until bystanders do not wait, and a few times at most: other programs of the machine hold them up, too."""
    with Bystanders(server) as bystanders:
        bystanders.expect_no_wait(attack, bystanders.watch(IDLE), MOST_ATTACKS)


# What follows runs in the process of the bystanders.


class Probe:
    """One bystander.

    :ivar patience: how long a round trip may take before it counts as lost.
    """

    name = ""
    patience = PATIENCE

    def __init__(self, address: tuple[str, int], host: str) -> None:
        self.socket = socket.create_connection(address, PATIENCE, (host, 0) if host else None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._numbers = itertools.count()
        self.asked = 0.0
        self.due = 0.0
        self.is_waiting = False

    def begin(self) -> None:
        self.is_waiting = True
        self.asked = time.monotonic()
        self.ask(f"{next(self._numbers)}")

    def end(self, answered: float | None) -> None:
        self.is_waiting = False
        self.due = time.monotonic() + PAUSE
        print(self.name, self.asked, "lost" if answered is None else answered, flush=True)  # noqa: T201

    def read(self) -> None:
        data = self.socket.recv(1 << 16)
        now = time.monotonic()
        if not data:
            sys.exit(f"the server closed the connection of {self.name}")
        if self.answers(data) and self.is_waiting:
            self.end(now)

    def ask(self, number: str) -> None:
        raise NotImplementedError

    def answers(self, data: bytes) -> bool:
        """Whether the answer to the last question is in ``data``."""
        raise NotImplementedError


class FramedProbe(Probe):
    """What Object System and Business Object have in common."""

    def __init__(self, address: tuple[str, int], host: str) -> None:
        super().__init__(address, host)
        self._reader = ObjectReader()
        self._number = ""

    def call(self, **fields: Any) -> dict[str, Any]:
        """Ask something, and wait for its answer."""
        self.socket.sendall(encode({"id": "call", **fields}))
        while True:
            for event in self._take(self.socket.recv(1 << 16)):
                if event.get("in-reply-to") == "call":
                    return event

    def answers(self, data: bytes) -> bool:
        return any(self._number in (event.get("in-reply-to"), event.get("number")) for event in self._take(data))

    def _take(self, data: bytes) -> list[dict[str, Any]]:
        self._reader.feed(data)
        taken = []
        while (event := self._reader.next_event()) is not None:
            assert isinstance(event, BusObject)
            taken.append(event.fields())
        return taken


class ObjectsProbe(FramedProbe):
    name = "objects"

    def __init__(self, address: tuple[str, int], host: str) -> None:
        super().__init__(address, host)
        self.call(event="routing/subscribe", receive_mode="no_echo", types="none")
        self.call(event="services/register", name=SERVICE)

    def ask(self, number: str) -> None:
        self._number = number
        self.socket.sendall(encode({"event": "ping", "id": number}))


class BusinessProbe(FramedProbe):
    name = "business"

    def __init__(self, address: tuple[str, int], host: str) -> None:
        super().__init__(address, host)
        self._own = self.call(event="client/register", receive="all", subscribe=[ECHO])["routing-id"]

    def ask(self, number: str) -> None:
        self._number = number
        self.socket.sendall(encode({"type": ECHO, "number": number, "to": self._own}, b"echo"))


class InbusProbe(Probe):
    name = "inbus"
    patience = LOST

    def __init__(self, address: tuple[str, int], host: str) -> None:
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.bind((host or address[0], 0))
        self.socket.connect(address)
        self.socket.send(inbus.subscribe(f"{SERVICE}/inbus", *self.socket.getsockname()[:2], 2))
        self._numbers = itertools.count()
        self._number = b""
        self.due, self.is_waiting = 0.0, False

    def ask(self, number: str) -> None:
        self._number = number.encode()
        self.socket.send(inbus.publish(f"{SERVICE}/inbus", 1, self._number, 2))

    def answers(self, data: bytes) -> bool:
        return inbus.decode(data).payload == self._number


class SppProbe(Probe):
    """Asks again and again for the service that the first bystander provides, and publishes nothing on."""

    name = "spp"

    def __init__(self, address: tuple[str, int], host: str) -> None:
        super().__init__(address, host)
        self._reader = spp.SppReader("server", 64 << 20)
        self.socket.sendall(spp.subscribe(SERVICE))

    def ask(self, number: str) -> None:
        self.socket.sendall(spp.subscribe(SERVICE))

    def answers(self, data: bytes) -> bool:
        self._reader.feed(data)
        found = False
        while (event := self._reader.next_event()) is not None:
            found = found or isinstance(event, spp.Info)
        return found


PROBES: dict[str, Callable[[tuple[str, int], str], Probe]] = {
    probe.name: probe for probe in (ObjectsProbe, BusinessProbe, InbusProbe, SppProbe)
}


def main(host: str, places: list[str]) -> None:
    selector = selectors.DefaultSelector()
    probes = []
    for place in places:
        name, _, address = place.partition("=")
        probe = PROBES[name](parse_address(address), host)
        selector.register(probe.socket, selectors.EVENT_READ, probe)
        probes.append(probe)
    while True:
        now = time.monotonic()
        for probe in probes:
            if probe.is_waiting and now - probe.asked > probe.patience:
                probe.end(None)
            elif not probe.is_waiting and now >= probe.due:
                probe.begin()
        for key, _ in selector.select(PAUSE / 2):
            key.data.read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
