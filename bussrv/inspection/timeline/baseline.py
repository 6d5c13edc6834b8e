"""The registry before the first segment that is read, as records. It stands for all segments before that one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from msgspec import UNSET

from bussrv import events as ev
from bussrv.journal.header import Part
from bussrv.journal.record import Record
from bussrv.registry.state.fold import RegistryFold
from bussrv.registry.state.session import Session
from bussrv.registry.state.state import RegistryState


def baseline(parts: Iterable[Part], server: str, number: int) -> list[Record]:
    """The snapshot at the beginning of segment ``number``, as records in order.

    They have the number before the first record of the segment, and the times of the original changes. Parts that are
    damaged are left out.
    """
    fold = RegistryFold()
    for part in parts:
        with suppress(ValueError):
            fold.take(part.state, part.version)
    found = [Record(number - 1, time, rank, server, "", event) for time, rank, event in _changes(fold.state)]
    return sorted(found, key=lambda each: (each.time, each.mono))


def _changes(state: RegistryState) -> Iterator[tuple[int, int, ev.Event]]:
    """Each change that led to the registry: its time, its rank among changes of the same time, and its event."""
    for session in state.sessions.values():
        yield from _of_session(session)
    for service, providers in state.services.items():
        for session_id, since in providers.items():
            yield since, 2, ev.ServiceRegistered(**_about(state, session_id), service=service)
    for each in state.all_subscriptions():
        yield each.added, 3, ev.SubscriptionAdded(**_about(state, each.session), service=each.service)


def _of_session(session: Session) -> Iterator[tuple[int, int, ev.Event]]:
    about = session.about()
    unproved = {**about, "actor": None, "claimed": None}
    expiry = None if session.expiry is UNSET else session.expiry
    kept: dict[str, Any] = {"persistent": session.persistent, "expiry": expiry, "home": session.home}
    yield session.opened, 0, ev.SessionOpened(**unproved, **kept)
    if session.routing_ids or any((session.actor, session.claimed, session.name, session.role, session.vocabulary)):
        yield session.opened, 1, ev.SessionIdentified(**about, routing_ids=session.routing_ids, name=session.name)
    if session.away is not UNSET:
        yield session.away.since, 4, ev.SessionLeft(**about, until=session.away.until)


def _about(state: RegistryState, session_id: str) -> dict[str, Any]:
    session = state.session(session_id)
    return {"session": session_id} if session is None else session.about()
