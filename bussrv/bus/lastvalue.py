"""The last payload published on each service: what a new watcher begins with. Bounded by service and in total."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence


class LastValues:
    """Payloads by service; the least recently used go first when there are too many bytes.

    :param max_bytes: the most bytes of payloads that are kept.
    :param max_value: the most bytes of one payload; of a service whose last one is larger, none is kept.
    :param counters: counts what is not kept, as ``last-value-too-large`` and ``last-value-evicted``.
    """

    def __init__(self, max_bytes: int, max_value: int, counters: Counter[str]) -> None:
        self._max_bytes = max_bytes
        self._max_value = max_value
        self._counters = counters
        self._values: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        """How many bytes are kept."""
        return self._size

    def put(self, service: str, payload: bytes) -> None:
        """Remember the newest payload of a service."""
        self.forget(service)
        if len(payload) > self._max_value:
            self._counters["last-value-too-large"] += 1
            return
        self._values[service] = payload
        self._size += len(payload)
        while self._size > self._max_bytes:
            _, evicted = self._values.popitem(last=False)
            self._size -= len(evicted)
            self._counters["last-value-evicted"] += 1

    def put_run(self, service: str, payloads: Sequence[bytes]) -> None:
        """Remember the last of some payloads, as if each had been the newest for a moment."""
        largest = max(map(len, payloads))
        if largest <= self._max_value and self._size + largest <= self._max_bytes:
            payloads = payloads[-1:]
        for payload in payloads:
            self.put(service, payload)

    def get(self, service: str) -> bytes:
        """The newest payload of a service; empty when there is none."""
        if service not in self._values:
            return b""
        self._values.move_to_end(service)
        return self._values[service]

    def forget(self, service: str) -> None:
        """The service is gone."""
        self._size -= len(self._values.pop(service, b""))
