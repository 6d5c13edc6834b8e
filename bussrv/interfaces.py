"""The interfaces of plugins. Light: every ``twistd`` run imports this. All methods belong to the reactor's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from bussrv.bus.interfaces import IBus
    from bussrv.journal.interfaces import IJournal
    from bussrv.policy.permissions.permissions import Permissions


class IWireFormat(Interface):
    """A wire format that ``twistd bussrv`` can serve: the plugin that authors of further formats write.

    Found with ``twisted.plugin.getPlugins``. Each one that is installed becomes an option ``--NAME`` of the command.
    The plugin object itself should be light; its protocol code is imported when :meth:`listen` is called.
    """

    name: str = Attribute("``str``: the option, and the ``protocol`` of its sessions; lower case, no spaces.")
    summary: str = Attribute("``str``: what it is and whom it serves, for ``--help``.")
    default_endpoint: str = Attribute("``str``: where it listens unless told otherwise, or ``off``.")

    def listen(bus: IBus, endpoint: str, reactor: Any) -> IListener:
        """Make what serves the format.

        :param bus: an :class:`IBus`.
        :param endpoint: ``str``: an endpoint description such as ``tcp:7890:interface=127.0.0.1``.
        :param reactor: the reactor.
        :returns: an :class:`IListener`, not started yet.
        :raises bussrv.errors.ConfigError: if the description makes no sense for this format.
        """


class IListener(Interface):
    """A started or stopped port of a wire format; also a Twisted ``IService``.

    Starting it raises ``CannotListenError`` when the port is busy. Stopping it closes the port and every session of it.
    """

    address: str = Attribute("``str``: where it really listens, such as ``tcp 127.0.0.1:7890``, once it is started.")

    def startService() -> None:
        """Listen."""

    def stopService() -> Deferred[Any]:
        """Close. :returns: fires when everything is closed."""


class IDrainedListener(IListener):
    """A port whose clients are told before it closes. A listener that does not provide this is stopped at once."""

    def drain(seconds: float) -> Deferred[None]:
        """Take no further clients, tell those that are there, and end their sessions one after the other.

        :param seconds: within which all of them have ended.
        :returns: fires when they have.
        """


class IHostedService(Interface):
    """A service that the server itself provides: the plugin that authors of services write.

    Found with ``twisted.plugin.getPlugins``. The plugin object itself should be light; its code is imported when
    :meth:`make` is called.
    """

    name: str = Attribute("``str``: the name of the service; ``bus/`` is for those of bussrv.")
    summary: str = Attribute("``str``: what it tells, for ``--help``.")
    content_type: str = Attribute("``str``: the content type of its snapshots and updates.")

    def make(host: IServiceHost) -> IServiceObject:
        """Make what provides the service. :param host: an :class:`IServiceHost`."""


class IServiceHost(Interface):
    """The environment of a hosted service."""

    bus: IBus = Attribute("The :class:`IBus`.")
    journal: IJournal = Attribute("The :class:`IJournal`.")
    reactor: Any = Attribute("The reactor.")

    def publish(payload: bytes) -> None:
        """Give ``payload``, ``bytes``, to those who subscribed to the service: in any format."""

    def publish_each(payloads: Callable[[Permissions], Iterable[bytes]]) -> None:
        """Publish on a service that shows each session only facts that it may know.

        :param payloads: those for subscribers with some permissions.
        """


class IServiceObject(Interface):
    """The provider of a hosted service."""

    def snapshot() -> bytes:
        """The present state. No update lies between it and the next call of ``publish``. :returns: ``bytes``."""

    def first_subscriber_came() -> None:
        """Publish updates from now on. The server calls ``snapshot`` right after this."""

    def last_subscriber_left() -> None:
        """Publish no more updates. The server also calls this when it stops."""


class IFilteredService(IServiceObject):
    """The provider of a hosted service that shows each session only facts that it may know."""

    def snapshot_for(permissions: Permissions) -> bytes:
        """The present state as sessions with these permissions see it.

        :param permissions: :data:`bussrv.policy.permissions.permissions.EVERYTHING` for sessions that may know
            everything.
        """


class IPreparedService(IFilteredService):
    """The provider of a filtered service with a state so large that it is made in slices."""

    def ready_for(permissions: Permissions) -> Deferred[None] | None:
        """Make the next call of ``snapshot_for`` take little time. :returns: fires when it does; ``None``: it does."""
