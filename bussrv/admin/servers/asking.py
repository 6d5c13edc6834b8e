"""Asks the admin interface of another server for its summary. This blocks, so it is for a thread.

The answer is bounded, and so is the time: the socket has a time-out for each step, and :meth:`Question.abort`, which
another thread calls, ends all of them.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from bussrv.admin.servers.facts import ServerSummary

MOST_BYTES = 256 << 10
"""The most bytes of an answer: a server with a thousand links has 150,000."""

TIMEOUT = 5.0
"""Seconds for each step: to connect, and for each wait for bytes."""

DEFAULT_PORT = 7280
PATH = "/api/v1/summary"

_decode = msgspec.json.Decoder(ServerSummary).decode


class AskedServer(NamedTuple):
    """How a server is asked.

    :ivar url: its admin interface.
    :ivar token: secret; ``None``: nothing is proved.
    :ivar context: of TLS, for ``https``.
    """

    url: str
    token: str | None
    context: ssl.SSLContext | None


class Answered(Struct, frozen=True):
    """The answer of a server.

    :ivar problem: why there is no summary, as a sentence.
    :ivar round_trip: seconds from the request to the answer.
    :ivar ahead: seconds that its clock is ahead of this one's, give or take half of the round trip.
    """

    summary: ServerSummary | None = None
    problem: str | None = None
    round_trip: float | None = None
    ahead: float | None = None


class Question:
    """One question to a server.

    :param utc: the time of day, UTC microseconds.
    :param parse_time: of the times in the answer.
    """

    def __init__(self, asked: AskedServer, utc: Callable[[], int], parse_time: Callable[[str], int]) -> None:
        self._asked = asked
        self._utc = utc
        self._parse_time = parse_time
        self._connection: http.client.HTTPConnection | None = None

    def abort(self) -> None:
        """End it: somebody waits no longer."""
        sock = None if self._connection is None else self._connection.sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def ask(self) -> Answered:
        """Ask, and wait for the answer. Nothing is raised that a server could cause."""
        connection = self._connection = _connection(self._asked)
        try:
            # The handshake is no part of the round trip.
            connection.connect()
            return self._answered(connection)
        except (OSError, ValueError, http.client.HTTPException, msgspec.MsgspecError, RecursionError) as error:
            return Answered(problem=_sentence(error))
        finally:
            connection.close()

    def _answered(self, connection: http.client.HTTPConnection) -> Answered:
        headers = {"Accept": "application/json", "User-Agent": "bussrv", "Connection": "close"}
        if self._asked.token is not None:
            headers["Authorization"] = f"Bearer {self._asked.token}"
        begun, sent = self._utc(), time.monotonic()
        connection.request("GET", urlsplit(self._asked.url).path.rstrip("/") + PATH, headers=headers)
        answer = connection.getresponse()
        round_trip = time.monotonic() - sent
        body = answer.read(MOST_BYTES + 1)
        if answer.status != http.HTTPStatus.OK:
            return Answered(problem=f"it answered {answer.status} {answer.reason[:100]}")
        if len(body) > MOST_BYTES:
            return Answered(problem=f"its answer has more than {MOST_BYTES} bytes")
        found = _decode(body)
        middle = begun + round_trip * 500_000
        return Answered(found, None, round_trip, (self._parse_time(found.time) - middle) / 1_000_000)


def _connection(asked: AskedServer) -> http.client.HTTPConnection:
    parts = urlsplit(asked.url)
    host, port = parts.hostname or "", parts.port or DEFAULT_PORT
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=asked.context)
    return http.client.HTTPConnection(host, port, timeout=TIMEOUT)


def _sentence(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return f"its answer is no summary: {error}"[:300]
