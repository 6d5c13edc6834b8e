"""Hosts the services that the server itself provides: they are found, offered, asked and watched like all others.

One session of the server provides them all. An update goes to those who subscribed to the service, SPP watchers and
Inbus subscribers; members of the object network ask for the present state with ``services/request``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from twisted.logger import Logger
from zope.interface import implementer

from bussrv import events as ev
from bussrv.bus.delivery import Batch
from bussrv.interfaces import (
    IBus,
    IEncoding,
    IHostedService,
    IJournal,
    IRegistryObserver,
    IServiceHost,
    IServiceObject,
    ISessionLink,
)
from bussrv.journal.record import Stamped
from bussrv.values import Traffic

PROTOCOL = "bus"
"""The ``protocol`` of the server's own session."""

log = Logger()


@implementer(ISessionLink)
class _NoWay:
    """To the server's own session nothing is sent."""

    def encoding_for(self, options: dict[str, Any] | None) -> IEncoding:
        raise NotImplementedError

    def send(self, batch: Batch) -> None:
        raise NotImplementedError

    def close(self, reason: str) -> None:
        """It ends with the server."""


@implementer(IServiceHost)
class Host:
    """What one hosted service works with."""

    def __init__(self, name: str, bus: IBus, journal: IJournal, reactor: Any) -> None:
        self.bus = bus
        self.journal = journal
        self.reactor = reactor
        self._name = name
        self._flush: Any = None

    def publish(self, payload: bytes) -> None:
        """Give ``payload`` to those who subscribed to the service."""
        self.bus.update(self._name, payload)
        if self._flush is None:
            self._flush = self.reactor.callLater(0, self._flush_now)

    def _flush_now(self) -> None:
        self._flush = None
        self.bus.flush()


@implementer(IRegistryObserver)
class HostedServices:
    """The services that the server itself provides.

    :param plugins: those that are on.
    """

    def __init__(self, plugins: Iterable[IHostedService], bus: IBus, journal: IJournal, reactor: Any) -> None:
        self._bus = bus
        self._plugins = list(plugins)
        self._services: dict[str, IServiceObject] = {}
        self._watched: set[str] = set()
        for plugin in self._plugins:
            service = plugin.make(Host(plugin.name, bus, journal, reactor))
            self._services[plugin.name] = service
            bus.host(plugin.name, plugin.content_type, service.snapshot)
        bus.registry.observe(self)

    def start(self) -> None:
        """Offer them."""
        if not self._services:
            return
        self._session_id = self._bus.open(PROTOCOL, "local", _NoWay()).id
        for name in self._services:
            registered = self._bus.registry.register_service(self._session_id, name, hosted=True)
            registered.addErrback(lambda failure: log.failure("a service cannot be offered", failure))

    def stop(self) -> None:
        """The server stops."""
        for name in tuple(self._watched):
            self._services[name].unwatched()
        if self._services:
            self._bus.close(self._session_id, "server-stopped", Traffic())

    def registry_changed(self, stamped: Stamped) -> None:
        """Say when the first one watches, and when the last one does no longer; see :class:`IRegistryObserver`."""
        event = stamped.event
        if isinstance(event, (ev.SubscriptionAdded, ev.SubscriptionRemoved)) and event.service in self._services:
            self._look(event.service)
        elif isinstance(event, ev.SessionClosed):
            for name in tuple(self._watched):
                self._look(name)

    def _look(self, name: str) -> None:
        is_watched = self._bus.is_watched(name)
        if is_watched and name not in self._watched:
            self._watched.add(name)
            self._services[name].watched()
        elif not is_watched and name in self._watched:
            self._watched.remove(name)
            self._services[name].unwatched()
