"""Lines of log about single clients, at a limited rate for each address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.logger import Logger
from twisted.python.failure import Failure

from bussrv.addresses import host_of
from bussrv.counts.throttle import LOG_RATE, Throttle
from bussrv.errors import RemoteProtocolError

LOG_BURST = 10
"""The most lines of log that one address may cause at once. After that it may cause ``LOG_RATE`` lines a second."""

UNNAMED = "an unnamed client"

log = Logger()


class Complaints:
    """The lines of one port.

    :param name: the wire format.
    :param seconds: a clock, in seconds.
    :param named: says what a person calls a session; ``None``: it has no name.
    """

    def __init__(
        self, name: str, seconds: Callable[[], float], named: Callable[[str], str | None] = lambda _: None
    ) -> None:
        self._name = name
        self._named = named
        self._throttle = Throttle(LOG_RATE, LOG_BURST, seconds)

    def malformed(self, session_id: str, peer: str, error: RemoteProtocolError) -> None:
        """A client sent something malformed."""
        text = (
            "{protocol}: session {session} of {client} from {peer} ended: {error.message} "
            "({suppressed} more not logged)"
        )
        if about := self._about_session(session_id, peer):
            log.info(text, event="session.malformed", error=error, **about)

    def cut(self, session_id: str, peer: str, reason: str, limit: str, value: int) -> None:
        """A client is cut because too much waits for it, or for all clients."""
        text = (
            "{protocol}: session {session} of {client} from {peer} is cut, {reason}: more than {value} bytes wait, "
            "the limit of --{limit} ({suppressed} more not logged)"
        )
        if about := self._about_session(session_id, peer):
            log.warn(text, event="session.cut", reason=reason, limit=limit, value=value, **about)

    def broken(self, session_id: str, peer: str, failure: Failure) -> None:
        """Serving a client failed."""
        text = "{protocol}: serving session {session} of {client} from {peer} failed ({suppressed} more not logged)"
        if about := self._about_session(session_id, peer):
            log.failure(text, failure, event="session.failed", **about)

    def no_tls(self, peer: str, why: str) -> None:
        """A client does not speak TLS, or not as it should."""
        text = "{protocol}: TLS with {peer} failed: {why} ({suppressed} more not logged)"
        if about := self._about(peer):
            log.info(text, event="tls.failed", why=why, **about)

    def _about_session(self, session_id: str, peer: str) -> dict[str, Any]:
        about = self._about(peer)
        return about and {**about, "session": session_id, "client": self._named(session_id) or UNNAMED}

    def _about(self, peer: str) -> dict[str, Any]:
        """The fields that every line has; empty if the address has caused too many lines."""
        suppressed = self._throttle.admit(host_of(peer))
        return {} if suppressed is None else {"protocol": self._name, "peer": peer, "suppressed": suppressed}
