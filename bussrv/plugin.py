"""All that authors of wire formats, hosted services and checkers of credentials import of bussrv: the contract.

Plugin files are made with :class:`WireFormat`, :class:`HostedService` and :class:`CheckerFactory`, which name modules,
so that nothing is imported before it is used. These modules do the work, and import the other names from here. The
plugins of bussrv itself are in ``twisted/plugins/bussrv_plugins.py``; :mod:`bussrv.server.configuration.plugins` finds
all.
``docs/reference/plugin.md`` documents each name, and ``docs/how-to/plugins.md`` shows a whole format and a service.

Every ``twistd`` run imports this. So the heavy names are those of :mod:`bussrv.contract.names`, which is imported with
the first of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from twisted.cred.strcred import ICheckerFactory
from twisted.plugin import IPlugin
from twisted.python.reflect import namedAny
from zope.interface import implementer

from bussrv.interfaces import (
    IDrainedListener,
    IFilteredService,
    IHostedService,
    IListener,
    IPreparedService,
    IServiceHost,
    IServiceObject,
    IWireFormat,
)

if TYPE_CHECKING:
    from bussrv.contract.names import *
    from bussrv.contract.names import IBus

__all__ = (
    "CONTRACT",
    # Plugin files.
    "CheckerFactory",
    "HostedService",
    "IHostedService",
    "IWireFormat",
    "WireFormat",
    # Ports and connections.
    "DatagramListener",
    "IDrainedListener",
    "IListener",
    "Patience",
    "StreamFactory",
    "StreamListener",
    "StreamProtocol",
    "Traffic",
    "Unreachable",
    "address_key",
    "is_exempt",
    # Bytes that clients send, and that they are sent.
    "Backlog",
    "Bundle",
    "Chunk",
    "Delivery",
    "HeldMemory",
    "IEncoding",
    "IFilteringLink",
    "ISessionLink",
    "Reader",
    "ReceiveBuffer",
    "StreamLink",
    "StreamReader",
    "decode_text",
    # Publications, and the names of services.
    "MAX_SERVICE_NAME",
    "OCTET_STREAM",
    "PatternMap",
    "Publication",
    "Retained",
    "UTF8_TEXT",
    "check_routing_id",
    "check_service_name",
    "filter_of",
    "is_pattern",
    "matches",
    "quoted",
    # Requests, and objects of the object network.
    "AsPublication",
    "BusObject",
    "IExchanges",
    "REPLY",
    "REQUEST",
    "decode_fields",
    "decode_raw",
    "encode_metadata",
    "is_id",
    "read_head",
    # Who clients are, and what they may do.
    "Action",
    "Claims",
    "Credentials",
    "EVERYTHING",
    "NOTHING",
    "Password",
    "Permissions",
    "Session",
    "Token",
    # Errors and their reasons.
    "REASONS",
    "ConfigError",
    "NotAllowed",
    "OverLimit",
    "Refused",
    "RemoteProtocolError",
    "limit_reached",
    # The server.
    "EndOfReactorTurn",
    "IBus",
    "IRegistry",
    "IRegistryObserver",
    "Kinds",
    "RegistryState",
    "ServiceRegistered",
    "ServiceUnregistered",
    "SessionClosed",
    "SessionLeft",
    "SessionOpened",
    "SessionResumed",
    "Settings",
    "Slices",
    "Stamped",
    "Subscription",
    "SubscriptionAdded",
    "SubscriptionRemoved",
    "by_steps",
    "format_time",
    # The spool.
    "Append",
    "AppendToAll",
    "Change",
    "Claim",
    "Drop",
    "DropsTold",
    "DurableRetained",
    "DurableSession",
    "DurableSessions",
    "Entry",
    "ISpool",
    "NamedClient",
    "NamedClients",
    "Owner",
    "Page",
    "Put",
    "Receiver",
    "Remove",
    "RemoveKey",
    "RemoveUpTo",
    "Replace",
    "Rounds",
    "ToAll",
    "Wills",
    "Written",
    # Hosted services.
    "IFilteredService",
    "IPreparedService",
    "IServiceHost",
    "IServiceObject",
)

CONTRACT: Final = 1
"""The version of the contract. Names that are added leave it as it is; it grows when one is taken away, or changed so
that a plugin may fail."""

if not TYPE_CHECKING:  # Or type checkers would believe in any name.

    def __getattr__(name: str) -> Any:
        """A heavy name: all of them come with the first."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from bussrv.contract import names

        found = globals()[name] = getattr(names, name)
        return found


@implementer(IPlugin, IWireFormat)
class WireFormat:
    """A wire format by the name of the module, or of the class of protocols, that serves it.

    :param module: its full name; it has a function ``listen(bus, endpoint, reactor)``, as in :class:`IWireFormat`. Or
        the full name of a class derived from :class:`StreamProtocol`, which then serves each connection.
    """

    def __init__(self, name: str, *, module: str, default_endpoint: str, summary: str) -> None:
        self.name = name
        self.summary = summary
        self.default_endpoint = default_endpoint
        self._module = module

    def listen(self, bus: IBus, endpoint: str, reactor: Any) -> IListener:
        """Import the module and let it make what serves the format."""
        served = namedAny(self._module)
        if isinstance(served, type):
            from bussrv.contract.names import StreamFactory, StreamListener

            return StreamListener(StreamFactory(served, bus, reactor), endpoint, reactor)
        listener: IListener = served.listen(bus, endpoint, reactor)
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
