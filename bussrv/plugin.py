"""The classes that plugin files are made with: :class:`WireFormat`, :class:`HostedService`, :class:`CheckerFactory`.

They name modules, so that a plugin file imports no wire format or service. ``docs/how-to/plugins.md`` shows a whole
format, and what its module imports. Those of bussrv are in ``twisted/plugins/bussrv_plugins.py``.
"""

from __future__ import annotations

from typing import Any

from twisted.cred.strcred import ICheckerFactory
from twisted.plugin import IPlugin
from twisted.python.reflect import namedAny
from zope.interface import implementer

from bussrv.bus.interfaces import IBus
from bussrv.interfaces import IHostedService, IListener, IServiceHost, IServiceObject, IWireFormat


@implementer(IPlugin, IWireFormat)
class WireFormat:
    """A wire format by the name of the module that serves it.

    :param module: its full name; it has a function ``listen(bus, endpoint, reactor)``, as in :class:`IWireFormat`.
    """

    def __init__(self, name: str, *, module: str, default_endpoint: str, summary: str) -> None:
        self.name = name
        self.summary = summary
        self.default_endpoint = default_endpoint
        self._module = module

    def listen(self, bus: IBus, endpoint: str, reactor: Any) -> IListener:
        """Import the module and let it make what serves the format."""
        listener: IListener = namedAny(self._module).listen(bus, endpoint, reactor)
        return listener


@implementer(IPlugin, IHostedService)
class HostedService:
    """A service of the server itself, by the name of the module that provides it.

    :param module: its full name; it has a function ``make(host)``, as in :class:`IHostedService`.
    """

    def __init__(self, name: str, *, module: str, content_type: str, summary: str) -> None:
        self.name = name
        self.content_type = content_type
        self.summary = summary
        self._module = module

    def make(self, host: IServiceHost) -> IServiceObject:
        """Import the module and let it make what provides the service."""
        made: IServiceObject = namedAny(self._module).make(host)
        return made


@implementer(IPlugin, ICheckerFactory)
class CheckerFactory:
    """A checker of credentials, by the name of the module that makes it.

    :param auth_type: the first part of its descriptions.
    :param takes: the rest of its descriptions, for the documentation.
    :param module: its full name. ``CREDENTIALS`` has the kinds of credentials that each of its checkers takes, and
        ``MAKE`` a function for each that makes it of what follows its name.
    """

    def __init__(self, auth_type: str, *, takes: str, module: str, summary: str) -> None:
        self.authType = auth_type
        self.authHelp = summary
        self.argStringFormat = takes
        self._module = module

    @property
    def credentialInterfaces(self) -> Any:  # noqa: N802 - the name that Twisted asks for
        """The credentials that it takes."""
        return namedAny(self._module).CREDENTIALS[self.authType]

    def generateChecker(self, argument: str) -> Any:  # noqa: N802 - the name that Twisted asks for
        """Import the module and let it make the checker.

        :raises bussrv.errors.ConfigError: ``argument`` makes no sense.
        """
        return namedAny(self._module).MAKE[self.authType](argument)
