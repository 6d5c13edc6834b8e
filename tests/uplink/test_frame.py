"""What all engines of uplinks use: log, figures, retries, and the end."""

from __future__ import annotations

import asyncio
import io
import json
import re
from urllib.request import urlopen

import pytest

from bussrv.client.settings import Backoff
from bussrv.counts.throttle import LOG_BURST
from bussrv.uplink import retry
from bussrv.uplink.figures import Figures
from bussrv.uplink.lines import Lines, RareLines
from bussrv.uplink.retry import Retry
from bussrv.uplink.stopping import or_stopped, run_jobs


def test_lines_have_the_forms_of_the_log() -> None:
    out = io.StringIO()
    Lines(out=out).warn("uplink: {whom} is lost:\n{why}", event="uplink.lost", whom="{hall}", why="\x1b[31m")
    Lines(as_json=True, out=out).info("ready", event="uplink.ready")
    text, line = out.getvalue().splitlines()
    assert re.fullmatch(r"\S+T\S+\+0000 \[bussrv\.uplink#warn\] uplink: \{hall\} is lost:.*", text)
    assert "\x1b" not in text
    found = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", found.pop("time"))
    assert found == {"level": "info", "event": "uplink.ready", "part": "uplink", "message": "ready"}


def test_lines_that_others_cause_are_rare() -> None:
    out, now = io.StringIO(), 0.0
    rare = RareLines(Lines(out=out), lambda: now)
    for number in range(100):
        rare.warn("number {number}", event="uplink.out-lost", number=number)
    rare.warn("another", event="uplink.out-refused")
    now = 10.0
    rare.warn("number {number}", event="uplink.out-lost", number=100)
    *first, other, last = [line.partition("] ")[2] for line in out.getvalue().splitlines()]
    assert first == [f"number {number}" for number in range(LOG_BURST)]
    assert (other, last) == ("another", f"number 100 ({100 - LOG_BURST} such lines were left out before)")


def test_figures_are_served() -> None:
    figures = Figures()
    figures.counter("sent", "Sent").inc(3)
    figures.gauge("behind", "Behind").set(2)
    with figures.served("127.0.0.1", 0) as port, urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        said = answer.read().decode()
    assert "bussrv_uplink_sent_total 3.0" in said
    assert "bussrv_uplink_behind 2.0" in said
    assert (figures.value("sent"), figures.summary()) == (3, "sent 3")


def test_a_failure_is_logged_once_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    out, figures = io.StringIO(), Figures()
    failures = figures.counter("failures", "Failures")
    monkeypatch.setattr(retry, "SLOW_SECONDS", 0.01)

    async def away() -> None:
        raise ConnectionError("no route")

    async def work() -> None:
        found = Retry(Lines(out=out), "Kafka", failures, asyncio.Event(), Backoff(0.001, 0.002))
        found.worked()
        for _ in range(3):
            await found.failed("no route")
        found.worked()
        assert await found.watch(asyncio.sleep(0.1, 7), away) == 7
        assert await found.watch(asyncio.sleep(0, 8), away) == 8

    asyncio.run(work())
    said = [line.partition("] uplink: ")[2] for line in out.getvalue().splitlines()]
    count = figures.value("failures") - 3
    assert count > 1
    lost = "Kafka is lost, and tried again after pauses: no route"
    assert said == [lost, "Kafka is back after 3 attempts", lost, f"Kafka is back after {count} attempts"]


def test_a_pause_ends_when_the_program_stops() -> None:
    async def work() -> None:
        stop = asyncio.Event()
        failures = Figures().counter("failures", "Failures")
        asyncio.get_running_loop().call_soon(stop.set)
        await Retry(Lines(out=io.StringIO()), "Kafka", failures, stop, Backoff(30.0, 30.0)).failed("no route")
        assert await or_stopped(asyncio.sleep(30), stop) is None
        assert await or_stopped(asyncio.sleep(0, 7), asyncio.Event()) == 7

    asyncio.run(asyncio.wait_for(work(), 10))


def test_parts_end_together_and_in_time() -> None:
    ended: list[str] = []

    async def work() -> None:
        stop = asyncio.Event()

        async def polite() -> None:
            await stop.wait()
            ended.append("polite")

        async def deaf() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                ended.append("deaf")

        async def broken() -> None:
            raise ValueError("broken")

        asyncio.get_running_loop().call_soon(stop.set)
        await run_jobs([polite, deaf], stop, 0.05)
        stop.clear()
        await run_jobs([polite, broken], stop)

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(asyncio.wait_for(work(), 10))
    assert ended == ["polite", "deaf", "polite"]
