"""A plain client of Business Object. Source: seed 000: Business Object."""

from __future__ import annotations

import ssl
from typing import Any

import msgspec

from bussrv.client.errors import BusError
from bussrv.client.events import Object
from bussrv.client.objects import FramedClient
from bussrv.client.tls import Tls
from bussrv.errors import RemoteProtocolError
from bussrv.wire.objects import MAX_PAYLOAD

__all__ = ["BusError", "BusinessClient", "Object"]


class BusinessClient(FramedClient):
    """Exchanges business objects: blocking, for one thread, a context manager.

    For the errors of every call see :class:`FramedClient`.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 7891,
        timeout: float | None = 10.0,
        max_payload: int = MAX_PAYLOAD,
        tls: Tls | ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(host, port, timeout, max_payload, tls)

    def register(
        self,
        receive: str = "all",
        subscribe: str | list[str] = "all",
        name: str | None = None,
        user: str | None = None,
        unique_routing_id: str | None = None,
        routing_ids: list[str] | None = None,
        *,
        secret: str | None = None,
        token: str | None = None,
    ) -> dict[str, Any]:
        """Join the network. Before this, the client receives no objects, and the server forwards none of its own.

        :param receive: ``all``, ``no_echo``, ``events_only``, or ``none``: nothing at all, no answers either.
        :param subscribe: ``all``, ``none`` or a list of content types, which may hold ``*`` and ``?``.
        :param name: the name of this program, for people.
        :param user: the user that runs it; with ``secret``, for a server that requires a login, else for people.
        :param unique_routing_id: the routing id to have, if it is free.
        :param routing_ids: further routing ids, which other clients may have, too.
        :param token: a token to log in with, instead of ``user`` and ``secret``.
        :returns: the metadata of ``client/register/reply``.
        """
        optional = {"name": name, "user": user, "unique-routing-id": unique_routing_id, "routing-ids": routing_ids}
        optional |= {"secret": secret, "token": token}
        fields = {"event": "client/register", "receive": receive, "subscribe": subscribe}
        return self._join(fields | {key: value for key, value in optional.items() if value is not None}, receive)

    register_service = FramedClient._register_service
    unregister_service = FramedClient._unregister_service

    def services(self) -> list[str]:
        """The names of every service, from ``services/list``.

        :raises bussrv.errors.RemoteProtocolError: the reply is no JSON array of strings.
        """
        payload = self._ask({"event": "services/list"}).payload
        try:
            return msgspec.json.decode(payload, type=list[str])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RemoteProtocolError(
                "bad-json", f"the payload of services/list/reply is no array of strings: {error}"
            ) from error
