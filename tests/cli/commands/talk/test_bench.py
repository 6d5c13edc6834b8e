"""``bussrv bench`` measures a server of its own."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import run


@pytest.mark.processes
@pytest.mark.long
def test_everything_is_measured() -> None:
    status, said, complained = run("bench", "--seconds", "0.1", "--subscribers", "2", "--rate", "50", "--json")
    assert (status, complained) == (0, "")
    found = [json.loads(line) for line in said.splitlines()]
    assert [each["measured"] for each in found] == [
        "1 to 2, 100 bytes",
        "delivery at 50/s",
        "requests, one at a time",
        "durable registrations",
    ]
    assert all(each.get("per_second", 1) > 0 and each.get("p50", 0) <= each.get("p99", 1) for each in found)
