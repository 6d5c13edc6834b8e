"""Health, metrics and live figures of a server, from its bus and the condition of its journal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.defer import Deferred

from bussrv import events as ev
from bussrv.admin.figures.figures import COUNTERS, KEPT, Figures
from bussrv.admin.figures.health import CHECKS, readiness
from bussrv.admin.figures.limits import limited
from bussrv.admin.figures.live import INTERVAL, Live, LiveFigures
from bussrv.admin.figures.metrics import CODES, METRICS, Metrics
from bussrv.admin.incidents.known import KnownIncidents, Note
from bussrv.admin.interfaces import Dialed
from bussrv.counts.histogram import SECONDS, Histogram
from bussrv.incidents.judging import Incident
from bussrv.incidents.words import KINDS
from bussrv.journal.condition import JournalCondition, ShippingCondition
from bussrv.values import Traffic
from bussrv.witness.submitting import WitnessCondition
from tests.bus.harness import BusHarness, RecordingLink
from tests.docs.pages import rows
from tests.server.running.test_ports import Days
from tests.tables import each_row


class Server(BusHarness):
    """A bus, and what else the admin interface asks a server."""

    place = None
    boot = "b"
    started = 5_000_000

    def __init__(self) -> None:
        super().__init__()
        self.condition = JournalCondition(is_on=True, usable=100, free=200)
        self.draining = False
        self.addresses: dict[str, str] = {"objects": "tcp 127.0.0.1:7890", "spp": "tcp 127.0.0.1:3002"}
        self.links: list[Dialed] = []
        self.looks = 0
        self.incidents = KnownIncidents()

    def journal_condition(self) -> JournalCondition:
        self.looks += 1
        return self.condition

    def witness_answers(self) -> dict[int, int]:
        return {200: 3, 409: 1}

    def witnesses(self) -> Sequence[WitnessCondition]:
        return [WitnessCondition("attic.example/w1", 40, ""), WitnessCondition("barn.example/w2", None, "away")]

    def dialed(self) -> Iterable[Dialed]:
        return self.links

    def formats(self) -> Mapping[str, str]:
        return self.addresses

    def is_draining(self) -> bool:
        return self.draining

    def log_level(self) -> str:
        return "info"


def note(server: Server, event: ev.Event) -> None:
    server.registry.note(event)


def test_a_certificate_that_expires_is_named_with_its_file() -> None:
    server = Server()
    expires(5)(server)
    server.bus.streams.certificates["business"] = Days(-1, Path("/etc/other.pem"))
    check = readiness(server, Figures(server)).checks["certificates"]
    said = "/etc/other.pem (business) expires in -1 days; /etc/server.pem (objects) expires in 5 days"
    assert check.message == f"{said}: replace the file, and reload"


def expect(*names: str) -> Callable[[Server], None]:
    return lambda server: object.__setattr__(server.bus.settings, "expect_link", names)


def test_servers_that_are_not_linked_are_named() -> None:
    server = Server()
    expect("attic", "barn", "cellar", "hut")(server)
    server.links.append(Dialed("tcp:attic:7890", "attic"))
    server.links.append(Dialed("tcp:shed:7890", None))
    message = readiness(server, Figures(server)).checks["links"].message
    assert message.startswith("attic was never linked since the start, ")
    assert message.endswith("; and 2 more: see `bussrv links`")


def crowd(server: Server) -> None:
    server.bus.streams.most_connections = 0


def refuse(*names: str) -> Callable[[Server], None]:
    return lambda server: server.bus.counters.update(names)


def fill(protocol: str, sessions: int, *, is_away: bool = False) -> Callable[[Server], None]:
    """There may be 3 sessions, and 4 of Inbus."""

    def opened(server: Server) -> None:
        for name, most in {"max_sessions": 3, "inbus_max_sessions": 4}.items():
            object.__setattr__(server.bus.settings, name, most)
        for number in range(sessions):
            server.bus.totals.opened(protocol, str(number), Traffic(), is_away=is_away)

    return opened


def expires(days: int | None) -> Callable[[Server], None]:
    return lambda server: server.bus.streams.certificates.update({"objects": Days(days), "spp": Days(300)})


def condition(**fields: Any) -> Callable[[Server], None]:
    return lambda server: setattr(server, "condition", JournalCondition(is_on=True, **fields))


@each_row(
    ("happens", "status", "degraded"),
    [
        (lambda server: None, "ready", []),
        (condition(oldest_wait=5.0), "ready", []),
        (condition(oldest_wait=5.1), "not-ready", ["journal"]),
        (condition(trouble="no"), "degraded", ["journal"]),
        (condition(usable=0, free=7), "degraded", ["disk"]),
        (condition(usable=None), "ready", []),
        (condition(shipping=ShippingCondition(2, 9, 60.0, False, None)), "ready", []),
        (condition(shipping=ShippingCondition(2, 9, 6000.0, True, "late")), "degraded", ["shipping"]),
        (lambda server: server.bus.spool.close(), "degraded", ["spool"]),
        (lambda server: server.addresses.clear(), "not-ready", ["ports"]),
        (lambda server: setattr(server, "draining", True), "not-ready", ["drain"]),
        (lambda server: note(server, ev.ConfigReloadFailed(message="no")), "degraded", ["reload"]),
        (lambda server: note(server, ev.ConfigReloaded()), "ready", []),
        (expires(14), "ready", []),
        (expires(13), "degraded", ["certificates"]),
        (expires(None), "ready", []),
        (lambda server: server.links.append(Dialed("tcp:hall:7890", "hall")), "degraded", ["links"]),
        (expect("attic"), "degraded", ["links"]),
        (crowd, "degraded", ["connections"]),
        (refuse("max-sessions"), "degraded", ["limits"]),
        (refuse("outbound-full"), "degraded", ["limits"]),
        (refuse("max-requests"), "degraded", ["limits"]),
        (refuse("max-sessions-per-address", "too-many-connects", "max-services"), "ready", []),
        (fill("objects", 3), "degraded", ["limits"]),
        (fill("objects", 2), "ready", []),
        (fill("mqtt", 9, is_away=True), "ready", []),
        (fill("inbus", 4), "degraded", ["limits"]),
        (fill("inbus", 3), "ready", []),
    ],
)
def test_a_server_is_ready_unless_it_cannot_serve(
    happens: Callable[[Server], None], status: str, degraded: list[str]
) -> None:
    server = Server()
    figures = Figures(server)
    happens(server)
    found = readiness(server, figures)
    assert (found.status, found.degraded) == (status, degraded)
    refuses = bool({"journal", "disk", "spool", "connections", "limits"}.intersection(degraded))
    strict = readiness(server, figures, is_strict=True)
    assert strict.status == ("not-ready" if refuses else status)
    assert (strict.degraded, strict.checks) == (found.degraded, found.checks)
    assert found.checks.keys() == CHECKS.keys()
    for name, check in found.checks.items():
        assert (check.status == "ok") == (name not in degraded) == (check.message == "")
    # A reload that goes well mends one that failed.
    note(server, ev.ConfigReloaded())
    assert readiness(server, figures).checks["reload"].status == "ok"


def scraped(server: Server, figures: Figures) -> dict[str, dict[tuple[str, ...], float]]:
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(Metrics(server, figures).text().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_metrics_say_what_needs_a_look_and_what_witnesses_do() -> None:
    server = Server()
    server.incidents.go_on([
        Incident(what="address", number=12, address="192.0.2.1", kinds=("auth.failed",)),
        Incident(what="link", number=1, subject="attic"),
        Incident(what="link", number=1, subject="shed"),
    ])  # fmt: skip
    server.incidents.over(Incident(what="guessing", number=12, others=3, claimed="ann"))
    noted = next(each for each in server.incidents if each.row.subject == "shed")
    noted.note = Note(None, "192.0.2.2", 1, None)
    found = scraped(server, Figures(server))
    going_on = found["bussrv_incidents_open"]
    assert {kind for kind, number in going_on.items() if number} == {("logins",), ("link",)}
    assert (going_on["link",], going_on.keys()) == (2, {(kind,) for kind in KINDS})
    assert found["bussrv_incidents_unacknowledged"] == {("grave",): 1, ("serious",): 1, ("minor",): 1}
    assert found["bussrv_witness_records"] == {("attic.example/w1",): 40, ("barn.example/w2",): 0}
    assert found["bussrv_witness_troubled"] == {("attic.example/w1",): 0, ("barn.example/w2",): 1}


def test_metrics_say_what_the_server_has() -> None:
    server = Server()
    figures = Figures(server)
    link = RecordingLink({})
    link.traffic = Traffic(3, 5, 700, 1100)
    session = server.bus.open("objects", "127.0.0.1:1", link)
    odd = server.bus.open("odd", "127.0.0.1:2", RecordingLink({}), expiry=9)
    server.bus.counters["slow-consumer"] += 4
    server.bus.delivery.observe(0.003)
    server.bus.delivery.observe(30.0)
    syncs = Histogram()
    syncs.observe(0.0005)
    condition(oldest_wait=6.0, waiting=2, written=99, free=10, usable=9, trouble="no", syncs=syncs)(server)
    note(server, ev.ConfigReloaded())
    found = scraped(server, figures)
    assert found["bussrv_sessions"] == {("objects",): 1, ("odd",): 1, ("spp",): 0}
    for name, value in {"received_objects": 3, "sent_objects": 5, "received_bytes": 700, "sent_bytes": 1100}.items():
        assert found[f"bussrv_{name}_total"] == {("objects",): value, ("odd",): 0, ("spp",): 0}
    assert found["bussrv_incidents_total"].keys() == {(code,) for code in CODES}
    assert found["bussrv_incidents_total"]["slow-consumer",] == 4
    assert found["bussrv_delivery_seconds_count"][()] == found["bussrv_delivery_seconds_bucket"]["+Inf",] == 2
    assert found["bussrv_delivery_seconds_bucket"]["0.005",] == 1
    assert found["bussrv_delivery_seconds_sum"][()] == pytest.approx(30.003)
    assert len(found["bussrv_journal_sync_seconds_bucket"]) == len(SECONDS) + 1
    ones = {name: values[()] for name, values in found.items() if () in values}
    wanted = {"oldest_wait_seconds": 6, "waiting_entries": 2, "written_bytes_total": 99, "writable": 0}
    assert {name: ones[f"bussrv_journal_{name}"] for name in wanted} == wanted
    assert (ones["bussrv_journal_free_bytes"], ones["bussrv_journal_usable_bytes"]) == (10, 9)
    assert (ones["bussrv_ready"], found["bussrv_check_ok"]["journal",], found["bussrv_check_ok"]["reload",]) == (
        0,
        0,
        1,
    )
    assert ones["bussrv_last_reload_time_seconds"] == server.clock.utc() / 1_000_000
    assert ones["bussrv_journal_records_total"] == len(server.journal.records)
    # Closed sessions count on; only what nobody knows is left out.
    server.bus.close(session.id, "client-closed", link.traffic)
    server.reactor.advance(KEPT)
    found = scraped(server, figures)
    assert (found["bussrv_sessions"]["objects",], found["bussrv_sent_bytes_total"]["objects",]) == (0, 1100)
    server.bus.leave(odd.id, "connection-lost", 9)
    server.reactor.advance(KEPT)
    found = scraped(server, figures)
    assert (found["bussrv_sessions"]["odd",], found["bussrv_remote_sessions"][()]) == (0, 0)
    assert found["bussrv_sessions_away"] == {("objects",): 0, ("odd",): 1, ("spp",): 0}
    missing = {each.name for each in METRICS if each.kind != "histogram"} - found.keys()
    shipping = {*(f"bussrv_journal_unshipped_{name}" for name in ("segments", "bytes", "seconds"))}
    shipping.add("bussrv_journal_retention_held")
    assert missing == {"bussrv_certificate_expiry_seconds", "bussrv_spool_entries", *shipping}
    condition(shipping=ShippingCondition(2, 9, 60.5, True, "late"))(server)
    server.reactor.advance(KEPT)
    ones = {name: values[()] for name, values in scraped(server, figures).items() if name in shipping}
    assert sorted(ones.values()) == [1, 2, 9, 60.5]
    expires(2)(server)
    assert scraped(server, figures)["bussrv_certificate_expiry_seconds"][()] == 2 * 86_400


def test_figures_are_made_once_however_many_ask() -> None:
    server = Server()
    figures = Figures(server)
    first = figures.look()
    assert all(figures.look() is first for _ in range(10))
    server.reactor.advance(KEPT)
    assert figures.look() is not first


class Stream:
    """The other end of a stream of figures."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.gone: Deferred[None] = Deferred()

    def send(self, data: bytes, *, event: str) -> None:
        assert event == "figures"
        self.got.append(json.loads(data))

    def closed(self) -> Deferred[None]:
        return self.gone

    def end(self) -> None:
        self.gone.callback(None)


def test_the_page_lists_all_live_figures() -> None:
    listed = [name.strip("`") for row in rows("docs/reference/admin-api.md") for name in row[0].split(", ")]
    begin = listed.index("figure") + 1
    fields = list(LiveFigures.__struct_fields__)
    assert listed[begin : begin + len(fields)] == fields


def test_live_figures_come_at_once_and_every_second_to_all() -> None:
    server = Server()
    live = Live(server, Figures(server))
    one, other = Stream(), Stream()
    server.bus.delivery.observe(0.5)
    Deferred.fromCoroutine(live.send(one)).addErrback(pytest.fail)
    assert one.got[0]["delivery_seconds"] == {"p50": None, "p99": None}
    server.bus.delivery.observe(0.003)
    server.bus.open("objects", "127.0.0.1:1", RecordingLink({}))
    durable = server.bus.open("mqtt", "127.0.0.1:2", RecordingLink({}), expiry=9)
    server.bus.leave(durable.id, "connection-lost", 9)
    Deferred.fromCoroutine(live.send(other)).addErrback(pytest.fail)
    assert other.got == one.got
    server.reactor.advance(INTERVAL)
    assert other.got == one.got
    latest = one.got[1]
    assert (latest["sessions"], latest["away"]) == ({"objects": 1, "mqtt": 0}, {"mqtt": 1})
    assert 0.0025 < latest["delivery_seconds"]["p50"] <= latest["delivery_seconds"]["p99"] <= 0.005
    server.reactor.advance(INTERVAL)
    assert one.got[2]["delivery_seconds"] == {"p50": None, "p99": None}
    one.end()
    other.end()
    # Nobody looks: nothing is looked at.
    looks = server.looks
    server.reactor.pump([INTERVAL] * 10)
    assert server.looks == looks
    assert not [call for call in server.reactor.getDelayedCalls() if call.func.__class__.__name__ == "LoopingCall"]


def test_figures_that_cannot_be_made_end_the_streams() -> None:
    server = Server()
    live = Live(server, Figures(server))
    stream = Stream()
    Deferred.fromCoroutine(live.send(stream)).addErrback(pytest.fail)
    server.bus.streams.certificates["broken"] = None
    server.reactor.advance(INTERVAL)
    assert stream.gone.called
    del server.bus.streams.certificates["broken"]
    again = Stream()
    Deferred.fromCoroutine(live.send(again)).addErrback(pytest.fail)
    assert len(again.got) == 1


def test_a_refusal_counts_for_a_minute() -> None:
    server = Server()
    figures = Figures(server)
    server.bus.counters["inbound-full"] += 1
    assert readiness(server, figures).checks["limits"].message.endswith("--max-inbound-total 268435456")
    server.reactor.advance(59)
    assert readiness(server, figures).degraded == ["limits"]
    server.reactor.advance(1)
    assert readiness(server, figures).degraded == []
    server.bus.counters["inbound-full"] += 1
    assert readiness(server, figures).degraded == ["limits"]


def test_every_limit_of_all_clients_is_one_with_that_counter() -> None:
    known = {option.name: counter for option, counter in limited()}
    assert known.items() >= COUNTERS.items()


def test_expired_certificates_refuse_clients() -> None:
    for days, status in {-1: "not-ready", 0: "degraded"}.items():
        server = Server()
        expires(days)(server)
        assert readiness(server, Figures(server), is_strict=True).status == status
