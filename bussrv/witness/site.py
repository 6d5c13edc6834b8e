"""The HTTP site of a witness: ``POST …/add-checkpoint`` and ``GET …/<origin hash>/checkpoint``.

Nobody logs in: what a request may do follows from the signature in it. So everything is bounded: connections, of all
and of one address, bytes of a request, and the time that it may take.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from twisted.internet.interfaces import IAddress
from twisted.logger import Logger
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from bussrv.addresses import address_key
from bussrv.counts.throttle import LOG_BURST, LOG_RATE, Throttle
from bussrv.settings import Settings
from bussrv.transparency.witnessing import CONFLICT, INCONSISTENT, SIZE_TYPE, Rejection, parse_submission
from bussrv.turns.threads import Threads
from bussrv.witness.witness import Witness

_CHECKPOINT = re.compile(rb"/([0-9a-f]{64})/checkpoint\Z")
_TEXT = "text/plain; charset=utf-8"

log = Logger()


class _Submitted(Request):
    """A request whose body has a limit."""

    channel: _Channel
    _is_refused = False
    _size = 0

    def gotLength(self, length: int | None) -> None:  # noqa: N802 - called by Twisted
        """The head is there."""
        super().gotLength(length)
        if (length or 0) > self.channel.site.settings.witness_max_body:
            self._refuse()

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802 - called by Twisted
        """A part of the body came."""
        if self._size + len(data) > self.channel.site.settings.witness_max_body:
            self._refuse()
        elif not self._is_refused:
            self._size += len(data)
            super().handleContentChunk(data)

    def process(self) -> None:
        """The whole request is there."""
        if not self._is_refused:
            super().process()

    def _refuse(self) -> None:
        if not self._is_refused:
            self._is_refused = True
            self.channel.site.counters["witness-max-body"] += 1
            self.channel.site.answers[413] += 1
            self.channel.write(b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\n\r\n")
            self.channel.loseConnection()


class _Channel(HTTPChannel):
    """A connection, which may be idle for a while."""

    site: WitnessSite

    def timeoutConnection(self) -> None:  # noqa: N802 - called by Twisted
        """Nothing came for too long."""
        self.site.counters["witness-idle-timeout"] += 1
        super().timeoutConnection()


class WitnessResource(Resource):
    """Answers requests, at any path that ends as the protocol says.

    :param answers: counts them by status.
    """

    isLeaf = True  # noqa: N815 - Twisted's name

    def __init__(
        self, witness: Witness, reactor: Any, settings: Settings, counters: Counter[str], answers: Counter[int]
    ) -> None:
        super().__init__()
        self._settings, self._counters, self._answers = settings, counters, answers
        self._witness = witness
        # One, since a witness judges one submission after the other, and others need the processor.
        self._thread = Threads(reactor, "bussrv-witness", 1)
        self._waiting = 0
        self._warnings = Throttle(LOG_RATE, LOG_BURST, reactor.seconds)

    def render_GET(self, request: Request) -> bytes:  # noqa: N802 - called by Twisted
        """The newest checkpoint of a log."""
        found = _CHECKPOINT.search(request.path)
        note = None if found is None else self._witness.newest(found[1].decode())
        if note is None:
            return self._answer(request, 404, "nothing of such a log was cosigned\n")
        return self._answer(request, 200, note.encode())

    def render_POST(self, request: Request) -> bytes | int:  # noqa: N802 - called by Twisted
        """Cosign a checkpoint."""
        if not request.path.endswith(b"/add-checkpoint"):
            return self._answer(request, 404, "there is nothing at this path\n")
        if self._waiting >= self._settings.witness_max_waiting:
            self._counters["witness-max-waiting"] += 1
            request.setHeader("Retry-After", "5")
            return self._answer(request, 503, "too many submissions wait\n")
        body = b"" if request.content is None else request.content.read()
        self._waiting += 1
        self._thread(self._cosigned, body).addBoth(self._finish, request)
        return NOT_DONE_YET

    def _cosigned(self, body: bytes) -> str:
        given = self._witness.cosign(parse_submission(body))
        return "".join(each.line for each in given)

    def _finish(self, result: str | Failure, request: Request) -> None:
        self._waiting -= 1
        status, text, kind = 200, result, _TEXT
        if isinstance(result, Failure):
            status, text, kind = self._failed(result)
        answer = self._answer(request, status, str(text), kind)
        # A client that has gone is not answered. The checkpoint that was cosigned for it is kept all the same.
        if not request._disconnected:
            request.write(answer)
            request.finish()

    def _failed(self, failure: Failure) -> tuple[int, str, str]:
        error = failure.value
        if isinstance(error, Rejection):
            if error.status == CONFLICT:
                return CONFLICT, f"{error.size}\n", SIZE_TYPE
            if error.status == INCONSISTENT and self._warnings.admit("") is not None:
                # It is signed: whoever has the key of the log shows two histories.
                log.warn("not cosigned: {message}", event="witness.inconsistent", message=str(error))
            return error.status, f"{error}\n", _TEXT
        log.failure("a submission could not be kept", failure, event="witness.failed")
        return 500, "the witness cannot keep anything at the moment\n", _TEXT

    def _answer(self, request: Request, status: int, text: str, kind: str = _TEXT) -> bytes:
        self._answers[status] += 1
        if not request._disconnected:
            request.setResponseCode(status)
            request.setHeader("Content-Type", kind)
        return text.encode()


class WitnessSite(Site):
    """The site of a witness.

    :ivar answers: how many requests were answered, by status.
    """

    def __init__(self, witness: Witness, reactor: Any, settings: Settings, counters: Counter[str]) -> None:
        self.settings, self.counters = settings, counters
        self.answers: Counter[int] = Counter()
        resource = WitnessResource(witness, reactor, settings, counters, self.answers)
        super().__init__(resource, requestFactory=_Submitted, reactor=reactor)
        self.protocol = _Channel  # type: ignore[method-assign, assignment]
        self.noisy = self.displayTracebacks = False

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """A connection."""
        self.timeOut = self.settings.witness_idle_timeout
        return super().buildProtocol(addr)

    def log(self, request: Any) -> None:
        """Log nothing: whoever can reach the port would fill the log."""


class WitnessConnections(WrappingFactory):
    """The connections to a witness: so many of all, so many of an address, and each for so long."""

    noisy = False

    def __init__(self, site: WitnessSite, reactor: Any) -> None:
        super().__init__(site)
        self._reactor = reactor
        self._settings, self._counters = site.settings, site.counters
        self._of: Counter[str] = Counter()
        self._ends: dict[ProtocolWrapper, Any] = {}

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """A protocol for a connection; ``None``: there are too many."""
        reached = ""
        if len(self._ends) >= self._settings.witness_max_connections:
            reached = "witness-max-connections"
        elif self._of[_key(addr)] >= self._settings.witness_max_connections_per_address:
            reached = "witness-max-connections-per-address"
        if reached:
            self._counters[reached] += 1
            return None
        return super().buildProtocol(addr)

    def registerProtocol(self, p: ProtocolWrapper) -> None:  # noqa: N802 - called by Twisted
        """A connection has begun."""
        super().registerProtocol(p)
        self._of[_key(p.getPeer())] += 1
        self._ends[p] = self._reactor.callLater(self._settings.witness_connection_timeout, self._end_old, p)

    def _end_old(self, connection: ProtocolWrapper) -> None:
        self._counters["witness-connection-timeout"] += 1
        connection.abortConnection()

    def unregisterProtocol(self, p: ProtocolWrapper) -> None:  # noqa: N802 - called by Twisted
        """A connection has ended."""
        super().unregisterProtocol(p)
        key, end = _key(p.getPeer()), self._ends.pop(p)
        self._of[key] -= 1
        if not self._of[key]:
            del self._of[key]
        if end.active():
            end.cancel()

    def end(self) -> None:
        """End all connections."""
        for each in tuple(self._ends):
            each.abortConnection()


def _key(address: IAddress | None) -> str:
    return address_key(str(getattr(address, "host", "")))
