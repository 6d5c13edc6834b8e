"""The site: checks the requests of all connections, and calls the functions of the routes, which answer them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure

from bussrv.addresses import address_key, is_local, peer_text
from bussrv.admin.answers import Answer
from bussrv.admin.call import Call
from bussrv.admin.channel import SLICES, AdminChannel, AdminRequest
from bussrv.admin.collections import parameters
from bussrv.admin.guards import check_content_type, check_host, check_origin
from bussrv.admin.interfaces import AdministeredServer
from bussrv.admin.login import PROTOCOL, Caller, Login
from bussrv.admin.problems import Problem, encode
from bussrv.admin.routes import Route, Routes, parse_query
from bussrv.admin.sending import EventStream, send
from bussrv.admin.state import Shared
from bussrv.formats.accepting import ClosedAtOnce
from bussrv.formats.tls_connection import TlsConnection
from bussrv.registry.throttle import LOG_BURST, LOG_RATE, Throttle
from bussrv.tally import Tally

BURST = 2
"""An address may send the requests of so many seconds at the same time."""

_COUNTERS = {
    "head-too-large": "admin-max-head",
    "body-too-large": "admin-max-body",
    "request-timeout": "admin-request-timeout",
    "too-many-requests": "admin-max-rate",
    "journal-too-long": "admin-read-timeout",
    "too-many-streams": "admin-max-streams",
}
"""The counters of problems that a limit causes."""

log = Logger()


class AdminSite(Factory):
    """Serves the connections of the admin port.

    :param routes: the table of routes.
    :param login: decides who callers are.
    :ivar hosts: further names of this server. A reload sets them.
    """

    noisy = False
    in_turns = False
    name = PROTOCOL

    def __init__(self, server: AdministeredServer, routes: Routes, login: Login) -> None:
        self.server = server
        self.bus = server.bus
        self.hosts: frozenset[str] = frozenset()
        self.shared = Shared(server)
        self.streams: set[EventStream] = set()
        self._routes = routes
        self._login = login
        self._channels: OrderedDict[AdminChannel, None] = OrderedDict()
        self._tally: Tally[str] = Tally()
        self._stopped: Deferred[None] | None = None
        self._complaints = Throttle(LOG_RATE, LOG_BURST, server.reactor.seconds)
        self._rates = Throttle(1.0, 1, server.reactor.seconds)
        server.bus.streams.connections.append(self._channels)
        # Clients connect again, with their credentials.
        server.bus.identity.changed.append(self._end_streams)

    # Connections.

    def buildProtocol(self, addr: Any) -> Any:
        """A protocol for a new connection. Beyond the limit, the connection that was idle for longest is closed."""
        return self.if_there_is_room(self._make)

    def if_there_is_room(self, make: Callable[[], Any]) -> Any:
        """See :class:`bussrv.formats.listening.PortFactory`."""
        if self.bus.streams.is_crowded:
            self.bus.counters["no-descriptors"] += 1
            return ClosedAtOnce()
        if len(self._channels) >= self.bus.settings.admin_max_connections:
            self.bus.counters["admin-max-connections"] += 1
            idle = self._idle_for_longest()
            if idle is None:
                return ClosedAtOnce()
            self.left(idle)
            idle.abort()
        return make()

    def _idle_for_longest(self) -> AdminChannel | None:
        """The connection that was idle for longest, of the address with most connections, or else of any address."""
        fullest = self._tally.fullest() if self._channels else ""
        found = None
        for each in self._channels:
            if each.is_idle and each.key == fullest:
                return each
            found = found or (each if each.is_idle else None)
        return found

    def _make(self) -> AdminChannel:
        return AdminChannel(self)

    def came(self, channel: AdminChannel) -> None:
        """A connection has begun."""
        self._channels[channel] = None
        self._tally.add(channel.key)

    def left(self, channel: AdminChannel) -> None:
        """A connection is gone, or is being closed."""
        if channel in self._channels:
            del self._channels[channel]
            self._tally.remove(channel.key)
        if self._stopped is not None and not self._channels and not self._stopped.called:
            self._stopped.callback(None)

    def log(self, request: Any) -> None:
        """Log nothing about a request that is done. Twisted calls this."""

    def count(self, code: str) -> None:
        """Count a problem, if a limit caused it."""
        if code in _COUNTERS:
            self.bus.counters[_COUNTERS[code]] += 1

    def stop(self) -> Deferred[None]:
        """End all connections. :returns: fires when they are gone."""
        stopped = self._stopped = Deferred()
        for each in tuple(self._channels):
            each.end()
        if not self._channels and not stopped.called:
            stopped.callback(None)
        return stopped

    # Requests.

    def serve(self, request: AdminRequest) -> None:
        """Answer a request in its round-robin turn."""
        channel = request.channel
        if channel in self._channels:
            self._channels.move_to_end(channel)
        # Each request begins in a reactor turn of its own, because a client may send many at the same time.
        self.server.reactor.callLater(0, self.bus.slices.do, partial(self._begin, request), SLICES)

    def _begin(self, request: AdminRequest, until: float) -> bool:
        if not request._disconnected:
            serving: Deferred[None] = Deferred.fromCoroutine(self._serve(request))
            if not serving.called:
                request.notifyFinish().addErrback(lambda _: serving.cancel())
            serving.addErrback(self._broken)
        return False

    def _broken(self, failure: Failure) -> None:
        if failure.check(CancelledError) is None:
            self._complain(failure)

    def _complain(self, failure: Failure) -> None:
        self.bus.counters["internal-error"] += 1
        suppressed = self._complaints.admit("")
        if suppressed is not None:
            log.failure(
                "a request to the admin interface failed ({suppressed} more not logged)",
                failure,
                event="admin.failed",
                suppressed=suppressed,
            )

    async def _serve(self, request: AdminRequest) -> None:
        path = request.uri.partition(b"?")[0].decode("latin-1")
        try:
            answer = await self._answer(request, path)
        except Problem as problem:
            self.count(problem.code)
            answer = problem.answer(path[:1024])
        except CancelledError:
            raise
        except Exception:
            self._complain(Failure())
            answer = Problem("internal-error").answer(path[:1024])
        if answer is not None and not (request._disconnected or request.finished):
            send(request, answer)

    async def _answer(self, request: AdminRequest, path: str) -> Answer | None:
        """The answer; ``None``: it is a stream, which has ended."""
        peer = request.channel.peer
        self._check_rate(peer)
        headers = _headers(request)
        local = peer_text(request.channel.getHost())
        is_old = request.clientproto != b"HTTP/1.1"
        check_host(headers.get("host"), local, self.hosts, may_lack=is_old)
        check_origin(headers.get("origin"), headers.get("host"))
        method = request.method.decode("latin-1")
        route, found = self._routes.find(method, path)
        if route.method != "GET":
            check_content_type(headers.get("content-type"))
        caller = Caller(None, peer, frozenset())
        if route.permission is not None:
            caller = await self._caller(request, headers, peer)
            if not (route.unless_local and is_local(peer)):
                self._login.check(caller, route.permission)
        call = self._call(request, route, caller, found, headers)
        if route.is_stream:
            await self._stream(request, call)
            return None
        return await self._value(call)

    def _check_rate(self, peer: str) -> None:
        rate = self.bus.settings.admin_max_rate
        self._rates.limit(rate, BURST * rate)
        if self._rates.admit(address_key(peer)) is None:
            raise Problem(
                "too-many-requests", f"more than {rate} requests a second (--admin-max-rate)", {"Retry-After": "1"}
            )

    async def _caller(self, request: AdminRequest, headers: dict[str, str], peer: str) -> Caller:
        transport = request.channel.transport
        tls = transport.tls if isinstance(transport, TlsConnection) else None
        certificate = tls.getpeercert() if tls else None
        channel = request.channel
        channel.is_logging_in = True
        try:
            return await self._login.caller(headers.get("authorization"), certificate, peer)
        finally:
            channel.is_logging_in = False

    def _call(
        self, request: AdminRequest, route: Route, caller: Caller, path: dict[str, str], headers: dict[str, str]
    ) -> Call:
        query = request.uri.partition(b"?")[2].decode("latin-1")
        known: Iterable[Any] = route.parameters
        if route.collection is not None:
            known = (*parameters(route.collection), *known)
        body = _body(route, _content(request))
        rows = self._routes.rows
        return Call(self.server, self.shared, caller, route, rows, path, parse_query(query, known), body, headers)

    async def _value(self, call: Call) -> Answer:
        tag = self.shared.tag if call.route.is_of_registry else None
        if tag is not None and tag in call.headers.get("if-none-match", ""):
            return Answer(b"", status=304, headers={"ETag": tag})
        value = await call.route.function(call)
        if isinstance(value, Answer):
            return value
        return Answer(encode(value), headers={} if tag is None else {"ETag": tag})

    async def _stream(self, request: AdminRequest, call: Call) -> None:
        settings = self.bus.settings
        if len(self.streams) >= settings.admin_max_streams:
            raise Problem("too-many-streams", headers={"Retry-After": "5"})
        stream = EventStream(request, settings.admin_max_waiting, self._too_slow)
        self.streams.add(stream)
        expiry = self._end_at(call.caller.expires, stream)
        try:
            await call.route.function(call, stream)
            stream.finish()
        except CancelledError:
            raise
        except Exception as error:
            if isinstance(error, Problem) and not stream.has_begun:
                raise
            self._complain(Failure())
            stream.end()
        finally:
            self.streams.discard(stream)
            if expiry is not None and expiry.active():
                expiry.cancel()

    def _end_at(self, expires: int | None, stream: EventStream) -> Any:
        """End a stream when the proof of its caller expires."""
        if expires is None:
            return None
        return self.server.reactor.callLater(max(0.0, (expires - self.bus.utc()) / 1_000_000), stream.end)

    def _end_streams(self) -> None:
        for each in tuple(self.streams):
            each.end()

    def _too_slow(self) -> None:
        self.bus.counters["admin-max-waiting"] += 1


def _headers(request: AdminRequest) -> dict[str, str]:
    """The headers of a request by lower-case name. If a header comes twice, the last one counts."""
    raw = request.requestHeaders.getAllRawHeaders()
    return {name.decode("latin-1").lower(): values[-1].decode("latin-1") for name, values in raw}


def _content(request: AdminRequest) -> bytes:
    content: Any = request.content
    read: bytes = content.read()
    return read


def _body(route: Route, body: bytes) -> Any:
    if route.body is None:
        return None
    try:
        return msgspec.json.decode(body, type=route.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem("bad-body", str(error)) from None
