"""Chunks that wait to be sent to one client, because its transport is full or others are served first."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import chain

from bussrv.memory.bundle import Bundle
from bussrv.memory.limits import Chunk, HeldMemory

MOST_PIECES = 256
"""The most pieces of one call to the system, which takes up to 1,024."""

BLOCK = 64
"""The chunks of a block."""


_NO_BLOCKS: deque[tuple[Chunk, ...]] = deque(maxlen=0)
"""Those of the many clients for which little waits: a deque of their own takes 760 bytes, though it is empty."""


class _Chunks(Collection[Chunk]):
    """A queue of chunks, in blocks.

    Python's garbage collector looks through every list and deque, but not through tuples of chunks. For a thousand
    clients that each wait for ten thousand chunks, that would take longer than others may wait.
    """

    def __init__(self) -> None:
        self._first: list[Chunk] = []  # of the first block, last one first
        self._blocks = _NO_BLOCKS
        self._last: list[Chunk] = []

    def __len__(self) -> int:
        return len(self._first) + BLOCK * len(self._blocks) + len(self._last)

    def __iter__(self) -> Iterator[Chunk]:
        return chain(reversed(self._first), chain.from_iterable(self._blocks), self._last)

    def __contains__(self, chunk: object) -> bool:
        return any(each is chunk for each in self)

    def append(self, chunk: Chunk) -> None:
        """Add a chunk at the end."""
        last = self._last
        last.append(chunk)
        if len(last) == BLOCK:
            if not self._blocks:
                self._blocks = deque()
            self._blocks.append(tuple(last))
            last.clear()

    def popleft(self) -> Chunk:
        """Take the first chunk, which must be there."""
        first = self._first
        if not first:
            if self._blocks:
                first.extend(reversed(self._blocks.popleft()))
            else:
                first.extend(reversed(self._last))
                self._last.clear()
        return first.pop()

    def let_go(self) -> Iterator[None]:
        """Let go of the chunks, a block at each step."""
        while self._blocks:
            self._blocks.pop()
            yield


class Backlog:
    """The chunks that wait for one client, in order. Clients share chunks; each has a place of its own in them.

    :ivar size: the bytes of the chunks that wait.
    :ivar holding: counts the memory; ``None``: it is not counted.
    """

    holding: HeldMemory | None = None

    def __init__(self) -> None:
        self.size = 0
        self._chunks = _Chunks()
        self._begun: Chunk | None = None
        self._rest = memoryview(b"")

    def __len__(self) -> int:
        """How many chunks wait, in full or in part."""
        return len(self.following()) + (self._begun is not None)

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
        self._begun = chunk = bundle.chunk
        self._rest = memoryview(chunk.data)[sent:]
        self.size = len(self._rest)
        if self.holding is not None:
            self.holding.hold(chunk)

    def put(self, bundle: Bundle) -> None:
        """Add frames at the end."""
        # A chunk without bytes is never sent, and would stay.
        if bundle.size:
            chunk = bundle.chunk
            self._chunks.append(chunk)
            self.count(chunk)

    def count(self, chunk: Chunk) -> None:
        """Count a chunk that waits from now on."""
        self.size += len(chunk.data)
        if self.holding is not None:
            self.holding.hold(chunk)

    def uncount(self, chunk: Chunk) -> None:
        """A chunk that waited does so no more."""
        if self.holding is not None:
            self.holding.release(chunk)

    def pieces(self, most: int) -> list[bytes | memoryview]:
        """The next bytes to send, at most ``most``. They stay until :meth:`sent`."""
        found: list[bytes | memoryview] = []
        waiting: Iterable[bytes | memoryview] = (chunk.data for chunk in self.following())
        if self._begun is not None:
            waiting = chain((self._rest,), waiting)
        for data in waiting:
            if len(data) >= most:
                found.append(memoryview(data)[:most])
                break
            found.append(data)
            most -= len(data)
            if len(found) == MOST_PIECES:
                break
        return found

    def following(self) -> Collection[Chunk]:
        """The chunks after the one that was begun."""
        return self._chunks

    def next_chunk(self) -> Chunk:
        """The first of them, which must be there; it goes."""
        return self._chunks.popleft()

    def sent(self, size: int) -> None:
        """The first ``size`` bytes were sent; they go."""
        self.size -= size
        while size:
            if self._begun is None:
                self._begun = self.next_chunk()
                self._rest = memoryview(self._begun.data)
            taken = min(size, len(self._rest))
            size -= taken
            self._rest = self._rest[taken:]
            if not self._rest:
                begun, self._begun = self._begun, None
                self.uncount(begun)

    def keep_begun(self) -> None:
        """Forget everything except the rest of the chunk that was begun: what is sent after it can be read then."""
        begun, rest = self._begun, self._rest
        self.clear()
        if begun is not None:
            self._begun, self._rest, self.size = begun, rest, len(rest)
            if self.holding is not None:
                self.holding.hold(begun)

    def clear(self) -> None:
        """Forget everything. That takes the same time for any number of chunks."""
        if not self:
            return
        self._begun = None
        self._rest = memoryview(b"")
        self.size = 0
        letting_go = self.detach()
        if self.holding is not None:
            self.holding.release_all(letting_go)

    def detach(self) -> Iterator[None]:
        """Have nothing any more. :returns: lets go of what was there, some at each step."""
        chunks, self._chunks = self._chunks, _Chunks()
        return chunks.let_go()
