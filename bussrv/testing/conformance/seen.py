"""Clients as a trial sees them: their deeds, and the last that each of them sent, received and was refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from bussrv.testing.conformance.adapter import Client

DEEDS = (
    "join",
    "subscribe",
    "subscribe_below",
    "subscribe_finer",
    "unsubscribe",
    "provide",
    "publish",
    "ask",
    "answer",
    "unfinished",
)
"""The methods of a client that make what it sends."""

MOST_SHOWN, MOST_CLIENTS = 160, 6


class Seen:
    """One client, as it is seen. This keeps nothing else of the client, nor of its connection.

    :param name: of its format.
    :param number: that of the client.
    """

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.refused: str | None = None
        self._number = number
        self._deeds: dict[str, None] = {}
        self._is_doing = False
        self._sent, self._received = (b"", 0), (b"", 0)

    def watch(self, client: Client) -> Client:
        """Note what the client does from now on."""
        for deed in DEEDS:
            setattr(client, deed, self._noting(deed, getattr(client, deed)))
        return client

    def _noting(self, deed: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*args: Any) -> Any:
            if self._is_doing:  # One method makes its message with another one.
                return make(*args)
            self._is_doing = True
            try:
                made = make(*args)
            finally:
                self._is_doing = False
            if made != b"":
                self._deeds[deed] = None
            return made

        return noting

    def sends(self, data: bytes) -> None:
        """It sends bytes."""
        self._sent = data[:MOST_SHOWN], len(data)

    def receives(self, data: bytes) -> None:
        """It is sent bytes."""
        self._received = data[:MOST_SHOWN], len(data)

    @property
    def deeds(self) -> str:
        """Its deeds, in the order in which they began. Messages may be made without it, such as odd input."""
        without = "bytes of the kit" if self._sent[1] else "nothing"
        return f"{self.name}: {', '.join(self._deeds) or without}"

    @property
    def last(self) -> str:
        """Which client it is, and the last that was said."""
        said = [f"{name} {_shown(*data)}" for name, data in (("sent", self._sent), ("received", self._received))]
        if self.refused is not None:
            said.append(f"was refused {self.refused[:MOST_SHOWN]!r}")
        return f"client {self._number}, {self.deeds}; last {', '.join(said)}"


def _shown(data: bytes, size: int) -> str:
    if not size:
        return "nothing"
    return repr(data) if size == len(data) else f"{data!r}... ({size} bytes)"


def deeds_of(seen: Iterable[Seen]) -> tuple[str, ...]:
    """A line for all clients that did the same."""
    counts = Counter(each.deeds for each in seen)
    return tuple(f"{count} × {deeds}" if count > 1 else deeds for deeds, count in counts.items())


def last_of(seen: list[Seen]) -> tuple[str, ...]:
    """A line for each of the clients that came last."""
    return tuple(each.last for each in seen[-MOST_CLIENTS:])
