"""``/api/v1/summary``: one server in a few figures, as other servers ask for it."""

from __future__ import annotations

from collections.abc import Iterator

from bussrv.admin.figures.health import readiness
from bussrv.admin.history.columns import COLUMNS
from bussrv.admin.http.routes import Call
from bussrv.admin.interfaces import AdministeredServer
from bussrv.admin.registry.links import lag
from bussrv.admin.servers.facts import LinkSummary, Rates, ServerSummary
from bussrv.admin.state import RequestMemory
from bussrv.journal.record import format_time
from bussrv.registry.state.naming import OWN_PROTOCOL
from bussrv.version import VERSION


async def show(call: Call) -> ServerSummary:
    """The server that answers, in a few figures."""
    return summary(call.server, call.shared)


def summary(server: AdministeredServer, shared: RequestMemory) -> ServerSummary:
    """The server that this process is."""
    bus, look = server.bus, shared.figures.look()
    ready = readiness(server, shared.figures)
    totals = {name: each for name, each in look.totals.items() if name != OWN_PROTOCOL}
    return ServerSummary(
        server=bus.server_id,
        version=VERSION,
        boot=server.boot,
        started=format_time(server.started),
        time=format_time(bus.utc()),
        status=ready.status,
        degraded=ready.degraded,
        # Those of linked servers are sessions, too.
        sessions=max(0, sum(each.open for each in totals.values()) - look.links),
        away=sum(each.away for each in totals.values()),
        rates=_rates(shared),
        waiting_bytes=look.outbound,
        lost_objects=bus.counters["link-lost-objects"],
        links=list(_links(server)),
    )


def _rates(shared: RequestMemory) -> Rates:
    finest = shared.history.levels[0]
    if not len(finest):
        return Rates()
    values = dict(zip(COLUMNS, finest.point(len(finest) - 1).values, strict=True))
    return Rates(**{name: float(format(values[name], ".6g")) for name in Rates.__struct_fields__})


def _links(server: AdministeredServer) -> Iterator[LinkSummary]:
    bus = server.bus
    for link in bus.links.all():
        session = bus.registry.state.sessions.get(link.session_id)
        yield LinkSummary(
            server=link.server_id,
            state="up",
            since=None if session is None else format_time(session.opened),
            **lag(bus, link),
        )
    for lost in bus.links.missing():
        yield LinkSummary(server=lost.server_id, state="down", since=format_time(lost.time), reason=lost.reason)
