"""The streams that are open, and how many of them a user may have.

A user has a number of streams, and all users together another one. Beyond that, the user with most streams loses the
oldest one. Those who may write lose none as long as others have any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from bussrv.admin.http.answers import Problem
from bussrv.admin.http.login import Caller
from bussrv.admin.http.sending import EventStream
from bussrv.settings import Settings

_TOO_MANY = {"Retry-After": "5"}


class _Holder(NamedTuple):
    key: str
    may_write: bool


class Streams:
    """All streams."""

    def __init__(self, settings: Settings, counters: Counter[str]) -> None:
        self._settings = settings
        self._counters = counters
        self._open: dict[EventStream, _Holder] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[EventStream]:
        return iter(tuple(self._open))

    def make_room(self, caller: Caller) -> None:
        """Make room for a stream of a user.

        :raises Problem: ``too-many-streams``.
        """
        of_one, of_all = self._settings.admin_max_streams, self._settings.admin_max_streams_total
        counts = Counter(self._open.values())
        own = _Holder(caller.key, caller.may_write)
        if counts[own] >= of_one:
            self._counters["admin-max-streams"] += 1
            raise Problem("too-many-streams", f"you have {of_one} (--admin-max-streams)", _TOO_MANY)
        if len(self._open) < of_all:
            return
        self._counters["admin-max-streams-total"] += 1
        fullest = max(counts, key=lambda each: (not each.may_write, counts[each]))
        if fullest == own or (fullest.may_write and not own.may_write):
            raise Problem("too-many-streams", f"there are {of_all} (--admin-max-streams-total)", _TOO_MANY)
        next(stream for stream, holder in self._open.items() if holder == fullest).end()

    @contextmanager
    def kept(self, stream: EventStream, caller: Caller) -> Iterator[None]:
        """A stream is open meanwhile."""
        self._open[stream] = _Holder(caller.key, caller.may_write)
        try:
            yield
        finally:
            self._open.pop(stream, None)
