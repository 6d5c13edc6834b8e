"""Suspicions about a session: opened or closed twice or never, records outside of it, numbers that do not fit.

A suspicion is a finding unless a missing record, a failing disk or a running boot explains it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bussrv.audit.fold.absences import absences, disorders
from bussrv.audit.fold.holdings import Holding
from bussrv.audit.fold.session_fold import CARRIED, FAR, GIVEN, NEGATIVE, PERSISTENT, UNEVEN, SessionFold

TOLERANCE = 60 * 1_000_000
"""Microseconds. The monotonic clock measures durations, unless the session began in an earlier boot. In older journals
a duration is the difference of two times of day. If the wall clock was set, one of both still fits."""

STILL_OPEN = "session-never-closed"
KEPT_TOO_LONG = "session-kept-too-long"
UNLEFT = "session-resumed-unleft"
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


def suspicions(fold: SessionFold) -> Iterator[Suspicion]:
    """Everything suspicious about a session."""
    if fold.openings or fold.closings or fold.first_change is not None:
        for kind, first, last, what, if_known in _about_session(fold):
            yield Suspicion(kind, None, first, last, fold.latest, what, if_known)
    if not fold.closings:
        yield from _about_keeping(fold)
    for (_, service), holding in fold.holdings.items():
        yield from _about_service(fold, service, holding.settled())


_Found = tuple[str, "int | None", "int | None", str, bool]


def _about_session(fold: SessionFold) -> Iterator[_Found]:
    opened, closed = fold.openings > 0, fold.closings > 0
    first_opening, first_closing = fold.first_opening, fold.first_closing
    if fold.openings > 1:
        again = fold.last_opening if fold.flags & GIVEN else first_opening
        yield "session-opened-twice", again, fold.last_opening, f"was opened {fold.openings} times", False
    if fold.closings > 1:
        what = f"was closed {fold.closings} times"
        yield "session-closed-twice", first_closing, fold.last_closing, what, False
    if closed and not opened:
        yield "session-closed-unopened", first_closing, first_closing, "was closed, but never opened", True
    for each in disorders(fold.moves):
        yield each.kind, each.first_seq, each.last_seq, _DISORDERS[each.kind], not opened and each.kind == UNLEFT
    if opened and not closed and not fold.flags & PERSISTENT:
        yield STILL_OPEN, first_opening, first_opening, "was never closed, though its boot ended", False
    yield from _outside(fold)
    if closed:
        yield from _numbers(fold)


def _outside(fold: SessionFold) -> Iterator[_Found]:
    """Records before the opening or after the closing."""
    kind, opening, closing = "session-record-before-opening", fold.first_opening, fold.first_closing
    change = fold.first_change
    earliest = min((each for each in (change, closing) if each is not None), default=None)
    if opening is not None and earliest is not None and earliest < opening:
        what = f"is named in record {earliest}, before it was opened in record {opening}"
        yield kind, earliest, opening, what, False
    if opening is None and closing is None:
        what = "was never opened, but something is said to have changed of it"
        yield kind, change, fold.last_change, what, True
    if closing is not None and fold.last_change is not None and fold.last_change > closing:
        what = f"was closed in record {closing}, but changed in record {fold.last_change}"
        yield "session-record-after-end", closing, fold.last_change, what, False


def _numbers(fold: SessionFold) -> Iterator[_Found]:
    """Counters and durations that cannot be."""
    flags, first, last = fold.flags, fold.first_closing, fold.last_closing
    if flags & NEGATIVE:
        yield "session-miscounted", first, last, "has a negative counter or duration", False
        return
    if flags & UNEVEN:
        yield "session-miscounted", first, last, "has bytes without objects, or objects without bytes", False
    elif flags & FAR and flags & CARRIED:
        yield "session-miscounted", first, last, "belongs to another server, but has counters here", False
    if fold.openings != 1 or fold.closings != 1:
        return
    duration, lasted = fold.duration or 0, max(0, (fold.closed_at or 0) - (fold.opened_at or 0))
    if _differs(duration, lasted) and _differs(duration, _ran(fold)):
        what = f"is said to have lasted {decimal(duration, 1)} s, but was open {decimal(lasted, 1)} s"
        yield "session-duration-wrong", fold.first_opening, first, what, False


def _ran(fold: SessionFold) -> int | None:
    """How long it lasted by the monotonic clock; the baseline does not have that."""
    if "opened" not in fold.boots or fold.boots["opened"] != fold.boots["closed"]:
        return None
    return (fold.closed_mono or 0) - (fold.opened_mono or 0)


def _differs(duration: int, lasted: int | None) -> bool:
    return lasted is None or abs(duration - lasted) > TOLERANCE


def _about_service(fold: SessionFold, service: str | None, holding: Holding) -> Iterator[Suspicion]:
    name = "objects" if service is None else service
    first_closing = fold.first_closing
    for each in holding.suspicions:
        seq, at, mono = each.place
        # Records after the closing of a session are another finding.
        if first_closing is None or seq <= first_closing:
            if_known = each.is_first and not fold.openings
            what = _WORDS[each.kind].format(name)
            yield Suspicion(each.kind, service, seq, seq, at, what, if_known, seq, mono, each.is_loss)
    left = holding.left
    if left is not None and first_closing is not None and first_closing > left[0]:
        what = f"was closed, but never unregistered {name}"
        yield Suspicion(
            NEVER_UNREGISTERED, service, left[0], first_closing, fold.closed_at, what, False, first_closing,
            fold.closed_mono, True,
        )  # fmt: skip


def _about_keeping(fold: SessionFold) -> Iterator[Suspicion]:
    """A session that is away has to end when it is not kept any longer."""
    for each in absences(fold.moves, None):
        if each.end is None:
            seq, what = each.gone.last_seq, "is away for longer than it was to be kept"
            yield Suspicion(KEPT_TOO_LONG, None, seq, seq, each.gone.until, what, False)


_DISORDERS = {
    "session-left-twice": "left, and left again without having come back",
    UNLEFT: "came back, but had not left",
    "session-changed-while-away": "changed while it was away",
}

_WORDS = {
    "service-not-registered": "unregistered {}, which it did not provide",
    "service-registered-twice": "registered {}, which it provided already",
    "subscription-added-twice": "subscribed to {}, which it did already",
    "subscription-not-added": "ended or renewed a subscription to {}, which it did not have",
}


def decimal(micros: int, digits: int) -> str:
    """Microseconds, not negative, as seconds with so many digits, as Spark writes a rounded number."""
    unit = 10 ** (6 - digits)
    value = (micros + unit // 2) // unit / 10**digits
    if value < _JAVA_EXPONENT:
        return str(value)
    mantissa = f"{value:.{digits}f}".replace(".", "").rstrip("0")
    return f"{mantissa[0]}.{mantissa[1:] or '0'}E{len(str(int(value))) - 1}"
