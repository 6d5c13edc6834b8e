"""Ports of wire formats: start, stop, and what they say about themselves."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, Protocol

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred, succeed
from twisted.internet.endpoints import serverFromString
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort
from twisted.python.failure import Failure
from zope.interface import implementer

from bussrv.addresses import UNIX, peer_text
from bussrv.bus.interfaces import IBus
from bussrv.errors import ConfigError
from bussrv.interfaces import IDrainedListener, IListener
from bussrv.net.draining import MOST_SECONDS_TO_READ, REASON, Drain
from bussrv.net.session.factory import StreamFactory
from bussrv.net.tls.context import Certificates
from bussrv.net.tls.ports import TlsFactory, TlsPort, keep_certificates
from bussrv.net.transport.accepting import watch_accepting
from bussrv.net.transport.endpoint_faults import explain, passed_socket
from bussrv.net.transport.endpoint_parts import take_apart
from bussrv.net.transport.proxied import PREFIX, ProxiedFactory
from bussrv.net.transport.tcp import be_prompt, bound_send_buffer
from bussrv.values import shown

_MAX_DIGITS = 20
"""Python refuses to make numbers of very many digits."""


class PortFactory(Protocol):
    """Makes the protocols of the connections of a stream port.

    :ivar name: the name of the port, for the log and for its certificates.
    :ivar in_turns: whether it is a port. The port sets it.
    """

    name: str
    bus: IBus
    in_turns: bool

    def buildProtocol(self, addr: Any) -> Any:
        """A protocol for a new connection."""

    def if_there_is_room(self, make: Callable[[], Any]) -> Any:
        """The result of ``make`` for a new connection. If there are too many connections, a protocol that closes it."""


class StreamPort(Service):
    """A stream port: plain, with TLS, or after a proxy.

    :param description: a server endpoint description of Twisted.
    :ivar address: the address that it listens on.
    :ivar reactor: has its connections.
    :raises ConfigError: if ``description`` is malformed.
    """

    def __init__(self, factory: PortFactory, description: str, reactor: Any) -> None:
        try:
            self._open(factory, with_backlog(description, factory.bus.settings.listen_backlog), reactor)
        except ConfigError as error:
            raise ConfigError(f"{shown(description)}: {error}") from error
        except Exception as error:
            # Endpoints are plugins of Twisted: they open files and parse numbers, and raise what they like.
            raise ConfigError(f"{shown(description)} is not a stream endpoint: {explain(error)}") from error
        if description.removeprefix(PREFIX).startswith("stdio:"):
            raise ConfigError(f"{shown(description)} is not a stream endpoint that clients can connect to")
        self._port_factory = factory
        self.reactor = reactor
        self._port: IListeningPort | None = None
        self._kind = description.partition(":")[0]
        self.address = self._description = description

    def _open(self, factory: PortFactory, description: str, reactor: Any) -> None:
        """Make the endpoint, and what makes its connections: from the inside out, a session, TLS, and the proxy's.

        :raises Exception: it is no endpoint.
        """
        if "\0" in description:
            raise ValueError("there is a NUL character in it")
        self._outer: Any = factory
        inner = description.removeprefix(PREFIX)
        kind = inner.partition(":")[0]
        if kind == "ssl":
            port = TlsPort(take_apart(inner))
            certificates = Certificates(factory.name, port.files, factory.bus.utc)
            keep_certificates(factory.bus, certificates)
            self._outer = TlsFactory(factory, certificates, reactor)
            self._endpoint: Any = port.endpoint(reactor)
        elif kind == "tls":
            raise ValueError("the endpoint of a port with TLS begins with ssl:")
        elif kind == "systemd":
            self._endpoint = passed_socket(inner, reactor)
        else:
            self._endpoint = serverFromString(reactor, inner)
        if description.startswith(PREFIX):
            self._outer = ProxiedFactory(self._outer, reactor)

    def startService(self) -> None:
        """Listen.

        :raises CannotListenError: if the port is busy.
        :raises ConfigError: if there is no such port.
        """
        super().startService()
        self._port_factory.in_turns = True
        failures: list[Failure] = []
        listening = maybeDeferred(self._endpoint.listen, self._outer)
        listening.addCallback(self._listening).addErrback(failures.append)
        if failures:
            self.stopService()
            error = failures[0].value
            if isinstance(error, CannotListenError):
                raise error
            raise ConfigError(f"{shown(self._description)}: cannot listen: {explain(error)}") from error

    def _listening(self, port: IListeningPort) -> None:
        self._port = port
        bus = self._port_factory.bus
        be_prompt(port, self._outer, bus.poll_begins, bus.poll_ends)
        watch_accepting(port, self._description, self.reactor)
        bound_send_buffer(port, self._port_factory.bus.settings.send_buffer)
        address = peer_text(port.getHost()).removeprefix(f"{UNIX}:")
        self.address = f"{self._kind} {address}"

    def stop_listening(self) -> Deferred[Any]:
        """Close the port. Its connections stay. :returns: fires when it is closed."""
        port, self._port = self._port, None
        return succeed(None) if port is None else maybeDeferred(port.stopListening)


@implementer(IDrainedListener)
class StreamListener(StreamPort):
    """A stream port of a wire format, and its connections.

    :param description: a server endpoint description of Twisted.
    :raises ConfigError: if ``description`` is malformed.
    """

    def __init__(self, factory: StreamFactory, description: str, reactor: Any) -> None:
        super().__init__(factory, description, reactor)
        self._factory = factory

    def drain(self, seconds: float) -> Deferred[None]:
        """Close the port, and the connections of clients one after the other; see :class:`IDrainedListener`.

        Links stay as they are: what clients say until their end is for clients of other servers, too.
        """
        self.stop_listening()
        clients = [each for each in self._factory.protocols if not each.is_link]
        return Drain(clients, seconds, self._factory.bus.slices, self.reactor).done

    def stopService(self) -> Deferred[Any]:
        """Close the port and every connection, and wait until they are gone."""
        super().stopService()
        closing = [self.stop_listening()]
        closing += [protocol.end(REASON, MOST_SECONDS_TO_READ) for protocol in tuple(self._factory.protocols)]
        return DeferredList(closing)


_WITH_BACKLOG = re.compile(r"(haproxy:)?(tcp|tcp6|ssl|unix):")
"""The kinds of endpoints that take ``backlog=``."""


def with_backlog(description: str, backlog: int) -> str:
    """A server endpoint description that says how many connections may wait to be accepted.

    :param backlog: unless it says so already.
    """
    if _WITH_BACKLOG.match(description) is None or ":backlog=" in description:
        return description
    return f"{description}:backlog={backlog}"


class _DatagramServer(Protocol):
    def listening(self) -> None:
        """Its port is read from."""

    def stop(self) -> Deferred[Any]:
        """Close its sessions. :returns: fires when they are closed."""


@implementer(IListener)
class DatagramListener(Service):
    """A UDP port, described as ``udp:PORT`` or ``udp:PORT:interface=ADDRESS``.

    :param protocol: a Twisted datagram protocol that also has ``listening()`` and ``stop()``.
    :ivar address: the address that it listens on.
    :raises ConfigError: if the description is of another form.
    """

    def __init__(self, protocol: Any, description: str, reactor: Any) -> None:
        self._port_number, self._interface = parse_udp(description)
        self._protocol = protocol
        self._reactor = reactor
        self._port: IListeningPort | None = None
        self.address = description

    def startService(self) -> None:
        """Listen.

        :raises CannotListenError: if the port is busy.
        """
        super().startService()
        port: IListeningPort = self._reactor.listenUDP(
            self._port_number, self._protocol, interface=self._interface, maxPacketSize=1 << 16
        )
        self._port = port
        self.address = f"udp {peer_text(port.getHost())}"
        server: _DatagramServer = self._protocol
        server.listening()

    def stopService(self) -> Deferred[Any]:
        """Close the port and the sessions that do not outlive it."""
        super().stopService()
        server: _DatagramServer = self._protocol
        stopped = server.stop()
        port, self._port = self._port, None
        return DeferredList([stopped] if port is None else [stopped, maybeDeferred(port.stopListening)])


def parse_udp(description: str) -> tuple[int, str]:
    """The port and interface of a UDP endpoint description; Twisted has no UDP server endpoints.

    :raises ConfigError: if it is of another form.
    """
    kind, _, rest = description.partition(":")
    port, _, option = rest.partition(":")
    interface = option.removeprefix("interface=").replace("\\:", ":")
    well_formed = kind == "udp" and port.isdecimal() and len(port) < _MAX_DIGITS and int(port) < 1 << 16
    if not well_formed or (option and not option.startswith("interface=")):
        raise ConfigError(f"{shown(description)} is not of the form udp:PORT or udp:PORT:interface=ADDRESS")
    if interface:
        _check_address(description, interface)
    return int(port), interface


def _check_address(description: str, interface: str) -> None:
    try:
        ip_address(interface)
    except ValueError as error:
        raise ConfigError(f"{shown(description)}: the interface is not an IP address") from error
