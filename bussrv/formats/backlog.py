"""Chunks that wait to be sent to one client, because its transport is full or others are served first."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import chain

from bussrv.bus.holdings import Holding
from bussrv.bus.outgoing import Bundle

MOST_PIECES = 256
"""The most pieces of one call to the system, which takes up to 1,024."""


class Backlog:
    """The chunks that wait for one client, in order. Clients share chunks; each has a place of its own in them.

    :ivar size: the bytes of the chunks that wait.
    :ivar holding: counts the memory; ``None``: it is not counted.
    """

    holding: Holding | None = None

    def __init__(self) -> None:
        self.size = 0
        self._chunks: deque[bytes] = deque()
        self._begun: bytes | None = None
        self._rest = memoryview(b"")

    def __len__(self) -> int:
        """How many chunks wait, in full or in part."""
        return len(self._following()) + (self._begun is not None)

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return self.size > 0

    @property
    def behind(self) -> int:
        """How many bytes wait after the chunk that was begun."""
        return self.size - len(self._rest)

    def begin(self, bundle: Bundle, sent: int = 0) -> None:
        """Add frames that are being sent, because nothing else waits.

        :param sent: how many bytes of them were sent already.
        """
        self._begun = bundle.joined
        self._rest = memoryview(self._begun)[sent:]
        self.size = len(self._rest)
        if self.holding is not None:
            self.holding.hold(self._begun)

    def put(self, bundle: Bundle) -> None:
        """Add frames at the end."""
        self._chunks.append(bundle.joined)
        self._count(bundle.joined)

    def _count(self, chunk: bytes) -> None:
        self.size += len(chunk)
        if self.holding is not None:
            self.holding.hold(chunk)

    def _uncount(self, chunk: bytes) -> None:
        if self.holding is not None:
            self.holding.release(chunk)

    def pieces(self, most: int) -> list[bytes | memoryview]:
        """The next bytes to send, at most ``most``. They stay until :meth:`sent`."""
        found: list[bytes | memoryview] = []
        waiting: Iterable[bytes | memoryview] = self._following()
        if self._begun is not None:
            waiting = chain((self._rest,), waiting)
        for chunk in waiting:
            if len(chunk) >= most:
                found.append(memoryview(chunk)[:most])
                break
            found.append(chunk)
            most -= len(chunk)
            if len(found) == MOST_PIECES:
                break
        return found

    def _following(self) -> Collection[bytes]:
        """The chunks after the one that was begun."""
        return self._chunks

    def _next(self) -> bytes:
        """The first of them, which must be there; it goes."""
        return self._chunks.popleft()

    def sent(self, size: int) -> None:
        """The first ``size`` bytes were sent; they go."""
        self.size -= size
        while size:
            if self._begun is None:
                self._begun = self._next()
                self._rest = memoryview(self._begun)
            taken = min(size, len(self._rest))
            size -= taken
            self._rest = self._rest[taken:]
            if not self._rest:
                begun, self._begun = self._begun, None
                self._uncount(begun)

    def keep_begun(self) -> None:
        """Forget everything except the rest of the chunk that was begun: what is sent after it can be read then."""
        begun, rest = self._begun, self._rest
        self.clear()
        if begun is not None:
            self._begun, self._rest, self.size = begun, rest, len(rest)
            if self.holding is not None:
                self.holding.hold(begun)

    def clear(self) -> None:
        """Forget everything."""
        for chunk in self._drain():
            self._uncount(chunk)
        self._begun = None
        self._rest = memoryview(b"")
        self.size = 0

    def _drain(self) -> Iterator[bytes]:
        if self._begun is not None:
            yield self._begun
        yield from self._following()
        self._chunks.clear()
