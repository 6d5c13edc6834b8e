"""``bussrv reply`` answers requests with commands, at a real server."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from bussrv.client.objects import ObjectsClient
from tests.cli.conftest import Beside, Place, run
from tests.cli.talking import await_service

pytestmark = pytest.mark.processes


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
