"""A plain client of the Service providing protocol. Source: seed 003: Service providing protocol."""

from __future__ import annotations

import ssl

from bussrv.client._stream import OWN, StreamClient, Timeout
from bussrv.client.tls import Tls
from bussrv.values import check_known_name
from bussrv.wire import spp


class SppClient(StreamClient[spp.Event]):
    """Subscribes to services: blocking, for one thread, a context manager.

    The server offers what it has right after connecting. Events that are not taken are kept. For the errors of every
    call, and ``timeout``, see :class:`StreamClient`.

    :param max_packet: the most bytes of data in a packet to accept; as many as a server lets wait for one client.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 3002,
        timeout: float | None = 10.0,
        max_packet: int = 16 << 20,
        tls: Tls | ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(spp.SppReader("server", max_packet), host, port, timeout, tls)

    def subscribe(self, service: str) -> None:
        """Ask for a service: an ``Info`` with its state comes at once, and one more for each change.

        The protocol has no error: nothing comes for a service that is not offered.

        :raises bussrv.errors.Refused: ``service`` cannot be the name of a service.
        """
        self._send(spp.subscribe(check_known_name(service)))

    def unsubscribe(self, service: str) -> None:
        """Ask for a service no longer. An ``Info`` that is under way may still come.

        :raises bussrv.errors.Refused: ``service`` cannot be the name of a service.
        """
        self._send(spp.unsubscribe(check_known_name(service)))

    def authenticate(self, user: str = "", secret: str = "", timeout: Timeout = OWN, token: str | None = None) -> None:
        """Say who uses this client, by ``user`` and ``secret``, or by ``token``.

        A server without authentication ignores it, and then this times out.

        :raises TypeError: there is both a user and a token.
        :raises PermissionError: the server refused.
        """
        if token is not None and (user or secret):
            raise TypeError("authenticate takes a user with a secret, or a token")
        deadline = self._deadline(timeout, "no answer to the authentication came")
        code = spp.AUTH_UNCHECKED
        while code == spp.AUTH_UNCHECKED:
            self._send(spp.authenticate(user, secret if token is None else token))
            answer = self._wait_for(_is_auth_result, deadline)
            assert isinstance(answer, spp.Other)
            code = spp.auth_code(answer.data)
        if code != spp.AUTH_ACCEPTED:
            whose = "by a token" if token is not None else f"of {user}"
            raise PermissionError(f"the server refused the authentication {whose}, with code {code}")

    def next_event(self, timeout: Timeout = OWN) -> spp.Event:
        """The next event that was not taken yet: an ``Offer``, ``Removed``, ``Info``, ``Ignored`` or ``Other``."""
        return self._take(timeout)

    def _weigh(self, event: spp.Event) -> int:
        return len(event.message) if isinstance(event, spp.Info) else 0


def _is_auth_result(event: spp.Event) -> bool:
    return isinstance(event, spp.Other) and event.msgtype == spp.AUTH_RESULT
