"""The registry as sessions with some permissions see it. Pure.

They are shown a session if they may address it, and a service of it, or a subscription, if they may also know of the
service. Further routing ids are shown as far as they may address these. Nothing else is shown: no server, no refused
stranger, no denial.

The records that are shown change what was shown before exactly as all records change the registry. For that, a session
that takes a visible routing id is introduced by records that tell what it has, and one that gives it up ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from bussrv import events as ev
from bussrv.plugin import Permissions, RegistryState, Session, Subscription, filter_of

Timed = tuple[int, ev.Event]
"""An event, and when it was, in UTC microseconds."""


class RecordChange(NamedTuple):
    """A record, and the session that it is about.

    :ivar before: the session before it; ``None``: there was none.
    :ivar after: the session after it.
    :ivar services: if the record gives the session another routing id: its services, each with the time of its start.
    :ivar subscriptions: its subscriptions, in the same case.
    """

    time: int
    event: ev.Event
    before: Session | None
    after: Session | None
    services: dict[str, int]
    subscriptions: tuple[Subscription, ...]


def change(state: RegistryState, event: ev.Event, time: int) -> RecordChange:
    """The changes by a record that is about to be applied to ``state``, except for the session after it."""
    before = state.sessions.get(event.session or "")
    services: dict[str, int] = {}
    subscriptions: tuple[Subscription, ...] = ()
    if isinstance(event, ev.SessionIdentified) and before is not None and event.routing_id != before.routing_id:
        services = {name: state.services[name][before.id] for name in sorted(state.provided_by(before.id))}
        subscriptions = tuple(state.subscriptions.get(before.id, {}).values())
    return RecordChange(time, event, before, None, services, subscriptions)


def shown_events(done: RecordChange, permissions: Permissions) -> Iterator[Timed]:
    """The events that are shown of a record, with their times."""
    event, before, after = done.event, done.before, done.after
    was = before is not None and permissions.sees_session(before.routing_id)
    closes = isinstance(event, ev.SessionClosed)
    stays = was if closes else after is not None and permissions.sees_session(after.routing_id)
    is_shown = event.service is None or permissions.sees_service(filter_of(event.service))
    if isinstance(event, ev.AccessDenied) or not (was or stays) or not is_shown:
        return
    if not stays and before is not None:
        yield from _ended(done, before, permissions)
        return
    if not was and before is not None and after is not None:
        yield after.opened, _opened(after)
    yield done.time, _filtered(event, permissions)
    if not was and before is not None and after is not None:
        yield from _holdings(done, after, permissions)


def _opened(session: Session) -> ev.SessionOpened:
    """The opening of a session that is shown from now on. It is not away: its client has just said who it is."""
    expiry = None if session.expiry is UNSET else session.expiry
    return ev.SessionOpened(persistent=session.persistent, expiry=expiry, home=session.home, **session.about())


def _holdings(done: RecordChange, session: Session, permissions: Permissions) -> Iterator[Timed]:
    """The services and subscriptions of a session that is shown from now on."""
    about = session.about()
    for name, time in done.services.items():
        if permissions.sees_service(name):
            yield time, ev.ServiceRegistered(service=name, **about)
    for each in done.subscriptions:
        if is_visible(each, permissions):
            added = ev.SubscriptionAdded(service=each.service, interest=each.interest, options=each.options, **about)
            yield each.added, added
            if each.renewed != each.added:
                yield each.renewed, ev.SubscriptionRenewed(service=each.service, **about)


def _ended(done: RecordChange, session: Session, permissions: Permissions) -> Iterator[Timed]:
    """A session that is not shown any more: for those who were shown it, it ends."""
    about = session.about()
    for name in done.services:
        if permissions.sees_service(name):
            yield done.time, ev.ServiceUnregistered(service=name, **about)
    yield done.time, ev.SessionClosed(duration=max(0, done.time - session.opened), **about)


def _filtered(event: ev.Event, permissions: Permissions) -> ev.Event:
    if isinstance(event, ev.SessionIdentified):
        return replace(event, routing_ids=visible_ids(event.routing_ids, permissions))
    return event


def visible_ids(routing_ids: tuple[str, ...], permissions: Permissions) -> tuple[str, ...]:
    """Those of the further routing ids of a session that are shown."""
    return tuple(each for each in routing_ids if permissions.sees_session(each))


def is_visible(subscription: Subscription, permissions: Permissions) -> bool:
    """Whether a subscription of a session that is shown is shown, too."""
    return subscription.service is None or permissions.sees_service(filter_of(subscription.service))
