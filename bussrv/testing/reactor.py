"""A reactor for tests: its clock is moved by the test, and its ports are in memory.

It has what a server asks of a reactor: calls later, TCP, UDP and UNIX ports, and threads, whose work is done in the
next turn.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from twisted.internet import error
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IConnector, IListeningPort
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from bussrv.addresses import UNIX, peer_text
from bussrv.embedding.pipe import ROOM, Pipe

FIRST_FREE = 49_152
"""The first port that is given to who asks for any."""

LOOPBACK = "127.0.0.1"

MOST_TURNS = 10_000
"""After so many turns without a pause, what happens is taken for endless."""

Opened = TypeVar("Opened", bound="StreamPort | DatagramPort")
Address = IPv4Address | IPv6Address | UNIXAddress


class MemoryReactor(Clock):
    """A reactor that the test drives; all that it asks of one is :meth:`advance`.

    :param beside: another one: time passes for both, and each can connect to the ports of the other.
    :ivar ports: those that are open, by kind (``TCP``, ``UDP`` or ``UNIX``) and number or path.
    :ivar name: by which reactors beside it connect to its ports.
    :ivar receivers: are given the datagrams that are sent to an address, by its host and port.
    :ivar started: the time of day at its second 0, in UTC microseconds. A test that sets the clock of the machine
        changes this.
    """

    def __init__(self, name: str = "", beside: MemoryReactor | None = None) -> None:
        super().__init__()
        self.name = name
        self._all = [self]
        self._cables: list[Cable] = []
        if beside is not None:
            self._all = beside._all
            self._all.append(self)
            self.rightNow = beside.rightNow
        self.ports: dict[tuple[str, int | str], StreamPort | DatagramPort] = {}
        self.started = 1_700_000_000_000_000
        self.receivers: dict[tuple[str, int], Callable[[bytes], object]] = {}
        self._next_port = FIRST_FREE

    # Time.

    def advance(self, amount: float = 0.0) -> None:
        """Let time pass, and do what is due, in the order of its times; at least what is due now.

        :raises RuntimeError: something happens again and again without a pause.
        """
        end, turns = self.rightNow + amount, 0
        while (due := self.next_due()) is not None and due <= end:
            turns = 0 if due > self.rightNow else turns + 1
            if turns > MOST_TURNS:
                calls = [call for each in self._all for call in each.calls]
                raise RuntimeError(f"{MOST_TURNS} turns without a pause, the next would call {calls[0]}")
            self._set(max(self.rightNow, due))
            for each in tuple(self._all):
                each.turn()
        self._set(end)

    def _set(self, now: float) -> None:
        for each in self._all:
            each.rightNow = now

    def turn(self) -> None:
        """One turn of the reactor: do what is due when it begins."""
        for call in [each for each in self.calls if each.getTime() <= self.rightNow]:
            if call.active():
                self.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)

    def next_due(self) -> float | None:
        """When the next call is due, here or at a reactor beside it, in seconds; ``None``: there is none."""
        return min((call.getTime() for each in self._all for call in each.calls), default=None)

    def forget(self) -> None:
        """Forget all calls, ports and connections, as if the process had been killed."""
        self.calls = []  # Another list: clients may still cancel calls of the old one.
        self.ports.clear()
        for each in tuple(self._cables):
            each.lose(self)

    def utc(self) -> int:
        """The time of day, UTC microseconds."""
        return self.started + self.mono()

    def mono(self) -> int:
        """The monotonic time, microseconds."""
        return round(self.rightNow * 1_000_000)

    # It always runs, and has no threads.

    def callWhenRunning(self, call: Callable[..., object], *arguments: Any, **named: Any) -> None:  # noqa: N802
        """Call now."""
        call(*arguments, **named)

    def callFromThread(self, call: Callable[..., object], *arguments: Any, **named: Any) -> None:  # noqa: N802
        """Call in the next turn."""
        self.callLater(0, call, *arguments, **named)

    def compute(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        """Call a function in the next turn, instead of in a thread. :returns: its result."""
        done: Deferred[Any] = Deferred()
        self.callLater(0, lambda: maybeDeferred(function, *arguments).chainDeferred(done))
        return done

    def addSystemEventTrigger(self, *_: Any, **__: Any) -> object:  # noqa: N802
        """The reactor is never stopped, so nobody is told of that."""
        return object()

    def removeSystemEventTrigger(self, trigger: object) -> None:  # noqa: N802
        """Nobody would have been told."""

    # Ports.

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> StreamPort:  # noqa: N802
        """Open a TCP port; 0: any."""
        return self._open(StreamPort(self, self._address("TCP", port, interface), factory))

    def listenUNIX(self, address: Any, factory: Any, *_: Any, **__: Any) -> StreamPort:  # noqa: N802
        """Open the port of a UNIX socket. There is no such file."""
        return self._open(StreamPort(self, UNIXAddress(os.fsencode(address)), factory))

    def listenUDP(  # noqa: N802
        self,
        port: int,
        protocol: Any,
        interface: str = "",
        maxPacketSize: int = 8192,  # noqa: N803
    ) -> DatagramPort:
        """Open a UDP port; 0: any."""
        return self._open(DatagramPort(self, self._address("UDP", port, interface), protocol))

    def connect(self, port: int | str, host: str = "127.0.0.1", number: int = 40_000, *, room: int = ROOM) -> Pipe:
        """Connect to a port for connections.

        :param port: its number, or the path of a UNIX socket.
        :param host: the host of the client, and ``number`` its port.
        :param room: how many bytes may wait for the client before the other side notices.
        :raises KeyError: it is not open.
        """
        found = self.ports["TCP" if isinstance(port, int) else "UNIX", port]
        if not isinstance(found, StreamPort):
            raise TypeError("a port for datagrams has no connections")
        peer = IPv4Address("TCP", host, number)
        pipe = Pipe(self, peer, found.getHost(), room=room)
        pipe.connect(found.factory.buildProtocol(peer))
        return pipe

    def connectTCP(  # noqa: N802
        self,
        host: str,
        port: int,
        factory: Any,
        timeout: float = 30,
        bindAddress: tuple[str, int] | None = None,  # noqa: N803
    ) -> Cable:
        """Connect to a port of this reactor, or of one beside it.

        :param host: the name of the reactor; any other one is this reactor.
        """
        there = next((each for each in self._all if each.name == host), self)
        cable = Cable(self, there, port, factory)
        self.callLater(0, cable.connect)
        return cable

    def _address(self, kind: Any, port: int, interface: str) -> Address:
        made = IPv6Address if ":" in interface else IPv4Address
        if port == 0:
            while (kind, self._next_port) in self.ports:
                self._next_port += 1
            port = self._next_port
            self._next_port += 1
        return made(kind, interface or "0.0.0.0", port)

    def _open(self, port: Opened) -> Opened:
        if port.key in self.ports:
            why = OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
            raise CannotListenError(port.interface, port.key[1], why)
        self.ports[port.key] = port
        port.startListening()
        return port


@implementer(IConnector)
class Cable:
    """A connection between two servers, or from a server to a port of its own.

    :param factory: makes the protocol of the end that connects.
    """

    def __init__(self, here: MemoryReactor, there: MemoryReactor, port: int, factory: Any) -> None:
        self._here, self._there, self._port, self._factory = here, there, port, factory
        self._ends: list[tuple[MemoryReactor, Pipe]] = []
        self._is_stopped = False

    def connect(self) -> None:
        """Connect, or fail if nobody listens there."""
        found = self._there.ports.get(("TCP", self._port))
        if self._is_stopped:
            return
        self._factory.startedConnecting(self)
        if not isinstance(found, StreamPort):
            self._factory.clientConnectionFailed(self, Failure(error.ConnectionRefusedError()))
            return
        near, far = IPv4Address("TCP", LOOPBACK, FIRST_FREE - 1), IPv4Address("TCP", LOOPBACK, self._port)
        ends = [Pipe(self._here, far, near), Pipe(self._there, near, far)]
        self._ends = list(zip((self._here, self._there), ends, strict=True))
        for (reactor, pipe), other in zip(self._ends, reversed(ends), strict=True):
            reactor._cables.append(self)
            pipe.wake = partial(self._wake, pipe, other)
        ends[1].connect(found.factory.buildProtocol(near))
        ends[0].connect(self._factory.buildProtocol(far))

    def _wake(self, pipe: Pipe, other: Pipe) -> None:
        # In a later turn, as with sockets.
        self._here.callLater(0, self._carry, pipe, other)

    def _carry(self, pipe: Pipe, other: Pipe) -> None:
        data = pipe.take()
        if data:
            other.send(data)
        if not pipe.is_open:
            other.leave()
            self._forget()

    def _forget(self) -> None:
        ends, self._ends = self._ends, []
        for reactor, _ in ends:
            reactor._cables.remove(self)

    def lose(self, killed: MemoryReactor) -> None:
        """One end was killed: the other one loses the connection."""
        ends = self._ends
        self._forget()
        for reactor, pipe in ends:
            pipe.wake = _nothing
            if reactor is killed:
                pipe.break_off()
            else:
                reactor.callLater(0, pipe.abort)

    def disconnect(self) -> None:
        """Do not connect, or no longer."""
        self._is_stopped = True
        for _, pipe in self._ends[:1]:
            pipe.loseConnection()

    stopConnecting = disconnect  # noqa: N815

    def getDestination(self) -> IPv4Address:  # noqa: N802
        """Where it leads."""
        return IPv4Address("TCP", LOOPBACK, self._port)


def _nothing() -> None:
    """Nobody is told."""


class _Port:
    def __init__(self, reactor: MemoryReactor, address: Address) -> None:
        self._reactor = reactor
        self._address = address
        self.interface = getattr(address, "host", None)

    @property
    def key(self) -> tuple[str, int | str]:
        """The kind and the number or path."""
        if isinstance(self._address, UNIXAddress):
            return "UNIX", os.fsdecode(self._address.name or b"")
        return self._address.type, self._address.port

    @property
    def text(self) -> str:
        """The address as a server tells it."""
        return peer_text(self._address).removeprefix(f"{UNIX}:")

    def getHost(self) -> Any:
        """The address that it listens on."""
        return self._address

    def _close(self) -> bool:
        """:returns: whether it was open."""
        return self._reactor.ports.pop(self.key, None) is not None


@implementer(IListeningPort)
class StreamPort(_Port):
    """A port that clients connect to.

    :param factory: makes the protocols of its connections.
    """

    def __init__(self, reactor: MemoryReactor, address: Address, factory: Any) -> None:
        super().__init__(reactor, address)
        self.factory = factory

    def startListening(self) -> None:  # noqa: N802
        """Open it."""
        self.factory.doStart()

    def stopListening(self) -> Deferred[None]:  # noqa: N802
        """Close it. Its connections stay."""
        if self._close():
            self.factory.doStop()
        return succeed(None)


@implementer(IListeningPort)
class DatagramPort(_Port):
    """A port that datagrams come to. It is the transport of its protocol.

    :ivar failing: what the system says of everything that is sent; ``None``: it takes it.
    """

    def __init__(self, reactor: MemoryReactor, address: Address, protocol: Any) -> None:
        super().__init__(reactor, address)
        self.protocol = protocol
        self.failing: OSError | None = None

    def startListening(self) -> None:  # noqa: N802
        """Open it."""
        self.protocol.makeConnection(self)

    def stopListening(self) -> Deferred[None]:  # noqa: N802
        """Close it."""
        if self._close():
            self.protocol.doStop()
        return succeed(None)

    def write(self, datagram: bytes, address: tuple[str, int]) -> None:
        """Send a datagram. Without a receiver there it is lost."""
        if self.failing is not None:
            raise self.failing
        receive = self._reactor.receivers.get(address[:2])
        if receive is not None:
            receive(datagram)
