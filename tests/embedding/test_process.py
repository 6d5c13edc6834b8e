"""The process of a program with servers inside: on a real reactor, with real ports and journals."""

from __future__ import annotations

import faulthandler
import gc
import os
import resource
import signal
import socket
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import globalLogPublisher

from bussrv import events as ev
from bussrv.embedding.service import EmbeddedServer, make_service
from bussrv.errors import ConfigError
from bussrv.journal.reading import read_journal
from bussrv.policy.logins.credentials import Password
from tests.size import sized

ANY = "tcp:0:interface=127.0.0.1"
USERS = "ann:scrypt:16384:8:1:c2FsdHNhbHRzYWx0c2FsdA:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"


def everything(directory: Path) -> dict[str, Any]:
    """Settings of a server that uses all that a server may use."""
    stream = dict.fromkeys(("admin", "business", "mqtt", "objects", "servers", "spp", "websocket"), ANY)
    return {**stream, "inbus": "udp:0:interface=127.0.0.1", "journal": directory / "journal"}


def process() -> dict[str, Any]:
    """All of the process that a server could change, or leave something in."""
    umask = os.umask(0)
    os.umask(umask)
    return {
        "calls": [str(each) for each in reactor.getDelayedCalls()],
        "triggers": [len(each.before + each.during + each.after) for each in reactor._eventTriggers.values()],
        "readers": len(reactor.getReaders()) + len(reactor.getWriters()),
        "seconds": reactor.seconds,
        "threads": {each.name for each in threading.enumerate()},
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "observers": list(globalLogPublisher._observers),
        "signals": {each: signal.getsignal(each) for each in signal.valid_signals()},
        "collector": (gc.get_threshold(), gc.isenabled()),
        "limits": [resource.getrlimit(each) for each in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)],
        "umask": umask,
        "environment": dict(os.environ),
        "hooks": (sys.excepthook, threading.excepthook, sys.unraisablehook, faulthandler.is_enabled()),
        "warnings": list(warnings.filters),
        "directory": Path.cwd(),
    }


async def settled() -> None:
    """Threads of servers have ended: those that still read earlier incidents, and the spool of a start that failed.

    The garbage of earlier tests is collected now, and not while something is tried."""
    while any("bussrv-" in each.name for each in threading.enumerate()):
        await deferLater(reactor, 0.001)
    # What they told the reactor last takes a few turns.
    for _ in range(3):
        await deferLater(reactor, 0.0)
    gc.collect()


async def run_once(server: EmbeddedServer) -> None:
    server.startService()
    await server.when_ready()
    client, observer = await server.client(), await server.client()
    events = await observer.subscribe("tv")
    await client.publish("tv", b"on", confirm=True)
    await deferLater(reactor, 0.0)
    # Threads of the spool, and of those that check secrets.
    await server._server.bus.spool.owners()
    await server._server.bus.identity.log_in(Password("ann", b"wrong"), "10.0.0.1:4711")
    await server.stopService()
    assert [each.payload for each in events.take() if hasattr(each, "payload")] == [b"on"]


@pytest_twisted.ensureDeferred
async def test_many_starts_and_stops_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(gc, "freeze")
    settings = everything(tmp_path)
    await run_once(make_service(settings, reactor))  # What is imported with the first server stays.
    await settled()
    before = process()
    for _ in range(sized(100)):
        await run_once(make_service(settings, reactor))
    await settled()
    assert process() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        f"journal{each}" for each in ("", ".admin-token", ".history", ".spool")
    ]


@pytest_twisted.ensureDeferred
async def test_two_servers_cannot_have_one_journal(tmp_path: Path) -> None:
    first = make_service(everything(tmp_path), reactor)
    first.startService()
    await first.when_ready()
    second = make_service(everything(tmp_path), reactor)
    with pytest.raises(ConfigError) as refused:
        second.startService()
    (sentence,) = refused.value.sentences
    assert sentence.startswith("settings: journal: ")
    assert "another" in sentence
    await second.stopService()
    client = await first.client()
    await client.publish("tv", b"on", confirm=True)
    await first.stopService()
    assert isinstance(list(read_journal(tmp_path / "journal"))[-1].event, ev.ServerStopped)


@pytest_twisted.ensureDeferred
async def test_a_start_that_fails_leaves_nothing(tmp_path: Path) -> None:
    await run_once(make_service(everything(tmp_path), reactor))  # What is opened with the first server stays.
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = f"tcp:{taken.getsockname()[1]}:interface=127.0.0.1"
        await settled()
        before = process()
        for faulty in ({"spp": busy}, {"admin": busy}, {"policy": tmp_path / "none"}, {"auth": ["users:none"]}):
            with pytest.raises(ConfigError):
                make_service({**everything(tmp_path), **faulty}, reactor).startService()
            await settled()
            assert process() == before, faulty


@pytest_twisted.ensureDeferred
async def test_a_stop_during_the_start_is_orderly(tmp_path: Path) -> None:
    await run_once(make_service(everything(tmp_path), reactor))
    await settled()
    before = process()
    server = make_service(everything(tmp_path), reactor)
    server.startService()
    ready = server.when_ready()
    joining = server.client()
    await server.stopService()
    for early in (ready, joining):
        early.addErrback(lambda _: None)
        assert early.called
    await settled()
    assert process() == before
    assert isinstance(list(read_journal(tmp_path / "journal"))[-1].event, ev.ServerStopped)


def test_reading_makes_no_process(tmp_path: Path) -> None:
    """A service that is made, and never started, has done nothing."""
    before = process()
    server = make_service(everything(tmp_path), reactor)
    assert isinstance(server.stopService(), Deferred)
    assert process() == before
    assert list(tmp_path.iterdir()) == []
