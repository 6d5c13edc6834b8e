"""``/api/v1/live``: figures every second, as server-sent events. All clients get the same ones."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from bussrv.admin.figures.figures import Figures
from bussrv.admin.figures.health import readiness
from bussrv.admin.http.sending import EventStream
from bussrv.admin.interfaces import AdministeredServer
from bussrv.counts.histogram import Histogram, quantile
from bussrv.journal.record import format_time

INTERVAL = 1.0
"""Seconds between figures."""

EVENT = "figures"

log = Logger()


class Quantiles(Struct, frozen=True):
    """Times of the last second, in seconds; ``None``: there were none."""

    p50: float | None
    p99: float | None


class LiveFigures(Struct, frozen=True, kw_only=True):
    """The figures of a second.

    :ivar sessions: open sessions of this server, by wire format, without those that are away.
    :ivar away: durable sessions whose clients are not connected, by wire format.
    :ivar objects_in: a total since the start, of all wire formats; so are the other three.
    :ivar denials: a total since the start, as :attr:`bussrv.admin.figures.figures.Figures.denials` has it.
    :ivar lost_objects: objects of other servers that were lost on their way here, a total since the start.
    :ivar cpu_seconds: the CPU time since the start.
    :ivar memory_bytes: the memory of the process now. It and ``descriptors`` may be ``null``: some systems do not say.
    :ivar degraded: the names of the checks of ``/readyz`` that are not ``ok``.
    :ivar incidents: how many incidents nobody took note of. ``gravest``: the weight of the gravest of them, 0 to 3.
    :ivar verdict: the verdict on the server, in a sentence.
    """

    time: str
    seq: int
    sessions: dict[str, int]
    away: dict[str, int]
    services: int
    subscriptions: int
    links: int
    objects_in: int
    objects_out: int
    bytes_in: int
    bytes_out: int
    delivery_seconds: Quantiles
    journal_sync_seconds: Quantiles
    waiting_bytes: int
    denials: int
    lost_objects: int
    cpu_seconds: float
    memory_bytes: float
    descriptors: float
    degraded: list[str]
    incidents: int
    gravest: int
    verdict: str


class _Lately:
    """The quantiles of a histogram since the last look."""

    def __init__(self) -> None:
        self._before: Sequence[int] = ()

    def look(self, histogram: Histogram) -> Quantiles:
        now = tuple(histogram.counts)
        new = [count - before for count, before in zip(now, self._before or now, strict=True)]
        self._before = now
        return Quantiles(quantile(new, 0.5), quantile(new, 0.99))


class Live:
    """The streams of figures. Without an open stream, no figures are made."""

    def __init__(self, server: AdministeredServer, figures: Figures) -> None:
        self._server = server
        self._figures = figures
        self._delivery, self._syncs = _Lately(), _Lately()
        self._streams: dict[EventStream, None] = {}
        self._latest = b""
        self._telling = LoopingCall(self._tell)
        self._telling.clock = server.reactor

    async def send(self, stream: EventStream) -> None:
        """Send figures to a client until it is gone. The first ones are sent immediately."""
        self._streams[stream] = None
        if self._telling.running:
            stream.send(self._latest, event=EVENT)
        else:
            self._delivery, self._syncs = _Lately(), _Lately()
            self._telling.start(INTERVAL).addErrback(self._failed)
        try:
            await stream.closed()
        finally:
            del self._streams[stream]
            if not self._streams and self._telling.running:
                self._telling.stop()

    def _failed(self, failure: Failure) -> None:
        """End all streams, because the figures cannot be made. Clients notice it, and may connect again."""
        log.failure("figures of the admin interface failed", failure, event="admin.failed")
        for stream in tuple(self._streams):
            stream.end()

    def _tell(self) -> None:
        self._latest = msgspec.json.encode(self._now())
        for stream in tuple(self._streams):
            stream.send(self._latest, event=EVENT)

    def _now(self) -> LiveFigures:
        server, look, process = self._server, self._figures.look(), self._figures.process
        traffic = [each.traffic for each in look.totals.values()]
        to_look_at, gravest = server.incidents.to_look_at
        return LiveFigures(
            time=format_time(server.bus.utc()),
            seq=self._figures.seq,
            sessions={name: each.open for name, each in look.totals.items()},
            away={name: each.away for name, each in look.totals.items() if each.away},
            services=look.services,
            subscriptions=look.subscriptions,
            links=look.links,
            objects_in=sum(each.objects_in for each in traffic),
            objects_out=sum(each.objects_out for each in traffic),
            bytes_in=sum(each.bytes_in for each in traffic),
            bytes_out=sum(each.bytes_out for each in traffic),
            delivery_seconds=self._delivery.look(server.bus.delivery),
            journal_sync_seconds=self._syncs.look(look.journal.syncs),
            waiting_bytes=look.outbound,
            denials=self._figures.denials,
            lost_objects=server.bus.counters["link-lost-objects"],
            cpu_seconds=process.cpu_seconds,
            memory_bytes=process.memory_bytes,
            descriptors=process.descriptors,
            degraded=readiness(server, self._figures).degraded,
            incidents=to_look_at,
            gravest=gravest,
            verdict=server.incidents.verdict,
        )
