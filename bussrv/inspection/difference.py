"""Differences between two moments of a registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Struct

from bussrv.journal.record import format_time
from bussrv.registry.state.session import Session, Subscription
from bussrv.registry.state.snapshot import Snapshot
from bussrv.terminal import word

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


class Provision(Struct, frozen=True):
    """A service, and a session that provides it."""

    service: str
    session: str


class ChangedItem(Struct, Generic[T], frozen=True):
    """One that is there at both moments, and not the same."""

    before: T
    after: T


class Changes(Struct, Generic[T], frozen=True):
    """Items at the second moment only, at the first only, and at both with a difference."""

    came: list[T]
    went: list[T]
    changed: list[ChangedItem[T]]

    def __bool__(self) -> bool:
        return bool(self.came or self.went or self.changed)


class Difference(Struct, frozen=True):
    """The differences between two moments.

    :ivar before: the number of the last record of the first moment.
    :ivar after: the number of the last record of the second one.
    """

    before: int
    after: int
    sessions: Changes[Session]
    services: Changes[Provision]
    subscriptions: Changes[Subscription]

    def __bool__(self) -> bool:
        return bool(self.sessions or self.services or self.subscriptions)


def difference(before: Snapshot, after: Snapshot) -> Difference:
    """The differences between two moments; the time at which a lease was renewed is none."""
    return Difference(
        before.seq,
        after.seq,
        _changes(_sessions(before), _sessions(after), lambda each: each),
        _changes(_providers(before), _providers(after), lambda each: each),
        _changes(_subscriptions(before), _subscriptions(after), lambda each: (each.interest, each.options)),
    )


def lines(shown: Difference) -> Iterator[str]:
    """A difference for people: ``+`` came, ``-`` went, ``~`` is not the same."""
    if not shown:
        yield f"Nothing differs between record {shown.before} and record {shown.after}."
        return
    yield f"From record {shown.before} to record {shown.after}:"
    yield from _lines("session", shown.sessions, _session)
    yield from _lines("service", shown.services, lambda each: f"{word(each.service)} session={word(each.session)}")
    yield from _lines("subscription", shown.subscriptions, _subscription)


def _sessions(shown: Snapshot) -> dict[Any, Session]:
    return {each.id: each for each in shown.sessions}


def _providers(shown: Snapshot) -> dict[Any, Provision]:
    return {(name, each): Provision(name, each) for name, sessions in shown.services.items() for each in sessions}


def _subscriptions(shown: Snapshot) -> dict[Any, Subscription]:
    return {(each.session, each.service): each for each in shown.subscriptions}


def _changes(before: Mapping[Any, T], after: Mapping[Any, T], content: Callable[[T], object]) -> Changes[T]:
    return Changes(
        [each for key, each in after.items() if key not in before],
        [each for key, each in before.items() if key not in after],
        [
            ChangedItem(each, after[key])
            for key, each in before.items()
            if key in after and content(each) != content(after[key])
        ],
    )


def _lines(kind: str, changes: Changes[T], say: Callable[[T], str]) -> Iterator[str]:
    for sign, found in (("+", changes.came), ("-", changes.went)):
        for each in found:
            yield f"{sign} {kind} {say(each)}"
    for change in changes.changed:
        yield f"~ {kind} {say(change.before)} -> {say(change.after)}"


def _session(each: Session) -> str:
    about = {"protocol": each.protocol, "routing_id": each.routing_id, "actor": each.actor}
    about |= {"claimed": each.claimed, "peer": each.peer}
    about |= {"name": each.name, "role": each.role, "vocabulary": each.vocabulary, "home": each.home}
    about |= {"routing_ids": ",".join(each.routing_ids)}
    if each.away is not UNSET:
        about |= {"away_since": format_time(each.away.since), "kept_until": format_time(each.away.until)}
    return " ".join([word(each.id), *(f"{name}={word(value)}" for name, value in about.items() if value)])


def _subscription(each: Subscription) -> str:
    wanted = "objects" if each.service is None else f"service={word(each.service)}"
    about = {"interest": each.interest, "options": each.options}
    told = (f"{name}={word(_encode(value).decode())}" for name, value in about.items() if value is not None)
    return " ".join([wanted, f"session={word(each.session)}", *told])
