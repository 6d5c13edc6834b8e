"""Sessions and services that come and go, on the topics ``$bus/…``.

A session that subscribes is given all that it may see, and then each change: JSON, or an empty payload for what is
gone. A session is seen by those who may address it, a service by those who may know of it, as in ``bus/registry``. And
they need ``watch`` for the topic.

Nothing is done while nobody is subscribed. Changes are collected for a moment, so that what changes often, or comes and
goes with thousands of others, is told once. The payload says how it is then. The topics are

::

    $bus/sessions/<routing id>
    $bus/services/<name>

``%``, ``+`` and ``#`` are written ``%25``, ``%2B`` and ``%23``: they mean something in filters, or here. In a routing
id, ``/`` is ``%2F``: it is one level. The levels of the name of a service are levels of its topic.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from enum import Enum
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import msgspec
from zope.interface import implementer

from bussrv import events as ev
from bussrv.bus.interfaces import ITopicSource
from bussrv.bus.services.hosted_subscribers import seen_with
from bussrv.plugin import (
    EVERYTHING,
    IBus,
    IRegistryObserver,
    Kinds,
    Permissions,
    Publication,
    Session,
    Stamped,
    format_time,
    is_pattern,
    matches,
)
from bussrv.service_patterns import ONE_LEVEL, REST, SEPARATOR
from bussrv.services.discovery.changed_keys import ChangedKeys
from bussrv.services.discovery.told import Told
from bussrv.values import PRESENCE_PREFIX

_ESCAPES = (("%", "%25"), ("+", "%2B"), ("#", "%23"))
_SLASH = ("/", "%2F")


class PresenceKind(Enum):
    """The kinds of things that have topics. The value is the second level of the topic."""

    SESSION = "sessions"
    SERVICE = "services"


class Present(NamedTuple):
    """A thing that may be there. :ivar name: the routing id of a session, or the name of a service."""

    kind: PresenceKind
    name: str

    @property
    def topic(self) -> str:
        """Its topic."""
        text = self.name
        for plain, escaped in _escapes(self.kind):
            text = text.replace(plain, escaped)
        return f"{PRESENCE_PREFIX}{self.kind.value}{SEPARATOR}{text}"


_KINDS = {each.value: each for each in PresenceKind}


def present_of(topic: str) -> Present | None:
    """What a topic is about; ``None``: nothing can have it."""
    level, _, text = topic.removeprefix(PRESENCE_PREFIX).partition(SEPARATOR)
    kind = _KINDS.get(level)
    if kind is None or not text:
        return None
    for plain, escaped in reversed(_escapes(kind)):
        text = text.replace(escaped, plain)
    found = Present(kind, text)
    return found if found.topic == topic else None


def is_wanted(wanted: str) -> bool:
    """Whether a name or a pattern may cover such topics."""
    return wanted.startswith(PRESENCE_PREFIX)


def kinds_of(pattern: str) -> tuple[PresenceKind, ...]:
    """The kinds of topics that a pattern may cover."""
    if not is_wanted(pattern) or not is_pattern(pattern):
        return ()
    level = pattern.split(SEPARATOR)[1]
    return tuple(each for each in PresenceKind if level in (each.value, ONE_LEVEL, REST))


def _escapes(kind: PresenceKind) -> tuple[tuple[str, str], ...]:
    return (*_ESCAPES, _SLASH) if kind is PresenceKind.SESSION else _ESCAPES


JSON = "application/json"

STEP = 100
"""How many providers of a service are judged in one step."""

_encode = msgspec.json.Encoder().encode


@implementer(IRegistryObserver, ITopicSource)
class Presence:
    """The topics of all sessions and services that the registry has.

    :param shows_users: whether the users of sessions are shown, proved and claimed.
    """

    KINDS: ClassVar[Kinds] = frozenset(
        {
            ev.SessionOpened,
            ev.SessionIdentified,
            ev.AuthSucceeded,
            ev.SessionLeft,
            ev.SessionResumed,
            ev.SessionClosed,
            ev.ServiceRegistered,
            ev.ServiceUnregistered,
        }
    )

    def __init__(self, bus: IBus, reactor: Any, *, shows_users: bool = True) -> None:
        self._bus = bus
        self._shows_users = shows_users
        self._state = bus.registry.state
        self._shown: dict[str, str] = {}  # by session, the routing id by which subscribers know it
        self._changed: ChangedKeys[Present] = ChangedKeys(self._publish, bus.slices, reactor)
        self._told: Told[Present] = Told(bus, self, reactor.seconds)
        bus.own_topics.add(self)
        bus.registry.observe(self, self.KINDS)

    def registry_changed(self, stamped: Stamped) -> None:
        """Note what changed, if somebody wants to know; see :class:`IRegistryObserver`."""
        event = stamped.event
        if not self._told:
            self._shown.clear()
            self._changed.clear()
        elif isinstance(event, ev.ServiceRegistered | ev.ServiceUnregistered):
            self._changed.add(Present(PresenceKind.SERVICE, event.service or ""))
        else:
            self._session_changed(event.session or "", event.routing_id or "")

    def _session_changed(self, session_id: str, routing_id: str) -> None:
        """A session is there, gone, or another one than before: it may have been shown by another routing id."""
        session = self._state.sessions.get(session_id)
        shown = self._shown.get(session_id) if session is not None else self._shown.pop(session_id, None)
        for each in {shown or routing_id, routing_id if session is None else session.routing_id}:
            self._changed.add(Present(PresenceKind.SESSION, each))

    def retained(self, wanted: str, permissions: Permissions) -> Iterator[Publication | None]:
        """See :class:`bussrv.bus.interfaces.ITopicSource`."""
        for present in self._matching(wanted):
            if present is not None:
                yield from self._of(present, permissions)
            yield None

    def _matching(self, wanted: str) -> Iterator[Present | None]:
        """The things that a subscription is for, in steps. One that it names by itself may not be there."""
        exact = present_of(wanted)
        if exact is not None:
            yield exact
        for kind in kinds_of(wanted):
            known = self._state.sessions if kind is PresenceKind.SESSION else self._state.services
            for key in tuple(known):
                present = self._present(kind, key)
                yield present if present is not None and matches(wanted, present.topic) else None

    def _present(self, kind: PresenceKind, key: str) -> Present | None:
        if kind is PresenceKind.SERVICE:
            return Present(kind, key)
        session = self._state.sessions.get(key)
        return None if session is None else Present(kind, session.routing_id)

    def _of(self, present: Present, permissions: Permissions) -> Iterator[Publication | None]:
        """The publication of what is there, if it may be seen."""
        if not _sees(permissions, present):
            return
        payload = yield from self._payload(present, permissions)
        if payload:
            yield Publication(present.topic, JSON, payload, is_retained=True)

    # For those whose permissions change; see :class:`ToldSource`.

    def is_wanted(self, wanted: str) -> bool:
        """Whether it may cover such topics."""
        return is_wanted(wanted)

    def things(self, wanted: str) -> Iterator[Present | None]:
        """What is there; and what has gone, but was not told yet: it is told to those only who may see it now."""
        changed = tuple(self._changed)
        return chain((each for each in changed if matches(wanted, each.topic)), self._matching(wanted))

    def sees(self, permissions: Permissions, thing: Present) -> bool:
        """Whether a subscriber is told of a thing."""
        return permissions.may("watch", thing.topic) and _sees(seen_with(permissions), thing)

    def publication(self, thing: Present, permissions: Permissions) -> Iterator[Publication | None]:
        """A thing as it is."""
        payload = yield from self._payload(thing, permissions)
        yield Publication(thing.topic, JSON, payload, is_retained=True)

    def gone(self, thing: Present) -> Publication:
        """An empty payload."""
        return Publication(thing.topic, JSON, b"", is_retained=True)

    def _publish(self, present: Present) -> Iterator[None]:
        """Tell subscribers how a thing is now, in steps."""
        topic, topics = present.topic, self._bus.own_topics
        publications: dict[Permissions, Publication] = {}
        for permissions in topics.audience(topic):
            if _sees(permissions, present):
                payload = yield from self._payload(present, permissions)
                publications[permissions] = Publication(topic, JSON, payload, is_retained=True)
        topics.give(topic, publications)

    def _payload(self, present: Present, permissions: Permissions) -> Generator[None, None, bytes]:
        """Make the payload of a thing in steps. :returns: empty if it is gone."""
        if present.kind is PresenceKind.SESSION:
            session = self._state.sessions.get(self._state.owner(present.name) or "")
            return b"" if session is None else self._session(session)
        providers = self._state.services.get(present.name)
        if providers is None:
            return b""
        if permissions is EVERYTHING:
            return _encode({"providers": len(providers)})
        number = 0
        for place, session_id in enumerate(tuple(providers)):
            provider = self._state.sessions.get(session_id)
            number += provider is not None and permissions.sees_session(provider.routing_id)
            if place % STEP == STEP - 1:
                yield None
        return _encode({"providers": number})

    def _session(self, session: Session) -> bytes:
        self._shown[session.id] = session.routing_id
        facts = {
            "protocol": session.protocol,
            "actor": session.actor if self._shows_users else None,
            "claimed": session.claimed if self._shows_users else None,
            "name": session.name,
            "server": session.home,
            "since": format_time(session.opened),
            "away": session.is_away,
        }
        return _encode({name: fact for name, fact in facts.items() if fact is not None})


def _sees(permissions: Permissions, present: Present) -> bool:
    is_session = present.kind is PresenceKind.SESSION
    return permissions.sees_session(present.name) if is_session else permissions.sees_service(present.name)
