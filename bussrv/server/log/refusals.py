"""Attacks in the log: failed logins, denials, limits and slow clients, each kind summed up in one line a minute.

The journal has single records of them, at a limited rate: :mod:`bussrv.registry.journal_budget.strangers`. The sums
here are whole.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from twisted.logger import Logger

from bussrv import events as ev
from bussrv.addresses import host_of

PERIOD = 60.0
"""Seconds that a line sums up. They begin with the first refusal of its kind."""

MOST_ADDRESSES = 10_000
"""So many addresses are told apart in a period. Refusals of further ones count towards the sum only."""

SLOW = frozenset({"slow-consumer", "outbound-full"})
"""The reasons of limits that only clients reach that read too slowly."""

log = Logger()


class RefusalKind(NamedTuple):
    """A kind of refusals.

    :ivar event: the name of the event of its lines.
    :ivar words: what was refused, for many.
    """

    event: str
    words: str


LOGINS = RefusalKind("auth.failures", "failed logins")
DENIALS = RefusalKind("access.denials", "actions that the policy denied")
SLOW_CLIENTS = RefusalKind("session.slow-consumers", "clients disconnected because they read too slowly")
NAMES = RefusalKind("registry.refusals", "services and subscriptions refused")
LIMITS = RefusalKind("limit.refusals", "refusals because of --")
"""The words of it end with the option of the limit."""


def kind_of(event: ev.Event) -> RefusalKind:
    """The kind that a refusal belongs to."""
    if isinstance(event, ev.AuthFailed):
        return LOGINS
    if isinstance(event, ev.AccessDenied):
        return DENIALS
    if isinstance(event, ev.LimitReached):
        return SLOW_CLIENTS if event.reason in SLOW else LIMITS._replace(words=f"{LIMITS.words}{event.limit}")
    return NAMES


class _Sum:
    def __init__(self) -> None:
        self.number = 0
        self.by_host: Counter[str] = Counter()

    def add(self, host: str, times: int) -> None:
        self.number += times
        if host in self.by_host or len(self.by_host) < MOST_ADDRESSES:
            self.by_host[host] += times


class Refusals:
    """Sums up refusals, and logs the sums.

    :param reactor: calls later.
    """

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._sums: dict[RefusalKind, _Sum] = {}
        self._calls: dict[RefusalKind, Any] = {}

    def add(self, event: ev.Event, times: int) -> None:
        """Something was refused, so many times."""
        kind = kind_of(event)
        if kind not in self._sums:
            self._sums[kind] = _Sum()
            self._calls[kind] = self._reactor.callLater(PERIOD, self._sum_up, kind)
        self._sums[kind].add(host_of(event.peer or ""), times)

    def stop(self) -> None:
        """Log what was refused since the last lines."""
        for kind, call in tuple(self._calls.items()):
            call.cancel()
            self._sum_up(kind)

    def _sum_up(self, kind: RefusalKind) -> None:
        found = self._sums.pop(kind)
        del self._calls[kind]
        ((worst, most),) = found.by_host.most_common(1)
        log.warn(
            "{words} within {seconds:g} s: {number}; addresses: {addresses}; most came from {peer}: {most}",
            event=kind.event,
            words=kind.words,
            seconds=PERIOD,
            number=found.number,
            addresses=f"{len(found.by_host)}{' or more' if len(found.by_host) == MOST_ADDRESSES else ''}",
            peer=worst or "unknown",
            most=most,
        )
