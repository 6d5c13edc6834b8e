"""Links that this server dials, and dials again when they are lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from twisted.application.internet import backoffPolicy
from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, DeferredList, succeed
from twisted.internet.endpoints import clientFromString
from twisted.internet.task import deferLater
from twisted.logger import Logger

from bussrv.addresses import parse_host, peer_text
from bussrv.bus.interfaces import IReloadable
from bussrv.formats.objects.members import MemberProtocol
from bussrv.formats.objects.object_system import OBJECT_SYSTEM, claims, link
from bussrv.formats.objects.server_link import ServerLink
from bussrv.net.draining import MOST_SECONDS_TO_READ, REASON
from bussrv.net.tls.dialing import TlsLink
from bussrv.net.tls.link_tokens import TokenFile, is_private, take_token
from bussrv.net.tls.ports import forget_certificates, keep_certificates
from bussrv.net.transport.endpoint_faults import explain
from bussrv.net.transport.endpoint_parts import take_apart
from bussrv.plugin import ConfigError, IBus, Refused, StreamFactory, StreamProtocol
from bussrv.values import shown
from bussrv.wire.objects import BadObject, BusObject

FIRST_DELAY = 0.5
"""Seconds before the second attempt; each delay is longer than the last, and up to a second is added by chance."""

GROWTH = 1.6

MAX_PORT = 0xFFFF

_PORT = re.compile(r"tcp:(?:[^:\\]|\\.)*:(?:port=)?0*(\d+)(?::|\Z)")

_SAID = ("link-refused", "duplicate-link", "replaced", "not-encrypted", REASON)
"""The ends of a link that was not there yet of which the log has something already, or need have nothing."""

log = Logger()


class Proves(NamedTuple):
    """The proofs that both ends of a link may have.

    :ivar token: the token that this server shows the other one.
    :ivar server_name: the name in the TLS certificate of the other server, which is checked when it is dialed.
    """

    token: Callable[[], str] | None = None
    server_name: str | None = None


class DialedProtocol(MemberProtocol):
    """The connection of a link that this server dialed.

    :ivar linked: fires when the link is up; fails with :class:`Refused` if it is refused.
    :ivar server_id: the routing id of the other server; empty until it has stated it.
    """

    FORMAT = "objects"
    VOCABULARY = OBJECT_SYSTEM
    dialed = True
    server_id = ""
    proves: Proves = Proves()

    def opened(self) -> None:
        """Ask the other server for what it has; it will do the same."""
        super().opened()
        self.linked: Deferred[None] = Deferred()
        token = self.proves.token
        if token is not None and not is_private(self.transport, self.session().peer):
            log.error(
                "the token of a link to {peer}, session {session}, is not sent: the connection has no TLS, and leaves "
                "this machine",
                event="link.token-not-sent",
                session=self.session_id,
                peer=self.session().peer,
            )
            self.end("not-encrypted")
        else:
            ServerLink(self, self.bus, partial(claims, self), self.dialed).subscribe(token)

    def received(self, event: BusObject | BadObject) -> None:
        """Until the link stands, the other server says whether it takes part."""
        if self.server is not None or isinstance(event, BadObject):
            super().received(event)
        elif event.head.event == "error":
            self._refused(event.fields())
        elif event.head.event in OBJECT_SYSTEM.joining and event.fields().get("role") != "server":
            self._refused({"message": "what was dialed is no server"})
        elif event.head.event in OBJECT_SYSTEM.joining:
            super().received(event)

    def _refused(self, fields: dict[str, Any]) -> None:
        known = fields.get("routing-id")
        self.server_id = known if isinstance(known, str) else ""
        reason = "duplicate-link" if fields.get("reason") == "duplicate-link" else "link-refused"
        if reason != "duplicate-link":
            log.warn(
                "link refused by the other server: {message} (session {session}, {peer})",
                event="link.refused",
                session=self.session_id,
                peer=peer_text(self.transport.getPeer()),
                message=fields.get("message"),
            )
        self.end(reason)

    async def join_server(self, obj: BusObject) -> None:
        """The other server subscribed back."""
        self.server_id = obj.fields().get("routing-id") or ""
        await link(self, obj, None if getattr(self.transport, "tls", None) is None else self.proves.server_name)
        if self.server is not None:
            self.linked.callback(None)

    def closed(self, reason: str) -> None:
        """The session is closed."""
        super().closed(reason)
        if not self.linked.called:
            self.linked.errback(Refused(reason, f"the link did not come about: {reason}"))


class _Factory(StreamFactory):
    """Makes the connections of one link."""

    def __init__(self, proves: Proves, bus: IBus, reactor: Any) -> None:
        super().__init__(DialedProtocol, bus, reactor)
        self._proves = proves

    def make(self) -> StreamProtocol:
        """A protocol for the connection of the link."""
        protocol = super().make()
        assert isinstance(protocol, DialedProtocol)
        protocol.proves = self._proves
        return protocol


def make_dialer(description: str, bus: IBus, reactor: Any) -> LinkDialer:
    """The dialer of the link that a description stands for. Nothing is dialed yet.

    :raises ConfigError: it makes no sense.
    """
    try:
        rest, token = take_token(description)
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"{shown(description)}: {error}") from error
    endpoint = parse_link(rest, bus, reactor)
    if token is not None and not isinstance(endpoint, TlsLink) and _leaves_this_machine(rest):
        raise ConfigError(f"{shown(description)}: the token would be sent in the clear: link over TLS, with tls:")
    return LinkDialer(description, endpoint, bus, reactor, token)


def _leaves_this_machine(description: str) -> bool:
    """Whether the endpoint has an IP address that is not of this machine. Names are looked up when it is dialed."""
    parts = take_apart(description)
    host = parts.named.get("host") or next(iter(parts.values[1:]), "")
    address = parse_host(host)
    return address is not None and not address.is_loopback


def parse_link(description: str, bus: IBus, reactor: Any) -> Any:
    """The client endpoint that a description such as ``tcp:hall.example:7890`` stands for.

    :raises ConfigError: if it stands for none.
    """
    kind = description.partition(":")[0]
    port = _PORT.match(description)
    if port is not None and (len(port[1]) > len(str(MAX_PORT)) or int(port[1]) > MAX_PORT):
        # Twisted would find this out at each attempt to link.
        raise ConfigError(f"{shown(description)} is not a client endpoint: ports are 0 to {MAX_PORT}")
    try:
        if kind == "tls":
            return TlsLink(take_apart(description), bus, reactor)
        if kind == "ssl":
            # Twisted's do not check who the other server is.
            raise ValueError("the endpoint of a link with TLS begins with tls:")
        return clientFromString(reactor, description)
    except ConfigError as error:
        raise ConfigError(f"{shown(description)}: {error}") from error
    except Exception as error:
        # Endpoints are plugins of Twisted: they open files and parse numbers, and raise what they like.
        raise ConfigError(f"{shown(description)} is not a client endpoint: {explain(error)}") from error


class LinkDialer(Service):
    """Keeps a link to another server up; the delay between attempts grows, up to ``--max-link-delay``, and is jittered.

    :param description: the name of the link in the log.
    :param endpoint: the address of the other server: a client endpoint of Twisted.
    :param token: the token that this server shows the other one.
    :ivar server_id: the routing id of the server that answered there last; empty: none has answered yet.
    :ivar certificates: the certificates for TLS; ``None``: the link has no TLS.
    """

    def __init__(
        self, description: str, endpoint: Any, bus: IBus, reactor: Any, token: TokenFile | None = None
    ) -> None:
        self.description = description
        self._endpoint = endpoint
        self.certificates = endpoint.certificates if isinstance(endpoint, TlsLink) else None
        self._bus = bus
        self._reactor = reactor
        self._token = token
        server_name = endpoint.server_name if isinstance(endpoint, TlsLink) else None
        self._factory = _Factory(Proves(token, server_name), bus, reactor)
        self.server_id = ""
        self._dialing: Deferred[None] = succeed(None)

    @property
    def reloadables(self) -> list[IReloadable]:
        """The parts that were read from files."""
        return [each for each in (self.certificates, self._token) if each is not None]

    def startService(self) -> None:
        """Dial."""
        super().startService()
        if self.certificates is not None:
            keep_certificates(self._bus, self.certificates)
        if self._token is not None:
            self._bus.reloadables.append(self._token)
        self._dialing = Deferred.fromCoroutine(self._keep_dialing())
        self._dialing.addErrback(lambda failure: failure.trap(CancelledError))

    async def _keep_dialing(self) -> None:
        attempts = 0
        while True:
            # The other server may have dialed this one.
            await self._bus.links.lost(self.server_id)
            attempts = 0 if await self._link() else attempts + 1
            delay = backoffPolicy(FIRST_DELAY, self._bus.settings.max_link_delay, GROWTH)(attempts)
            log.info(
                "link {name}: dialing again in {delay:.1f} s", event="link.dialing", name=self.description, delay=delay
            )
            await deferLater(self._reactor, delay)

    async def _link(self) -> bool:
        """Link, for as long as it lasts. :returns: whether the link ever stood."""
        try:
            protocol = await self._endpoint.connect(self._factory)
        except CancelledError:
            raise
        except Exception as error:
            log.info("link {name}: {error}", event="link.failed", name=self.description, error=error)
            return False
        gone = protocol.gone()
        stood = True
        try:
            await protocol.linked
        except Refused as refusal:
            stood = False
            if refusal.reason not in _SAID:
                log.warn(
                    "link {name}: {message}; the journal may say more",
                    event="link.refused",
                    name=self.description,
                    message=refusal.message,
                )
        # A connection that ended before the other server said who it is says nothing about who is there.
        self.server_id = protocol.server_id or self.server_id
        await gone
        return stood

    def stopService(self) -> Deferred[Any]:
        """Hang up, and dial no more."""
        super().stopService()
        if self.certificates is not None:
            forget_certificates(self._bus, self.certificates)
        if self._token is not None:
            self._bus.reloadables.remove(self._token)
        self._dialing.cancel()
        return DeferredList([protocol.end(REASON, MOST_SECONDS_TO_READ) for protocol in tuple(self._factory.protocols)])
