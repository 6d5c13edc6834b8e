"""The settings of a client: its user, its behaviour while the server is away, and the pauses between attempts."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

__all__ = ["Backoff", "Buffer", "Login", "OfflinePolicy", "Secret", "Settings"]

Secret: TypeAlias = str | Callable[[], str] | None
"""A secret or token; or a function that returns the present one, which is asked at every connection."""


@dataclass(frozen=True)
class Backoff:
    """The pauses between attempts to connect. Each is twice as long as the one before, and drawn between half of that
    and the whole, so that a thousand clients do not come back in the same moment.

    :ivar first: the first pause, in seconds.
    :ivar most: the longest, in seconds.
    """

    first: float = 0.1
    most: float = 30.0

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.most:
            raise ValueError(f"the first pause is over 0 and at most {self.most:g} s, not {self.first:g}")

    def pause(self, attempts: int, draw: Callable[[], float] = random.random) -> float:
        """Seconds before the next attempt.

        :param attempts: how many have failed since the last success.
        :param draw: a number from 0 to 1.
        """
        longest = min(self.most, self.first * 2.0 ** min(attempts, 60))
        return longest * (0.5 + draw() / 2)


@dataclass(frozen=True)
class Buffer:
    """Publications are kept while the server is away, in order, up to a bound; and sent when it is back.

    :ivar most: the most publications.
    :ivar most_bytes: the most bytes of them.
    """

    most: int = 1000
    most_bytes: int = 4 << 20


OfflinePolicy: TypeAlias = Literal["raise", "wait"] | Buffer


@dataclass(frozen=True)
class Login:
    """The user of a client: with a secret, or by a token.

    :ivar name: the name of the program, for people; nobody checks it.
    """

    user: str | None = None
    secret: Secret = field(default=None, repr=False)
    token: Secret = field(default=None, repr=False)
    name: str | None = None

    def __post_init__(self) -> None:
        if self.secret is not None and self.user is None:
            raise ValueError("a secret belongs to a user: say user=, too")
        if self.secret is not None and self.token is not None:
            raise ValueError("a client logs in with a secret or with a token, not with both")

    def credentials(self) -> dict[str, str]:
        """The attributes that log in, as they are now."""
        found = {"user": self.user, "secret": _now(self.secret), "token": _now(self.token)}
        return {name: value for name, value in found.items() if value is not None}


def _now(secret: Secret) -> str | None:
    return secret() if callable(secret) else secret


@dataclass(frozen=True)
class Settings:
    """The settings of a core. See :func:`bussrv.client.aio.connect`, which takes the same as arguments.

    :ivar silence: a core that can asks the server for a sign of life after half of it.
    """

    login: Login = Login()
    routing_ids: tuple[str, ...] = ()
    offline: OfflinePolicy = "raise"
    timeout: float = 10.0
    silence: float = 30.0
    lease: float = 300.0
    max_payload: int = 16 << 20
