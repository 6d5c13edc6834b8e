"""Suspicions about a session: opened or closed twice or never, records outside of it, numbers that do not fit.

A suspicion is a finding unless a missing record, a failing disk or a running boot explains it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bussrv.audit.fold.holdings import Holding
from bussrv.audit.fold.life import CARRIED, FAR, GIVEN, NEGATIVE, PERSISTENT, UNEVEN, Life

TOLERANCE = 60 * 1_000_000
"""Microseconds. The monotonic clock measures durations, unless the session began in an earlier boot. In older journals
a duration is the difference of two times of day. If the wall clock was set, one of both still fits."""

STILL_OPEN = "session-never-closed"
NEVER_UNREGISTERED = "service-never-unregistered"

_JAVA_EXPONENT = 10_000_000


class Suspicion(NamedTuple):
    """A possible finding. Times are microseconds.

    :ivar first_seq, last_seq: the first and the last record that it is about.
    :ivar at: the time that decides whether it belongs to the period.
    :ivar if_known: it is a finding only if the journal must have the earlier records of the session.
    :ivar seq, mono: the record that changes a service or a subscription; ``None`` of sessions. A failing disk explains
        it, and ``is_loss`` says whether a client asked for it.
    """

    kind: str
    service: str | None
    first_seq: int | None
    last_seq: int | None
    at: int | None
    what: str
    if_known: bool
    seq: int | None = None
    mono: int | None = None
    is_loss: bool | None = None


def suspicions(life: Life) -> Iterator[Suspicion]:
    """Everything suspicious about a session."""
    if life.openings or life.closings or life.first_change is not None:
        for kind, first, last, what, if_known in _about_session(life):
            yield Suspicion(kind, None, first, last, life.latest, what, if_known)
    for (_, service), holding in life.holdings.items():
        yield from _about_service(life, service, holding.settled())


_Found = tuple[str, "int | None", "int | None", str, bool]


def _about_session(life: Life) -> Iterator[_Found]:
    opened, closed = life.openings > 0, life.closings > 0
    first_opening, first_closing = life.first_opening, life.first_closing
    if life.openings > 1:
        again = life.last_opening if life.flags & GIVEN else first_opening
        yield "session-opened-twice", again, life.last_opening, f"was opened {life.openings} times", False
    if life.closings > 1:
        what = f"was closed {life.closings} times"
        yield "session-closed-twice", first_closing, life.last_closing, what, False
    if closed and not opened:
        yield "session-closed-unopened", first_closing, first_closing, "was closed, but never opened", True
    if opened and not closed and not life.flags & PERSISTENT:
        yield STILL_OPEN, first_opening, first_opening, "was never closed, though its boot ended", False
    yield from _outside(life)
    if closed:
        yield from _numbers(life)


def _outside(life: Life) -> Iterator[_Found]:
    """Records before the opening or after the closing."""
    kind, opening, closing = "session-record-before-opening", life.first_opening, life.first_closing
    change = life.first_change
    earliest = min((each for each in (change, closing) if each is not None), default=None)
    if opening is not None and earliest is not None and earliest < opening:
        what = f"is named in record {earliest}, before it was opened in record {opening}"
        yield kind, earliest, opening, what, False
    if opening is None and closing is None:
        what = "was never opened, but something is said to have changed of it"
        yield kind, change, life.last_change, what, True
    if closing is not None and life.last_change is not None and life.last_change > closing:
        what = f"was closed in record {closing}, but changed in record {life.last_change}"
        yield "session-record-after-end", closing, life.last_change, what, False


def _numbers(life: Life) -> Iterator[_Found]:
    """Counters and durations that cannot be."""
    flags, first, last = life.flags, life.first_closing, life.last_closing
    if flags & NEGATIVE:
        yield "session-miscounted", first, last, "has a negative counter or duration", False
        return
    if flags & UNEVEN:
        yield "session-miscounted", first, last, "has bytes without objects, or objects without bytes", False
    elif flags & FAR and flags & CARRIED:
        yield "session-miscounted", first, last, "belongs to another server, but has counters here", False
    if life.openings != 1 or life.closings != 1:
        return
    duration, lasted = life.duration or 0, max(0, (life.closed_at or 0) - (life.opened_at or 0))
    if _differs(duration, lasted) and _differs(duration, _ran(life)):
        what = f"is said to have lasted {_seconds(duration)} s, but was open {_seconds(lasted)} s"
        yield "session-duration-wrong", life.first_opening, first, what, False


def _ran(life: Life) -> int | None:
    """How long it lasted by the monotonic clock; the baseline does not have that."""
    if "opened" not in life.boots or life.boots["opened"] != life.boots["closed"]:
        return None
    return (life.closed_mono or 0) - (life.opened_mono or 0)


def _differs(duration: int, lasted: int | None) -> bool:
    return lasted is None or abs(duration - lasted) > TOLERANCE


def _about_service(life: Life, service: str | None, holding: Holding) -> Iterator[Suspicion]:
    name = "objects" if service is None else service
    first_closing = life.first_closing
    for each in holding.suspicions:
        seq, at, mono = each.place
        # Records after the closing of a session are another finding.
        if first_closing is None or seq <= first_closing:
            if_known = each.is_first and not life.openings
            what = _WORDS[each.kind].format(name)
            yield Suspicion(each.kind, service, seq, seq, at, what, if_known, seq, mono, each.is_loss)
    left = holding.left
    if left is not None and first_closing is not None and first_closing > left[0]:
        what = f"was closed, but never unregistered {name}"
        yield Suspicion(
            NEVER_UNREGISTERED, service, left[0], first_closing, life.closed_at, what, False, first_closing,
            life.closed_mono, True,
        )  # fmt: skip


_WORDS = {
    "service-not-registered": "unregistered {}, which it did not provide",
    "service-registered-twice": "registered {}, which it provided already",
    "subscription-added-twice": "subscribed to {}, which it did already",
    "subscription-not-added": "ended or renewed a subscription to {}, which it did not have",
}


def _seconds(micros: int) -> str:
    return decimal(micros, 1)


def decimal(micros: int, digits: int) -> str:
    """Microseconds, not negative, as seconds with so many digits, as Spark writes a rounded number."""
    unit = 10 ** (6 - digits)
    value = (micros + unit // 2) // unit / 10**digits
    if value < _JAVA_EXPONENT:
        return str(value)
    mantissa = f"{value:.{digits}f}".replace(".", "").rstrip("0")
    return f"{mantissa[0]}.{mantissa[1:] or '0'}E{len(str(int(value))) - 1}"
