"""One durable session, and the part of it that is kept besides its messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import iter_unpack, pack
from typing import Any, Protocol

from bussrv.formats.mqtt.durable.link import DurableLink
from bussrv.plugin import Put, Rounds

OWNER = "mqtt "
"""The owner in the spool of a session has this before its id."""

MOST_INCOMING = 64
"""The messages of QoS 2 that a client may have begun and not ended."""

TAKEN = "taken"
"""The kind of the entry with their identifiers. It always has the same size, so that it never lacks room."""


class Begun(Protocol):
    """The identifiers of messages of QoS 2 that a client has begun and not ended."""

    def __contains__(self, number: int) -> bool:
        """Whether one is among them."""

    def __len__(self) -> int:
        """How many they are."""

    def add(self, number: int) -> None:
        """The client has begun a message."""

    def discard(self, number: int) -> None:
        """The client has ended it, or it was refused."""


class KeptBegun:
    """The same, kept in the spool: with the queues that the message was put into, in one round."""

    def __init__(self, session: DurableSession, rounds: Rounds, numbers: Iterable[int] = ()) -> None:
        self._session = session
        self._rounds = rounds
        self._numbers = set(numbers)

    def __contains__(self, number: int) -> bool:
        return number in self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def entry(self) -> Put:
        """The entry of the spool."""
        return entry_of(self._session.owner, self._numbers)

    def add(self, number: int) -> None:
        """See :class:`Begun`."""
        self._numbers.add(number)
        self._rounds.change_with_all(self._session.id, self.entry)

    def discard(self, number: int) -> None:
        """See :class:`Begun`."""
        if number in self._numbers:
            self._numbers.remove(number)
            self._rounds.change(self._session.id, self.entry)


def entry_of(owner: str, numbers: Iterable[int] = ()) -> Put:
    """The entry of the spool with these identifiers."""
    some = [*numbers]
    payload = pack(f">{MOST_INCOMING}H", *some, *(0,) * (MOST_INCOMING - len(some)))
    return Put(owner=owner, kind=TAKEN, key=TAKEN, payload=payload, or_drop=True)


def numbers_in(payload: bytes) -> Iterator[int]:
    """The identifiers in such an entry."""
    return (number for (number,) in iter_unpack(">H", payload) if number)


class DurableSession:
    """One session.

    :ivar id: of the registry.
    :ivar owner: in the spool.
    :ivar expiry: it ends so many microseconds after it lost its client.
    :ivar begun: messages of QoS 2 that its client has begun; ``None``: the spool has to be asked.
    :ivar dropped: how many messages were dropped since the client was last told.
    :ivar end_call: ends it when it is time, while its client is away.
    """

    __slots__ = ("begun", "client_id", "dropped", "end_call", "expiry", "id", "link", "owner")

    def __init__(self, session_id: str, client_id: str, link: DurableLink, expiry: int) -> None:
        self.id = session_id
        self.client_id = client_id
        self.owner = OWNER + session_id
        self.link = link
        self.expiry = expiry
        self.begun: KeptBegun | None = None
        self.dropped = 0
        self.end_call: Any = None
