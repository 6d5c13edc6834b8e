"""A server that is killed at a moment that was chosen before, and the clients that keep its registry busy till then."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

from bussrv import events as ev
from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.journal.segment import list_segments
from bussrv.testing.server import RunningServer
from bussrv.wire import inbus, spp

MEMBERS = 4
SEGMENT_BYTES = 8_000
MOST = 120
"""No server outlives so many answers, or questions."""

APP_KEYS = ("news", "gauge", "clock")
GONE = (ConnectionError, TimeoutError, OSError)


class Told(NamedTuple):
    """What a client was told of: a kind of event that has to be in the journal, with this actor or service."""

    kind: type[ev.Event]
    name: str


class Doom:
    """Kills a server when it is time, once.

    :param limit: of what; ``answers``, ``questions`` or the ``bytes`` of the segment that is being written.
    """

    def __init__(self, server: RunningServer, journal: Path, limit: str, number: int) -> None:
        self._server = server
        self._journal = journal
        self._limit = limit
        self._number = number
        self._counts = {"answers": 0, "questions": 0}
        self._counting = threading.Lock()

    def __str__(self) -> str:
        return f"killed at {self._number} {self._limit}"

    def ask(self) -> None:
        """A question is on its way."""
        self._count("questions")

    def answer(self) -> None:
        """An answer came."""
        self._count("answers")

    def _count(self, what: str) -> None:
        with self._counting:
            self._counts[what] += 1
            if self._is_time() and self._server.process.poll() is None:
                self._server.process.kill()

    def _is_time(self) -> bool:
        if self._counts["answers"] >= MOST:
            return True
        if self._limit == "bytes":
            with suppress(FileNotFoundError):
                return list_segments(self._journal)[-1].stat().st_size >= self._number
            return False
        return self._counts[self._limit] >= self._number


def choose_doom(random: Random, server: RunningServer, journal: Path) -> Doom:
    """A moment to die, which comes soon."""
    limit = random.choice(["answers", "questions", "bytes"])
    number = random.randint(2000, SEGMENT_BYTES) if limit == "bytes" else random.randint(1, MOST)
    return Doom(server, journal, limit, number)


class Load:
    """Clients of one server; they stop when it is gone.

    :param name: no other load has it.
    :param device: an Inbus device, which is there for longer than a server.
    :ivar told: what they were told of.
    """

    def __init__(self, server: RunningServer, doom: Doom, name: str, random: Random, device: socket.socket) -> None:
        self.told: list[Told] = []
        self._server = server
        self._doom = doom
        self._name = name
        self._seeds = [random.getrandbits(32) for _ in range(MEMBERS)]
        self._device = device

    def run(self) -> None:
        """Until the server is gone."""
        with ThreadPoolExecutor(MEMBERS + 1) as pool:
            watching = pool.submit(self._watch)
            members = [pool.submit(self._live, number, Random(seed)) for number, seed in enumerate(self._seeds)]
            for each in (watching, *members):
                each.result()

    def _watch(self) -> None:
        """What is offered by the objects of others was registered before, and what is removed, unregistered."""
        with suppress(*GONE), SppClient(port=self._server.port("spp")) as client:
            while True:
                event = client.next_event()
                if isinstance(event, spp.Offer) and event.service.startswith(self._name):
                    self.told.append(Told(ev.ServiceRegistered, event.service))
                elif isinstance(event, spp.Removed) and event.service.startswith(self._name):
                    self.told.append(Told(ev.ServiceUnregistered, event.service))

    def _live(self, number: int, random: Random) -> None:
        life = 0
        with suppress(*GONE):
            while True:
                life += 1
                self._live_once(f"{self._name}.{number}.{life}", random)

    def _live_once(self, name: str, random: Random) -> None:
        """One session of a member, from joining to leaving."""
        services: list[str] = []
        with ObjectsClient(port=self._server.port("objects")) as client:
            self._ask(lambda: client.subscribe(user=name), Told(ev.SessionIdentified, name))
            for step in range(random.randint(1, 30)):
                choice = random.random()
                if choice < 0.55 or not services:
                    services.append(f"{name}.{step}")
                    self._ask(lambda: client.register(services[-1]), Told(ev.ServiceRegistered, services[-1]))
                elif choice < 0.85:
                    service = services.pop(random.randrange(len(services)))
                    self._ask(lambda: client.unregister(service), Told(ev.ServiceUnregistered, service))  # noqa: B023
                elif choice < 0.9:
                    # Nothing of it can be told from the one before but that it is there.
                    self._ask(lambda: client.subscribe(user=name, types=[f"text/{step}"]), None)  # noqa: B023
                else:
                    self._be_a_device(random)

    def _ask(self, question: Callable[[], object], told: Told | None) -> None:
        """The server may be killed while it thinks about an answer, too."""
        self._doom.ask()
        question()
        if told is not None:
            self.told.append(told)
        self._doom.answer()

    def _be_a_device(self, random: Random) -> None:
        words: Sequence[Callable[..., bytes]] = (inbus.subscribe, inbus.unsubscribe)
        datagram = random.choice(words)(random.choice(APP_KEYS), *self._device.getsockname(), 2)
        self._device.sendto(datagram, self._server.addresses["inbus"])
