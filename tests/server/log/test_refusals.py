"""Refusals in the log: one line a minute for each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent

from bussrv import events as ev
from bussrv.client.spp import SppClient
from bussrv.policy.logins.users import user_line
from bussrv.server.log import refusals as logrefusals
from bussrv.server.log.refusals import PERIOD, Refusals
from tests.forked import ForkedServer

HOSTS = ("10.0.0.7", "2001:db8::1", "unix")


def failed(host: str = "10.0.0.7", port: int = 1, **fields: Any) -> ev.Event:
    peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return ev.AuthFailed(peer=peer, reason="bad-credentials", **fields)


def test_a_line_a_minute_for_each_kind() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    about = {"peer": "10.0.0.8:1"}
    with capturedLogs() as logged:
        for port in range(845):
            refusals.add(failed(port=port), 1)
        clock.advance(PERIOD / 2)
        refusals.add(failed("2001:db8::1"), 2)
        refusals.add(ev.AccessDenied(action="watch", target="a", rule="1", reason="not-allowed", **about), 3)
        refusals.add(ev.LimitReached(limit="max-outbound", value=1, reason="slow-consumer", **about), 1)
        refusals.add(ev.LimitReached(limit="max-sessions", value=1, reason="too-many-sessions", **about), 1)
        refusals.add(ev.ServiceRefused(service="a", reason="name-taken", **about), 1)
        clock.advance(PERIOD)
        clock.advance(PERIOD)
    worst = "addresses: 1; most came from 10.0.0.8:"
    slow = "clients disconnected because they read too slowly"
    assert [(each["event"], formatEvent(each)) for each in logged] == [
        ("auth.failures", "failed logins within 60 s: 847; addresses: 2; most came from 10.0.0.7: 845"),
        ("access.denials", f"actions that the policy denied within 60 s: 3; {worst} 3"),
        ("session.slow-consumers", f"{slow} within 60 s: 1; {worst} 1"),
        ("limit.refusals", f"refusals because of --max-sessions within 60 s: 1; {worst} 1"),
        ("registry.refusals", f"services and subscriptions refused within 60 s: 1; {worst} 1"),
    ]
    assert not clock.getDelayedCalls()


@given(st.lists(st.tuples(st.sampled_from(HOSTS), st.integers(1, 50), st.floats(0, PERIOD)), min_size=1))
def test_nothing_is_lost_or_counted_twice(happened: list[tuple[str, int, float]]) -> None:
    clock = Clock()
    refusals = Refusals(clock)
    with capturedLogs() as logged:
        for host, times, later in happened:
            refusals.add(failed(host), times)
            clock.advance(later)
        refusals.stop()
    assert sum(each["number"] for each in logged) == sum(times for _, times, _ in happened)
    assert not clock.getDelayedCalls()
    assert len(logged) <= 1 + sum(later for *_, later in happened) / PERIOD


def test_addresses_without_end_take_no_memory_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logrefusals, "MOST_ADDRESSES", 3)
    refusals = Refusals(Clock())
    with capturedLogs() as logged:
        for number in range(9):
            refusals.add(failed(f"10.0.0.{number}"), 1)
        refusals.stop()
    (line,) = map(formatEvent, logged)
    assert line == "failed logins within 60 s: 9; addresses: 3 or more; most came from 10.0.0.0: 1"


@pytest.mark.processes
@pytest.mark.usefixtures("cheap_secrets")
def test_failed_logins_at_a_server(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text(user_line("ann", b"secret") + "\n")
    users.chmod(0o600)
    with ForkedServer(tmp_path / "journal", ["--auth", f"users:{users}"]) as server:
        for _ in range(2):
            with SppClient(*server.addresses["spp"]) as client, pytest.raises(PermissionError):
                client.authenticate("ann", "wrong")
        assert server.stop() == 0
        (line,) = [each for each in server.lines if "failed logins" in each]
    assert line.endswith("failed logins within 60 s: 2; addresses: 1; most came from 127.0.0.1: 2")
