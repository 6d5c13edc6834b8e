"""The functions of the routes for observation: health, metrics, and the streams of records and of figures."""

from __future__ import annotations

from bussrv.admin.figures.health import Alive, readiness
from bussrv.admin.http.answers import Answer, encode
from bussrv.admin.http.routes import Call
from bussrv.admin.http.sending import EventStream
from bussrv.admin.journal.events import last_known

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
"""The media type of the text format of Prometheus."""


async def healthz(call: Call) -> Alive:
    """The server answers, so it is alive."""
    return Alive()


async def readyz(call: Call) -> Answer:
    """Whether the server should be sent clients; the status is 503 if not."""
    found = readiness(call.server, call.shared.figures, is_strict=call.query["strict"])
    return Answer(encode(found), status=503 if found.status == "not-ready" else 200)


async def metrics(call: Call) -> Answer:
    """All metrics."""
    return Answer(call.shared.metrics.text(), PROMETHEUS)


async def events(call: Call, stream: EventStream) -> None:
    """Every record, as it is written."""
    await call.shared.events.send(stream, last_known(call.headers.get("last-event-id"), call.query["after"]))


async def live(call: Call, stream: EventStream) -> None:
    """Figures every second."""
    await call.shared.live.send(stream)
