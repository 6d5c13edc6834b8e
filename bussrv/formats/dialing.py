"""Links that this server dials, and dials again when they are lost."""

from __future__ import annotations

from typing import Any

from twisted.application.internet import ClientService, backoffPolicy
from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.endpoints import clientFromString
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.logger import Logger
from zope.interface import implementer

from bussrv.errors import ConfigError, Refused
from bussrv.formats.links import ServerLink
from bussrv.formats.objects import ObjectsProtocol
from bussrv.formats.stream import StreamFactory
from bussrv.interfaces import IBus
from bussrv.wire.objects import BadObject, BusObject

FIRST_DELAY = 0.5

log = Logger()


class DialedProtocol(ObjectsProtocol):
    """The connection of a link that this server dialed.

    :ivar linked: fires when the link stands; fails with :class:`Refused` when it does not come about.
    :ivar server_id: the other server; empty until it said who it is.
    """

    dialed = True
    server_id = ""

    def opened(self) -> None:
        """Ask the other server for what it has; it will do the same."""
        super().opened()
        self.linked: Deferred[None] = Deferred()
        ServerLink(self, self.identity, self.dialed).subscribe()

    def received(self, event: BusObject | BadObject) -> None:
        """Until the link stands, the other server says whether it takes part."""
        if self._server is None and isinstance(event, BusObject) and event.head.event not in self.JOINING:
            if event.head.event == "error":
                self._refused(event.fields())
        else:
            super().received(event)

    def _refused(self, fields: dict[str, Any]) -> None:
        known = fields.get("routing-id")
        self.server_id = known if isinstance(known, str) else ""
        reason = "duplicate-link" if fields.get("reason") == "duplicate-link" else "link-refused"
        if reason != "duplicate-link":
            log.warn("link refused by the other server: {message}", message=fields.get("message"))
        self.end(reason)

    async def join_server(self, obj: BusObject) -> None:
        """The other server subscribed back."""
        self.server_id = obj.fields().get("routing-id") or ""
        await super().join_server(obj)
        if self._server is not None:
            self.linked.callback(None)

    def closed(self, reason: str) -> None:
        """The session is closed."""
        super().closed(reason)
        if not self.linked.called:
            self.linked.errback(Refused(reason, f"the link did not come about: {reason}"))


@implementer(IStreamClientEndpoint)
class _UnlessLinked:
    """Does not dial a server while it is linked in another way: it may have dialed itself.

    :ivar server_id: that server, as far as it is known.
    """

    def __init__(self, endpoint: Any, bus: IBus) -> None:
        self.server_id = ""
        self._endpoint = endpoint
        self._bus = bus

    def connect(self, factory: Any) -> Deferred[Any]:
        """Connect, when there is no link to the server."""
        return self._bus.links.lost(self.server_id).addCallback(lambda _: self._endpoint.connect(factory))


def parse_link(description: str, reactor: Any) -> Any:
    """The client endpoint that a description such as ``tcp:hall.example:7890`` stands for.

    :raises ConfigError: if it stands for none.
    """
    try:
        return clientFromString(reactor, description)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{description!r} is not a client endpoint: {error}") from error


class LinkDialer(Service):
    """Keeps a link to another server up; the delay between attempts grows, up to ``--max-link-delay``, and is jittered.

    :param endpoint: where the other server is: a client endpoint of Twisted.
    """

    def __init__(self, endpoint: Any, bus: IBus, reactor: Any) -> None:
        self._endpoint = _UnlessLinked(endpoint, bus)
        self._factory = StreamFactory(DialedProtocol, bus, reactor)
        self._client = ClientService(
            self._endpoint,
            self._factory,
            retryPolicy=backoffPolicy(FIRST_DELAY, bus.settings.max_link_delay, factor=1.6),
            clock=reactor,
            prepareConnection=self._await_link,
        )

    def _await_link(self, protocol: Any) -> Deferred[None]:
        """An attempt has failed when the other server refuses: the next one waits longer."""
        linked: Deferred[None] = Deferred()

        def done(result: Any) -> None:
            self._endpoint.server_id = protocol.server_id
            linked.callback(result)

        protocol.linked.addBoth(done)
        return linked

    def startService(self) -> None:
        """Dial."""
        super().startService()
        self._client.startService()

    def stopService(self) -> Deferred[Any]:
        """Hang up, and dial no more."""
        super().stopService()
        closing: list[Deferred[Any]] = [protocol.end("server-stopped") for protocol in tuple(self._factory.protocols)]
        return DeferredList([*closing, self._client.stopService()])
