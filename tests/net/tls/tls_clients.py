"""Clients that speak TLS with a server in memory."""

import contextlib
import ssl
from pathlib import Path
from typing import Any

from twisted.internet.address import IPv4Address

from bussrv.net.tls.context import Certificates
from bussrv.net.tls.ports import TlsFactory, TlsPort
from bussrv.net.transport.endpoint_parts import take_apart
from tests.certificates import Authority, Pair
from tests.formats.network import Network, Transport


class Place:
    """A directory with an authority, a server's certificate and a client's."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority(directory / "ca")
        self.server = self.authority.pair(directory / "server")
        self.client = self.authority.pair(directory / "client", "ann")

    @property
    def port(self) -> str:
        """The endpoint of a port that asks nobody for a certificate."""
        return f"ssl:0:interface=127.0.0.1:privateKey={self.server.key}:certKey={self.server.certificate}"

    def context(self, pair: Pair | None = None) -> ssl.SSLContext:
        """A client's, which has the certificate of ``pair``."""
        context = ssl.create_default_context(cafile=self.authority.file)
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        return context


class Port:
    """A port that speaks TLS."""

    def __init__(self, network: Network, description: str, name: str = "objects") -> None:
        self.network = network
        port = TlsPort(take_apart(f"{description}:backlog=5"))
        self.certificates = Certificates(name, port.files, network.bus.utc)
        self.factory = TlsFactory(network.factory(name), self.certificates, network.reactor)

    def connect(self, host: str = "10.0.0.1") -> "Plain":
        return Plain(self, host)


class Plain:
    """The client's end of a TCP connection."""

    def __init__(self, port: Port, host: str) -> None:
        self._reactor = port.network.reactor
        address = IPv4Address("TCP", host, 4711)
        self.protocol: Any = port.factory.buildProtocol(address)
        self.transport = Transport(peerAddress=address)
        self.transport.protocol = self.protocol
        self.protocol.makeConnection(self.transport)

    @property
    def is_open(self) -> bool:
        return bool(self.transport.connected)

    def send(self, data: bytes) -> None:
        if self.is_open:
            self.protocol.dataReceived(data)

    def take(self) -> bytes:
        """What was sent since the last time."""
        self._reactor.advance(0)
        data: bytes = self.transport.value()
        self.transport.clear()
        return data


class Secure:
    """The client's end of a TLS connection.

    :ivar refused: why the client gave up.
    :ivar has_ended: whether the server said that it sends no more.
    """

    def __init__(self, plain: Plain, context: ssl.SSLContext) -> None:
        self.plain = plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self.refused: ssl.SSLError | None = None
        self.has_ended = self._is_ready = False
        self._got: list[bytes] = []
        self.turn()

    def turn(self) -> None:
        """Say and hear what there is until nothing comes any more."""
        while True:
            self._look()
            said = self._outgoing.read()
            if said:
                self.plain.send(said)
            heard = self.plain.take()
            if not said and not heard:
                return
            self._incoming.write(heard)

    def _look(self) -> None:
        try:
            if not self._is_ready:
                self.tls.do_handshake()
                self._is_ready = True
            while piece := self.tls.read(1 << 16):
                self._got.append(piece)
            self.has_ended = True
        except ssl.SSLWantReadError:
            return
        except ssl.SSLZeroReturnError:
            self.has_ended = True
        except ssl.SSLError as error:
            self.refused = error

    def encrypted(self, data: bytes, size: int = 0) -> bytes:
        """The bytes that carry ``data``, in records of ``size`` bytes."""
        for begin in range(0, len(data), size or len(data)):
            self.tls.write(data[begin : begin + (size or len(data))])
        return self._outgoing.read()

    def send(self, data: bytes) -> None:
        self.tls.write(data)
        self.turn()

    def finish(self) -> None:
        """Say that nothing more will be sent."""
        with contextlib.suppress(ssl.SSLError):
            self.tls.unwrap()
        self.turn()

    def take(self) -> bytes:
        """What was received since the last time."""
        self.turn()
        got, self._got = b"".join(self._got), []
        return got
