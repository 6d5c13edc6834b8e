"""The page on taps: its requests are made, and answered as it says; the journal has what it says."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from bussrv.admin.tap import PARAMETERS, TappedView
from bussrv.client import inbus
from tests.admin.test_tap import Stream
from tests.docs.commands import examples, says
from tests.docs.devices import wait_until_subscribed
from tests.docs.pages import blocks, rows
from tests.docs.test_how_to import run
from tests.forked import ForkedServer

NAME = "docs/how-to/tap.md"
URL = "http://127.0.0.1:7280/api/v1/tap"


def without_names(shown: dict[str, Any]) -> dict[str, Any]:
    """Without what is another text each time."""
    shown = json.loads(json.dumps(shown))
    del shown["time"], shown["from"]["session"], shown["from"]["routing_id"], shown["metadata"]["route"][0]
    return shown


@pytest.mark.processes
def test_what_the_page_asks_for_is_answered_as_it_says(tmp_path: Path) -> None:
    (requests,), (answer,) = blocks(NAME, "sh"), blocks(NAME, "json")
    queries = [shlex.split(line)[-1].removeprefix(URL) for line in requests.splitlines()]
    assert len(queries) == 5
    with ForkedServer(tmp_path / "bussrv-journal", ["--server-id", "hall"]) as server:
        udp = server.addresses["inbus"]
        with inbus.InbusSubscriber("doorbell", server=udp) as one, inbus.InbusSubscriber("doorbell", server=udp) as two:
            wait_until_subscribed("doorbell", udp, one, two)
            with Stream(server, queries[2]) as stream:
                inbus.publish("doorbell", b"ring", server=udp)
                (shown,) = stream.some(1)
        assert without_names(shown) == without_names(json.loads(answer))
        assert server.stop() == 0
    ((command, wanted),) = examples(NAME)
    said = run(f"bussrv {command}", tmp_path)
    assert says(said, wanted), said
    with ForkedServer(tmp_path / "other") as server:
        for query in queries[:2] + queries[3:]:
            with Stream(server, query) as stream:
                assert stream.answer.status == 200


def test_the_tables_have_every_parameter_and_field() -> None:
    first = [each[0] for each in rows(NAME)]
    assert first[1 : 1 + len(PARAMETERS)] == [f"`{each.name}`" for each in PARAMETERS]
    fields = {name for each in first for name in re.findall(r"`(\w+)`", each)}
    assert fields >= {"from", *TappedView.__struct_fields__} - {"source"}
