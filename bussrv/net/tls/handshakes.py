"""TLS handshakes of clients at one port: limited in number and in time.

Beyond the limit the one goes that has begun first, of the address with most of them. So one address cannot keep out
others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from math import ceil
from typing import Any

from bussrv import events as ev
from bussrv.addresses import address_key
from bussrv.bus.interfaces import IBus
from bussrv.counts.tally import Tally
from bussrv.errors import OverLimit
from bussrv.net.tls.connection import TlsConnection
from bussrv.net.transport.complaints import Complaints
from bussrv.net.transport.patience import Patience


class _Handshake:
    """One of them. :param leave: it counts as a session until this is called."""

    def __init__(self, key: str, leave: Callable[[], None], patience: Patience) -> None:
        self.key = key
        self.leave = leave
        self.patience = patience


class Handshakes:
    """The connections of a port that have no session yet.

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
