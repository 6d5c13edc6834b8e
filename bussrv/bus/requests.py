"""Which session asked what: so that a reply without a recipient finds the one who waits for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

MAX_REQUESTS = 10_000
MAX_AGE = 300.0
"""How long a request may wait for its reply, in seconds."""


class OpenRequests:
    """Requests that may still be replied to: bounded in number and age.

    :param seconds: a clock, in seconds.
    """

    def __init__(
        self, seconds: Callable[[], float], max_requests: int = MAX_REQUESTS, max_age: float = MAX_AGE
    ) -> None:
        self._seconds = seconds
        self._max_requests = max_requests
        self._max_age = max_age
        self._asked: OrderedDict[Hashable, tuple[str, float]] = OrderedDict()

    def remember(self, request_id: Hashable, session_id: str) -> None:
        """A session made a request. The same id again: the newer request counts."""
        self._asked.pop(request_id, None)
        self._asked[request_id] = (session_id, self._seconds())
        if len(self._asked) > self._max_requests:
            self._asked.popitem(last=False)

    def requester(self, request_id: Hashable) -> str | None:
        """The session that made the request; several replies to one request are fine."""
        asked = self._asked.get(request_id)
        if asked is None or self._seconds() - asked[1] > self._max_age:
            return None
        return asked[0]
