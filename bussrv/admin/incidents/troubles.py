"""Conditions of the server that are incidents: lost links, clocks that differ, and checks of its health that fail.

The checks judge; nothing is judged again here. A condition has to last for ``SETTLED`` seconds, so that a link that is
back at once is no incident. One that begins again within ``QUIET`` continues its incident.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from bussrv.incidents.judging import Incident
from bussrv.incidents.neighbours import SETTLED
from bussrv.incidents.tally import is_quiet
from bussrv.incidents.vocabulary import STEP

MOST = 1_000
"""The most conditions that are kept apart. Linked servers cause no more, whatever they are called."""

_SECOND = 1_000_000


class About(NamedTuple):
    """The subject of a condition.

    :ivar what: the kind of the incident.
    :ivar subject: the other server, or the name of the check.
    """

    what: str
    subject: str


CLOCK = About("trouble", "clock")
"""The clock of this machine was set."""


class Failing(NamedTuple):
    """A condition that holds.

    :ivar message: a sentence.
    :ivar since: since when, UTC microseconds; ``None``: it was not there at the last look.
    :ivar address: that of the other server.
    """

    message: str
    since: int | None = None
    address: str | None = None


class _Condition(Struct):
    """A condition that holds, or held lately. Times are UTC microseconds.

    :ivar failing_since: by the clock that nobody sets; ``None``: it is well again.
    :ivar times: how often it began to hold for long enough.
    :ivar lost: at least so many objects were lost.
    """

    begin: int
    end: int
    failing_since: int | None = None
    times: int = 0
    lost: int = 0
    is_counted: bool = False
    message: str = ""
    address: str | None = None


class Troubles:
    """The conditions of one server.

    :param server: its id.
    :param utc: the time of day, UTC microseconds. ``mono``: a clock that nobody sets, in the same unit.
    """

    def __init__(self, server: str, utc: Callable[[], int], mono: Callable[[], int]) -> None:
        self._server = server
        self._utc = utc
        self._mono = mono
        self._course = utc() - mono()
        self._conditions: dict[About, _Condition] = {}

    def look(self, failing: Mapping[About, Failing]) -> None:
        """Take in which conditions hold now."""
        now, mono = self._utc(), self._mono()
        for about, found in failing.items():
            self._fails(about, found, now, mono)
        for about, condition in self._conditions.items():
            if about not in failing and condition.failing_since is not None:
                condition.failing_since, condition.is_counted, condition.end = None, False, now
        self._look_at_clock(now, mono)

    def _known(self, about: About, begin: int) -> _Condition | None:
        known = self._conditions.get(about)
        if known is None and len(self._conditions) < MOST:
            known = self._conditions[about] = _Condition(begin, begin)
        return known

    def _fails(self, about: About, found: Failing, now: int, mono: int) -> None:
        known = self._known(about, now if found.since is None else found.since)
        if known is None:
            return
        if known.failing_since is None:
            known.failing_since = mono
        known.message, known.address, known.end = found.message, found.address, now
        if not known.is_counted and mono - known.failing_since >= SETTLED * _SECOND:
            known.times += 1
            known.is_counted = True

    def lose(self, server: str, number: int | None, time: int) -> None:
        """A linked server says that objects were lost.

        :param number: of objects, if it is known.
        :param time: UTC microseconds.
        """
        known = self._known(About("link", server), time)
        if known is not None:
            known.lost += number or 1
            known.end = time

    def _look_at_clock(self, now: int, mono: int) -> None:
        course = now - mono
        step, self._course = course - self._course, course
        if abs(step) < STEP * _SECOND:
            return
        known = self._known(CLOCK, now)
        if known is not None:
            known.times += 1
            known.end = now
            known.message = f"it was set {abs(step) / _SECOND:.1f} s {'back' if step < 0 else 'forward'}"

    def rows(self) -> Iterator[Incident]:
        """The sums of all conditions."""
        for about, condition in self._conditions.items():
            yield Incident(
                what=about.what,
                server=self._server,
                subject=about.subject,
                address=condition.address,
                detail=condition.message,
                number=condition.times,
                others=condition.lost,
                lasts=condition.failing_since is not None,
                begin=condition.begin,
                end=condition.end,
            )

    def forget(self, before: int) -> None:
        """Forget conditions that are well since a moment."""
        for about, condition in tuple(self._conditions.items()):
            if condition.failing_since is None and is_quiet(condition.end, before):
                del self._conditions[about]
