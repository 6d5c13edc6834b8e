"""Services that come and go as devices of Home Assistant; see :mod:`bussrv.services.discovery.configs`.

Announced are services of this server's publishers of Inbus, of plugins that it hosts, and of members of the object
network that say so. Clients of MQTT announce themselves.

A config is there as long as somebody provides the service. Then its topic is given an empty payload, so that Home
Assistant removes the sensor; also later, when it subscribes again, because it may have been away. The names of
announced services are remembered over a restart. After it, they are unavailable until they are provided again. Those
that are not after a while are removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from bussrv import events as ev
from bussrv.bus.interfaces import ITopicSource
from bussrv.bus.services.hosted_subscribers import seen_with
from bussrv.plugin import (
    UTF8_TEXT,
    IBus,
    IRegistryObserver,
    Kinds,
    Permissions,
    Publication,
    Session,
    Stamped,
    is_pattern,
    matches,
)
from bussrv.registry.state.naming import OWN_PROTOCOL
from bussrv.service_patterns import ONE_LEVEL, REST, SEPARATOR
from bussrv.services.discovery.changed_keys import ChangedKeys
from bussrv.services.discovery.configs import OFFLINE, ONLINE, PREFIX, Device, Sensors, device_of
from bussrv.services.discovery.remembered import Remembered
from bussrv.services.discovery.told import Told
from bussrv.values import RESERVED_PREFIX
from bussrv.wire.mqtt.topics import is_name

JSON = "application/json"

MOST = 5_000
"""The most services that are announced at a time."""

GRACE = 300.0
"""Seconds after a start within which services of the last boot are provided again, or removed."""

log = Logger()


@implementer(IRegistryObserver, ITopicSource)
class HomeAssistant:
    """The topics of announced services.

    A topic is one of two: the config, and the availability. A session is given both if it may watch the service, too.
    """

    KINDS: ClassVar[Kinds] = frozenset(
        {ev.ServiceRegistered, ev.ServiceUnregistered, ev.SessionIdentified, ev.AuthSucceeded}
    )

    def __init__(self, bus: IBus, reactor: Any) -> None:
        self._bus = bus
        self._state = bus.registry.state
        self._reactor = reactor
        self._sensors = Sensors(bus.server_id)
        self._providers: dict[str, dict[str, None]] = {}  # the sessions that provide each announced service
        self._remembered = Remembered(bus.spool, self._providers, self._forget)
        self._unkept: set[str] = set()  # their names are on their way to the disk
        self._awaited: set[str] = set()  # of the last boot, not provided again yet
        self._by_topic: dict[str, str] = {}
        self._changed: ChangedKeys[str] = ChangedKeys(self._publish, bus.slices, reactor)
        self._told: Told[tuple[str, str]] | None = None
        self._is_stopped = False

    def start(self) -> Deferred[None]:
        """Announce services from now on, after the sessions of the last boot were closed.

        :returns: fires when the services are known that were announced then.
        """
        registry = self._bus.registry
        registry.reserved.add_prefix(self._sensors.prefix)
        registry.observe(self, self.KINDS)
        self._bus.announcements.observers.append(self._announce)
        self._bus.own_topics.add(self)
        self._told = Told(self._bus, self, self._reactor.seconds)
        for service, providers in self._state.services.items():
            for session_id in providers:
                self._provided(session_id, service)
        return Deferred.fromCoroutine(self._load()).addErrback(self._not_loaded)

    async def _load(self) -> None:
        for service in await self._remembered.load():
            self._index(service)
            if service not in self._providers:
                self._awaited.add(service)
                self._changed.add(service)
        self._reactor.callLater(GRACE, self._end_grace)

    def stop(self) -> None:
        """Withdraw nothing any more: the server stops. Its devices are unavailable until it is back, and not gone."""
        self._is_stopped = True
        self._changed.clear()

    @staticmethod
    def _not_loaded(failure: Failure) -> None:
        why = failure.getErrorMessage()
        log.error("discovery: what was announced cannot be read: {why}", event="discovery.unread", why=why)

    def _end_grace(self) -> None:
        awaited, self._awaited = self._awaited, set()
        for service in awaited:
            self._changed.add(service)

    # What is provided.

    def registry_changed(self, stamped: Stamped) -> None:
        """Announce a service that came, or withdraw one that went; see :class:`IRegistryObserver`."""
        event = stamped.event
        session_id = event.session or ""
        if self._is_stopped:
            return
        if isinstance(event, ev.ServiceRegistered):
            self._provided(session_id, event.service or "")
        elif isinstance(event, ev.ServiceUnregistered):
            self._ended(session_id, event.service or "")
        else:
            for service in self._state.provided_by(session_id):
                if session_id in self._providers.get(service, ()):
                    self._changed.add(service)

    def _provided(self, session_id: str, service: str) -> None:
        session = self._state.sessions.get(session_id)
        if session is not None and session.home is None and _is_announced(session, service):
            self._announce(session_id, service)

    def _announce(self, session_id: str, service: str) -> None:
        """A session provides a service that is to be announced."""
        if not is_name(service):
            return
        if service not in self._providers and len(self._providers) >= MOST:
            self._bus.counters["discovery-full"] += 1
            return
        self._providers.setdefault(service, {})[session_id] = None
        self._awaited.discard(service)
        self._index(service)
        if service not in self._unkept:
            # First it is remembered. Otherwise Home Assistant might keep what this server forgot when it was killed.
            self._unkept.add(service)
            self._remembered.add(service).addCallback(partial(self._kept, service))

    def _kept(self, service: str, _: object) -> None:
        self._unkept.discard(service)
        self._changed.add(service)

    def _ended(self, session_id: str, service: str) -> None:
        providers = self._providers.get(service, {})
        if session_id in providers:
            del providers[session_id]
            if not providers:
                del self._providers[service]
            self._changed.add(service)

    def _index(self, service: str) -> None:
        for topic in self._topics(service):
            self._by_topic[topic] = service

    def _forget(self, service: str) -> None:
        for topic in self._topics(service):
            del self._by_topic[topic]
        self._awaited.discard(service)

    def _topics(self, service: str) -> tuple[str, str]:
        return self._sensors.config_topic(service), self._sensors.availability_topic(service)

    # What is told.

    def retained(self, wanted: str, permissions: Permissions) -> Iterator[Publication | None]:
        """See :class:`bussrv.bus.interfaces.ITopicSource`. A config that is gone is an empty publication."""
        for thing in self.things(wanted):
            yield None if thing is None else self._publication(*thing, permissions)

    def is_wanted(self, wanted: str) -> bool:
        """Whether it may cover such topics; see :class:`ToldSource`, as for the others."""
        first = wanted.split(SEPARATOR)[0]
        return first == PREFIX or (is_pattern(wanted) and first in (ONE_LEVEL, REST))

    def things(self, wanted: str) -> Iterator[tuple[str, str] | None]:
        """Services with their topics."""
        if not is_pattern(wanted):
            service = self._by_topic.get(wanted)
            if service is not None:
                yield service, wanted
        elif self.is_wanted(wanted):
            for topic, service in tuple(self._by_topic.items()):
                yield (service, topic) if matches(wanted, topic) else None

    def sees(self, permissions: Permissions, thing: tuple[str, str]) -> bool:
        """Whether they may watch both."""
        service, topic = thing
        return permissions.may("watch", topic) and seen_with(permissions).may("watch", service)

    def publication(self, thing: tuple[str, str], permissions: Permissions) -> Iterator[Publication | None]:
        """The topic as it is."""
        yield self._publication(*thing, permissions)

    def gone(self, thing: tuple[str, str]) -> Publication:
        """An empty payload: Home Assistant removes the sensor."""
        _, topic = thing
        return Publication(topic, UTF8_TEXT, b"", is_retained=True)

    def _publish(self, service: str) -> Iterator[None]:
        """Tell subscribers how a service is now, in steps."""
        topics = self._bus.own_topics
        for topic in self._topics(service):
            told = {each: self._publication(service, topic, each) for each in topics.audience(topic)}
            topics.give(topic, {each: publication for each, publication in told.items() if publication is not None})
            yield

    def _publication(self, service: str, topic: str, permissions: Permissions) -> Publication | None:
        """The publication on a topic, for those with some permissions; ``None``: they are not told."""
        if service in self._unkept or not permissions.may("watch", service):
            return None
        is_config = topic == self._sensors.config_topic(service)
        if service in self._awaited:
            return None if is_config else Publication(topic, UTF8_TEXT, OFFLINE, is_retained=True)
        device = self._device(service, permissions)
        if device is None:
            return Publication(topic, JSON if is_config else UTF8_TEXT, b"", is_retained=True)
        if is_config:
            return Publication(topic, JSON, self._sensors.config(service, device), is_retained=True)
        return Publication(topic, UTF8_TEXT, ONLINE, is_retained=True)

    def _device(self, service: str, permissions: Permissions) -> Device | None:
        """The device that provides a service, as far as it may be seen; ``None``: nobody provides it."""
        for session_id in self._providers.get(service, ()):
            session = self._state.sessions.get(session_id)
            if session is not None:
                is_shown = session.protocol != OWN_PROTOCOL and permissions.sees_session(session.routing_id)
                return device_of(session) if is_shown else self._sensors.server
        return None


def _is_announced(session: Session, service: str) -> bool:
    """Whether a service is announced without being asked for: it is of a device of Inbus, or of a plugin."""
    if session.protocol == OWN_PROTOCOL:
        return not service.startswith(RESERVED_PREFIX)
    return session.protocol == "inbus"
