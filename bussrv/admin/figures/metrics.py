"""``/metrics``: figures of the server for Prometheus.

:data:`METRICS` is the one table of them. Labels have fixed sets of values: wire formats, codes, names of checks. They
never hold the name of a user or service, or an address.

Figures are computed for each request. The collector registry belongs to one server: there is no global one.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Any, Literal

import twisted
from msgspec import Struct
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from bussrv.admin.figures.figures import Figures, FiguresAtMoment
from bussrv.admin.figures.health import CHECKS, Readiness, readiness
from bussrv.admin.interfaces import AdministeredServer
from bussrv.bus.sessions.totals import Total
from bussrv.compiled import HOT_PATH
from bussrv.counts.histogram import SECONDS, Histogram
from bussrv.errors import COUNTERS, REASONS
from bussrv.journal.condition import ShippingCondition
from bussrv.version import VERSION

DAY = 86_400

CODES = tuple(sorted({*COUNTERS, *REASONS}))
"""The codes that are counted."""


class ServerAtMoment(Struct, frozen=True):
    """The state of the server at the time of a request."""

    server: AdministeredServer
    figures: Figures
    look: FiguresAtMoment
    readiness: Readiness


Sample = tuple[tuple[str, ...], float]
"""The values of the labels, and the value."""


class Metric(Struct, frozen=True, kw_only=True):
    """One metric.

    :ivar name: the name in Prometheus; that of a counter ends with ``_total``.
    :ivar help: one sentence about what it counts or measures.
    :ivar samples: its values; of a histogram, the :class:`Histogram`.
    """

    name: str
    help: str
    samples: Callable[[ServerAtMoment], Any]
    labels: tuple[str, ...] = ()
    kind: Literal["counter", "gauge", "histogram"] = "gauge"


def _one(value: Callable[[ServerAtMoment], float | None]) -> Callable[[ServerAtMoment], list[Sample]]:
    """The samples of a metric without labels; none if its value is not known."""

    def samples(moment: ServerAtMoment) -> list[Sample]:
        found = value(moment)
        return [] if found is None else [((), float(found))]

    return samples


def _each_format(value: Callable[[Total], int]) -> Callable[[ServerAtMoment], Iterator[Sample]]:
    """The samples of a metric with a value for each wire format."""

    def samples(moment: ServerAtMoment) -> Iterator[Sample]:
        for name in sorted({*moment.server.formats(), *moment.look.totals}):
            total = moment.look.totals.get(name)
            yield (name,), 0.0 if total is None else float(value(total))

    return samples


def _incidents(moment: ServerAtMoment) -> Iterator[Sample]:
    counters = moment.server.bus.counters
    for code in CODES:
        yield (code,), float(counters.get(code, 0))


def _checks(moment: ServerAtMoment) -> Iterator[Sample]:
    for name in CHECKS:
        yield (name,), float(moment.readiness.checks[name].status == "ok")


def _certificates(moment: ServerAtMoment) -> float | None:
    found = [each.days_left() for each in moment.server.bus.streams.certificates.values()]
    known = [days for days in found if days is not None]
    return min(known) * DAY if known else None


def _shipping(value: Callable[[ShippingCondition], float]) -> Callable[[ServerAtMoment], list[Sample]]:
    """The sample of a metric about shipping; none if nobody ships the journal."""

    def found(moment: ServerAtMoment) -> float | None:
        shipping = moment.look.journal.shipping
        return None if shipping is None else value(shipping)

    return _one(found)


def _reloaded(moment: ServerAtMoment) -> float | None:
    return None if moment.figures.reloaded is None else moment.figures.reloaded_at / 1_000_000


METRICS: tuple[Metric, ...] = (
    Metric(
        name="bussrv_build_info",
        help="Always 1; the labels have the versions, and the language of the hot path.",
        labels=("version", "python", "twisted", "hot_path"),
        samples=lambda _: [((VERSION, platform.python_version(), twisted.__version__, HOT_PATH), 1.0)],
    ),
    Metric(
        name="bussrv_start_time_seconds",
        help="When the server started, in seconds since 1970.",
        samples=_one(lambda moment: moment.server.started / 1_000_000),
    ),
    Metric(
        name="bussrv_ready",
        help="Whether the server is ready: 1, or 0 when /readyz answers 503.",
        samples=_one(lambda moment: moment.readiness.status != "not-ready"),
    ),
    Metric(
        name="bussrv_check_ok",
        help="Whether each check of /readyz is ok: 1 or 0.",
        labels=("check",),
        samples=_checks,
    ),
    Metric(
        name="bussrv_sessions",
        help="Open sessions of this server, without those that are away.",
        labels=("protocol",),
        samples=_each_format(lambda total: total.open),
    ),
    Metric(
        name="bussrv_sessions_away",
        help="Durable sessions of this server whose clients are not connected.",
        labels=("protocol",),
        samples=_each_format(lambda total: total.away),
    ),
    Metric(
        name="bussrv_sessions_opened_total",
        kind="counter",
        help="Sessions that were opened, or taken up from an earlier boot.",
        labels=("protocol",),
        samples=_each_format(lambda total: total.opened),
    ),
    Metric(
        name="bussrv_remote_sessions",
        help="Sessions that linked servers advertise.",
        samples=_one(lambda moment: moment.look.remote_sessions),
    ),
    Metric(
        name="bussrv_services",
        help="Services that are provided, those of linked servers included.",
        samples=_one(lambda moment: moment.look.services),
    ),
    Metric(
        name="bussrv_subscriptions",
        help="Subscriptions.",
        samples=_one(lambda moment: moment.look.subscriptions),
    ),
    Metric(
        name="bussrv_links",
        help="Links to other servers that are up.",
        samples=_one(lambda moment: moment.look.links),
    ),
    Metric(
        name="bussrv_link_lost_objects_total",
        kind="counter",
        help="Objects of other servers that were lost on their way here, as linked servers say; those of unknown "
        "number are not counted.",
        samples=_one(lambda moment: moment.server.bus.counters["link-lost-objects"]),
    ),
    Metric(
        name="bussrv_received_objects_total",
        kind="counter",
        help="Objects, packets and datagrams that clients sent.",
        labels=("protocol",),
        samples=_each_format(lambda total: total.traffic.objects_in),
    ),
    Metric(
        name="bussrv_sent_objects_total",
        kind="counter",
        help="Objects, packets and datagrams that clients were sent.",
        labels=("protocol",),
        samples=_each_format(lambda total: total.traffic.objects_out),
    ),
    Metric(
        name="bussrv_received_bytes_total",
        kind="counter",
        help="Bytes that clients sent.",
        labels=("protocol",),
        samples=_each_format(lambda total: total.traffic.bytes_in),
    ),
    Metric(
        name="bussrv_sent_bytes_total",
        kind="counter",
        help="Bytes that clients were sent.",
        labels=("protocol",),
        samples=_each_format(lambda total: total.traffic.bytes_out),
    ),
    Metric(
        name="bussrv_incidents_total",
        kind="counter",
        help="Things that were dropped, refused or odd, by code.",
        labels=("code",),
        samples=_incidents,
    ),
    Metric(
        name="bussrv_outbound_waiting_bytes",
        help="Memory for output that clients have not taken yet.",
        samples=_one(lambda moment: moment.look.outbound),
    ),
    Metric(
        name="bussrv_inbound_waiting_bytes",
        help="Memory for unfinished input of clients.",
        samples=_one(lambda moment: moment.look.inbound),
    ),
    Metric(
        name="bussrv_delivery_seconds",
        kind="histogram",
        help="Time from the arrival of input until its results were sent, or queued for slow clients; one for each "
        "time that the server sends. The time that the sender waits for the journal is not part of it.",
        samples=lambda moment: moment.server.bus.delivery,
    ),
    Metric(
        name="bussrv_journal_sync_seconds",
        kind="histogram",
        help="Time that the disk took for each sync of the journal.",
        samples=lambda moment: moment.look.journal.syncs,
    ),
    Metric(
        name="bussrv_journal_records_total",
        kind="counter",
        help="Records that were written to the journal.",
        samples=_one(lambda moment: moment.figures.records),
    ),
    Metric(
        name="bussrv_journal_written_bytes_total",
        kind="counter",
        help="Bytes of records that were written to the journal.",
        samples=_one(lambda moment: moment.look.journal.written),
    ),
    Metric(
        name="bussrv_journal_waiting_entries",
        help="Entries that wait to be written to the journal.",
        samples=_one(lambda moment: moment.look.journal.waiting),
    ),
    Metric(
        name="bussrv_journal_oldest_wait_seconds",
        help="For how long the oldest entry has waited to be written to the journal.",
        samples=_one(lambda moment: moment.look.journal.oldest_wait),
    ),
    Metric(
        name="bussrv_journal_writable",
        help="Whether the journal takes changes: 1, or 0 when they are refused.",
        samples=_one(lambda moment: moment.look.journal.trouble is None),
    ),
    Metric(
        name="bussrv_journal_free_bytes",
        help="Bytes that are free on the volume of the journal.",
        samples=_one(lambda moment: moment.look.journal.free),
    ),
    Metric(
        name="bussrv_journal_usable_bytes",
        help="Bytes that changes may still take before --journal-min-free.",
        samples=_one(lambda moment: moment.look.journal.usable),
    ),
    Metric(
        name="bussrv_journal_unshipped_segments",
        help="Closed segments that are not shipped to an object store yet; there is none if nobody ships the journal.",
        samples=_shipping(lambda shipping: shipping.segments),
    ),
    Metric(
        name="bussrv_journal_unshipped_bytes",
        help="Bytes of these segments, before compression.",
        samples=_shipping(lambda shipping: shipping.bytes),
    ),
    Metric(
        name="bussrv_journal_unshipped_seconds",
        help="The time since the first of these segments ended; 0 if all are shipped.",
        samples=_shipping(lambda shipping: shipping.oldest),
    ),
    Metric(
        name="bussrv_journal_retention_held",
        help="Whether retention waits until segments are shipped: 1 or 0.",
        samples=_shipping(lambda shipping: shipping.is_held),
    ),
    Metric(
        name="bussrv_spool_bytes",
        help="Bytes that are kept in the spool, as they count against --max-spool-total; 0 until something is kept.",
        samples=_one(lambda moment: moment.server.bus.spool.kept),
    ),
    Metric(
        name="bussrv_spool_writable",
        help="Whether the spool takes changes: 1, or 0 when they are refused.",
        samples=_one(lambda moment: moment.server.bus.spool.unavailable is None),
    ),
    Metric(
        name="bussrv_certificate_expiry_seconds",
        help="For how long the certificate that expires first is still valid; there is none without certificates.",
        samples=_one(_certificates),
    ),
    Metric(
        name="bussrv_last_reload_time_seconds",
        help="When the configuration was last read again, in seconds since 1970; there is none before.",
        samples=_one(_reloaded),
    ),
)
"""Every metric of bussrv. Those of the process are added to them."""


def family(metric: Metric, moment: ServerAtMoment) -> Family:
    """A metric with its values, as the client of Prometheus has it."""
    if metric.kind == "histogram":
        return _histogram(metric, metric.samples(moment))
    make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    found = make(metric.name.removesuffix("_total"), metric.help, labels=metric.labels)
    samples: Iterable[Sample] = metric.samples(moment)
    for labels, value in samples:
        found.add_metric(labels, value)
    return found


def _histogram(metric: Metric, histogram: Histogram) -> Family:
    bounds = [*(f"{bound:g}" for bound in SECONDS), "+Inf"]
    buckets = [(bound, float(count)) for bound, count in zip(bounds, accumulate(histogram.counts), strict=True)]
    return HistogramMetricFamily(metric.name, metric.help, buckets=buckets, sum_value=histogram.total)


class Metrics(Collector):
    """The metrics of a server, as text."""

    def __init__(self, server: AdministeredServer, figures: Figures) -> None:
        self._server = server
        self._figures = figures
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def describe(self) -> Iterable[Family]:
        """Nothing: this collector is alone in its registry, so its names cannot clash with others."""
        return ()

    def collect(self) -> Iterator[Family]:
        """Every metric, as it is now."""
        look = self._figures.look()
        moment = ServerAtMoment(self._server, self._figures, look, readiness(self._server, self._figures))
        for metric in METRICS:
            yield family(metric, moment)

    def text(self) -> bytes:
        """All metrics, in the text format of Prometheus."""
        return generate_latest(self._registry)
