"""The one table of routes: a row for everything that the admin interface answers."""

from __future__ import annotations

from bussrv.admin import links, server_view, services, sessions, static_files
from bussrv.admin.collections import Page
from bussrv.admin.routes import Route

ROUTES: tuple[Route, ...] = (
    Route(
        path="/",
        function=static_files.index,
        summary="The dashboard.",
        permission=None,
        media_type="text/html",
    ),
    Route(
        path="/static/{file...}",
        function=static_files.static_file,
        summary="A file that the dashboard loads.",
        permission=None,
        media_type="application/octet-stream",
    ),
    Route(
        path="/api/v1/server",
        function=server_view.show,
        summary="Which server this is, and what the caller may do.",
        answers=server_view.ServerView,
    ),
    Route(
        path="/api/v1/sessions",
        function=sessions.list_all,
        summary="Every session, of this server and of linked ones.",
        answers=Page,
        collection=sessions.SessionItem,
        key=("session",),
        is_of_registry=True,
    ),
    Route(
        path="/api/v1/services",
        function=services.list_all,
        summary="Every service: how many provide it, and how many are subscribed to it.",
        answers=Page,
        collection=services.ServiceItem,
        key=("service",),
        is_of_registry=True,
    ),
    Route(
        path="/api/v1/links",
        function=links.list_all,
        summary="The servers that this one is linked with.",
        answers=Page,
        collection=links.LinkItem,
        key=("routing_id", "address"),
    ),
)
