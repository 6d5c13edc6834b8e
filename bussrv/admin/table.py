"""The one table of routes: a row for everything that the admin interface answers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from bussrv.admin import tap
from bussrv.admin.figures import codes, health, limits, observing
from bussrv.admin.figures import server as server_view
from bussrv.admin.history import view as history
from bussrv.admin.http import openapi, static_files
from bussrv.admin.http.answers import JSON
from bussrv.admin.http.routes import END, Parameter, Route
from bussrv.admin.incidents import view as incidents
from bussrv.admin.journal import asked_audit, past, recent, why
from bussrv.admin.journal import view as journal_view
from bussrv.admin.registry import links, services, sessions, subscriptions, writes
from bussrv.admin.registry.collections import CALLED, LIMIT, MOST
from bussrv.admin.servers import summary
from bussrv.admin.servers import view as all_servers
from bussrv.registry.state.snapshot import Snapshot

MOST_SEQ = (1 << 63) - 1
MOMENT = r"^([0-9]{1,18}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z)" + END

AT = Parameter(
    name="at",
    type=Annotated[str, Meta(pattern=MOMENT)],
    help="A time in UTC such as 2026-11-21T14:02:03Z, or the number of the last record that counts. Left out: the end.",
)

WHO = "a user, a name, a routing id, an address or the id of a session"

BACK = r"^(-[1-9][0-9]{0,8}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z)" + END

RANGE = tuple(
    Parameter(name=name, type=Annotated[str, Meta(pattern=BACK)], help=f"A time in UTC, or seconds back. {otherwise}")
    for name, otherwise in (
        ("since", "Left out: an hour before `until`."),
        ("until", "Left out: the present."),
    )
)

ROUTES: tuple[Route, ...] = (
    Route(path="/", function=static_files.index, is_open=True, is_page=True, media_type="text/html"),
    Route(
        path="/static/{file...}",
        function=static_files.static_file,
        is_open=True,
        is_page=True,
        media_type="application/octet-stream",
    ),
    Route(path="/api/v1/server", function=server_view.show),
    Route(
        path="/api/v1/sessions",
        function=sessions.list_all,
        collection=sessions.SessionItem,
        key=("session",),
        parameters=(CALLED,),
        is_of_registry=True,
    ),
    Route(path="/api/v1/sessions/{session}", function=sessions.show, problems=("no-such-session",)),
    Route(
        method="DELETE",
        path="/api/v1/sessions/{session}",
        function=writes.close_session,
        status=204,
        problems=("no-such-session", "not-here"),
    ),
    Route(
        path="/api/v1/sessions/{session}/history",
        function=past.history,
        parameters=(
            Parameter(name="limit", type=Annotated[int, Meta(ge=1, le=MOST)], help="The most records.", default=LIMIT),
            Parameter(
                name="after",
                type=Annotated[int, Meta(ge=0, le=MOST_SEQ)],
                help="Only records after this one: the `next` of the page before.",
                default=0,
            ),
        ),
        problems=("no-journal", "journal-unreadable", "too-busy"),
    ),
    Route(
        path="/api/v1/services",
        function=services.list_all,
        collection=services.ServiceItem,
        key=("service",),
        is_of_registry=True,
    ),
    Route(
        path="/api/v1/services/{service...}", function=services.show, is_of_registry=True, problems=("no-such-service",)
    ),
    Route(
        path="/api/v1/subscriptions",
        function=subscriptions.list_all,
        collection=subscriptions.SubscriptionItem,
        key=("session", "service"),
        is_of_registry=True,
    ),
    Route(
        method="DELETE",
        path="/api/v1/subscriptions/{session}/{service...}",
        function=writes.drop_subscription,
        status=204,
        problems=("no-such-session", "no-such-subscription", "not-here"),
    ),
    Route(path="/api/v1/links", function=links.list_all, collection=links.LinkItem, key=("routing_id", "address")),
    Route(
        path="/api/v1/servers", function=all_servers.servers, collection=all_servers.ServerItem, key=("server", "url")
    ),
    Route(path="/api/v1/net", function=all_servers.net),
    Route(path="/api/v1/summary", function=summary.show),
    Route(
        method="DELETE",
        path="/api/v1/links/{server...}",
        function=writes.forget_link,
        status=204,
        problems=("no-such-link", "link-wanted"),
    ),
    Route(
        path="/api/v1/slow",
        function=sessions.slow,
        collection=sessions.SlowItem,
        key=("session",),
        parameters=(CALLED,),
        sort="-waiting_bytes",
    ),
    Route(
        path="/api/v1/history",
        function=history.show,
        answers=history.HistoryView,
        parameters=(
            *RANGE,
            Parameter(
                name="points",
                type=Annotated[int, Meta(ge=1, le=history.MOST_POINTS)],
                help="About so many intervals at the most: if there are more, some are put together.",
                default=history.POINTS,
            ),
            Parameter(
                name="session",
                type=Annotated[str, Meta(max_length=255)],
                help="The traffic of this session, wherever it was among the busiest.",
            ),
            Parameter(
                name="service",
                type=Annotated[str, Meta(max_length=255)],
                help="The publications on this service, wherever it was among the busiest.",
            ),
        ),
    ),
    Route(
        path="/api/v1/busiest/sessions",
        function=history.sessions,
        collection=history.BusySession,
        parameters=RANGE,
        key=("session",),
        sort="-bytes",
    ),
    Route(
        path="/api/v1/busiest/services",
        function=history.services,
        collection=history.BusyService,
        parameters=RANGE,
        key=("service",),
        sort="-bytes",
    ),
    Route(path="/api/v1/limits", function=limits.limits, collection=limits.LimitItem, key=("name",)),
    Route(path="/api/v1/counters", function=limits.counters),
    Route(path="/api/v1/codes", function=codes.show),
    Route(
        path="/api/v1/closed",
        function=recent.closed,
        collection=recent.ClosedItem,
        key=(),
        parameters=(CALLED,),
        sort="-seq",
    ),
    Route(
        path="/api/v1/denied",
        function=recent.denied,
        collection=recent.DeniedItem,
        key=(),
        parameters=(CALLED,),
        sort="-seq",
    ),
    Route(
        path="/api/v1/incidents",
        function=incidents.list_all,
        collection=incidents.IncidentItem,
        key=("id",),
        sort="-since",
    ),
    Route(
        method="POST",
        path="/api/v1/incidents/{incident}/acknowledge",
        function=incidents.acknowledge,
        body=incidents.Acknowledgement,
        problems=("no-such-incident",),
    ),
    Route(path="/api/v1/journal", function=journal_view.show, problems=("no-journal",)),
    Route(path="/api/v1/journal/checkpoint", function=journal_view.checkpoint, problems=("no-journal",)),
    Route(path="/api/v1/audit", function=asked_audit.show),
    Route(method="POST", path="/api/v1/audit", function=asked_audit.ask, problems=("no-journal",)),
    Route(
        path="/api/v1/audit/report",
        function=asked_audit.report,
        media_type="text/html",
        problems=("no-report", "too-busy"),
    ),
    Route(
        path="/api/v1/registry",
        function=past.registry,
        answers=Snapshot,
        parameters=(AT,),
        problems=("no-such-moment", "no-journal", "journal-unreadable", "journal-too-long", "too-busy"),
    ),
    Route(
        path="/api/v1/why",
        function=why.show,
        parameters=(
            AT,
            Parameter(name="object", type=str, help="An object with these attributes, as JSON; `size`: its payload."),
            Parameter(name="service", type=str, help="A publication on this service, of any wire format."),
            Parameter(name="request", type=str, help="A request for this service."),
            Parameter(name="type", type=str, help="The content type of the publication."),
            Parameter(name="from", type=str, help=f"The sender: {WHO}. Left out: a provider, or somebody."),
            Parameter(name="to", type=str, help=f"Only these sessions: {WHO}."),
            Parameter(name="turn", type=str, help=f"Whose turn it was, of several that take turns: {WHO}."),
            Parameter(name="asker", type=str, help=f"Who asked, if it is a reply of a named sender: {WHO}."),
        ),
        problems=("no-such-moment", "no-journal", "journal-unreadable", "journal-too-long", "too-busy"),
    ),
    Route(method="POST", path="/api/v1/journal/seal", function=writes.seal, problems=("no-journal", "seal-late")),
    Route(method="POST", path="/api/v1/reload", function=writes.reload, problems=("reload-failed",)),
    Route(method="POST", path="/api/v1/drain", function=writes.drain),
    Route(
        method="PUT",
        path="/api/v1/log-level",
        function=writes.log_level,
        body=writes.LogLevel,
        problems=("no-such-part",),
    ),
    Route(path="/api/v1/openapi.json", function=openapi.show, is_open=True, media_type=JSON),
    Route(
        path="/api/v1/events",
        function=observing.events,
        is_stream=True,
        parameters=(
            Parameter(
                name="after",
                type=Annotated[int, Meta(ge=0, le=MOST_SEQ)],
                help="Begin after this record. Left out: with those from now on. The header `Last-Event-ID` overrides "
                "it.",
            ),
        ),
    ),
    Route(path="/api/v1/live", function=observing.live, is_stream=True),
    Route(path="/healthz", function=observing.healthz, is_open=True),
    Route(
        path="/readyz",
        function=observing.readyz,
        answers=health.Readiness,
        also=503,
        parameters=(
            Parameter(
                name="strict",
                type=bool,
                help="Not ready either as long as clients are refused that are within their limits.",
                default=False,
            ),
        ),
        is_of_statistics=True,
    ),
    Route(path="/metrics", function=observing.metrics, is_of_statistics=True, media_type="text/plain"),
    Route(
        path="/api/v1/tap",
        function=tap.tap,
        answers=tap.TappedView,
        parameters=tap.PARAMETERS,
        problems=("journal-unavailable",),
        is_stream=True,
    ),
)
