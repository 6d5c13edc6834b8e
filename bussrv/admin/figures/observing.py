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
    """The server lives."""
    return Alive()


async def readyz(call: Call) -> Answer:
    """Whether the server should be sent clients. If not, the status is 503."""
    found = readiness(call.server, call.shared.figures, is_strict=call.query["strict"])
    return Answer(encode(found), status=503 if found.status == "not-ready" else 200)


async def metrics(call: Call) -> Answer:
    """Figures for Prometheus."""
    return Answer(call.shared.metrics.text(), PROMETHEUS)


async def events(call: Call, stream: EventStream) -> None:
    """Every record of the journal, as it is written; the id of an event is the number of its record."""
    await call.shared.events.send(stream, last_known(call.headers.get("last-event-id"), call.query["after"]))


async def live(call: Call, stream: EventStream) -> None:
    """Figures every second: traffic, times of delivery and of the journal, and what is wrong."""
    await call.shared.live.send(stream)
