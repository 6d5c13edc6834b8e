"""What the journals have to say at the end. Pure, but for reading them."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from bussrv import events as ev
from bussrv.journal.reading import read_journal
from tests.end_to_end.doomed import Told
from tests.soak.stations import MARK

ENDED = ("authentication-failed", "user-withdrawn", "permission-withdrawn")
"""Reasons that are counted."""

SHOWN = 3
"""The most examples of what is wrong that are shown."""


class Check(NamedTuple):
    """One claim: whether it holds, and the figures that it rests on."""

    claim: str
    holds: bool
    figures: str

    def __str__(self) -> str:
        return f"{'ok' if self.holds else 'FAILED':>6}  {self.claim}: {self.figures}"


def events_of(journal: Path) -> list[ev.Event]:
    """All events of a journal.

    :raises AssertionError: a number is missing, or comes twice.
    """
    events = []
    for number, record in enumerate(read_journal(journal), 1):
        assert record.seq == number, f"record {number} has the number {record.seq}"
        events.append(record.event)
    return events


def closed_once(name: str, events: Iterable[ev.Event]) -> Check:
    """Every session that was opened was closed, and that once."""
    opened: Counter[str | None] = Counter()
    closed: Counter[str | None] = Counter()
    for each in events:
        if isinstance(each, ev.SessionOpened):
            opened[each.session] += 1
        elif isinstance(each, ev.SessionClosed):
            closed[each.session] += 1
    wrong = sorted(str(each) for each in opened | closed if (opened[each], closed[each]) != (1, 1))
    return Check(
        f"{name}: every session is closed once", bool(opened) and not wrong, f"{len(opened)} sessions{_shown(wrong)}"
    )


def nothing_lost(name: str, events: Iterable[ev.Event], told: Sequence[Told]) -> Check:
    """Everything that clients were told of is in the journal."""
    found = journaled(events)
    lost = sorted(f"{each.kind.__name__} {each.name}" for each in set(told) - found)
    return Check(
        f"{name}: what was acknowledged is in the journal",
        bool(told) and not lost,
        f"{len(told)} answers{_shown(lost)}",
    )


def journaled(events: Iterable[ev.Event]) -> set[Told]:
    """What clients could have been told of, going by a journal.

    A member is known by its routing id, a service by its name, and a subscription by the address of the SPP client and
    the service, or by the service alone.
    """
    found = set()
    for each in events:
        if isinstance(each, ev.SessionIdentified):
            found.add(Told(ev.SessionIdentified, each.routing_id or ""))
        elif isinstance(each, (ev.ServiceRegistered, ev.ServiceUnregistered)):
            found.add(Told(type(each), each.service or ""))
        elif isinstance(each, ev.SubscriptionAdded) and each.service is not None:
            known = f"{each.peer} {each.service}" if each.protocol == "spp" else each.service
            found.add(Told(ev.SubscriptionAdded, known))
    return found


def reloaded_as_expected(name: str, events: Iterable[ev.Event], expected: Sequence[bool]) -> Check:
    """Each reload came to what it had to come to, and to one record."""
    kinds = (ev.ConfigReloaded, ev.ConfigReloadFailed)
    found = [isinstance(each, ev.ConfigReloaded) for each in events if isinstance(each, kinds)]
    figures = f"{len(expected)} reloads, {expected.count(False)} of them wrong on purpose"
    return Check(f"{name}: each reload is used or refused as it should be", found == list(expected), figures)


def links_held(name: str, events: Iterable[ev.Event], cuts: int) -> Check:
    """A link was lost only if it was cut, or the other server was killed."""
    downs = sum(isinstance(each, ev.LinkDown) for each in events)
    return Check(f"{name}: the link breaks only if it is cut", downs == cuts, f"broken {downs} times, cut {cuts} times")


def recovered(name: str, events: Iterable[ev.Event], kills: int) -> Check:
    """The server noticed each kill when it was started again."""
    found = sum(isinstance(each, ev.ServerRecovered) for each in events)
    return Check(f"{name}: it recovers from each kill", found == kills, f"killed {kills} times")


def served_without_errors(name: str, events: Iterable[ev.Event], lines: Iterable[str]) -> Check:
    """No session ended by an error of the server, and no traceback is in the log."""
    lines = list(lines)
    ended = sum(isinstance(each, ev.SessionClosed) and each.reason == "internal-error" for each in events)
    begun = [number for number, line in enumerate(lines) if "Traceback" in line or "Unhandled" in line]
    raised = ["\n".join(lines[max(0, number - 1) : number + 30]) for number in begun]
    figures = f"{ended} sessions ended by internal-error, {len(raised)} tracebacks{_shown(raised)}"
    return Check(f"{name}: no errors of the server", not ended and not raised, figures)


def slow_ones_cut(name: str, events: Iterable[ev.Event], cuts: int) -> Check:
    """Whoever read nothing was disconnected, and nobody else for that reason."""
    found = [
        each.routing_id or ""
        for each in events
        if isinstance(each, ev.SessionClosed) and each.reason == "slow-consumer"
    ]
    others = [each for each in found if ".stalled" not in each]
    return Check(
        f"{name}: clients that read nothing are cut, others are not",
        bool(found) and not others,
        f"{len(found)} cut, {cuts} of them noticed{_shown(others)}",
    )


def users_known(name: str, events: Sequence[ev.Event]) -> Check:
    """Every member has proved who it is; those that could not prove it, or may not be there any more, are not."""
    reasons = Counter(each.reason for each in events if isinstance(each, (ev.SessionClosed, ev.ServiceUnregistered)))
    failures = sum(1 + (each.suppressed or 0) for each in events if isinstance(each, ev.AuthFailed))
    far = {each.session for each in events if isinstance(each, ev.SessionOpened) and each.home is not None}
    identified = [each for each in events if isinstance(each, ev.SessionIdentified)]
    members = [each for each in identified if each.role is None and each.session not in far]
    wrong = [each.routing_id or "" for each in members if each.actor is None]
    ended = ", ".join(f"{reason} {reasons[reason]}" for reason in ENDED)
    figures = f"{len(members)} times, {failures} failed logins, {ended}{_shown(wrong)}"
    return Check(f"{name}: only users become members", bool(members and failures) and not wrong, figures)


def secrets_kept(name: str, journal: Path, lines: Iterable[str]) -> Check:
    """No secret is in the journal or in the log."""
    texts = [(path.name, _bytes_of(path)) for path in journal.iterdir()]
    wrong = [path for path, text in texts if MARK.encode() in text] + [line for line in lines if MARK in line]
    return Check(f"{name}: no secret is written", not wrong, f"{len(texts)} files{_shown(wrong)}")


def _bytes_of(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def _shown(wrong: Sequence[str]) -> str:
    more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
    return f"; {len(wrong)} wrong: {', '.join(wrong[:SHOWN])}{more}" if wrong else ""
