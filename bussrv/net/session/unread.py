"""Input of one client that is not served yet: reading it, and counting its memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from bussrv.memory.limits import Holding

FREE_INPUT = 64 << 10
"""How many unfinished bytes of a client do not count towards ``--max-inbound-total``: small objects always pass. A
client that may do nothing before it proves who it is never has more."""


class Reader(Protocol):
    """A pure reader of one wire format, as the modules of :mod:`bussrv.wire` have them.

    Most derive from :class:`bussrv.wire.reader.StreamReader`, which has all of this except ``_read_event``.
    """

    def feed(self, data: bytes) -> None:
        """Add a chunk."""

    def next_event(self) -> Any:
        """The next event, or ``None``; raises :class:`RemoteProtocolError`."""

    def __len__(self) -> int:
        """How many bytes wait to be read: they count towards ``--max-inbound-total``."""

    def clear(self) -> None:
        """Forget what waits; nothing more comes."""


def check_reader(reader: Reader) -> Reader:
    """Check that a reader has all that the limits to memory depend on.

    :raises TypeError: a fault of the wire format; names what is missing.
    """
    needed = ("feed", "next_event", "__len__", "clear")
    missing = [each for each in needed if not callable(getattr(reader, each, None))]
    if missing:
        raise TypeError(
            f"the reader {type(reader).__qualname__} has no {', '.join(missing)}: without that its memory is not "
            "limited; derive it from bussrv.wire.reader.StreamReader"
        )
    return reader


class InputMemory:
    """The memory that a reader holds.

    :param holding: counts it.
    :param large: called when it is more than small objects need.
    """

    def __init__(self, reader: Reader, holding: Holding, large: Callable[[], None]) -> None:
        self._reader = reader
        self._holding = holding
        self._large = large

    def count(self) -> None:
        """Something was read, or came."""
        waiting = len(self._reader)
        if waiting > FREE_INPUT:
            self._holding.resize(waiting)
            self._large()
        else:
            self._holding.resize(0)

    def clear(self) -> None:
        """The session is closed: nothing more is read."""
        self._reader.clear()
        self._holding.resize(0)
