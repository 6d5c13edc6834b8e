"""The site and its port: checks the requests of all connections, and calls the functions of the routes."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from twisted.internet.defer import CancelledError, Deferred, DeferredList
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from bussrv.addresses import address_key, peer_text
from bussrv.admin.http.answers import Answer, Problem, encode, is_any, is_known
from bussrv.admin.http.channel import SLICES, AdminChannel, AdminRequest
from bussrv.admin.http.guards import check_content_type, check_host, check_origin, check_site
from bussrv.admin.http.login import PROTOCOL, Caller, Login
from bussrv.admin.http.routes import Call, Route, Routes, parse_query
from bussrv.admin.http.sending import EventStream, send
from bussrv.admin.interfaces import AdministeredServer
from bussrv.admin.registry.collections import parameters
from bussrv.admin.servers.asking import AskedServer
from bussrv.admin.state import RequestMemory
from bussrv.admin.table import ROUTES
from bussrv.counts.tally import Tally
from bussrv.counts.throttle import LOG_BURST, LOG_RATE, Throttle
from bussrv.interfaces import IListener
from bussrv.net.listening import StreamPort
from bussrv.net.tls.connection import TlsConnection
from bussrv.net.transport.accepting import ClosedAtOnce
from bussrv.settings import Settings

BURST = 2
"""A user, or an address, may send the requests of so many seconds at the same time."""

_GUARDED = {
    b"host": "bad-host",
    b"origin": "bad-origin",
    b"sec-fetch-site": "bad-origin",
    b"content-type": "bad-content-type",
}
"""Headers that tell where a request comes from, by name: whoever sends one twice wants different readers to go by
different ones. With the code of the refusal.
"""

RESERVE = 10
"""One of so many connections is kept for users who may write."""

_COUNTERS = {
    "head-too-large": "admin-max-head",
    "body-too-large": "admin-max-body",
    "request-timeout": "admin-request-timeout",
    "too-many-requests": "admin-max-rate",
    "journal-too-long": "admin-read-timeout",
}
"""The counters of problems that a limit causes."""

_TOO_MANY = {"Retry-After": "5"}

log = Logger()


class _Holder(NamedTuple):
    key: str
    may_write: bool


class Streams:
    """The streams that are open, and how many of them a user may have.

    A user has a number of streams, and all users together another one. Beyond that, the user with most streams loses
    the oldest one. Those who may write lose none as long as others have any.
    """

    def __init__(self, settings: Settings, counters: Counter[str]) -> None:
        self._settings = settings
        self._counters = counters
        self._open: dict[EventStream, _Holder] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[EventStream]:
        return iter(tuple(self._open))

    def make_room(self, caller: Caller) -> None:
        """Make room for a stream of a user.

        :raises Problem: ``too-many-streams``.
        """
        of_one, of_all = self._settings.admin_max_streams, self._settings.admin_max_streams_total
        counts = Counter(self._open.values())
        own = _Holder(caller.key, caller.may_write)
        if counts[own] >= of_one:
            self._counters["admin-max-streams"] += 1
            raise Problem("too-many-streams", f"you have {of_one} (--admin-max-streams)", _TOO_MANY)
        if len(self._open) < of_all:
            return
        self._counters["admin-max-streams-total"] += 1
        fullest = max(counts, key=lambda each: (not each.may_write, counts[each]))
        if fullest == own or (fullest.may_write and not own.may_write):
            raise Problem("too-many-streams", f"there are {of_all} (--admin-max-streams-total)", _TOO_MANY)
        next(stream for stream, holder in self._open.items() if holder == fullest).end()

    @contextmanager
    def kept(self, stream: EventStream, caller: Caller) -> Iterator[None]:
        """A stream is open meanwhile."""
        self._open[stream] = _Holder(caller.key, caller.may_write)
        try:
            yield
        finally:
            self._open.pop(stream, None)


class AdminSite(Factory):
    """Serves the connections of the admin port.

    :param routes: the table of routes.
    :param login: decides who callers are.
    """

    noisy = False
    in_turns = False
    name = PROTOCOL

    def __init__(self, server: AdministeredServer, routes: Routes, login: Login) -> None:
        self.server = server
        self.bus = server.bus
        self._settings = server.bus.settings
        self._hosts: frozenset[str] = frozenset()
        self.shared = RequestMemory(server)
        self.streams = Streams(server.bus.settings, server.bus.counters)
        self._routes = routes
        self._login = login
        self._channels: OrderedDict[AdminChannel, None] = OrderedDict()
        self._tally: Tally[str] = Tally()
        self._stopped: Deferred[None] | None = None
        self._complaints = Throttle(LOG_RATE, LOG_BURST, server.reactor.seconds)
        self._rates = Throttle(1.0, 1, server.reactor.seconds)
        self._refusals = Throttle(1.0, 1, server.reactor.seconds)
        server.bus.streams.connections.append(self._channels)
        # Clients connect again, with their credentials.
        server.bus.identity.changed.append(self._end_streams)

    def use(self, *, hosts: Iterable[str], audit_summary: Path | None, peers: Iterable[AskedServer] = ()) -> None:
        """Take the configuration that holds from now on.

        :param hosts: further names of this server.
        :param audit_summary: the summary of the last audit of its journal.
        :param peers: how other servers are asked for their summaries.
        """
        self._hosts = frozenset(each.lower() for each in hosts)
        self.shared.audit.file = audit_summary
        self.shared.peers.use(peers)

    # Connections.

    def buildProtocol(self, addr: Any) -> Any:
        """A protocol for a new connection. Beyond the limit, the one that is needed least is closed."""
        return self.if_there_is_room(lambda: AdminChannel(self))

    def if_there_is_room(self, make: Callable[[], Any]) -> Any:
        """See :class:`bussrv.net.listening.PortFactory`."""
        if self._stopped is not None:
            return ClosedAtOnce()
        if self.bus.streams.is_crowded:
            self.bus.counters["no-descriptors"] += 1
            return ClosedAtOnce()
        if len(self._channels) >= self._settings.admin_max_connections:
            self.bus.counters["admin-max-connections"] += 1
            least = self._needed_least()
            if least is None:
                return ClosedAtOnce()
            self.left(least)
            least.abort()
        return make()

    def _needed_least(self) -> AdminChannel | None:
        """The connection to close for a new one.

        It is the one that was idle for longest. If none is idle, and those who may not write have all places except the
        reserve, it is the one of theirs that was served for longest. Of several the address with most comes first.
        """
        idle = [each for each in self._channels if each.is_idle]
        if not idle:
            others = [each for each in self._channels if not each.may_write]
            most = self._settings.admin_max_connections
            idle = others if len(others) > most - most // RESERVE else []
        fullest = self._tally.fullest() if self._channels else ""
        return next((each for each in idle if each.key == fullest), idle[0] if idle else None)

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
        self.shared.audits.stop()
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
        if not (request._disconnected or request.channel.is_ending):
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
        headers = _headers(request)
        try:
            route, found = self._guard(request, headers, path)
            caller = await self._permitted(request, route, headers)
        except Problem as problem:
            self._spend_refusal(request.channel.peer, problem)
            raise
        self._spend(caller)
        call = self._call(request, route, caller, found, headers)
        if route.is_stream:
            await self._stream(request, call)
            return None
        return await self._value(call)

    def _guard(self, request: AdminRequest, headers: dict[str, str], path: str) -> tuple[Route, dict[str, str]]:
        """The route of a request that no page of another host can have sent, and the parameters of its path."""
        for name, code in _GUARDED.items():
            if len(request.requestHeaders.getRawHeaders(name, ())) > 1:
                raise Problem(code, f"there are several {name.decode().title()} headers")
        local = peer_text(request.channel.getHost())
        is_old = request.clientproto != b"HTTP/1.1"
        check_host(headers.get("host"), local, self._hosts, may_lack=is_old)
        check_origin(headers.get("origin"), headers.get("host"))
        route, found = self._routes.find(request.method.decode("latin-1"), path)
        if not route.is_page:
            check_site(headers.get("sec-fetch-site"))
        if route.has_effects:
            check_content_type(headers.get("content-type"))
        return route, found

    async def _permitted(self, request: AdminRequest, route: Route, headers: dict[str, str]) -> Caller:
        """The caller, if it may use the route."""
        peer = request.channel.peer
        if route.permission is None:
            return Caller(None, peer, frozenset())
        caller = await self._caller(request, headers, peer)
        request.channel.may_write = caller.may_write
        if not (route.is_of_statistics and self._login.may_see_statistics(caller)):
            self._login.check(caller, route.permission)
        return caller

    def _spend(self, caller: Caller) -> None:
        """Count a request for its user, so that nobody else at the same address uses up what a user may send."""
        rate = self._settings.admin_max_rate
        self._rates.limit(rate, BURST * rate)
        if self._rates.admit(caller.key) is None:
            whose = "one address" if caller.actor is None else "one user"
            why = f"more than {rate} requests a second of {whose} (--admin-max-rate)"
            raise Problem("too-many-requests", why, {"Retry-After": "1"})

    def _spend_refusal(self, peer: str, problem: Problem) -> None:
        """Count a refusal for its address. Refusals use up nothing that other requests need.

        :raises Problem: ``too-many-requests``. The connection ends.
        """
        rate = self._settings.admin_max_rate
        self._refusals.limit(rate, BURST * rate)
        if self._refusals.admit(address_key(peer)) is None:
            why = f"more than {rate} refused requests a second of one address (--admin-max-rate): {problem}"
            raise Problem("too-many-requests", why, {"Retry-After": "1", "Connection": "close"}) from problem

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
        body = _body(route, request.content.read())
        rows = self._routes.rows
        return Call(self.server, self.shared, caller, route, rows, path, parse_query(query, known), body, headers)

    async def _value(self, call: Call) -> Answer:
        tag = self.shared.tag if call.route.is_of_registry else None
        headers = {} if tag is None else {"ETag": tag}
        known = call.headers.get("if-none-match", "") if call.route.method == "GET" else ""
        if tag is not None and not is_any(known) and is_known(tag, known):
            return Answer(b"", status=304, headers=headers)
        value = await call.route.function(call)
        answer = value if isinstance(value, Answer) else Answer(encode(value), headers=headers)
        # Only now it is certain that there is something at the path.
        return Answer(b"", status=304, headers=answer.headers) if is_any(known) and answer.status == 200 else answer

    async def _stream(self, request: AdminRequest, call: Call) -> None:
        self.streams.make_room(call.caller)
        stream = EventStream(request, self._settings.admin_max_waiting, self._too_slow)
        expiry = self._end_at(call.caller.expires, stream)
        try:
            with self.streams.kept(stream, call.caller):
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
            if expiry is not None and expiry.active():
                expiry.cancel()

    def _end_at(self, expires: int | None, stream: EventStream) -> Any:
        """End a stream when the proof of its caller expires."""
        if expires is None:
            return None
        return self.server.reactor.callLater(max(0.0, (expires - self.bus.utc()) / 1_000_000), stream.end)

    def _end_streams(self) -> None:
        for each in self.streams:
            each.end()

    def _too_slow(self) -> None:
        self.bus.counters["admin-max-waiting"] += 1


def _headers(request: AdminRequest) -> dict[str, str]:
    """The headers of a request by lower-case name. If a header comes twice, the last one counts."""
    raw = request.requestHeaders.getAllRawHeaders()
    return {name.decode("latin-1").lower(): values[-1].decode("latin-1") for name, values in raw}


def _body(route: Route, body: bytes) -> Any:
    if route.body is None:
        return None
    try:
        return msgspec.json.decode(body, type=route.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem("bad-body", str(error)) from None


@implementer(IListener)
class AdminPort(StreamPort):
    """The port of the admin interface, and its connections.

    :param description: a server endpoint description of Twisted.
    :raises ConfigError: ``description`` is malformed.
    """

    def __init__(self, server: AdministeredServer, login: Login, description: str) -> None:
        self.site = AdminSite(server, Routes(ROUTES), login)
        super().__init__(self.site, description, server.reactor)

    def startService(self) -> None:
        """Listen, keep the history, and ask other servers. Raises as :meth:`StreamPort.startService` does."""
        super().startService()
        self.site.shared.history.start()
        self.site.shared.peers.start()

    def stopService(self) -> Deferred[Any]:
        """Close the port and every connection, and wait until they are gone, and the history is saved."""
        super().stopService()
        self.site.shared.peers.stop()
        closed = self.stop_listening()
        return DeferredList([closed, self.site.stop(), self.site.shared.history.stop()])
