"""The errors that clients raise: one tree, whose root is :class:`BusError`."""

from __future__ import annotations

from typing import Any

from bussrv.errors import BussrvError

__all__ = [
    "BadLogin",
    "BufferFull",
    "BusError",
    "Closed",
    "Lost",
    "NoService",
    "Offline",
    "Overflowed",
    "ServiceError",
    "TimedOut",
    "Unsupported",
]


class BusError(BussrvError):
    """The server answered with an ``error`` object; and the root of all errors of clients.

    :ivar reason: a stable code, see :data:`bussrv.errors.REASONS`;
        of a service's error, the code that the service chose.
    :ivar message: one sentence for a person.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{message} ({reason})")
        self.reason = reason
        self.message = message


class _ForOneReason(BusError):
    REASON = ""

    def __init__(self, message: str) -> None:
        super().__init__(self.REASON, message)


class NoService(BusError):
    """Nobody provides the service, so the request was not done."""


class TimedOut(_ForOneReason, TimeoutError):
    """No answer came in time. A request may have been done, or be done later."""

    REASON = "timed-out"


class Lost(BusError, ConnectionError):
    """The connection, or the provider, went before the answer came. The client never sends a request again by itself.

    :ivar maybe_done: whether the request may have been done; if not, it never left this program.
    """

    def __init__(self, reason: str, message: str, *, maybe_done: bool = True) -> None:
        super().__init__(reason, message)
        self.maybe_done = maybe_done


class Offline(BusError, ConnectionError):
    """There is no connection at the moment, and ``offline`` says to raise then.

    :param reason: ``offline``; or ``timed-out``: the server did not take a connection in time.
    """

    def __init__(self, message: str, reason: str = "offline") -> None:
        super().__init__(reason, message)


class BufferFull(Offline):
    """There is no connection at the moment, and the :class:`~bussrv.client.settings.Buffer` is full."""


class Closed(_ForOneReason, ConnectionError):
    """The client, or the subscription, was closed by this program."""

    REASON = "closed"


class BadLogin(BusError, PermissionError):
    """The server does not accept the credentials, or wants some."""


class Overflowed(_ForOneReason):
    """More messages waited than the queue of a subscription with ``overflow="fail"`` takes."""

    REASON = "overflow"


class Unsupported(_ForOneReason):
    """The wire format cannot do that."""

    REASON = "unsupported"


class ServiceError(Exception):
    """Raise it in a handler of requests, to answer with an error of your own.

    :param reason: a code for programs.
    :param message: one sentence for a person.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


_OF_REASON: dict[str, type[BusError]] = {
    "no-such-service": NoService,
    "provider-gone": Lost,
    **dict.fromkeys(("bad-credentials", "not-authenticated", "authentication-failed", "bad-certificate"), BadLogin),
}


def said_in(error: dict[str, Any]) -> tuple[str, str]:
    """The reason and the message of an ``error`` object."""
    return str(error.get("reason", "unknown")), str(error.get("message", "the server gave no message"))


def error_of(reason: str, message: str) -> BusError:
    """The error for an ``error`` object of the server, or of a service."""
    return _OF_REASON.get(reason, BusError)(reason, message)
