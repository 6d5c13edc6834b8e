"""``bussrv events`` and ``tap`` at a running server."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from bussrv.cli.admin_client import AdminClient, ServerSentEvent
from bussrv.cli.failure import FAILED
from bussrv.client.objects import ObjectsClient
from tests.cli.asked import records
from tests.cli.conftest import Place, run

pytestmark = pytest.mark.processes


def test_events_are_those_of_the_journal_from_any_record_on(place: Place, lamp: ObjectsClient) -> None:
    first, second = records("events", "--after", "0", "--count", "2")
    assert (first["seq"], first["event"], second["seq"]) == (1, "server.started", 2)
    (found,) = records("events", "--after", "1", "--event", "service.registered", "--service", "hall/lamp 1", "-n", "1")
    assert found["routing_id"] == lamp.routing_id
    journal = (next((place.home / "journal").glob("*.jsonl"))).read_text().splitlines()
    assert found in map(json.loads, journal)


def test_records_that_the_server_cannot_send_are_one_sentence(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = [
        ServerSentEvent("49", "skipped", '{"count":49}'),
        ServerSentEvent("50", "server.started", '{"seq":50,"event":"server.started"}'),
        ServerSentEvent("51", "skipped", '{"count":1}'),
        ServerSentEvent("52", "server.stopped", '{"seq":52,"event":"server.stopped"}'),
    ]
    monkeypatch.setattr(AdminClient, "resuming", lambda *arguments: iter(sent))
    status, said, complained = run("events", "--after", "0", "--count", "2")
    assert (status, [line.split()[1:] for line in said.splitlines()]) == (
        0,
        [["50", "server.started"], ["52", "server.stopped"]],
    )
    assert complained.splitlines() == [
        "bussrv events: records 1 to 49 are not in the journal any more, or cannot be read",
        "bussrv events: record 51 is not in the journal any more, or cannot be read",
    ]
    assert run("events", "--json", "--count", "2")[1].count("\n") == 2


def test_a_tap_shows_payloads_only_if_they_are_asked_for(place: Place, lamp: ObjectsClient) -> None:
    ended = threading.Event()

    def publish() -> None:
        with ObjectsClient(port=place.server.port("objects")) as client:
            client.subscribe()
            client.register("tapped")
            while not ended.wait(0.02):
                client.send({"type": "text/plain", "sender": "tapped"}, b"secret \x1b[31m")

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        for words, is_shown in (((), False), (("--payload",), True)):
            status, said, _ = run("tap", "--service", "tapped", "--count", "1", *words)
            assert (status, "secret \\x1b[31m" in said) == (0, is_shown)
            assert "  tapped  text/plain  12 bytes" in said
    finally:
        ended.set()
        thread.join(10)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no file that is always full")
def test_a_capture_that_cannot_be_written_is_named(place: Place) -> None:
    assert run("tap", "-w", "/dev/full") == (FAILED, "", "bussrv tap: /dev/full: No space left on device\n")
    assert run("tap", "-w", "/nowhere/x") == (FAILED, "", "bussrv tap: /nowhere/x: No such file or directory\n")
    assert run("tap", "--json", "-w", "tapped")[0] == 2
