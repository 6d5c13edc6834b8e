"""A whole server in memory, for tests: no sockets, no threads, no files, and a clock that the test moves.

::

    def test_what_a_client_publishes_reaches_a_watcher() -> None:
        with MemoryServer() as server:
            events = server.client("spp").subscribe("tv")
            server.client().publish("tv", b"on")
            assert [event.payload for event in events.take()] == [b"", b"on"]

Everything that happens between two calls of a test happens in the same moment. Time passes with
:meth:`MemoryServer.advance` alone. The journal is in :attr:`MemoryServer.journal`: a test may hold writes back, slow
them down, or let them fail.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

from bussrv.bus.bus import Bus
from bussrv.client.address import Address
from bussrv.client.core.base import Core, Tell
from bussrv.client.core.inbus import InbusCore
from bussrv.client.core.making import make_core
from bussrv.client.settings import Login, Settings
from bussrv.embedding.client import Client, Link
from bussrv.embedding.configuration import OWN_FORMATS, OWN_SERVICES, configured
from bussrv.embedding.pipe import ROOM, Pipe
from bussrv.embedding.service import EmbeddedServer
from bussrv.events import Event
from bussrv.interfaces import IHostedService, IListener, IWireFormat
from bussrv.registry.state.state import RegistryState
from bussrv.server.running.service import BusService
from bussrv.testing.clients import MemoryClient
from bussrv.testing.journal import MemoryPlace, SteeredJournal
from bussrv.testing.mqtt import MqttClient
from bussrv.testing.reactor import DatagramPort, MemoryReactor, StreamPort

HOST = "10.0.0.1"
"""The host of clients: not one of the loopback interface, which has no limits for one address."""

SERVER_HOST = "127.0.0.1"

SERVER_ID = "hall"
"""The server's routing id, unless its settings have another one."""

CLIENT_FORMATS = ("objects", "business", "spp", "inbus", "websocket")
"""The wire formats of which there are clients."""

Answer = TypeVar("Answer")


def make_service(
    settings: Mapping[str, Any],
    reactor: MemoryReactor,
    *,
    formats: Iterable[IWireFormat] = (),
    services: Iterable[IHostedService] = (),
) -> EmbeddedServer:
    """Take the place of :func:`bussrv.embedding.service.make_service` in a test of a program with a server inside.

    The ports are those of ``reactor``. Journal and spool are in memory, wherever the settings have them.
    """
    return EmbeddedServer(
        {**settings, "journal": "off"},
        reactor,
        [*OWN_FORMATS, *formats],
        [*OWN_SERVICES, *services],
        clock=reactor,
        place=MemoryPlace(reactor),
    )


class MemoryServer:
    """A server in memory. It starts when it is made, with every wire format on.

    :param settings: values of options by name, each as a configuration file has them. A wire
        format is moved or switched off with its option.
    :param formats: further wire formats, such as the one that the test is for: instances of
        :class:`bussrv.plugin.WireFormat`. They need not be installed.
    :param services: further services of the server itself.
    :param beside: another server in memory. Time passes for both, and each can link with the other: its option ``link``
        has the ``server-id`` of the other one as the host, as in ``tcp:hall:7890``.
    :ivar clock: the reactor of the server.
    :raises ConfigError: has a sentence for each setting that is wrong.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        formats: Iterable[IWireFormat] = (),
        services: Iterable[IHostedService] = (),
        beside: MemoryServer | None = None,
    ) -> None:
        own_id = str((settings or {}).get("server-id", SERVER_ID))
        self.clock: MemoryReactor = MemoryReactor(own_id, None if beside is None else beside.clock)
        self._formats = [*OWN_FORMATS, *formats]
        self._services = [*OWN_SERVICES, *services]
        self.settings: dict[str, Any] = {each.name: _in_memory(each) for each in self._formats}
        self.settings |= {"server-id": SERVER_ID, **(settings or {})}
        self._place = MemoryPlace(self.clock)
        self._boots = itertools.count(1)
        self._prefix = "" if beside is None else f"{own_id}-"  # Of ids, which differ from those of the other server.
        self._connections: list[Connection] = []
        self._ports = itertools.count(40_000)
        self._start()

    def _start(self) -> None:
        boot, made = next(self._boots), itertools.count(1)
        self._place.find()
        self._service = BusService(
            configured(self.settings, self._formats, self._services),
            self._formats,
            self.clock,
            clock=self.clock,
            services=self._services,
            place=self._place,
            boot=f"{self._prefix}boot-{boot}",
            fresh_id=lambda: f"{self._prefix}id-{boot}-{next(made)}",
        )
        self._service.startService()
        self.settle()

    # Time.

    def advance(self, seconds: float) -> None:
        """Let time pass. What is due meanwhile happens in its order."""
        self.clock.advance(seconds)

    def settle(self) -> None:
        """Let everything happen that is due now."""
        self.clock.advance()

    def result(self, waited_for: Deferred[Answer], within: float = 0.0) -> Answer:
        """The result of a Deferred.

        :param within: the most seconds that may pass until it is there.
        :raises TimeoutError: it is not there then.
        """
        outcome: list[Any] = []
        waited_for.addBoth(outcome.append)
        self.settle()
        end = self.clock.seconds() + within
        while not outcome and (due := self.clock.next_due()) is not None and due <= end:
            self.clock.advance(max(0.0, due - self.clock.seconds()))
        if not outcome:
            raise TimeoutError(f"there is no result within {within:g} s")
        if isinstance(outcome[0], Failure):
            outcome[0].raiseException()
        answer: Answer = outcome[0]
        return answer

    # What the server knows.

    @property
    def bus(self) -> Bus:
        """The bus of the server that runs now."""
        return self._service.bus

    @property
    def state(self) -> RegistryState:
        """The registry: every session, service and subscription."""
        return self.bus.registry.state

    @property
    def listeners(self) -> Mapping[str, IListener]:
        """The ports of the wire formats that are on, by name."""
        return self._service.listeners

    @property
    def counters(self) -> Mapping[str, int]:
        """The counters, such as those of limits that were hit."""
        return self.bus.counters

    @property
    def journal(self) -> SteeredJournal:
        """The journal, of all boots. A test holds it back, slows it down, or lets it fail."""
        return self._place.journal

    def events(self, *kinds: type[Event]) -> list[Event]:
        """The events of these kinds that are in the journal; without kinds: all."""
        return self.journal.events(*kinds)

    def write_journal(self, directory: Path) -> None:
        """Write the journal, of all boots, into a directory, as a server would have written it: with chains and seals.

        ``bussrv verify``, ``bussrv audit`` and what else reads journals can be tried with it.

        :raises OSError: it cannot be written.
        :raises JournalError: there is a journal already.
        """
        self.journal.write_to(directory)

    # Its life.

    def stop(self, *, drain: bool = False) -> None:
        """Stop it in an orderly way, as a signal does.

        :param drain: end sessions one after the other first.
        """
        if drain:
            self._service.asked_to_stop(drain=True)
        stopped = self._service.stopService()
        self.settle()
        while not stopped.called:
            for each in self._connections:
                each.drain()
            self.result(stopped, 60.0)

    def crash(self) -> None:
        """Kill it. What was not durable is lost, and so are all connections and everything on the clock."""
        self.clock.forget()
        for each in self._connections:
            each.pipe.break_off()
        self._connections.clear()

    def restart(self) -> None:
        """Start it again, after :meth:`stop` or :meth:`crash`, with its journal and its spool."""
        self._start()

    def __enter__(self) -> MemoryServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._service.running:
            self.journal.fail(None)
            self.journal.delay = 0.0
            self.journal.release()
            self.stop()

    # Clients.

    def connect(self, wire_format: str = "objects", host: str = HOST, *, room: int = ROOM) -> Connection:
        """Connect to the port of a wire format over TCP, or to that of ``admin``.

        :param host: the host of the client.
        :param room: how many bytes may wait for the client before the server notices.
        """
        port = self._port_of(wire_format)
        if not isinstance(port, StreamPort):
            raise ValueError(f"{wire_format} has a port for datagrams: say device()")
        connection = Connection(self, self.clock.connect(port.key[1], host, next(self._ports), room=room))
        self._connections.append(connection)
        return connection

    def client(
        self,
        wire_format: str = "objects",
        host: str = HOST,
        *,
        user: str | None = None,
        secret: str | None = None,
        token: str | None = None,
        name: str | None = None,
    ) -> MemoryClient:
        """A client of a wire format that :mod:`bussrv.client` knows: ``objects``, ``business``, ``spp``, ``inbus`` or
        ``websocket``. For MQTT, see :meth:`mqtt`.

        :param host: its host.
        :param name: the name of the program.
        :raises BusError: the server does not accept it.
        """
        settings = Settings(Login(user, secret, token, name))
        client = self._make_client(wire_format, host, settings)
        return MemoryClient(self, self.result(client.when_up(), settings.timeout))

    def _make_client(self, wire_format: Any, host: str, settings: Settings) -> Client:
        if wire_format not in CLIENT_FORMATS:
            raise ValueError(f"there are clients of {', '.join(CLIENT_FORMATS)}; for {wire_format}, say connect()")
        address = Address(wire_format, SERVER_HOST, 1)
        cores: list[Core] = []

        def make(tell: Tell) -> Core:
            cores.append(make_core(address, settings, tell))
            return cores[0]

        client = Client(make, self.clock, lambda: self._make_client(wire_format, host, settings))
        link: Link
        if isinstance(cores[0], InbusCore):
            device = self.device(wire_format, host)
            cores[0].own = device.address
            link = DatagramLink(device)
        else:
            link = self.connect(wire_format, host).pipe
        client.begin(link, wire_format).addErrback(lambda _: None)
        return client

    def mqtt(self, client_id: str = "ann", host: str = HOST, **asked: Any) -> MqttClient:
        """A client of MQTT; see :class:`bussrv.testing.mqtt.MqttClient` for ``asked``."""
        return MqttClient(self.connect("mqtt", host), client_id, **asked)

    def device(self, wire_format: str = "inbus", host: str = HOST, port: int | None = None) -> Device:
        """A client that sends datagrams to a wire format, and gets what is sent to its address.

        :param port: its port; ``None``: any.
        """
        self.datagram_port(wire_format)
        return Device(self, wire_format, (host, next(self._ports) if port is None else port))

    def datagram_port(self, wire_format: str = "inbus") -> DatagramPort:
        """The port of a wire format of datagrams. A test can let it fail.

        :raises ValueError: there is none.
        """
        port = self._port_of(wire_format)
        if not isinstance(port, DatagramPort):
            raise ValueError(f"{wire_format} has a port for connections: say connect()")
        return port

    def _port_of(self, wire_format: str) -> StreamPort | DatagramPort:
        listener = self._service.ports.get(wire_format)
        if listener is None:
            there_are = ", ".join(sorted(self._service.ports))
            if wire_format in self.settings:
                raise ValueError(f"{wire_format} is off; there are {there_are}")
            raise ValueError(
                f"the server has no wire format {wire_format!r}, only {there_are}: give it the plugin, as in "
                "MemoryServer(formats=[plugin]) or make_bus_server(formats=[plugin])"
            )
        _, _, address = listener.address.partition(" ")
        for port in self.clock.ports.values():
            if port.text == address:
                return port
        raise ValueError(f"{wire_format} does not listen on a port of the clock")


class Connection:
    """The client's end of a connection, byte by byte.

    What the server sends waits until the test takes it. So a client that takes nothing is a slow client.

    :ivar pipe: the connection.
    """

    def __init__(self, server: MemoryServer, pipe: Pipe) -> None:
        self._server = server
        self.pipe = pipe
        server.settle()

    def send(self, data: bytes) -> None:
        """Send bytes. They arrive at once, as one chunk, if the server reads."""
        self.pipe.send(data)

    def send_each(self, data: bytes, size: int = 1) -> None:
        """Send bytes in chunks of ``size``, a turn of the reactor after each."""
        for begin in range(0, len(data), size):
            self.pipe.send(data[begin : begin + size])
            self._server.settle()

    def take(self, most: int | None = None) -> bytes:
        """What the server has sent since the last time, until nothing more comes; or the first ``most`` bytes."""
        self._server.settle()
        if most is not None:
            return self.pipe.take(most)
        taken = b""
        while self.pipe.has_sent:
            taken += self.pipe.take()
            self._server.settle()
        return taken

    def drain(self) -> None:
        """Forget what was sent."""
        self.take()

    @property
    def is_open(self) -> bool:
        """Whether the connection stands, after everything that is due now."""
        self._server.settle()
        return self.pipe.is_open

    @property
    def is_read(self) -> bool:
        """Whether the server reads. What is sent otherwise waits."""
        return self.pipe.is_read

    def end_input(self) -> None:
        """Send no more, and read on: a half-close."""
        self.pipe.end_input()
        self._server.settle()

    def close(self) -> None:
        """Close the connection."""
        self.pipe.leave()
        self._server.settle()

    def abort(self) -> None:
        """Let the connection break."""
        self.pipe.abort()
        self._server.settle()


class Device:
    """A client that sends and receives datagrams; also after a restart of the server.

    :ivar address: its host and port.
    :ivar received: is called when a datagram came.
    """

    def __init__(self, server: MemoryServer, wire_format: str, address: tuple[str, int]) -> None:
        self.address = address
        self._server = server
        self._format = wire_format
        self._received: deque[bytes] = deque()
        self.received: Callable[[], object] = lambda: None
        server.clock.receivers[address] = self._receive

    def _receive(self, datagram: bytes) -> None:
        self._received.append(datagram)
        self.received()

    def send(self, datagram: bytes) -> None:
        """Send a datagram."""
        self._server.datagram_port(self._format).protocol.datagramReceived(datagram, self.address)

    def take(self) -> list[bytes]:
        """The datagrams that came since the last time."""
        self._server.settle()
        taken = list(self._received)
        self._received.clear()
        return taken

    def take_next(self) -> bytes | None:
        """The next datagram; ``None``: there is none."""
        return self._received.popleft() if self._received else None

    def close(self) -> None:
        """Be there no more: what is sent to it is lost."""
        self._server.clock.receivers.pop(self.address, None)


class DatagramLink:
    """The way of a client of :mod:`bussrv.client` to a server that it sends datagrams to."""

    backlog = 0
    is_open = True

    def __init__(self, device: Device) -> None:
        self.wake: Callable[[], object] = lambda: None
        self._device = device
        device.received = lambda: self.wake()

    def send_all(self, output: list[bytes]) -> None:
        """Send datagrams."""
        for each in output:
            self._device.send(each)

    def take_next(self) -> bytes | None:
        """The next datagram."""
        return self._device.take_next()

    def close(self) -> Deferred[None]:
        """Be there no more."""
        self._device.close()
        return succeed(None)


def _in_memory(wire_format: IWireFormat) -> str:
    """The endpoint of a wire format that is on: on any port of its kind."""
    kind = wire_format.default_endpoint.partition(":")[0]
    return f"{'udp' if kind == 'udp' else 'tcp'}:0:interface={SERVER_HOST}"
