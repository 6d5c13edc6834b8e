"""One request, as the functions of the table of routes are given it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from bussrv.admin.interfaces import AdministeredServer
from bussrv.admin.login import Caller
from bussrv.admin.routes import Route
from bussrv.admin.state import Shared


class Call(Struct, frozen=True):
    """One request, checked.

    :ivar shared: what the admin interface remembers of the server.
    :ivar routes: the whole table.
    :ivar path: the parameters of the path.
    :ivar query: those of the query; left out ones have their defaults.
    :ivar body: of the type that the route says.
    :ivar headers: by lower-case name.
    """

    server: AdministeredServer
    shared: Shared
    caller: Caller
    route: Route
    routes: tuple[Route, ...]
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Any
    headers: Mapping[str, str]
