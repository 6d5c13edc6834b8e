"""The snippets of the page on clients, as written except for port numbers, and its table of defaults."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bussrv.client.aio import Appeared, Backoff, Buffer, Bus, BusError, Request, Restored, ServiceError, connect
from bussrv.policy.logins.users import SecretHash
from bussrv.testing.server import RunningServer
from tests.client.shells import run
from tests.docs.pages import blocks, rows
from tests.end_to_end.cables import Bench, Cable
from tests.forked import ForkedServer
from tests.net.tls.tls_clients import Place

pytestmark = pytest.mark.processes

PAGE = "docs/how-to/clients.md"
FIRST, SECURE, PUBLISH, LISTEN, COUNT, ASK, SERVE, REPORT, CHAT, DEVICES, BLOCKING, TOGETHER, TWISTED, UVLOOP = blocks(
    PAGE, "python"
)


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with ForkedServer("off") as running:
        yield running


def url(server: RunningServer) -> str:
    return f"bus://127.0.0.1:{server.port('objects')}"


def as_run_here(snippet: str, server: RunningServer) -> str:
    for name, port in (("objects", 7890), ("spp", 3002), ("inbus", 7222)):
        snippet = snippet.replace(f"127.0.0.1:{port}", f"127.0.0.1:{server.port(name)}")
    return snippet


def output(snippet: str, server: RunningServer) -> str:
    program = [sys.executable, "-c", as_run_here(snippet, server)]
    ran = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stderr == ""
    return ran.stdout


def function(snippet: str) -> Callable[[Bus], Any]:
    """The only coroutine of a snippet."""
    names: dict[str, Any] = {}
    exec(snippet, names)
    (found,) = (each for each in names.values() if inspect.iscoroutinefunction(each))
    return found  # type: ignore[no-any-return]


async def begun(work: Callable[[Bus], Any], bus: Bus) -> asyncio.Task[Any]:
    """Do something, up to where it waits for others. The server answers in order, so it knows of it."""
    task = asyncio.create_task(work(bus))
    await asyncio.sleep(0)
    await bus.flush()
    return task


def test_first(server: RunningServer) -> None:
    assert len([line for line in FIRST.splitlines() if line]) == 10
    assert output(FIRST, server) == "greeting b'hello'\n"


def test_secure(tmp_path: Path) -> None:
    place = Place(tmp_path)
    # A hash that is checked quickly.
    (tmp_path / "users").write_text(f"ann:{SecretHash(b'salt', bytes(32), 2, 8, 1).made_of(b'a secret of ann')}\n")
    with ForkedServer("off", ["--objects", place.port, f"--auth=users:{tmp_path / 'users'}"]) as running:
        here = SECURE.replace("hall.example:7890", f"localhost:{running.port('objects')}")
        here = here.replace("ca.pem", str(place.authority.file))
        assert re.fullmatch(r"connected as \w{24}\n", output(here, running))


def test_publishing(server: RunningServer, capsys: pytest.CaptureFixture[str]) -> None:
    async def work() -> None:
        async with connect(url(server)) as bus, bus.subscribe("tv", "counter", "door", queue=2000) as events:
            await function(PUBLISH)(bus)
            tv, *counted, door = await events.take(2000)
            assert (tv.type, tv.metadata["subject"]) == ("text/plain", "news")
            assert [each.payload for each in counted] == [b"%d" % number for number in range(1000)]
            assert door.payload == b"open"

    run(work())
    assert capsys.readouterr().out == ""


def test_listening_and_states(server: RunningServer, capsys: pytest.CaptureFixture[str]) -> None:
    async def work(cable: Cable) -> None:
        quick = Backoff(0.01, 0.01)
        async with (
            connect(url(server)) as other,
            connect(f"bus://127.0.0.1:{cable.port}", offline="wait", reconnect=quick) as bus,
        ):
            listening, reporting = await begun(function(LISTEN), bus), await begun(function(REPORT), bus)
            await other.publish("tv", b"channel 5", type="text/plain", confirm=True)
            await bus.flush()
            async with bus.states() as states:
                cable.unplug()
                cable.plug(server.addresses["objects"])
                while not isinstance((await states.take(1))[0], Restored):
                    pass
            await bus.publish("bus/mine", b"x")
            await bus.flush()
            await other.publish("door", b"closed", confirm=True)
            await listening
        await reporting

    with Bench() as bench, contextlib.closing(Cable(bench)) as cable:
        cable.plug(server.addresses["objects"])
        run(work(cable))
    said = capsys.readouterr().out
    for line in (
        "tv text/plain b'channel 5'",
        "missed some messages: connection-lost",
        "door application/octet-stream b'closed'",
        r"connected to 127\.0\.0\.1:\d+",
        r"the connection broke: .* \(connection-lost\), 0 unconfirmed, next attempt in 0\.0\d+ s",
        "again: tv door",
        r"refused: names that begin with bus/.* \(reserved-name\)",
        r"the client is closed \(closed\), \d unconfirmed, next attempt in None s",
    ):
        assert re.search(f"(?m)^{line}$", said), (line, said)


def test_counting(server: RunningServer, capsys: pytest.CaptureFixture[str]) -> None:
    async def work() -> None:
        async with connect(url(server)) as bus:
            counting = await begun(function(COUNT.replace("timeout=5", "timeout=0.5")), bus)
            await bus.publish("counter", b"7")
            await counting

    run(work())
    assert re.fullmatch(r"1 events, the last one is Message\(.*b'7'.*\)\n", capsys.readouterr().out)


def test_asking(server: RunningServer) -> None:
    """A clock that answers, then refuses, then is slow; then one whose client is closed while it is asked."""
    ask = function(ASK)
    asked = 0

    async def clock(request: Request) -> str:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise ServiceError("no-such-place", "where is that?")
        if asked >= 3:
            await asyncio.Event().wait()
        return f"12:00 in {request.payload.decode()}"

    async def work() -> None:
        async with connect(url(server)) as bus, connect(url(server)) as other:
            assert await ask(bus) == "nobody provides the clock"
            async with other.serve("clock", clock):
                assert await ask(bus) == "12:00 in Berlin"
                assert await ask(bus) == "the clock answered: where is that? (no-such-place)"
                impatient = function(ASK.replace("timeout=5", "timeout=0.1"))
                assert await impatient(bus) == "no answer yet: it may have been done, or be done later"
                asked_again = await begun(ask, bus)
                await bus.close()
                assert await asked_again == "perhaps"
                await other.close()

    run(work())


def test_serving(server: RunningServer) -> None:
    async def work() -> None:
        async with (
            connect(url(server)) as bus,
            connect(f"spp://127.0.0.1:{server.port('spp')}") as screen,
            screen.watch() as changes,
        ):
            while Appeared("service", "fahrenheit") not in await changes.take():
                pass
            assert (await bus.request("fahrenheit", b"21.5")).payload == b"70.7"
            with pytest.raises(BusError, match="send a temperature") as failed:
                await bus.request("fahrenheit", b"warm")
            assert failed.value.reason == "no-number"

    program = [sys.executable, "-c", as_run_here(SERVE, server)]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as serving:
        run(work())
        serving.send_signal(signal.SIGINT)
        assert serving.stderr is not None
        assert serving.stderr.read().splitlines()[-1:] == ["KeyboardInterrupt"]


def test_chatting(server: RunningServer, capsys: pytest.CaptureFixture[str]) -> None:
    async def work() -> None:
        async with connect(url(server)) as bus:
            await function(CHAT)(bus)

    run(work())
    said, change = capsys.readouterr().out.splitlines()
    assert said == "chat/said ann"
    assert re.fullmatch(r"Appeared\(kind='session', name='\w{24}'\)", change)


def test_devices(server: RunningServer) -> None:
    assert output(DEVICES, server) == "thermometer b'21.5 C'\n"


def test_blocking(server: RunningServer) -> None:
    assert output(BLOCKING, server) == "b'hello'\ntv b'channel 5'\n"


def test_many_calls_of_the_client_that_blocks(server: RunningServer) -> None:
    assert output(TOGETHER, server) == ""


def test_other_loops(server: RunningServer) -> None:
    async def echo(request: Request) -> bytes:
        return request.payload

    async def work() -> None:
        async with connect(url(server)) as bus, bus.serve("echo", echo):
            assert await asyncio.to_thread(output, TWISTED, server) == "b'from Twisted'\n"
            assert await asyncio.to_thread(output, UVLOOP, server) == "done\n"

    run(work())


def test_the_defaults_of_the_page() -> None:
    functions = {"connect": connect, "Backoff": Backoff, "Buffer": Buffer}
    table = [row for row in rows(PAGE) if len(row) == 4 and row[2].strip("`") in {*functions, *dir(Bus)}]
    assert len(table) == 13
    for name, default, of, _ in table:
        called = functions.get(of.strip("`")) or getattr(Bus, of.strip("`"))
        wanted = inspect.signature(called).parameters[name.strip("`")].default
        assert float(default.replace(",", "")) == wanted, (name, of)
