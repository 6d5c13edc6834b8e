"""Who asked whom what: so that a reply without a recipient finds the one who waits for it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any

# What was asked of whom: the one who was asked, and a hash of the kind and value of the id, which may be long.
_Key = tuple[str | None, int]


class _Askers:
    """Those who made a request under one id, of the same.

    :ivar waiting: those who have no reply yet, in order, and for which service they asked.
    :ivar last: who was replied to last, and is given further replies.
    :ivar remembered: how many of their requests are not forgotten yet.
    """

    __slots__ = ("last", "remembered", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[tuple[str, Any]] = deque()
        self.last: str | None = None
        self.remembered = 0

    def next(self, service: Any) -> str | None:
        """Who is replied to now: who asked for that service first, or, if the reply names none, who asked first."""
        if self.waiting:
            chosen = next((each for each in self.waiting if each[1] == service), self.waiting[0])
            self.waiting.remove(chosen)
            self.last = chosen[0]
        return self.last


class OpenRequests:
    """Requests that may still be replied to: bounded in number and age.

    :param seconds: a clock, in seconds.
    :param max_requests: the most requests that are remembered; the oldest are forgotten first.
    :param max_age: how long a request may wait for its reply, in seconds.
    :param counters: counts requests that were forgotten to make room, as ``request-forgotten``.
    """

    def __init__(self, seconds: Callable[[], float], max_requests: int, max_age: float, counters: Counter[str]) -> None:
        self._seconds = seconds
        self._max_requests = max_requests
        self._max_age = max_age
        self._counters = counters
        self._order: deque[tuple[float, _Key]] = deque()
        self._askers: dict[_Key, _Askers] = {}

    def __len__(self) -> int:
        return len(self._order)

    def remember(self, request_id: Any, asker: str, asked: str | None, service: Any = None) -> None:
        """A session made a request for ``service``.

        :param asked: the session that was given it; ``None`` when it was not given to one alone.
        """
        key = _key(asked, request_id)
        if key is None:
            return
        self._order.append((self._seconds(), key))
        askers = self._askers.setdefault(key, _Askers())
        askers.waiting.append((asker, service))
        askers.remembered += 1
        self._forget_old()
        if len(self._order) > self._max_requests:
            self._forget_oldest()
            self._counters["request-forgotten"] += 1

    def _forget_old(self) -> None:
        oldest = self._seconds() - self._max_age
        while self._order and self._order[0][0] < oldest:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        _, key = self._order.popleft()
        askers = self._askers[key]
        askers.remembered -= 1
        if askers.waiting and len(askers.waiting) > askers.remembered:
            askers.waiting.popleft()
        if not askers.remembered:
            del self._askers[key]

    def asker(self, request_id: Any, replier: str, service: Any = None) -> str | None:
        """The session that made a request which ``replier`` replies to for ``service``.

        Several may have used one id: they are replied to in the order in which they asked for the service. Who was
        replied to last is given further replies. To a request that was given to nobody alone anybody may reply.
        """
        self._forget_old()
        for asked in (replier, None):
            key = _key(asked, request_id)
            askers = self._askers.get(key) if key is not None else None
            if askers is not None:
                return askers.next(service)
        return None


def _key(asked: str | None, request_id: Any) -> _Key | None:
    """Ids are equal when they are of one kind and equal: 1 is not true, and not 1.0."""
    if isinstance(request_id, (str, int, float)):
        return asked, hash((type(request_id), request_id))
    return None
