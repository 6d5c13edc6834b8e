"""A server as a part of another Twisted program.

::

    bus = make_service({"objects": "tcp:0:interface=127.0.0.1", "journal": "/var/lib/shop/journal"}, reactor)
    bus.setServiceParent(application)

The process stays the program's: no signal handlers, no log observers, no limits of the process, no settings of the
garbage collector, and nothing on standard error. What goes wrong at the start is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from twisted.application.service import Service
from twisted.internet.address import UNIXAddress
from twisted.internet.defer import Deferred, DeferredList, fail

from bussrv.addresses import parse_address
from bussrv.admin.interfaces import Reloaded
from bussrv.client.core.base import Core, Tell
from bussrv.client.core.framing import PlainFraming
from bussrv.client.core.objects import ObjectsCore
from bussrv.client.errors import Offline
from bussrv.client.settings import Login, Settings
from bussrv.embedding.client import MOST_WAITING, Client
from bussrv.embedding.configuration import OWN_FORMATS, OWN_SERVICES, configured
from bussrv.embedding.pipe import Pipe
from bussrv.formats.objects.object_system import ObjectsProtocol
from bussrv.interfaces import IHostedService, IWireFormat
from bussrv.net.draining import MOST_SECONDS_TO_READ, REASON
from bussrv.net.session.factory import StreamFactory
from bussrv.policy.logins.credentials import Proof
from bussrv.server.configuration.config import Config
from bussrv.server.running.service import BusService

__all__ = ["EmbeddedServer", "make_service"]

INSIDE = UNIXAddress(b"in-process")
"""The address of clients in the process. The registry and the journal have it as ``unix:in-process``."""

_FOR_EVER = 1e9
"""Seconds. A program may block its reactor for longer than a server on a network is silent."""


def make_service(
    settings: Mapping[str, Any],
    reactor: Any,
    *,
    formats: Iterable[IWireFormat] = (),
    services: Iterable[IHostedService] = (),
) -> EmbeddedServer:
    """Make a server.

    :param settings: values of options by their long names, each of the type that a configuration file has for it;
        paths may be :class:`pathlib.Path`. ``config`` names a configuration file, which the other settings override.
        A wire format, the admin interface and the journal are off unless a setting says where they are. The command
        line and the environment do not count.
    :param formats: further wire formats; those of bussrv are known.
    :param services: further services of the server itself.
    :raises bussrv.errors.ConfigError: has a sentence for each setting that is wrong, in ``sentences``.
    """
    return EmbeddedServer(settings, reactor, [*OWN_FORMATS, *formats], [*OWN_SERVICES, *services])


class EmbeddedServer(Service):
    """A server in a process that belongs to another program; made by :func:`make_service`. It is started once.

    :param seams: further arguments of :class:`bussrv.server.running.service.BusService`, for tests.
    :ivar settings: those that it was made with; :meth:`reload` replaces them.
    """

    name = "bussrv"

    def __init__(
        self,
        settings: Mapping[str, Any],
        reactor: Any,
        formats: list[IWireFormat],
        services: list[IHostedService],
        **seams: Any,
    ) -> None:
        self.settings = dict(settings)
        self._formats, self._services = formats, services
        self._reactor = reactor
        self._server = BusService(self._read(), formats, reactor, services=services, read=self._read, **seams)
        self._server.further["in-process"] = self._close_clients
        self._factory: StreamFactory | None = None

    def _read(self) -> Config:
        return configured(self.settings, self._formats, self._services)

    def startService(self) -> None:
        """Recover the journal, and open the ports.

        :raises bussrv.errors.ConfigError: has a sentence for each reason why the server cannot start, in
            ``sentences``, such as a busy port, or a journal that another server has. Nothing of it is left then.
        :raises RuntimeError: it was started before.
        """
        self._server.startService()
        self._factory = StreamFactory(ObjectsProtocol, self._server.bus, self._reactor)
        super().startService()

    def stopService(self) -> Deferred[None]:
        """End all sessions, close the ports, then the journal.

        :returns: fires when that is done, however often this is called, also after a start that failed.
        """
        super().stopService()
        return self._server.stopService()

    def drain(self) -> Deferred[None]:
        """Stop, but let sessions end one after the other before, within the seconds of ``drain-seconds``.

        :returns: see :meth:`stopService`.
        """
        self._server.asked_to_stop(drain=True)
        return self.stopService()

    def when_ready(self) -> Deferred[None]:
        """Wait until the services of the server itself are offered, which is the last thing of a start.

        :returns: fires then; fails with ``RuntimeError`` if the server stops before.
        """
        return self._server.when_ready()

    def reload(self, settings: Mapping[str, Any] | None = None) -> Deferred[Reloaded | None]:
        """Use other settings from now on, and read the files anew that they name, such as those of users.

        :param settings: all of them; ``None``: those from before.
        :returns: the outcome. If it has ``faults``, nothing has changed. ``None``: the server does not run.
        """
        before = self.settings
        if settings is not None:
            self.settings = dict(settings)

        def keep(outcome: Reloaded | None) -> Reloaded | None:
            if outcome is None or outcome.faults:
                self.settings = before
            return outcome

        return self._server.reload().addCallback(keep)

    @property
    def addresses(self) -> dict[str, str]:
        """The address of each port that is open, by the option that opened it, such as ``127.0.0.1:49152`` or
        ``/run/bus.sock``; also that of ``admin``. A port 0 is the real one here.
        """
        return {name: each.address.partition(" ")[2] for name, each in self._server.ports.items()}

    def port(self, name: str) -> int:
        """The number of the port of a wire format, or of ``admin``.

        :raises KeyError: it is not open.
        """
        return parse_address(self.addresses[name])[1]

    @property
    def counters(self) -> Mapping[str, int]:
        """The counters, such as those of limits that were hit; as ``bus/statistics`` has them."""
        return dict(self._server.bus.counters)

    # Clients in the process.

    def client(
        self, *, user: str | None = None, name: str | None = None, most_waiting: int = MOST_WAITING
    ) -> Deferred[Client]:
        """A client of the Object System in this process. There is no socket, and none of its wire formats need be on.

        Its session is in the registry and in the journal like any other, with the address ``unix:in-process``.

        :param user: the user that it is; nobody asks for a secret. The policy holds for it, too. If clients have to
            prove who they are and it is ``None``, the client may do nothing.
        :param name: the name of the program or part, for people.
        :param most_waiting: how many bytes may wait for the server, such as during a slow write of the journal, before
            publications are refused.
        :returns: fires when the server has accepted it; fails with ``BusError`` if it does not, such as because of a
            limit, and with ``Offline`` if the server does not run.
        """
        if self._factory is None or not self.running:
            return fail(Offline("the server does not run"))
        client, pipe = self._make_client(self._factory, user, name, most_waiting)
        return client.begin(pipe, "in-process")

    def _make_client(
        self, factory: StreamFactory, user: str | None, name: str | None, most_waiting: int
    ) -> tuple[Client, Pipe]:
        settings = Settings(
            Login(user=user, name=name),
            timeout=_FOR_EVER,
            silence=_FOR_EVER,
            max_payload=self._server.bus.settings.max_payload,
        )

        def make_core(tell: Tell) -> Core:
            return ObjectsCore(settings, tell, partial(PlainFraming, settings.max_payload), "objects")

        def another() -> Client:
            observer, pipe = self._make_client(factory, user, name, most_waiting)
            observer.begin(pipe, "in-process").addErrback(lambda _: None)
            return observer

        pipe = Pipe(self._reactor, INSIDE, INSIDE)
        protocol = factory.make()
        protocol.is_admitted = True
        pipe.connect(protocol)
        if user is not None and not protocol.has_ended:
            protocol.busy_with(protocol.identification.prove(Proof(user, "application", None)))
        return Client(make_core, self._reactor, another, most_waiting), pipe

    def _close_clients(self) -> Deferred[Any]:
        protocols = () if self._factory is None else tuple(self._factory.protocols)
        return DeferredList([each.end(REASON, MOST_SECONDS_TO_READ) for each in protocols])
