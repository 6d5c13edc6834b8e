"""Conditions of the server that are incidents: the checks of its health that fail, and a clock that was set.

The checks judge; nothing is judged again here. A check has to fail for ``SETTLED`` seconds, so that a link that is back
at once is no incident. One that fails again within ``QUIET`` continues its incident.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from bussrv.incidents.judging import Incident

SETTLED = 10.0
"""Seconds for which a check fails before it is an incident."""

STEP = 2.0
"""Seconds by which a clock is off its course when it was set."""

CLOCK = "clock"

NOT_TROUBLES = ("ports", "drain")
"""Checks that fail because an operator starts or stops the server."""

_SECOND = 1_000_000


class _Condition(Struct):
    """A check that fails, or failed lately. Times are UTC microseconds.

    :ivar failing_since: ``None``: it is well again.
    :ivar times: how often it began to fail for long enough.
    """

    begin: int
    end: int
    failing_since: int | None
    times: int = 0
    is_counted: bool = False
    message: str = ""


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
        self._conditions: dict[str, _Condition] = {}

    def look(self, failing: Mapping[str, str]) -> None:
        """Take in what fails now.

        :param failing: a sentence for each check that fails, by its name.
        """
        now, found = self._utc(), {name: said for name, said in failing.items() if name not in NOT_TROUBLES}
        for name, message in found.items():
            self._fails(name, message, now)
        for name, condition in self._conditions.items():
            if name not in found and condition.failing_since is not None:
                condition.failing_since, condition.is_counted, condition.end = None, False, now
        self._look_at_clock(now)

    def _fails(self, name: str, message: str, now: int) -> None:
        known = self._conditions.get(name)
        if known is None:
            known = self._conditions[name] = _Condition(now, now, now)
        if known.failing_since is None:
            known.failing_since = now
        known.message, known.end = message, now
        if not known.is_counted and now - known.failing_since >= SETTLED * _SECOND:
            known.times += 1
            known.is_counted = True

    def _look_at_clock(self, now: int) -> None:
        course = now - self._mono()
        step, self._course = course - self._course, course
        if abs(step) < STEP * _SECOND:
            return
        known = self._conditions.get(CLOCK)
        if known is None:
            known = self._conditions[CLOCK] = _Condition(now, now, None)
        known.times += 1
        known.end = now
        known.message = f"it was set {abs(step) / _SECOND:.1f} s {'back' if step < 0 else 'forward'}"

    def rows(self) -> Iterator[Incident]:
        """The sums of all conditions."""
        for name, condition in self._conditions.items():
            yield Incident(
                what="trouble",
                server=self._server,
                subject=name,
                detail=condition.message,
                number=condition.times,
                lasts=condition.failing_since is not None,
                begin=condition.begin,
                end=condition.end,
            )

    def forget(self, before: int) -> None:
        """Forget conditions that are well since a moment."""
        for name, condition in tuple(self._conditions.items()):
            if condition.failing_since is None and condition.end < before:
                del self._conditions[name]
