"""Input of one client that is not served yet: reading it, and counting its memory."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from bussrv.bus.holdings import Holding

FREE_INPUT = 64 << 10
"""How many unfinished bytes of a client do not count towards ``--max-inbound-total``: small objects always pass."""


class Reader(Protocol):
    """A pure reader of one wire format, as the modules of :mod:`bussrv.wire` have them."""

    def feed(self, data: bytes) -> None:
        """Add a chunk."""

    def next_event(self) -> Any:
        """The next event, or ``None``; raises :class:`RemoteProtocolError`."""


@runtime_checkable
class CountedReader(Reader, Protocol):
    """A reader that also says what it holds, so that this counts towards ``--max-inbound-total``."""

    def __len__(self) -> int:
        """How many bytes wait to be read."""

    def clear(self) -> None:
        """Forget what waits; nothing more comes."""


class Unread:
    """The memory that a reader holds.

    :param holding: counts it, if the reader says how much it is.
    """

    def __init__(self, reader: Reader, holding: Holding) -> None:
        self._reader = reader if isinstance(reader, CountedReader) else None
        self._holding = holding

    def count(self) -> None:
        """Something was read, or came."""
        if self._reader is not None:
            waiting = len(self._reader)
            self._holding.resize(waiting if waiting > FREE_INPUT else 0)

    def clear(self) -> None:
        """The session is closed: nothing more is read."""
        if self._reader is not None:
            self._reader.clear()
            self._holding.resize(0)
