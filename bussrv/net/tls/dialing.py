"""Links over TLS: client endpoints that begin with ``tls:``.

``tls:HOST:PORT[:trustRoots=PATH][:certificate=FILE:privateKey=FILE][:serverName=NAME][:timeout=SECONDS]
[:bindAddress=ADDRESS]``

Twisted has such endpoints, too. Those take a directory for ``trustRoots=`` only, leave out files that cannot be read,
and connect a session before the other server has proved who it is.
"""

from __future__ import annotations

import ssl
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import HostnameEndpoint
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure

from bussrv.bus.interfaces import IBus
from bussrv.net.session.factory import StreamFactory
from bussrv.net.tls.connection import TlsConnection, record_buffer
from bussrv.net.tls.context import Certificates, TlsFiles
from bussrv.net.tls.ports import MAX_PORT
from bussrv.net.transport.endpoint_parts import Parts, number
from bussrv.net.transport.patience import Patience
from bussrv.values import absolute

MAX_TIMEOUT = 3600

_PLACES = ("host", "port")
_FILES = ("privateKey", "certificate", "trustRoots")
_NAMES = (*_PLACES, *_FILES, "serverName", "timeout", "bindAddress")

log = Logger()


class _Factory(Factory):
    """Makes one connection: the one of a dial."""

    noisy = False

    def __init__(self, connection: TlsConnection) -> None:
        self._connection = connection

    def buildProtocol(self, addr: Any) -> TlsConnection:
        """The connection."""
        return self._connection


class _Dial:
    """One attempt to connect: what differs from a port; see :class:`bussrv.net.tls.connection.Side`.

    :ivar done: fires with the protocol that is served, when the other server has proved who it is.
    """

    is_port = False

    def __init__(self, endpoint: TlsLink, factory: StreamFactory) -> None:
        self.slices = factory.bus.slices
        self.record = record_buffer()
        self.connection = TlsConnection(self)
        self.done: Deferred[Any] = Deferred(self._cancel)
        self._endpoint = endpoint
        self._factory = factory
        self._patience: Patience | None = None
        self._connecting: Deferred[Any] = endpoint.dialed.connect(_Factory(self.connection))
        self._connecting.addErrback(self._give_up)

    def _cancel(self, _: object) -> None:
        self._give_up(Failure(CancelledError()))
        self._connecting.cancel()
        if self._patience is not None:
            self.connection.abortConnection()

    def _give_up(self, failure: Failure) -> None:
        if not self.done.called:
            self.done.errback(failure)

    def begun(self, connection: TlsConnection, peer: str) -> bool:
        """The other server was reached; it may take only so long for the handshake."""
        seconds = self._factory.bus.settings.handshake_timeout
        self._patience = Patience(seconds, self._too_late, lambda: connection.is_waiting, self._endpoint.reactor)
        return True

    def _too_late(self) -> None:
        self._give_up(Failure(ConnectionError("the other end did not finish the TLS handshake in time")))
        self.connection.abortConnection()

    def wrap(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        """The TLS of the connection."""
        context = self._endpoint.certificates.context
        return context.wrap_bio(incoming, outgoing, server_hostname=self._endpoint.server_name)

    def established(self, connection: TlsConnection) -> None:
        """The other server has proved who it is."""
        self._end()
        protocol = self._factory.buildProtocol(connection.getPeer())
        connection.serve(protocol)
        self.done.callback(protocol)

    def failed(self, connection: TlsConnection, why: str, *, proved_nothing: bool) -> None:
        """Fail: the other end has not proved its name, or sends bytes that are not TLS."""
        if self.done.called:
            log.info("{name}: TLS failed: {why}", event="tls.failed", name=self._endpoint.certificates.name, why=why)
        self._give_up(Failure(ConnectionError(f"TLS failed: {why}")))

    def gone(self, connection: TlsConnection) -> None:
        """The connection is lost."""
        self._end()
        self._give_up(Failure(ConnectionError("the connection was closed during the TLS handshake")))

    def _end(self) -> None:
        if self._patience is not None:
            self._patience.end()
            self._patience = None


class TlsLink:
    """The client endpoint of a link over TLS; see Twisted's ``IStreamClientEndpoint``.

    :param parts: its description, taken apart.
    :raises ValueError: says what is wrong with the description.
    :raises bussrv.errors.ConfigError: a file cannot be used.
    """

    def __init__(self, parts: Parts, bus: IBus, reactor: Any) -> None:
        given = _by_name(parts)
        host, port = given["host"], number(given["port"], "the port", MAX_PORT)
        timeout = number(given.get("timeout", "30"), "timeout=", MAX_TIMEOUT)
        bind = (given["bindAddress"], 0) if "bindAddress" in given else None
        key, certificate, roots = (absolute(given[name]) if name in given else None for name in _FILES)
        files = TlsFiles(key=key or certificate, certificate=certificate, authorities=roots, is_port=False)
        self.reactor = reactor
        self.server_name = given.get("serverName", host)
        self.dialed = HostnameEndpoint(reactor, host, port, timeout, bind)
        self.certificates = Certificates(f"link {host}:{port}", files, bus.utc)

    def connect(self, factory: StreamFactory) -> Deferred[Any]:
        """Connect. :returns: fires with the protocol that ``factory`` made."""
        return _Dial(self, factory).done


def _by_name(parts: Parts) -> dict[str, str]:
    """The parameters. The first two may come without their names."""
    _, *places = parts.values
    given = dict(parts.named)
    unknown = [name for name in given if name not in _NAMES]
    if unknown:
        raise ValueError(f"there is no parameter {unknown[0]!r}")
    missing = [name for name in _PLACES if name not in given]
    if len(places) > len(missing):
        raise ValueError("it has too many parts")
    given.update(zip(missing, places, strict=False))
    lacking = [repr(name) for name in _PLACES if not given.get(name)]
    if lacking:
        raise ValueError(f"it lacks {' and '.join(lacking)}")
    if "privateKey" in given and "certificate" not in given:
        raise ValueError("privateKey= needs certificate=FILE")
    return given
