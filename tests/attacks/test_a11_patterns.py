"""Members subscribe with what takes longest to compare, and one client sends objects of ever new types."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bussrv.bus.interest.interests import MAX_TYPE
from bussrv.client.objects import ObjectsClient
from bussrv.settings import Settings
from bussrv.testing.server import RunningServer
from bussrv.wire.objects import MAX_NATURES
from tests.attacks.bystanders import Bystanders
from tests.forked import ForkedServer
from tests.size import further

MEMBERS = 100
TYPES_A_SECOND = 1000
SECONDS = 0.5
MOST_LOOKS = 6
"""Other programs on the machine make bystanders wait, too, but not all the time. A server that does, does it always."""

LIMITS = Settings()
SHARED = "shared by all"


def wildcards(number: int) -> list[str]:
    """As many wildcards as a subscription may have; no two members have the same."""
    tail = f"{number}b"
    most = min(LIMITS.max_wildcard_characters, MAX_TYPE) - len(tail)
    return ["*a" * (most // 2) + tail]


def plain(number: int) -> list[str]:
    """As many other patterns as fit beside these."""
    each = ["a" * length + str(number) for length in range(LIMITS.max_patterns - 1)]
    return [text if length % 3 else f"{text}*" if length % 2 else f"*{text}" for length, text in enumerate(each)]


def modes(number: int) -> dict[str, Any]:
    return {"receive_mode": "no_echo", "types": [*plain(number), *wildcards(number)]}


def rules(number: int) -> dict[str, Any]:
    marks = itertools.cycle(["@", "#", ""])
    tests = (f"{next(marks)}{'a' * (length // 3)}{number}*" for length in range(LIMITS.max_patterns))
    return {"subscriptions": list(tests)}


@contextlib.contextmanager
def members(server: RunningServer, subscription: Any) -> Iterator[None]:
    """Members that share a routing id."""
    with contextlib.ExitStack() as stack:
        for number in range(MEMBERS):
            member = stack.enter_context(ObjectsClient(port=server.port("objects"), timeout=60))
            member.subscribe(**subscription(number), routing_ids=[SHARED])
        yield


def send_fresh_types(sender: ObjectsClient, to: dict[str, Any], numbers: Iterator[int]) -> None:
    """Objects of ever new types, of as many letters as count, each of which the patterns have to look at."""
    natures = [f"{'a' * number}c" for number in range(MAX_NATURES)]
    begin = time.monotonic()
    for sent in range(int(SECONDS * TYPES_A_SECOND)):
        about = {"type": f"{'a' * 240}{next(numbers)}", "id": "1", "natures": natures, **to}
        time.sleep(max(0.0, begin + sent / TYPES_A_SECOND - time.monotonic()))
        sender.send(about)


@pytest.mark.parametrize("subscription", further([modes, rules]))
@pytest.mark.parametrize("to", further([{}, {"to": SHARED}]), ids=["to all", "addressed"])
def test_nobody_waits_for_patterns_of_others(tmp_path: Path, subscription: Any, to: dict[str, Any]) -> None:
    with (
        ForkedServer(tmp_path / "journal", ["--announce", "off"]) as server,
        members(server, subscription),
        Bystanders(server) as bystanders,
        ObjectsClient(port=server.port("objects"), timeout=60) as sender,
    ):
        sender.subscribe(receive_mode="no_echo", types="none")
        numbers = itertools.count()

        def attack() -> None:
            send_fresh_types(sender, to, numbers)
            sender.send({"event": "ping", "id": "end"})
            sender.wait_for(lambda each: each.metadata.get("in-reply-to") == "end", timeout=60)

        bystanders.expect_no_wait(attack, bystanders.watch(0.5), MOST_LOOKS)
