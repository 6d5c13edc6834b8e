"""Ports that speak TLS: endpoints that begin with ``ssl:``.

``ssl:PORT:privateKey=FILE[:certKey=FILE][:extraCertChain=FILE][:clientCA=FILE[:clientCert=required|optional]]
[:interface=ADDRESS][:backlog=NUMBER]``

Twisted has such endpoints, too. Those know no certificates of clients, cannot read their files again, and connect a
session before the handshake.
"""

from __future__ import annotations

import ssl
from collections import OrderedDict
from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.protocol import Factory

from bussrv import events as ev
from bussrv.addresses import address_key
from bussrv.bus.interfaces import IBus
from bussrv.counts.tally import Tally
from bussrv.errors import OverLimit
from bussrv.memory.resources import Expiring
from bussrv.net.session.protocol import StreamProtocol
from bussrv.net.tls.connection import TlsConnection, record_buffer
from bussrv.net.tls.context import Certificates, TlsFiles
from bussrv.net.transport.complaints import Complaints
from bussrv.net.transport.endpoint_parts import Parts, number
from bussrv.net.transport.patience import Patience
from bussrv.values import absolute


class _Handshake:
    """One of them. :param leave: it counts as a session until this is called."""

    def __init__(self, key: str, leave: Callable[[], None], patience: Patience) -> None:
        self.key = key
        self.leave = leave
        self.patience = patience


class Handshakes:
    """The connections of a port that have no session yet, limited in number and in time.

    Beyond the limit the one goes that has begun first, of the address with most of them. So one address cannot keep out
    others.

    :param name: the wire format.
    """

    def __init__(self, bus: IBus, name: str, reactor: Any) -> None:
        self._bus = bus
        self._name = name
        self._reactor = reactor
        self._all: dict[TlsConnection, _Handshake] = {}
        self._by_key: dict[str, OrderedDict[TlsConnection, None]] = {}
        self._tally: Tally[str] = Tally()
        self._complaints = Complaints(name, reactor.seconds)
        bus.streams.connections.append(self._all)

    def begin(self, connection: TlsConnection, peer: str) -> bool:
        """A client has connected. :returns: whether there is room for one more session."""
        try:
            leave = self._bus.expect(self._name, peer)
        except OverLimit:
            return False
        seconds, key = self._bus.settings.handshake_timeout, address_key(peer)
        patience = Patience(seconds, lambda: self._too_late(connection), lambda: connection.is_waiting, self._reactor)
        self._all[connection] = _Handshake(key, leave, patience)
        self._tally.add(key)
        self._by_key.setdefault(key, OrderedDict())[connection] = None
        most = self._bus.settings.max_handshakes
        if len(self._all) > most:
            message = f"more than {most} handshakes"
            oldest = next(iter(self._by_key[self._tally.fullest()]))
            self._cut(oldest, OverLimit("too-many-handshakes", message, "max-handshakes", most))
        return True

    def end(self, connection: TlsConnection) -> None:
        """A handshake is done, or its connection is gone."""
        handshake = self._all.pop(connection, None)
        if handshake is None:
            return
        handshake.patience.end()
        handshake.leave()
        self._tally.remove(handshake.key)
        del self._by_key[handshake.key][connection]
        if not self._by_key[handshake.key]:
            del self._by_key[handshake.key]

    def _too_late(self, connection: TlsConnection) -> None:
        seconds = self._bus.settings.handshake_timeout
        message = f"the handshake was not done within {seconds:g} s"
        self._cut(connection, OverLimit("handshake-timeout", message, "handshake-timeout", ceil(seconds)))

    def _cut(self, connection: TlsConnection, limit: OverLimit) -> None:
        self._bus.counters[limit.limit] += 1
        event = ev.limit_reached(limit, protocol=self._name, peer=connection.peer)
        self._bus.registry.note_from_stranger(event)
        self.end(connection)
        connection.abortConnection()

    def complain(self, connection: TlsConnection, why: str, proved_nothing: bool) -> None:
        """TLS failed. If that was the handshake, its connection is cut if it does not close in time.

        :param proved_nothing: the reason is the certificate of the client, or that it has none.
        """
        self._bus.counters["tls-failed"] += 1
        if proved_nothing:
            about: dict[str, Any] = {"protocol": self._name, "peer": connection.peer}
            self._bus.registry.note_from_stranger(
                ev.AuthFailed(reason="bad-certificate", method="certificate", **about)
            )
        self._complaints.no_tls(connection.peer, why)

    def stop(self) -> None:
        """The port is closed."""
        for connection in tuple(self._all):
            self.end(connection)
            connection.abortConnection()


MAX_PORT = 0xFFFF
MAX_BACKLOG = (1 << 31) - 1

_FILES = ("privateKey", "certKey", "extraCertChain", "clientCA")
_NAMES = (*_FILES, "clientCert", "interface", "backlog")
_IS_REQUIRED = {"required": True, "optional": False}


class TlsPort:
    """An endpoint description, checked.

    :raises ValueError: says what is wrong with it.
    """

    def __init__(self, parts: Parts) -> None:
        given = parts.named
        unknown = [name for name in given if name not in _NAMES]
        if unknown:
            raise ValueError(f"there is no parameter {unknown[0]!r}")
        if len(parts.values) != 2:
            raise ValueError("it has the form ssl:PORT:privateKey=FILE:certKey=FILE")
        self.port = number(parts.values[1], "the port", MAX_PORT)
        if "privateKey" not in given:
            raise ValueError("it lacks privateKey=FILE")
        if "clientCert" in given and "clientCA" not in given:
            raise ValueError("clientCert= needs clientCA=FILE, the certificates of who signs those of clients")
        if given.get("clientCert", "required") not in _IS_REQUIRED:
            raise ValueError(f"clientCert= is required or optional, not {given['clientCert']!r}")
        self.backlog = number(given["backlog"], "backlog=", MAX_BACKLOG)
        self.interface = given.get("interface", "")
        key, certificate, chain, authorities = (absolute(given[name]) if name in given else None for name in _FILES)
        is_required = _IS_REQUIRED[given.get("clientCert", "required")]
        self.files = TlsFiles(
            key=key, certificate=certificate, chain=chain, authorities=authorities, is_required=is_required
        )

    def endpoint(self, reactor: Any) -> TCP4ServerEndpoint:
        """The endpoint of Twisted that accepts connections, on IPv4 or IPv6."""
        return TCP4ServerEndpoint(reactor, self.port, self.backlog, self.interface)


class TlsFactory(Factory):
    """Makes connections of clients; they are served once their handshake is done.

    :param factory: makes what serves them; see :class:`bussrv.net.listening.PortFactory`.
    """

    noisy = False
    is_port = True

    def __init__(self, factory: Any, certificates: Certificates, reactor: Any) -> None:
        self._factory = factory
        self._certificates = certificates
        self._handshakes = Handshakes(factory.bus, certificates.name, reactor)
        self.slices = factory.bus.slices
        self.record = record_buffer()

    def buildProtocol(self, addr: Any) -> Any:
        """A protocol for a new connection."""
        return self._factory.if_there_is_room(lambda: TlsConnection(self))

    def doStop(self) -> None:  # noqa: N802 - called by Twisted
        """The port is closed."""
        super().doStop()
        self._handshakes.stop()

    def begun(self, connection: TlsConnection, peer: str) -> bool:
        """See :class:`bussrv.net.tls.connection.Side`."""
        return self._handshakes.begin(connection, peer)

    def wrap(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        """See :class:`bussrv.net.tls.connection.Side`."""
        return self._certificates.context.wrap_bio(incoming, outgoing, server_side=True)

    def established(self, connection: TlsConnection) -> None:
        """See :class:`bussrv.net.tls.connection.Side`."""
        self._handshakes.end(connection)
        protocol = self._factory.buildProtocol(connection.getPeer())
        if isinstance(protocol, StreamProtocol):
            protocol.is_admitted = True
            outbound = self._factory.bus.streams.outbound
            connection.count_with(outbound.open(address_key(connection.peer), protocol.outbound_is_full))
        connection.serve(protocol)

    def failed(self, connection: TlsConnection, why: str, *, proved_nothing: bool) -> None:
        """See :class:`bussrv.net.tls.connection.Side`."""
        self._handshakes.complain(connection, why, proved_nothing)

    def gone(self, connection: TlsConnection) -> None:
        """See :class:`bussrv.net.tls.connection.Side`."""
        self._handshakes.end(connection)


def keep_certificates(bus: IBus, certificates: Certificates) -> None:
    """Have certificates read again when the server reads its configuration again, and say when they expire."""
    bus.reloadables.append(certificates)
    kept = bus.streams.certificates
    kept[certificates.name] = certificates
    bus.report("certificates", lambda: _about(kept))


def forget_certificates(bus: IBus, certificates: Certificates) -> None:
    """The end that had these certificates is gone. Another one may have its name by now."""
    bus.reloadables.remove(certificates)
    kept = bus.streams.certificates
    if kept.get(certificates.name) is certificates:
        del kept[certificates.name]


def _about(kept: Mapping[str, Expiring]) -> dict[str, dict[str, int]]:
    days = {name: each.days_left() for name, each in kept.items()}
    return {name: {"days-left": left} for name, left in days.items() if left is not None}
