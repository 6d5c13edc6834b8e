"""The last payload published on each service: a new subscriber begins with it. Bounded by service and in total."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Any


class LastValues:
    """Payloads by service. If there are too many bytes, the least recently used are dropped first.

    :param max_bytes: the most bytes of all payloads.
    :param max_value: the most bytes of one payload. If the last one of a service is larger, none is kept.
    :param counters: counts payloads that are not kept, as ``last-value-too-large`` and ``last-value-evicted``.
    """

    def __init__(self, max_bytes: int, max_value: int, counters: Counter[str]) -> None:
        self.limit(max_bytes, max_value)
        self._counters = counters
        self._values: OrderedDict[str, tuple[bytes, Any]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        """How many bytes are kept."""
        return self._size

    def limit(self, max_bytes: int, max_value: int) -> None:
        """Have other limits for the payloads from now on."""
        self._max_bytes = max_bytes
        self._max_value = max_value

    def put(self, service: str, payload: bytes, about: Any = None) -> None:
        """Remember the newest payload of a service.

        :param about: what else is known of it, for :meth:`about`: the publication, or its content type.
        """
        self.forget(service)
        if len(payload) > self._max_value:
            self._counters["last-value-too-large"] += 1
            return
        self._values[service] = payload, about
        self._size += len(payload)
        while self._size > self._max_bytes:
            _, (evicted, _) = self._values.popitem(last=False)
            self._size -= len(evicted)
            self._counters["last-value-evicted"] += 1

    def put_batch(self, service: str, payloads: Sequence[bytes], about: Any = None) -> int:
        """Remember the last of some payloads, and count as :meth:`put` does for each of them.

        :returns: the bytes of all of them together.
        """
        sizes = set(map(len, payloads))
        largest = max(sizes)
        # Most batches have payloads of one size, and another pass over each of them would be felt.
        total = largest * len(payloads) if len(sizes) == 1 else sum(map(len, payloads))
        if largest <= self._max_value and self._size + largest <= self._max_bytes:
            payloads = payloads[-1:]
        for payload in payloads:
            self.put(service, payload, about)
        return total

    def get(self, service: str) -> bytes:
        """The newest payload of a service; empty when there is none."""
        if service not in self._values:
            return b""
        self._values.move_to_end(service)
        return self._values[service][0]

    def about(self, service: str) -> Any:
        """Further facts of the newest payload of a service; ``None``: nothing, or there is none."""
        return self._values.get(service, (b"", None))[1]

    def services(self) -> list[str]:
        """The services that have one."""
        return [*self._values]

    def forget(self, service: str) -> None:
        """The service is gone."""
        self._size -= len(self._values.pop(service, (b"", None))[0])
