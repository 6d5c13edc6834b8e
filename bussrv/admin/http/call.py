"""One request, as the functions of the table of routes get it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from bussrv.admin.http.login import Caller
from bussrv.admin.http.routes import Route
from bussrv.admin.interfaces import AdministeredServer
from bussrv.admin.state import Shared


class Call(Struct, frozen=True):
    """One request, checked.

    :ivar shared: the memory of the admin interface, which all requests share.
    :ivar routes: the whole table.
    :ivar path: the parameters of the path, by name.
    :ivar query: the parameters of the query, by name, with defaults for those that were left out.
    :ivar body: the body, as an object of the route's type.
    :ivar headers: the headers, by lower-case name.
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
