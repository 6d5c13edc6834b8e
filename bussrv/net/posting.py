"""HTTP requests that post something: to one URL and nowhere else, with bounds for the answer and for the time.

An answer that leads elsewhere is an answer. Certificates are checked as browsers check them, with the authorities of
the system.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol
from twisted.python.failure import Failure
from twisted.web.client import Agent, BrowserLikePolicyForHTTPS, FileBodyProducer, HTTPConnectionPool
from twisted.web.http_headers import Headers
from twisted.web.iweb import IResponse

from bussrv.version import VERSION

PATIENCE = 10.0
"""The longest time for a request, in seconds: to connect, and for the whole answer."""

MOST_ANSWER = 1 << 16
"""The most bytes of an answer that are kept. Whoever sends more is cut off."""


class NotPosted(Exception):
    """There is no answer. The message says why, and names the host, but not the path, which is often a secret."""


class Posted(Struct, frozen=True):
    """An answer. Of a long one, the body is its beginning."""

    status: int
    content_type: str
    body: bytes


class Poster:
    """Sends requests. Each has a connection of its own: they are rare, and the other side may forget connections."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        pool = HTTPConnectionPool(reactor, persistent=False)
        self._agent = Agent(reactor, BrowserLikePolicyForHTTPS(), connectTimeout=PATIENCE, pool=pool)

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Deferred[Posted]:
        """Post something.

        :param url: in ASCII.
        :returns: fires with the answer, whatever its status; fails with :class:`NotPosted`.
        """
        host = urlsplit(url).hostname
        done: Deferred[Posted] = Deferred.fromCoroutine(self._post(url, body, headers))
        late = Failure(NotPosted(f"{host} did not answer in time"))
        return done.addTimeout(PATIENCE, self._reactor, lambda result, seconds: late)

    async def _post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Posted:
        sent = Headers({name: [value] for name, value in {"User-Agent": f"bussrv/{VERSION}", **headers}.items()})
        try:
            response = await self._agent.request(b"POST", url.encode("ascii"), sent, FileBodyProducer(BytesIO(body)))
        except Exception as error:
            raise NotPosted(f"{urlsplit(url).hostname} cannot be reached: {_kind(error)}") from error
        kinds = response.headers.getRawHeaders("Content-Type", [""])
        return Posted(response.code, kinds[-1], await _read(response))


def _kind(error: Exception) -> str:
    """The kind of an error, of a failed connection the first reason."""
    reasons = getattr(error, "reasons", None)
    return type(reasons[0].value if reasons else error).__name__


def _read(response: IResponse) -> Deferred[bytes]:
    """Fires with the body of an answer, as far as it is kept."""
    done: Deferred[bytes] = Deferred()
    response.deliverBody(_Body(done))
    return done


class _Body(Protocol):
    """Keeps a body, up to its limit."""

    def __init__(self, done: Deferred[bytes]) -> None:
        self._done = done
        self._parts: list[bytes] = []
        self._size = 0

    def dataReceived(self, data: bytes) -> None:
        """A part came. Whoever sends too much is cut off."""
        self._parts.append(data)
        self._size += len(data)
        if self._size > MOST_ANSWER and self.transport is not None:
            self.transport.loseConnection()

    def connectionLost(self, reason: Failure | None = None) -> None:
        """Everything came, or the connection broke."""
        if not self._done.called:
            self._done.callback(b"".join(self._parts)[:MOST_ANSWER])
