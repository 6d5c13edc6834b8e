"""A plain client of Inbus. Source: seed 001: Inbus; version 2 as deployed programs speak it."""

from __future__ import annotations

import contextlib
import ipaddress
import socket

from bussrv.client._stream import Deadline
from bussrv.client.core.inbus import publication
from bussrv.client.core.payload import as_payload
from bussrv.errors import RemoteProtocolError
from bussrv.values import check_service_name
from bussrv.wire import inbus
from bussrv.wire.inbus import Datagram

__all__ = ["Datagram", "InbusSubscriber", "publish"]

SERVER = ("127.0.0.1", inbus.PORT)
_RECEIVE = 1 << 16


class InbusSubscriber:
    """Receives the publications on an app-key: blocking, for one thread, a context manager.

    Datagrams get lost, and the server does not confirm a subscription. It ends a subscription that is not renewed for
    the time of its lease (bussrv: an hour): call :meth:`renew` several times in that time.

    :param server: its host and port.
    :param version: the version of the protocol; 2 receives any bytes, 1 only text.
    :param host: this machine's address as the server sees it. The socket is bound to it, on a port that the system
        chooses.
    :raises bussrv.errors.Refused: ``app_key`` cannot be the name of a service.
    :raises ValueError: ``app_key`` is reserved, ``version`` unknown, or ``host`` an address that nothing can be sent
        to.
    :ivar address: the host and port that are subscribed.
    :raises OSError: ``host`` is not an address of this machine, or the server's name is unknown.
    """

    def __init__(
        self, app_key: str, server: tuple[str, int] = SERVER, version: int = 2, host: str = "127.0.0.1"
    ) -> None:
        self._app_key = check_service_name(app_key)
        family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)[0]
        if ipaddress.ip_address(address[0]).is_unspecified:
            raise ValueError(f"nothing can be sent to {host}: the server needs this machine's own address")
        self._server = socket.getaddrinfo(*server, family=family, type=socket.SOCK_DGRAM)[0][4]
        self._where = f"{server[0]} port {server[1]}"
        self._closed = False
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._socket.bind(address)
            own_host, own_port = self._socket.getsockname()[:2]
            self.address: tuple[str, int] = (own_host, own_port)
            self._subscribe = inbus.subscribe(app_key, own_host, own_port, version)
            self._unsubscribe = inbus.unsubscribe(app_key, own_host, own_port, version)
            self.renew()
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> InbusSubscriber:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def receive(self, timeout: float | None = None) -> Datagram:
        """The next datagram that publishes on the app-key. All other datagrams are dropped.

        Anybody who can reach the port can send to it.

        :param timeout: the limit in seconds; ``None``: there is none.
        :raises TimeoutError: none came in time.
        :raises ConnectionError: the client was closed.
        """
        deadline = Deadline(timeout, f"nothing on {self._app_key} came from {self._where} within {timeout} s")
        while True:
            left = deadline.left()
            self._check_open()
            try:
                self._socket.settimeout(left)
                data = self._socket.recv(_RECEIVE)
                datagram = inbus.decode(data)
            except (BlockingIOError, TimeoutError, RemoteProtocolError):
                continue
            if datagram.opcode == inbus.PUBLISH and datagram.app_key == self._app_key:
                return datagram

    def renew(self) -> None:
        """Subscribe again, so that the lease starts anew; also after the server was out of reach.

        :raises ConnectionError: the client was closed.
        :raises OSError: the datagram cannot be sent.
        """
        self._check_open()
        self._socket.settimeout(None)
        self._socket.sendto(self._subscribe, self._server)

    def close(self) -> None:
        """Unsubscribe and close. Closing a second time does nothing."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.settimeout(None)
            self._socket.sendto(self._unsubscribe, self._server)
        self._socket.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ConnectionError(f"this subscriber of {self._app_key} is closed")


def publish(
    app_key: str, payload: bytes, app_type: int = 1, version: int = 2, server: tuple[str, int] = SERVER
) -> None:
    """Publish from a socket that is used once. The server does not confirm that the datagram arrived.

    :param payload: any bytes for version 2, UTF-8 text for version 1.
    :param app_type: the kind of the message, for its receivers; 0 is reserved.
    :raises TypeError: ``payload`` is no bytes.
    :raises bussrv.errors.Refused: ``app_key`` cannot be the name of a service.
    :raises ValueError: no datagram can carry it: it is too long, or no text for version 1; or the app-key is reserved.
    :raises OSError: the datagram cannot be sent, or the server's name is unknown.
    """
    data = publication(check_service_name(app_key), app_type, as_payload(payload), version)
    family, _, _, _, address = socket.getaddrinfo(*server, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.sendto(data, address)
