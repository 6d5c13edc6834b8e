"""``bussrv sub``, ``pub``, ``request`` and ``reply`` at a real server, over every wire format that they speak."""

from __future__ import annotations

import io
import json
import sys
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.cli.commands.talk.pub import _lines
from bussrv.cli.connection import ConnectionOptions
from bussrv.cli.traffic.joining import joined
from bussrv.cli.traffic.receiving import ReceivedPublication, Receiving, receiving
from bussrv.client.blocking import connect
from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from tests.cli.conftest import Beside, Place, run

pytestmark = pytest.mark.processes

NOWHERE: dict[str, None] = dict.fromkeys(("server", "profile", "ca", "certificate", "key", "user", "secret_file"))
HERE = ConnectionOptions(**NOWHERE, token_file=None, tls=False, insecure=False, timeout=10.0)
PATIENCE = 50.0
HOSTILE = "5\x1b]0;gone\x07\u202e\r\n\x9b31m"


def watching(place: Place) -> SppClient:
    """A client that waits for what a command does, which may have to start before, on a machine with much to do."""
    return SppClient(port=place.server.port("spp"), timeout=PATIENCE)


def await_record(place: Place, event: str, service: str, count: int = 1) -> None:
    """Wait until the registry says so often that something happened to a service."""
    with watching(place) as registry:
        registry.subscribe("bus/registry")
        seen = 0
        while seen < count:
            (*_, message) = (registry.next_event(),)
            if getattr(message, "service", None) != "bus/registry" or not getattr(message, "message", b""):
                continue
            state = json.loads(message.message)
            if "subscriptions" in state:
                seen += sum(each["service"] == service for each in state["subscriptions"])
            else:
                seen += (state["event"], state.get("service")) == (event, service)


def next_of(receiver: Receiving) -> ReceivedPublication:
    """The next publication."""
    found = receiver.receive(10)
    assert isinstance(found, ReceivedPublication)
    return found


@pytest.mark.parametrize("published", ["objects", "business", "inbus"])
@pytest.mark.parametrize("received", ["objects", "business", "inbus", "spp"])
def test_a_publication_crosses_from_every_format_to_every_other(place: Place, published: str, received: str) -> None:
    service = f"{published}-to-{received}"
    with receiving(HERE, received, [service]) as receiver, ObjectsClient(port=place.server.port("objects")) as holder:
        if received == "spp":
            # There can be no subscription over SPP before the service is there.
            holder.subscribe()
            holder.register(service)
            assert receiver.receive(10) == ReceivedPublication(service, b"")
        if received == "inbus":
            await_record(place, "subscription.added", service)
        assert run("pub", service, "channel 5", "--format", published, "--app-type", "7") == (0, "", "")
        found = next_of(receiver)
    assert (found.service, found.payload) == (service, b"channel 5")
    assert found.type in ("text/plain; charset=UTF-8", None)
    assert found.app_type == (None if received == "spp" else 7)


@pytest.mark.parametrize("received", ["objects", "business", "spp"])
def test_names_with_wildcards(place: Place, received: str) -> None:
    first, second = f"wild/{received}/1", f"wild/{received}/2"
    with ObjectsClient(port=place.server.port("objects")) as publisher:
        publisher.subscribe(subscriptions=["!*"])
        publisher.register(first)
        with receiving(HERE, received, [f"wild/{received}/?", "wild/[x]*"]) as receiver:
            # A request that nobody answers fails at once: the receiver takes none.
            assert run("request", "wild/nobody")[0] == 1
            for service in (second, f"wild/{received}/10", "wild/x"):
                publisher.register(service)
            for service, payload in ((first, b"1"), ("wild/x", b"no"), (f"wild/{received}/10", b"no"), (second, b"2")):
                publisher.send({"type": "text/plain", "sender": service}, payload)
            found = {next_of(receiver) for _ in range(4 if received == "spp" else 2)}
    # Over SPP, the state of a service comes before.
    assert {each.payload for each in found} - {b""} == {b"1", b"2"}
    assert {each.service for each in found} == {first, second}


def test_what_is_printed_cannot_steer_a_terminal(place: Place) -> None:
    assert run("pub", "steering", HOSTILE, "--format", "inbus") == (0, "", "")
    with SppClient(port=place.server.port("spp")) as watcher:
        watcher.wait_for(lambda event: event.service == "steering")
    status, said, _ = run("sub", "steering", "--format", "spp", "--count", "1")
    assert (status, said) == (0, "steering  5\\x1b]0;gone\\x07\\u202e\\r\\n\\x9b31m\n")
    status, said, _ = run("sub", "steering", "--format", "spp", "--count", "1", "--json")
    assert (status, json.loads(said)["payload"]) == (0, HOSTILE)
    assert said.rstrip("\n").isprintable()
    status, said, _ = run("sub", "steering", "--format", "spp", "--count", "1", "--raw")
    assert (status, said) == (0, HOSTILE)


def test_a_payload_that_is_long_or_no_text() -> None:
    from bussrv.cli.traffic.payloads import MOST_SHOWN, shown

    assert shown(b"\xff\xfe", "image/png") == "(2 bytes of image/png)"
    assert shown(b"\x00\xff" * 5000, None) == "(10000 bytes)"
    assert shown(b"a" + "ü".encode() * 5000, None).startswith("aü")
    assert shown("ü".encode() * 5000, None) == "ü" * MOST_SHOWN + "… (10000 bytes)"
    assert ReceivedPublication("tv", b"\xff").as_json() == {"service": "tv", "bytes": 1, "payload_base64": "/w=="}


def test_sub_ends_after_its_time(place: Place) -> None:
    assert run("sub", "silent", "--for", "0.1") == (0, "", "")
    assert run("sub", "bus/*", "--format", "spp", "--for", "0.1")[0] == 0
    assert run("sub", "silent", "--for", "0.1", "--count", "1") == (5, "", "")


@pytest.mark.parametrize("wire_format", ["objects", "business"])
def test_sub_does_not_wait_for_updates_that_never_come(place: Place, wire_format: str) -> None:
    status, said, complained = run("sub", "tv", "bus/clock", "--format", wire_format)
    assert (status, said, complained.count("\n")) == (2, "", 1)
    assert "use --format spp, or ask for its present state: bussrv request bus/clock" in complained
    assert run("sub", "BUS/*", "--format", wire_format)[2].endswith("use --format spp (see bussrv sub --help)\n")
    assert run("sub", "bus/clock", "--format", "spp", "--count", "1")[0] == 0
    assert run("request", "bus/clock")[0] == 0


@pytest.mark.parametrize("wanted", ["other", "flood"])
def test_sub_ends_after_its_time_also_while_objects_come(place: Place, wanted: str) -> None:
    ended = threading.Event()

    def flood() -> None:
        with ObjectsClient(port=place.server.port("objects")) as client:
            client.subscribe(subscriptions=["!*"])
            client.register("flood")
            while not ended.is_set():
                client.send({"type": "text/plain", "sender": "flood"}, b"x")

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        status, said, _ = run("sub", wanted, "--for", "0.3")
    finally:
        ended.set()
        thread.join(10)
    assert (status, "flood" in said) == (0, wanted == "flood")


def test_lines_of_the_standard_input_are_published_one_by_one(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\r\nthree")))
    with receiving(HERE, "objects", ["li?es"]) as receiver:
        assert run("pub", "lines", "--lines")[0] == 0
        assert [next_of(receiver).payload for _ in range(3)] == [b"one", b"two", b"three"]


@given(st.lists(st.text("ab\r\n", min_size=1).map(str.encode), max_size=20))
def test_lines_come_whole_and_at_once_however_they_are_read(pieces: list[bytes]) -> None:
    stream = Mock(read1=Mock(side_effect=[*pieces, b""]))
    seen: list[bytes] = []
    for batch in _lines(stream):
        seen += batch
        read = b"".join(pieces[: stream.read1.call_count])
        assert len(seen) == read.count(b"\n") + (len(pieces) < stream.read1.call_count and not read.endswith(b"\n"))
    assert seen == [each.rstrip(b"\r\n") for each in io.BytesIO(b"".join(pieces))]


def test_not_too_many_lines_are_published_at_the_same_time() -> None:
    assert [len(batch) for batch in _lines(io.BytesIO(b"\n" * 2500))] == [1000, 1000, 500]


def test_a_line_that_is_refused_is_an_error(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = run("pub", "bus/clock", "12:00")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"12:00\n12:01\n")))
    assert run("pub", "bus/clock", "--lines") == refused


@pytest.mark.parametrize("wire_format", ["objects", "business"])
def test_a_request_is_answered_by_a_command(place: Place, wire_format: str) -> None:
    script = 'import os, sys; print(os.environ["REQUEST_SERVICE"], sys.stdin.read().upper(), end="")'
    service = f"upper-{wire_format}"
    words = ("reply", service, "--format", wire_format, "--count", "2", "--quiet", "--", sys.executable, "-Sc", script)
    beside = Beside(words)
    await_service(place, service)
    assert run("request", service, "hello", "--format", wire_format) == (0, f"{service} HELLO", "")
    status, said, _ = run("request", service, "--format", wire_format, "--json")
    shown = json.loads(said)
    assert (status, shown["payload"], shown["metadata"]["event"]) == (0, f"{service} ", "services/reply")
    assert beside.status.result(10) == 0


def await_service(place: Place, service: str) -> None:
    with watching(place) as watcher:
        watcher.wait_for(lambda event: event.service == service)


@pytest.mark.parametrize(
    ("options", "command", "reason"),
    [
        ((), ("false",), "the command ended with exit status 1 (command-failed)"),
        ((), ("sh", "-c", "kill -9 $$"), "the command was ended by signal 9 (command-failed)"),
        ((), ("/nowhere/is/this",), "the command cannot be started: No such file or directory (command-failed)"),
        (("--limit", "0.2"), ("sleep", "60"), "the command took longer than 0.2 s (command-timeout)"),
        (("--max-reply", "10"), ("yes",), "the command wrote more than 10 bytes (reply-too-large)"),
    ],
)
def test_a_command_that_fails_is_an_error(
    place: Place, options: tuple[str, ...], command: tuple[str, ...], reason: str
) -> None:
    service = f"failing-{time.monotonic_ns()}"
    beside = Beside(("reply", service, *options, "--count", "1", "--quiet", "--", *command))
    await_service(place, service)
    assert run("request", service, "x") == (1, "", f"bussrv request: {reason}\n")
    assert beside.status.result(10) == 0


def test_commands_run_beside_each_other_but_not_too_many(place: Place, tmp_path: Path) -> None:
    """Two run, one waits, and the fourth is refused; each of the two waits until the other has begun."""
    script = f"touch {tmp_path}/$$; while [ $(ls {tmp_path} | wc -l) -lt 2 ]; do sleep 0.01; done; cat"
    words = ("--concurrency", "2", "--waiting", "1", "--count", "4", "--quiet", "--", "sh", "-c", script)
    beside = Beside(("reply", "busy", *words))
    await_service(place, "busy")
    with ObjectsClient(port=place.server.port("objects")) as client:
        client.subscribe(subscriptions=["@services/reply", "@error"])
        for number in range(4):
            client.send({"event": "services/request", "name": "busy", "id": str(number)})
        answers = {each["in-reply-to"]: each for each in (client.receive().metadata for _ in range(4))}
    assert {key: each.get("reason") for key, each in answers.items()} == {
        **dict.fromkeys("012"),
        "3": "too-busy",
    }
    assert beside.status.result(10) == 0


def test_nobody_and_refusals(place: Place) -> None:
    asked = f"127.0.0.1:{place.server.port('objects')}"
    said = f"bussrv request: nobody provides the service 'nothing' (no-such-service); asked {asked}\n"
    assert run("request", "nothing") == (1, "", said)
    status, _, complained = run("pub", "bus/clock", "12:00")
    assert (status, complained.count("\n")) == (2, 1)
    assert complained.startswith("bussrv pub: ")


def test_pub_answers_requests_that_it_was_given_meanwhile(place: Place) -> None:
    with joined(connect, HERE, "business") as publisher, ObjectsClient(port=place.server.port("objects")) as asker:
        publisher.publish("brief", confirm=True)
        asker.subscribe()
        asker.send({"event": "services/request", "name": "brief", "id": "1"})
        answer = asker.wait_for(lambda each: each.metadata.get("in-reply-to") == "1").metadata
    assert (answer["event"], answer["reason"]) == ("error", "no-such-service")


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    status, said, complained = run("sub", "tv", "--server", "127.0.0.1:1")
    assert (status, said) == (3, "")
    assert complained == "bussrv sub: cannot connect to 127.0.0.1 port 1: Connection refused\n"
