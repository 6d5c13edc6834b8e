"""What clients of the soak do: they come, do something for a while, and go, politely or not."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from random import Random
from typing import Any

from bussrv import events as ev
from bussrv.client import inbus
from bussrv.client.business import BusinessClient
from bussrv.client.inbus import InbusSubscriber
from bussrv.client.objects import BusError, FramedClient, ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.testing.server import RunningServer
from bussrv.wire import spp
from tests.soak.stations import Station, secret

PACE = 0.05
"""The mean of the seconds between two things that a client does."""

PATIENCE = 60.0
"""Seconds that a client waits for an answer. Far more than it should take: the machine may be busy."""

OBSERVED = 0.2
"""Seconds between two questions of an observer."""

WRONG = {"bus/mine": "reserved-name", "": "bad-service-name", "\n": "bad-service-name"}
"""Names that clients ask for and do not get, and the reasons."""

DENIED = 0.3
"""Seconds that a client waits after it was denied something."""

FLOOD = bytes(65_536)
SINK = "sink"
"""A routing id that clients have that read nothing."""

HANGUP = select.POLLRDHUP | select.POLLHUP | select.POLLERR
_RESET = struct.pack("ii", 1, 0)


class Client(threading.Thread):
    """Lives again and again, until it is told to stop.

    :param number: tells it from others of its kind at its station.
    :ivar failure: what ended it that should not have.
    :ivar lives: how often it came.
    """

    kind = ""

    def __init__(self, station: Station, number: int, seed: int, stopping: threading.Event) -> None:
        super().__init__(name=f"{station.name}.{self.kind}{number}", daemon=True)
        self.station = station
        self.stopping = stopping
        self.random = Random(f"{seed} {self.name}")
        self.failure: Exception | None = None
        self.lives = 0

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                self.lives += 1
                with self.station.visit() as server:
                    self.live(server, f"{self.name}.{self.lives}")
                self.pause()
        except Exception as error:
            self.failure = error

    def live(self, server: RunningServer, name: str) -> None:
        """Come, do something and go.

        :param name: nobody else has it.
        """
        raise NotImplementedError

    def pause(self) -> None:
        """A moment passes."""
        self.stopping.wait(self.random.expovariate(1 / PACE))

    def steps(self, most: int) -> range:
        """So many steps, unless the end is near."""
        return range(0 if self.stopping.is_set() else self.random.randint(1, most))

    def known(self) -> dict[str, str]:
        """Attributes by which it proves who it is."""
        return {"user": self.kind, "secret": secret(self.kind)}

    def leave(self, client: Any) -> None:
        """Sometimes a client is just gone."""
        if self.random.random() < 0.3:
            client._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            client._socket.close()


class _Framed(Client):
    """What members of the object network have in common."""

    def mill(self, client: Any, name: str) -> None:
        """Do what members do, at random."""
        owned: list[str] = []
        for step in self.steps(30):
            if self.stopping.is_set():
                return
            try:
                self._do(client, f"{name}.{step}", owned)
            except BusError as error:
                if error.reason not in (*WRONG.values(), "not-allowed"):
                    raise
            self.pause()

    def _do(self, client: Any, new: str, owned: list[str]) -> None:
        choice = self.random.random()
        if choice < 0.25 or not owned:
            self._register(client, new)
            self.station.tell(ev.ServiceRegistered, new)
            owned.append(new)
        elif choice < 0.4:
            gone = owned.pop(self.random.randrange(len(owned)))
            self._unregister(client, gone)
            self.station.tell(ev.ServiceUnregistered, gone)
        elif choice < 0.8:
            size = self.random.choice([0, 10, 1000, 20_000])
            client.send({"type": "text/plain", "sender": self.random.choice(owned), "id": new}, bytes(size))
        else:
            self._ask(client, owned)

    def _register(self, client: Any, name: str) -> None:
        raise NotImplementedError

    def _unregister(self, client: Any, name: str) -> None:
        raise NotImplementedError

    def _ask(self, client: Any, owned: list[str]) -> None:
        raise NotImplementedError


class Member(_Framed):
    """Object System."""

    kind = "member"

    def live(self, server: RunningServer, name: str) -> None:
        with ObjectsClient(port=server.port("objects"), timeout=PATIENCE, tls=self.station.tls) as client:
            self._join(client, name)
            self.mill(client, name)
            self.leave(client)

    def _join(self, client: ObjectsClient, name: str) -> None:
        wanted: dict[str, Any] = self.random.choice(
            [
                {},
                {"types": ["text/*"]},
                {"receive_mode": "no_echo"},
                {"receive_mode": "events_only"},
                {"subscriptions": ["*"]},
            ]
        )
        reply = client.subscribe(**self.known(), routing_id=name, **wanted)
        self.station.tell(ev.SessionIdentified, reply["routing-id"])

    def _register(self, client: ObjectsClient, name: str) -> None:
        client.register(name)

    def _unregister(self, client: ObjectsClient, name: str) -> None:
        client.unregister(name)

    def _ask(self, client: ObjectsClient, owned: list[str]) -> None:
        choice = self.random.random()
        if choice < 0.3:
            client.request("bus/clock")
        elif choice < 0.6:
            client.discover(self.random.choice(owned))
        elif choice < 0.8:
            assert client.routing_id is not None
            self._join(client, client.routing_id)
        else:
            client.register(self.random.choice(sorted(WRONG)))


class Office(_Framed):
    """Business Object."""

    kind = "office"

    def live(self, server: RunningServer, name: str) -> None:
        with BusinessClient(port=server.port("business"), timeout=PATIENCE, tls=self.station.tls) as client:
            reply = client.register(
                receive=self.random.choice(["all", "no_echo", "events_only"]), unique_routing_id=name, **self.known()
            )
            self.station.tell(ev.SessionIdentified, reply["routing-id"])
            self.mill(client, name)
            self.leave(client)

    def _register(self, client: BusinessClient, name: str) -> None:
        client.register_service(name)

    def _unregister(self, client: BusinessClient, name: str) -> None:
        client.unregister_service(name)

    def _ask(self, client: BusinessClient, owned: list[str]) -> None:
        assert self.random.choice(owned) in client.services()


class Viewer(Client):
    """SPP: subscribes to what it is offered, and tells what it saw come and go."""

    kind = "viewer"

    def live(self, server: RunningServer, name: str) -> None:
        with SppClient(port=server.port("spp"), timeout=PATIENCE, tls=self.station.tls) as client:
            client.authenticate(self.kind, secret(self.kind))
            address = "{}:{}".format(*client._socket.getsockname())
            wanted: set[str] = set()
            for _ in self.steps(200):
                if self.stopping.is_set():
                    return
                try:
                    event = client.next_event(timeout=1.0)
                except TimeoutError:
                    continue
                self._see(client, event, address, wanted)
            self.leave(client)

    def _see(self, client: SppClient, event: spp.Event, address: str, wanted: set[str]) -> None:
        if isinstance(event, spp.Info) and event.service in wanted:
            self.station.tell(ev.SubscriptionAdded, f"{address} {event.service}")
            wanted.discard(event.service)
            if self.random.random() < 0.5:
                client.unsubscribe(event.service)
        elif isinstance(event, spp.Offer):
            self._tell_of(ev.ServiceRegistered, event.service)
            if self.random.random() < 0.3:
                client.subscribe(event.service)
                wanted.add(event.service)
        elif isinstance(event, spp.Removed):
            self._tell_of(ev.ServiceUnregistered, event.service)

    def _tell_of(self, kind: type[ev.Event], service: str) -> None:
        if not service.startswith("bus/"):
            self.station.tell(kind, service)


class Device(Client):
    """Inbus: subscribes, publishes to itself, and unsubscribes or vanishes."""

    kind = "device"

    def live(self, server: RunningServer, name: str) -> None:
        version = self.random.choice([1, 2])
        with InbusSubscriber(name, server.addresses["inbus"], version) as device:
            for step in self.steps(10):
                inbus.publish(name, b"%d" % step, version=version, server=server.addresses["inbus"])
                with contextlib.suppress(TimeoutError):
                    device.receive(timeout=1.0)
                    # Datagrams may be lost, but one that came says that both are known.
                    self.station.tell(ev.SubscriptionAdded, name)
                    self.station.tell(ev.ServiceRegistered, name)
                self.pause()
            if self.random.random() < 0.3:
                device._socket.close()
                device._closed = True


class Flooder(Client):
    """Sends large objects to those who read nothing."""

    kind = "flooder"

    def live(self, server: RunningServer, name: str) -> None:
        with ObjectsClient(port=server.port("objects"), timeout=PATIENCE, tls=self.station.tls) as client:
            client.subscribe(token=secret(self.kind), routing_id=name, receive_mode="none")
            while not self.stopping.wait(PACE):
                client.send({"type": "x/flood", "to": SINK}, FLOOD)


class Stalled(Client):
    """Joins, and reads nothing any more, until the server has had enough.

    :ivar cuts: how often it had.
    """

    kind = "stalled"
    cuts = 0

    def live(self, server: RunningServer, name: str) -> None:
        with ObjectsClient(port=server.port("objects"), timeout=PATIENCE, tls=self.station.tls) as client:
            client._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.subscribe(**self.known(), routing_id=name, routing_ids=[SINK], types=["x/flood"])
            if until_hangup(client._socket, self.stopping):
                self.cuts += 1
            client._socket.close()


class Silent(Client):
    """Begins a TLS handshake and does not end it, or sends something else."""

    kind = "silent"

    def live(self, server: RunningServer, name: str) -> None:
        port = server.port(self.random.choice(["objects", "business", "spp"]))
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
            # The beginning of a record of TLS that is to have 512 bytes; an object; nothing.
            connection.sendall(self.random.choice([b"\x16\x03\x01\x02\x00\x01", b'{"event":"ping"}\0', b""]))
            until_hangup(connection, self.stopping)


class Guest(Client):
    """Provides services, as long as the policy lets it; what it may do changes while it is there."""

    kind = "guest"

    def live(self, server: RunningServer, name: str) -> None:
        with ObjectsClient(port=server.port("objects"), timeout=PATIENCE, tls=self.station.tls) as client:
            client.subscribe(**self.known(), routing_id=name, receive_mode="events_only")
            for step in self.steps(50):
                if self.stopping.is_set():
                    return
                try:
                    client.register(f"{name}.{step}")
                    self.station.tell(ev.ServiceRegistered, f"{name}.{step}")
                except BusError as error:
                    if error.reason != "not-allowed":
                        raise
                    # Denials are told a few times a second only. Whoever asks more often waits in vain.
                    self.stopping.wait(DENIED)
                self.pause()


class Temporary(Client):
    """Somebody who is a user at times."""

    kind = "temporary"

    def live(self, server: RunningServer, name: str) -> None:
        try:
            with ObjectsClient(port=server.port("objects"), timeout=PATIENCE, tls=self.station.tls) as client:
                self._stay(client, name)
        except ConnectionError:
            """The user was removed."""

    def _stay(self, client: ObjectsClient, name: str) -> None:
        try:
            client.subscribe(**self.known(), routing_id=name, receive_mode="none")
        except BusError as error:
            if error.reason != "bad-credentials":
                raise
            return
        self.station.tell(ev.SessionIdentified, name)
        until_hangup(client._socket, self.stopping, most=5.0)


class Guesser(Client):
    """Tries secrets until the server has had enough.

    :ivar cuts: how often it had.
    """

    kind = "guesser"
    cuts = 0

    def live(self, server: RunningServer, name: str) -> None:
        try:
            with SppClient(port=server.port("spp"), timeout=PATIENCE, tls=self.station.tls) as client:
                while not self.stopping.is_set():
                    with contextlib.suppress(PermissionError):
                        client.authenticate("observer", f"{secret('observer')}{self.random.random()}")
                        raise AssertionError("a wrong secret was accepted")
        except ConnectionError:
            self.cuts += 1


class Observer(Client):
    """A well-behaved client that is there all the time, and looks how long it waits.

    :ivar waits: for each answer, in seconds.
    """

    kind = "observer"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.waits: list[float] = []

    def live(self, server: RunningServer, name: str) -> None:
        with ObjectsClient(port=server.port("objects"), timeout=PATIENCE, tls=self.station.tls) as client:
            client.subscribe(**self.known(), routing_id=name, types=["x/echo"])
            number = 0
            while not self.stopping.wait(OBSERVED):
                number += 1
                asked = time.monotonic()
                client.send({"type": "x/echo", "number": number, "to": name}, b"echo")
                while (taken := client.receive()).metadata.get("number") != number:
                    assert taken.metadata.get("type") != "x/echo", "an object was lost, or came twice"
                self.waits.append(time.monotonic() - asked)


KINDS: dict[Callable[..., Client], int] = {
    Member: 3,
    Office: 2,
    Viewer: 2,
    Device: 2,
    Flooder: 1,
    Stalled: 1,
    Silent: 2,
    Guest: 1,
    Temporary: 1,
    Guesser: 1,
    Observer: 1,
}
"""How many there are of each at every server."""


def until_hangup(connection: socket.socket, stopping: threading.Event, most: float = float("inf")) -> bool:
    """Wait without reading until the other end has closed. :returns: whether it has, before it was time to stop.

    :param most: seconds to wait.
    """
    poll = select.poll()
    poll.register(connection, HANGUP)
    deadline = time.monotonic() + most
    while not stopping.is_set() and time.monotonic() < deadline:
        if poll.poll(200):
            return True
    return False


def meet(one: FramedClient, other: FramedClient) -> None:
    """Each of two members sends the other an object, over the link between their servers.

    The first one has to join before the other does: then it is told of it. The other's server knows the first one when
    it forwards something from it.
    """
    one.wait_for(
        lambda each: (
            each.metadata.get("event") == "routing/subscribe/notify"
            and each.metadata.get("routing-id") == other.routing_id
        )
    )
    for sender, receiver in ((one, other), (other, one)):
        sender.send({"event": "met", "to": receiver.routing_id})
        receiver.wait_for(lambda each: each.metadata.get("event") == "met")
