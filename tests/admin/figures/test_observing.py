"""Health, metrics and streams of a server in a process of its own."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bussrv.admin.figures.metrics import METRICS
from bussrv.client.objects import ObjectsClient
from bussrv.journal.segment import list_segments
from bussrv.testing.server import RunningServer
from tests.forked import ForkedServer

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("observed") / "journal"


@pytest.fixture(scope="module")
def server(journal: Path) -> Iterator[RunningServer]:
    with ForkedServer(journal) as running:
        yield running


Answer = http.client.HTTPResponse


@contextmanager
def asked(server: RunningServer, path: str, headers: dict[str, str] | None = None) -> Iterator[Answer]:
    connection = http.client.HTTPConnection(*server.addresses["admin"], timeout=10)
    connection.request("GET", path, headers={"Content-Type": "application/json", **(headers or {})})
    try:
        yield connection.getresponse()
    finally:
        connection.close()


def next_event(stream: Answer) -> dict[str, str]:
    found: dict[str, str] = {}
    while not found:
        while line := stream.readline().decode().strip():
            if not line.startswith(":"):
                name, _, value = line.partition(": ")
                found[name] = value
    return found


def metrics(server: RunningServer) -> dict[str, dict[tuple[str, ...], float]]:
    with asked(server, "/metrics") as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(answer.read().decode()):
            for sample in family.samples:
                found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
        return found


def fresh_metrics(server: RunningServer) -> dict[str, dict[tuple[str, ...], float]]:
    """Those of now: figures may be half a second old otherwise."""
    with asked(server, "/api/v1/live") as stream:
        next_event(stream)
        next_event(stream)
    return metrics(server)


def records_of(journal: Path) -> list[bytes]:
    lines = [line for path in list_segments(journal) for line in path.read_bytes().splitlines()]
    return [line for line in lines if b'"event":' in line]


def test_it_lives_and_is_ready(server: RunningServer) -> None:
    with asked(server, "/healthz") as answer:
        assert (answer.status, json.load(answer)) == (200, {"status": "alive"})
    with asked(server, "/readyz") as answer:
        found = json.load(answer)
        assert (answer.status, found["status"], found["degraded"]) == (200, "ready", [])
        assert {each["status"] for each in found["checks"].values()} == {"ok"}


def test_metrics_count_what_clients_do(server: RunningServer) -> None:
    before = fresh_metrics(server)
    with ObjectsClient(port=server.port("objects")) as ann, ObjectsClient(port=server.port("objects")) as ben:
        ben.subscribe(types=["text/*"])
        ann.subscribe(receive_mode="none")
        for _ in range(10):
            ann.send({"type": "text/plain"}, b"x" * 1000)
            while ben.receive().payload != b"x" * 1000:
                pass
        after = fresh_metrics(server)
    label = ("objects",)
    assert after["bussrv_sessions"][label] == before["bussrv_sessions"][label] + 2
    assert after["bussrv_sessions_opened_total"][label] == before["bussrv_sessions_opened_total"][label] + 2
    assert after["bussrv_received_objects_total"][label] >= before["bussrv_received_objects_total"][label] + 12
    assert after["bussrv_received_bytes_total"][label] > before["bussrv_received_bytes_total"][label] + 10_000
    assert after["bussrv_sent_objects_total"][label] >= before["bussrv_sent_objects_total"][label] + 12
    assert after["bussrv_sent_bytes_total"][label] > before["bussrv_sent_bytes_total"][label] + 10_000
    assert after["bussrv_delivery_seconds_count"][()] >= before["bussrv_delivery_seconds_count"][()] + 10
    assert after["bussrv_journal_sync_seconds_count"][()] > 0
    assert after["bussrv_journal_written_bytes_total"][()] > 1000
    assert after["bussrv_ready"][()] == 1
    names = {metric.name for metric in METRICS}
    assert not any(name.startswith("bussrv_") for name in after.keys() - names if not name.endswith(tuple(HISTOGRAM)))


HISTOGRAM = ("_bucket", "_count", "_sum")


def test_events_begin_where_the_client_was(server: RunningServer, journal: Path) -> None:
    with asked(server, "/api/v1/events?after=0") as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        with ObjectsClient(port=server.port("objects")) as client:
            client.subscribe(routing_id="eve")
            got = [next_event(stream)]
            while json.loads(got[-1]["data"]).get("routing_id") != "eve":
                got.append(next_event(stream))
    lines = records_of(journal)
    assert [each["data"].encode() for each in got] == lines[: len(got)]
    assert [int(each["id"]) for each in got] == list(range(1, len(got) + 1))
    assert [each["event"] for each in got] == [json.loads(line)["event"] for line in lines[: len(got)]]
    # A client that comes back says what it has.
    with asked(server, "/api/v1/events", {"Last-Event-ID": got[-2]["id"]}) as stream:
        assert next_event(stream) == got[-1]


def test_live_figures_come_at_once(server: RunningServer) -> None:
    with asked(server, "/api/v1/live") as stream:
        found = next_event(stream)
        assert found["event"] == "figures"
        figures: dict[str, Any] = json.loads(found["data"])
        # They may be of the moment before the services of the server were there.
        while figures["sessions"].get("bus") != 1:
            figures = json.loads(next_event(stream)["data"])
    assert figures["degraded"] == []
    assert figures["delivery_seconds"].keys() == {"p50", "p99"}


def test_a_server_that_drains_is_not_ready() -> None:
    drain = ["--drain-seconds", "60"]
    with (
        ForkedServer("off", drain) as server,
        ObjectsClient(port=server.port("objects")) as client,
    ):
        client.subscribe()
        server.process.terminate()
        while client.receive().metadata.get("event") != "abboe/close/notify":
            pass
        with asked(server, "/readyz") as answer:
            found = json.load(answer)
        assert (answer.status, found["status"], found["degraded"]) == (503, "not-ready", ["drain"])
        with asked(server, "/healthz") as answer:
            assert answer.status == 200
        # The drain ends with the last client. Another signal might come when the server no longer catches it.
        client.close()
        assert server.wait() == 0
