"""Hosting of the services of the server itself. Clients find, subscribe to and request them like any other service.

One session of the server provides all of them. Updates go to their subscribers. Members of the object network ask for
the present state with ``services/request``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from msgspec.structs import replace
from twisted.internet.defer import Deferred, DeferredList, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from bussrv import events as ev
from bussrv.bus.services.hosted import Hosted
from bussrv.counts.throttle import LOG_BURST, LOG_RATE, Throttle
from bussrv.journal.interfaces import IJournal
from bussrv.plugin import (
    IBus,
    IFilteredService,
    IHostedService,
    IPreparedService,
    IRegistryObserver,
    IServiceHost,
    IServiceObject,
    Kinds,
    Permissions,
    Refused,
    Stamped,
    Traffic,
    Unreachable,
    is_pattern,
    quoted,
)
from bussrv.registry.state.naming import OWN_PROTOCOL

log = Logger()

_KINDS: Kinds = frozenset({ev.SubscriptionAdded, ev.SubscriptionRemoved, ev.SessionClosed})


@implementer(IServiceHost)
class Host:
    """The environment of one hosted service."""

    def __init__(self, name: str, bus: IBus, journal: IJournal, reactor: Any) -> None:
        self.bus = bus
        self.journal = journal
        self.reactor = reactor
        self._name = name
        self._flush: Any = None

    def publish(self, payload: bytes) -> None:
        """Publish ``payload`` on the service."""
        self.publish_each(lambda _: [payload])

    def publish_each(self, payloads: Callable[[Permissions], Iterable[bytes]]) -> None:
        """Publish to each subscriber the payloads that it may know."""
        self.bus.update(self._name, payloads)
        if self._flush is None:
            self._flush = self.reactor.callLater(0, self._flush_now)

    def _flush_now(self) -> None:
        self._flush = None
        self.bus.flush()


@implementer(IRegistryObserver)
class HostedServices:
    """The services that the server itself provides.

    :param plugins: the services that are switched on.
    :ivar not_provided: by the name of each of them that could not be made, why.
    """

    def __init__(self, plugins: Iterable[IHostedService], bus: IBus, journal: IJournal, reactor: Any) -> None:
        self._bus = bus
        self._plugins = list(plugins)
        self.not_provided: dict[str, str] = {}
        self._services: dict[str, IServiceObject] = {}
        self._with_subscribers: set[str] = set()
        self._is_stopped = False
        self._complaints = Throttle(LOG_RATE, LOG_BURST, reactor.seconds)
        for plugin in self._plugins:
            try:
                service = plugin.make(Host(plugin.name, bus, journal, reactor))
            except Exception as error:
                why = self.not_provided[plugin.name] = f"{type(error).__name__}: {error}"
                log.error(
                    "--services: {name} is not provided: {why}",
                    event="service.not-provided",
                    name=plugin.name,
                    why=why,
                )
                continue
            self._services[plugin.name] = service
            bus.host(plugin.name, self._hosted(plugin, service))
        bus.registry.observe(self, _KINDS)

    def claim(self) -> None:
        """Take the names of the services from clients that the journal gives them to, and tell the operator."""
        registry = self._bus.registry
        state, reserved = registry.state, registry.reserved
        for name in sorted(each for each in state.services if each in reserved):
            for session in [state.sessions[each] for each in state.services[name]]:
                if session.protocol == OWN_PROTOCOL:
                    continue  # of an earlier boot
                log.warn(
                    "the journal gives the service {name!r} to {whom!r} at {peer} ({protocol}, session {session}): "
                    "that client loses it, because the server itself provides it now",
                    event="service.name-taken",
                    name=name,
                    whom=session.actor or session.name or session.claimed,
                    peer=session.peer,
                    protocol=session.protocol,
                    session=session.id,
                )
                registry.lose_service(session.id, name, "reserved-name")

    def start(self) -> Deferred[Any]:
        """Register the services. :returns: fires when each of them is offered, or said not to be."""
        if not self._services:
            return succeed(None)
        self._session_id = self._bus.open(OWN_PROTOCOL, "local", Unreachable()).id
        registrations = []
        for name in self._services:
            registered = self._bus.registry.register_service(self._session_id, name, hosted=True)
            registrations.append(registered.addErrback(self._not_offered, name))
        return DeferredList(registrations)

    def _not_offered(self, failure: Failure, name: str) -> None:
        refusal = failure.value
        if not isinstance(refusal, Refused):
            log.failure("the service {name} cannot be offered", failure, event="service.not-offered", name=name)
        elif not self._is_stopped:
            log.error(
                "the service {name} is not offered: {why}", event="service.not-offered", name=name, why=refusal.message
            )

    def stop(self) -> None:
        """End the services, because the server stops."""
        self._is_stopped = True
        for name in tuple(self._with_subscribers):
            self._tell(name, self._services[name].last_subscriber_left)
        if self._services:
            self._bus.close(self._session_id, "server-stopped", Traffic())

    def registry_changed(self, stamped: Stamped) -> None:
        """Tell services when their first subscriber came and their last one left; see :class:`IRegistryObserver`."""
        event = stamped.event
        if isinstance(event, (ev.SubscriptionAdded, ev.SubscriptionRemoved)):
            if event.service in self._services:
                self._look(event.service)
            elif event.service is not None and is_pattern(event.service):
                for name in self._services:
                    self._look(name)
        elif isinstance(event, ev.SessionClosed):
            for name in tuple(self._with_subscribers):
                self._look(name)

    def _look(self, name: str) -> None:
        has_subscribers = self._bus.has_subscribers(name)
        if has_subscribers and name not in self._with_subscribers:
            self._with_subscribers.add(name)
            self._tell(name, self._services[name].first_subscriber_came)
        elif not has_subscribers and name in self._with_subscribers:
            self._with_subscribers.remove(name)
            self._tell(name, self._services[name].last_subscriber_left)

    def _tell(self, name: str, tell: Callable[[], None]) -> None:
        """Call a method of a service. Exceptions are logged here, since the registry is in the middle of a change."""
        try:
            tell()
        except Exception:
            self._failed(name)

    def _failed(self, name: str, failure: Failure | None = None) -> None:
        """Count and log the exception of a service.

        :param failure: has it; ``None``: it is being handled.
        """
        self._bus.counters["internal-error"] += 1
        suppressed = self._complaints.admit(name)
        if suppressed is not None:
            log.failure(
                "the service {name} failed ({suppressed} more not logged)",
                failure,
                event="service.failed",
                name=name,
                suppressed=suppressed,
            )

    def _hosted(self, plugin: IHostedService, service: IServiceObject) -> Hosted:
        is_filtered = IFilteredService.providedBy(service)
        filtered: Any = service

        def snapshot(permissions: Permissions) -> bytes:
            """The exceptions of a service are not the fault of the client that asks. It is told, and lives on."""
            try:
                state = filtered.snapshot_for(permissions) if is_filtered else service.snapshot()
                if not isinstance(state, bytes):
                    raise TypeError(f"the snapshot of {plugin.name} is no bytes, but {type(state).__name__}")
            except Exception:
                self._failed(plugin.name)
                message = f"the service {quoted(plugin.name)} failed; the server's log says why"
                raise Refused("internal-error", message) from None
            return state

        def ready(permissions: Permissions) -> Deferred[None] | None:
            try:
                prepared: Deferred[None] | None = filtered.ready_for(permissions)
                return None if prepared is None else prepared.addErrback(partial(self._failed, plugin.name))
            except Exception:
                self._failed(plugin.name)
                return None

        hosted = Hosted(plugin.content_type, snapshot, is_filtered=is_filtered)
        return replace(hosted, ready=ready) if IPreparedService.providedBy(service) else hosted
