"""What a plugin file needs to offer a wire format without importing it."""

from __future__ import annotations

from typing import Any

from twisted.plugin import IPlugin
from twisted.python.reflect import namedAny
from zope.interface import implementer

from bussrv.interfaces import IBus, IListener, IWireFormat


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
