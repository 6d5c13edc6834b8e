"""``/metrics``: figures of the server for Prometheus.

:data:`METRICS` is the one table of them. Labels have fixed sets of values: wire formats, codes, names of checks, kinds
and weights of incidents. They never hold the name of a user or service, or an address.

Figures are computed for each request. The collector registry belongs to one server: there is no global one.
"""

from __future__ import annotations

import platform
from collections import Counter
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
from bussrv.incidents.judging import WEIGHT_NAMES, weight_of
from bussrv.incidents.words import KINDS, kind_of
from bussrv.journal.condition import ShippingCondition
from bussrv.version import VERSION
from bussrv.witness.submitting import WitnessCondition

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


def _kind(name: str) -> Literal["counter", "gauge"]:
    return "counter" if name.endswith("_total") else "gauge"


def _one(name: str, about: str, value: Callable[[ServerAtMoment], float | None]) -> Metric:
    """A metric without labels; it is left out if its value is not known."""

    def samples(moment: ServerAtMoment) -> list[Sample]:
        found = value(moment)
        return [] if found is None else [((), float(found))]

    return Metric(name=name, help=about, samples=samples, kind=_kind(name))


def _each_format(name: str, about: str, value: Callable[[Total], int]) -> Metric:
    """A metric with a value for each wire format."""

    def samples(moment: ServerAtMoment) -> Iterator[Sample]:
        for protocol in sorted({*moment.server.formats(), *moment.look.totals}):
            total = moment.look.totals.get(protocol)
            yield (protocol,), 0.0 if total is None else float(value(total))

    return Metric(name=name, help=about, samples=samples, labels=("protocol",), kind=_kind(name))


def _shipping(name: str, about: str, value: Callable[[ShippingCondition], float]) -> Metric:
    """A metric about shipping; it is left out if nobody ships the journal."""

    def found(moment: ServerAtMoment) -> float | None:
        shipping = moment.look.journal.shipping
        return None if shipping is None else value(shipping)

    return _one(name, about, found)


def _each_witness(name: str, about: str, value: Callable[[WitnessCondition], float]) -> Metric:
    """A metric with a value for each witness."""

    def samples(moment: ServerAtMoment) -> Iterator[Sample]:
        for each in moment.server.witnesses():
            yield (each.name,), float(value(each))

    return Metric(name=name, help=about, samples=samples, labels=("witness",), kind=_kind(name))


def _witness_answers(moment: ServerAtMoment) -> Iterator[Sample]:
    for status, count in sorted(moment.server.witness_answers().items()):
        yield (str(status),), float(count)


def _incidents(moment: ServerAtMoment) -> Iterator[Sample]:
    counters = moment.server.bus.counters
    for code in CODES:
        yield (code,), float(counters.get(code, 0))


def _open_incidents(moment: ServerAtMoment) -> Iterator[Sample]:
    found = Counter(kind_of(each.row) for each in moment.server.incidents if not each.is_over)
    for kind in KINDS:
        yield (kind,), float(found[kind])


def _unacknowledged(moment: ServerAtMoment) -> Iterator[Sample]:
    found = Counter(weight_of(each.row) for each in moment.server.incidents if each.needs_look)
    for weight, name in WEIGHT_NAMES.items():
        yield (name,), float(found[weight])


def _checks(moment: ServerAtMoment) -> Iterator[Sample]:
    for name in CHECKS:
        yield (name,), float(moment.readiness.checks[name].status == "ok")


def _certificates(moment: ServerAtMoment) -> float | None:
    found = [each.days_left() for each in moment.server.bus.streams.certificates.values()]
    known = [days for days in found if days is not None]
    return min(known) * DAY if known else None


def _reloaded(moment: ServerAtMoment) -> float | None:
    return None if moment.figures.reloaded is None else moment.figures.reloaded_at / 1_000_000


METRICS: tuple[Metric, ...] = (
    Metric(
        name="bussrv_build_info",
        help="Always 1; the labels have the versions, and the language of the hot path.",
        labels=("version", "python", "twisted", "hot_path"),
        samples=lambda _: [((VERSION, platform.python_version(), twisted.__version__, HOT_PATH), 1.0)],
    ),
    _one(
        "bussrv_start_time_seconds",
        "When the server started, in seconds since 1970.",
        lambda moment: moment.server.started / 1_000_000,
    ),
    _one(
        "bussrv_ready",
        "Whether the server is ready: 1, or 0 when /readyz answers 503.",
        lambda moment: moment.readiness.status != "not-ready",
    ),
    Metric(
        name="bussrv_check_ok",
        help="Whether each check of /readyz is ok: 1 or 0.",
        labels=("check",),
        samples=_checks,
    ),
    _each_format(
        "bussrv_sessions", "Open sessions of this server, without those that are away.", lambda total: total.open
    ),
    _each_format(
        "bussrv_sessions_away",
        "Durable sessions of this server whose clients are not connected.",
        lambda total: total.away,
    ),
    _each_format(
        "bussrv_sessions_opened_total",
        "Sessions that were opened, or taken up from an earlier boot.",
        lambda total: total.opened,
    ),
    _one(
        "bussrv_remote_sessions", "Sessions that linked servers advertise.", lambda moment: moment.look.remote_sessions
    ),
    _one(
        "bussrv_services",
        "Services that are provided, those of linked servers included.",
        lambda moment: moment.look.services,
    ),
    _one("bussrv_subscriptions", "Subscriptions.", lambda moment: moment.look.subscriptions),
    _one("bussrv_links", "Links to other servers that are up.", lambda moment: moment.look.links),
    _one(
        "bussrv_link_lost_objects_total",
        "Objects of other servers that were lost on their way here, as linked servers say; those of unknown number "
        "are not counted.",
        lambda moment: moment.server.bus.counters["link-lost-objects"],
    ),
    _each_format(
        "bussrv_received_objects_total",
        "Objects, packets and datagrams that clients sent.",
        lambda total: total.traffic.objects_in,
    ),
    _each_format(
        "bussrv_sent_objects_total",
        "Objects, packets and datagrams that clients were sent.",
        lambda total: total.traffic.objects_out,
    ),
    _each_format("bussrv_received_bytes_total", "Bytes that clients sent.", lambda total: total.traffic.bytes_in),
    _each_format("bussrv_sent_bytes_total", "Bytes that clients were sent.", lambda total: total.traffic.bytes_out),
    Metric(
        name="bussrv_incidents_total",
        kind="counter",
        help="Things that were dropped, refused or odd, by code.",
        labels=("code",),
        samples=_incidents,
    ),
    Metric(
        name="bussrv_incidents_open",
        help="Incidents that go on, by kind.",
        labels=("kind",),
        samples=_open_incidents,
    ),
    Metric(
        name="bussrv_incidents_unacknowledged",
        help="Incidents that nobody took note of, also those that are over, by weight.",
        labels=("weight",),
        samples=_unacknowledged,
    ),
    _one(
        "bussrv_outbound_waiting_bytes",
        "Memory for output that clients have not taken yet.",
        lambda moment: moment.look.outbound,
    ),
    _one("bussrv_inbound_waiting_bytes", "Memory for unfinished input of clients.", lambda moment: moment.look.inbound),
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
    _one(
        "bussrv_journal_records_total",
        "Records that were written to the journal.",
        lambda moment: moment.figures.records,
    ),
    _one(
        "bussrv_journal_written_bytes_total",
        "Bytes of records that were written to the journal.",
        lambda moment: moment.look.journal.written,
    ),
    _one(
        "bussrv_journal_waiting_entries",
        "Entries that wait to be written to the journal.",
        lambda moment: moment.look.journal.waiting,
    ),
    _one(
        "bussrv_journal_oldest_wait_seconds",
        "For how long the oldest entry has waited to be written to the journal.",
        lambda moment: moment.look.journal.oldest_wait,
    ),
    _one(
        "bussrv_journal_writable",
        "Whether the journal takes changes: 1, or 0 when they are refused.",
        lambda moment: moment.look.journal.trouble is None,
    ),
    _one(
        "bussrv_journal_free_bytes",
        "Bytes that are free on the volume of the journal.",
        lambda moment: moment.look.journal.free,
    ),
    _one(
        "bussrv_journal_usable_bytes",
        "Bytes that changes may still take before --journal-min-free.",
        lambda moment: moment.look.journal.usable,
    ),
    _each_witness(
        "bussrv_witness_records",
        "Records that a witness has cosigned; 0: none since the start of the server.",
        lambda witness: witness.size or 0,
    ),
    _each_witness(
        "bussrv_witness_troubled",
        "Whether the last attempt to have a checkpoint cosigned failed: 1 or 0.",
        lambda witness: bool(witness.trouble),
    ),
    Metric(
        name="bussrv_witness_answers_total",
        help="Requests that this server answered as a witness, by HTTP status.",
        samples=_witness_answers,
        labels=("status",),
        kind="counter",
    ),
    _shipping(
        "bussrv_journal_unshipped_segments",
        "Closed segments that are not shipped to an object store yet; there is none if nobody ships the journal.",
        lambda shipping: shipping.segments,
    ),
    _shipping(
        "bussrv_journal_unshipped_bytes",
        "Bytes of these segments, before compression.",
        lambda shipping: shipping.bytes,
    ),
    _shipping(
        "bussrv_journal_unshipped_seconds",
        "The time since the first of these segments ended; 0 if all are shipped.",
        lambda shipping: shipping.oldest,
    ),
    _shipping(
        "bussrv_journal_retention_held",
        "Whether retention waits until segments are shipped: 1 or 0.",
        lambda shipping: shipping.is_held,
    ),
    _one(
        "bussrv_spool_bytes",
        "Bytes that are kept in the spool, as they count against --max-spool-total; 0 until something is kept.",
        lambda moment: moment.server.bus.spool.kept,
    ),
    Metric(
        name="bussrv_spool_entries",
        help="Entries that are kept in the spool, by what they are for. mqtt: messages that wait for durable sessions, "
        "and one entry more for each of these.",
        samples=lambda moment: sorted(
            ((kind,), float(count)) for kind, count in moment.server.bus.spool.entries.items()
        ),
        labels=("kind",),
    ),
    _one(
        "bussrv_spool_writable",
        "Whether the spool takes changes: 1, or 0 when they are refused.",
        lambda moment: moment.server.bus.spool.unavailable is None,
    ),
    _one(
        "bussrv_certificate_expiry_seconds",
        "For how long the certificate that expires first is still valid; there is none without certificates.",
        _certificates,
    ),
    _one(
        "bussrv_last_reload_time_seconds",
        "When the configuration was last read again, in seconds since 1970; there is none before.",
        _reloaded,
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
