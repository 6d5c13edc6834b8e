"""The bytes a peer sent that are not understood yet."""

from __future__ import annotations


class ReceiveBuffer:
    """Takes chunks in and gives messages out, without copying what stays.

    It holds no limit of its own: a reader raises before it lets more than one message gather, and takes everything
    that is whole before more is fed.
    """

    def __init__(self) -> None:
        self._data = bytearray()
        self._start = 0

    def __len__(self) -> int:
        """How many bytes wait."""
        return len(self._data) - self._start

    def feed(self, data: bytes) -> None:
        """Add a chunk at the end."""
        if self._start:
            del self._data[: self._start]
            self._start = 0
        self._data += data

    def find(self, byte: bytes, limit: int) -> int:
        """Where ``byte`` stands first among the first ``limit`` bytes, or -1."""
        index = self._data.find(byte, self._start, self._start + limit)
        return index if index < 0 else index - self._start

    def peek(self, size: int) -> bytes:
        """The first ``size`` bytes (fewer, when fewer wait), which stay."""
        return bytes(self._data[self._start : self._start + size])

    def take(self, size: int) -> bytes:
        """The first ``size`` bytes, which must be there; they go."""
        end = self._start + size
        with memoryview(self._data) as view:
            taken = bytes(view[self._start : end])
        self.skip(size)
        return taken

    def skip(self, size: int) -> None:
        """Let the first ``size`` bytes, which must be there, go unread."""
        self._start += size
        if self._start == len(self._data):
            # An idle connection is not to hold on to the memory of the last thing it said.
            self._data.clear()
            self._start = 0
