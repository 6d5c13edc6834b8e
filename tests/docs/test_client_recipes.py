"""The programs of the page of recipes, as written except for ports and pauses."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from bussrv.client.aio import Backoff, Bus, Lost, Message, NoService, Request, Up, connect
from bussrv.testing.server import RunningServer
from tests.client.shells import PATIENCE, run
from tests.docs.pages import blocks
from tests.end_to_end.cables import Bench, Cable
from tests.forked import ForkedServer
from tests.restarted import RestartedServer

pytestmark = pytest.mark.processes

SENSOR, PRICES, SHOP, PRIMES, GATEWAY, MQTT, WEB, FIXTURES = blocks("docs/how-to/client-recipes.md", "python")
QUICK = Backoff(0.01, 0.1)
MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with ForkedServer("off") as running:
        yield running


def url(port: int) -> str:
    return f"bus://127.0.0.1:{port}"


@contextmanager
def running(program: str, *ports: tuple[str, int]) -> Iterator[subprocess.Popen[str]]:
    """A program of the page, with the ports of this machine."""
    for written, port in ports:
        assert written in program
        program = program.replace(written, f"127.0.0.1:{port}")
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def answered(bus: Bus, service: str, payload: bytes) -> bytes:
    """What a service answers, as soon as it is there."""
    while True:
        with suppress(NoService, Lost):
            return (await bus.request(service, payload, timeout=PATIENCE)).payload
        await asyncio.sleep(0.01)


def test_the_sensor(tmp_path: Path) -> None:
    """Readings that it took while the server was dead come when it lives again.

    It gets through to the server only when the one who hears it is there again."""

    async def reading(events: Any) -> float:
        while not isinstance(event := (await events.take(1))[0], Message):
            pass
        assert 20 <= float(event.payload) <= 21
        return float(event.metadata["taken"])

    async def is_up(states: Any) -> None:
        while not isinstance((await states.take(1))[0], Up):
            pass

    async def work(sensor: subprocess.Popen[str]) -> None:
        async with (
            connect(url(server.port("objects")), offline="wait", reconnect=QUICK) as bus,
            bus.subscribe("cellar/temperature") as events,
            bus.states() as states,
        ):
            await is_up(states)
            await reading(events)
            cable.unplug()
            cut = time.time()
            server.kill()
            # Of the readings that it takes after these, one at most was sent where nobody hears it.
            await asyncio.to_thread(take_readings, sensor, 4)
            server.start()
            await is_up(states)
            restarted = time.time()
            cable.plug(server.addresses["objects"])
            while (taken := await reading(events)) < cut:
                pass
            assert taken < restarted

    def take_readings(sensor: subprocess.Popen[str], number: int) -> None:
        """Wait until it has taken those that it has taken by now, and some more, one after the other."""
        assert sensor.stderr is not None
        for _ in range(number):
            os.read(sensor.stderr.fileno(), 1 << 16)

    program = SENSOR.replace("sleep(1)", "sleep(0.02)").replace("20 + random", "20 + bool(os.write(2, b'.')) * random")
    with RestartedServer(tmp_path / "journal", "objects") as server, Bench() as bench, closing(Cable(bench)) as cable:
        cable.plug(server.addresses["objects"])
        with running(f"import os\n{program}", ("127.0.0.1:7890", cable.port)) as sensor:
            run(work(sensor))


def test_a_service_and_a_client_with_50_requests(tmp_path: Path) -> None:
    """All 50 are handled at the same time. The client may also begin while the server is dead."""
    assert max(len(PRICES.splitlines()), len(SHOP.splitlines())) < 40
    together = """
waiting = []

async def together():
    waiting.append(asyncio.get_running_loop().create_future())
    if len(waiting) == 50:
        for each in waiting:
            each.set_result(None)
        waiting.clear()
    else:
        await waiting[-1]
"""
    program = together + PRICES.replace("asyncio.sleep(0.2)", "together()")

    def ask(port: int) -> subprocess.Popen[str]:
        written = SHOP.replace("127.0.0.1:7890", f"127.0.0.1:{port}")
        return subprocess.Popen([sys.executable, "-c", written], stdout=subprocess.PIPE, text=True)

    with RestartedServer(tmp_path / "journal", "objects") as server:
        port = server.port("objects")
        with running("import asyncio\n" + program, ("127.0.0.1:7890", port)):
            for is_dead in (False, True):
                if is_dead:
                    server.kill()
                with ask(port) as client:
                    if is_dead:
                        server.start()
                    assert client.communicate(timeout=PATIENCE)[0] == f"{['2.40', '2.90'] * 25}\n"


def test_a_service_with_four_workers(server: RunningServer, tmp_path: Path) -> None:
    async def work(service: subprocess.Popen[str]) -> None:
        async with connect(url(server.port("objects"))) as bus:
            workers: set[bytes] = set()
            while len(workers) < 4:
                found = await asyncio.gather(*(answered(bus, "primes", b"10000") for _ in range(4)))
                assert all(each.startswith(b"1229 primes, ") for each in found)
                workers |= {each.rpartition(b" ")[2] for each in found}
            # An answer to the second says that the service has the first, too.
            slow, quick = (asyncio.create_task(answered(bus, "primes", each)) for each in (b"200000", b"10"))
            assert (await quick).startswith(b"4 primes, ")
            assert not slow.done()
            service.send_signal(signal.SIGTERM)
            assert (await slow).startswith(b"17984 primes, ")

    program = tmp_path / "primes.py"
    program.write_text(PRIMES.replace("127.0.0.1:7890", f"127.0.0.1:{server.port('objects')}"))
    with subprocess.Popen([sys.executable, str(program)]) as service:
        try:
            run(work(service))
            assert service.wait(PATIENCE) == 0
        finally:
            service.kill()


def test_a_gateway(server: RunningServer) -> None:
    async def work(target: RunningServer) -> None:
        async with (
            connect(url(server.port("objects"))) as bus,
            connect(url(target.port("objects"))) as other,
            other.subscribe("door") as events,
        ):
            await bus.publish("door", b"open", confirm=True)
            (event,) = await events.take(1)
            assert isinstance(event, Message)
            assert (event.service, event.payload, event.type) == ("door", b"open", "text/plain")

    with ForkedServer("off") as target:
        ports = (("127.0.0.1:3002", server.port("spp")), ("192.168.7.1:7891", target.port("business")))
        with running(GATEWAY, *ports):
            run(work(target))


@contextmanager
def mosquitto(directory: Path) -> Iterator[int]:
    assert MOSQUITTO is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    (directory / "mosquitto.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    command = [MOSQUITTO, "-c", str(directory / "mosquitto.conf")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as broker:
        assert broker.stderr is not None
        try:
            assert any(line.rstrip().endswith("running") for line in broker.stderr)
            yield port
        finally:
            broker.kill()


@pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed (Debian: apt install mosquitto)")
def test_a_bridge_to_mqtt(server: RunningServer, tmp_path: Path) -> None:
    """A message crosses both ways as soon as both subscriptions are there, of which nobody tells the test."""
    import aiomqtt

    async def work(port: int) -> None:
        async with (
            connect(url(server.port("objects"))) as bus,
            aiomqtt.Client("127.0.0.1", port) as broker,
            bus.subscribe("sensors/cellar") as events,
        ):
            await broker.subscribe("hall/lamp")
            while not (found := await events.take(1, timeout=0.1)):
                await broker.publish("sensors/cellar", b"21.5", qos=1)
            assert isinstance(found[0], Message)
            assert found[0].payload == b"21.5"
            switching = asyncio.create_task(switch(bus))
            message = await asyncio.wait_for(anext(broker.messages), PATIENCE)
            switching.cancel()
            assert (message.topic.value, message.payload) == ("hall/lamp", b"on")
            await asyncio.wait([switching])

    async def switch(bus: Bus) -> None:
        while True:
            await bus.publish("lamp", b"on")
            await asyncio.sleep(0.05)

    with mosquitto(tmp_path) as port:
        broker = f'"127.0.0.1", {port}'
        program = MQTT.replace('"127.0.0.1", 1883', broker).replace("sleep(5)", "sleep(0.1)")
        assert broker in program
        with running(program, ("127.0.0.1:7890", server.port("objects"))):
            run(work(port))


def test_a_web_application(server: RunningServer) -> None:
    names: dict[str, Any] = {}
    # Only what is never answered may take less time than the page says.
    program = WEB.replace("timeout=2", f"timeout=0.2 if product == 'gold' else {PATIENCE}")
    exec(program.replace("127.0.0.1:7890", f"127.0.0.1:{server.port('objects')}"), names)
    app = names["app"]

    async def price(request: Request) -> str:
        if request.payload == b"gold":
            await asyncio.sleep(PATIENCE)
        return "2.40"

    async def work() -> None:
        async with (
            connect(url(server.port("objects"))) as bus,
            bus.subscribe("lamp") as events,
            app.router.lifespan_context(app) as state,
        ):
            transport = httpx.ASGITransport(with_state(app, state))
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as browser:
                assert (await browser.put("/lamp/on")).status_code == 204
                assert [each.payload for each in await events.take(1)] == [b"on"]
                missing = await browser.get("/prices/tea")
                assert (missing.status_code, missing.json()["reason"]) == (503, "no-such-service")
                async with bus.serve("price", price):
                    found = await browser.get("/prices/tea")
                    assert found.json() == {"product": "tea", "price": "2.40"}
                    assert (await browser.get("/prices/gold")).status_code == 504
                    await bus.close()

    run(work())


def with_state(app: Any, state: dict[str, Any]) -> Any:
    """The application as servers call it: with the state of its lifespan."""

    async def called(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await app({**scope, "state": dict(state)}, receive, send)

    return called


def test_the_fixtures(tmp_path: Path) -> None:
    (tmp_path / "test_lamp.py").write_text(FIXTURES)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr
