"""What waits for one client while its transport is full."""

from __future__ import annotations

from collections import deque

from bussrv.bus.delivery import Batch


class Backlog:
    """What waits for one client while its transport is full, in order.

    :ivar size: in bytes.
    """

    def __init__(self) -> None:
        self.size = 0
        self._chunks: deque[bytes] = deque()

    def __len__(self) -> int:
        """How many chunks wait."""
        return len(self._chunks)

    def put(self, batch: Batch) -> None:
        """Add frames at the end."""
        self._chunks.append(batch.joined)
        self.size += batch.size

    def take(self) -> bytes:
        """The first chunk, which must be there; it goes."""
        chunk = self._chunks.popleft()
        self.size -= len(chunk)
        return chunk

    def clear(self) -> None:
        """Forget everything."""
        self._chunks.clear()
        self.size = 0
