"""Posts incidents to a URL, as JSON.

It goes to that URL and nowhere else: an answer that leads elsewhere is a failure. Certificates are checked as browsers
check them, with the authorities of the system. The path of a URL is often a secret, so no log has it.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol
from twisted.python.failure import Failure
from twisted.web.client import Agent, BrowserLikePolicyForHTTPS, FileBodyProducer, HTTPConnectionPool
from twisted.web.http_headers import Headers
from twisted.web.iweb import IResponse

from bussrv.admin.incidents.outbox import NotSent
from bussrv.version import VERSION

PATIENCE = 10.0
"""The longest time for an attempt, in seconds: to connect, and for the whole answer."""

MOST_ANSWER = 1 << 16
"""The most bytes of an answer that are read. They mean nothing, except that its status does."""


class Webhook:
    """The sender of one URL.

    :param url: the URL. It may hold a secret.
    """

    def __init__(self, url: str, reactor: Any) -> None:
        self._url = url.encode("ascii")
        self._reactor = reactor
        # A connection of its own for each attempt: incidents are rare, and the other side may forget connections.
        pool = HTTPConnectionPool(reactor, persistent=False)
        self._agent = Agent(reactor, BrowserLikePolicyForHTTPS(), connectTimeout=PATIENCE, pool=pool)
        self.host = urlsplit(url).hostname

    def __call__(self, text: bytes, event: str) -> Deferred[None]:
        """Post a message. :returns: fires when the other side has taken it; fails with :class:`NotSent`."""
        done: Deferred[None] = Deferred.fromCoroutine(self._post(text, event))
        done.addTimeout(PATIENCE, self._reactor, lambda result, seconds: Failure(NotSent("it took too long")))
        return done

    async def _post(self, text: bytes, event: str) -> None:
        headers = Headers({
            "Content-Type": ["application/json"],
            "User-Agent": [f"bussrv/{VERSION}"],
            "Bussrv-Incident": [event],
        })  # fmt: skip
        try:
            response = await self._agent.request(b"POST", self._url, headers, FileBodyProducer(BytesIO(text)))
        except Exception as error:
            raise NotSent(f"{self.host} cannot be reached: {_kind(error)}") from error
        await _drained(response)
        if not 200 <= response.code < 300:
            raise NotSent(f"{self.host} answered {response.code}")


def _kind(error: Exception) -> str:
    """The kind of an error, of a failed connection the first reason."""
    reasons = getattr(error, "reasons", None)
    return type(reasons[0].value if reasons else error).__name__


def _drained(response: IResponse) -> Deferred[None]:
    """Fires when an answer was read, as far as it is."""
    done: Deferred[None] = Deferred()
    response.deliverBody(_Drain(done))
    return done


class _Drain(Protocol):
    """Throws an answer away."""

    def __init__(self, done: Deferred[None]) -> None:
        self._done = done
        self._size = 0

    def dataReceived(self, data: bytes) -> None:
        """Count it. Whoever sends too much is cut off."""
        self._size += len(data)
        if self._size > MOST_ANSWER and self.transport is not None:
            self.transport.loseConnection()

    def connectionLost(self, reason: Failure | None = None) -> None:
        """All was read, or the connection broke: the status is known already."""
        if not self._done.called:
            self._done.callback(None)
