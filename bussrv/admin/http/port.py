"""The port of the admin interface."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, DeferredList
from zope.interface import implementer

from bussrv.admin.http.login import Login
from bussrv.admin.http.routes import Routes
from bussrv.admin.interfaces import AdministeredServer
from bussrv.admin.site import AdminSite
from bussrv.admin.table import ROUTES
from bussrv.interfaces import IListener
from bussrv.net.listening import StreamPort


@implementer(IListener)
class AdminPort(StreamPort):
    """The port of the admin interface, and its connections.

    :param description: a server endpoint description of Twisted.
    :raises ConfigError: ``description`` is malformed.
    """

    def __init__(self, server: AdministeredServer, login: Login, description: str) -> None:
        self.site = AdminSite(server, Routes(ROUTES), login)
        super().__init__(self.site, description, server.reactor)

    def stopService(self) -> Deferred[Any]:
        """Close the port and every connection, and wait until they are gone."""
        super().stopService()
        closed = self.stop_listening()
        return DeferredList([closed, self.site.stop()])
