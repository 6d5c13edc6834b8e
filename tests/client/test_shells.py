"""The client for asyncio and the one that blocks, over every wire format, at a real server."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from math import inf
from pathlib import Path
from typing import Any

import pytest

from bussrv.client import aio, blocking, errors, events
from bussrv.client.aio import (
    Appeared,
    BadLogin,
    Buffer,
    BufferFull,
    BusError,
    Closed,
    Down,
    Gap,
    Gone,
    Lost,
    Message,
    NoService,
    Offline,
    Overflowed,
    ServiceError,
    TimedOut,
    Tls,
    Unsupported,
    Up,
)
from bussrv.client.core import inbus
from bussrv.client.events import Restored
from bussrv.client.settings import Backoff
from bussrv.client.shell import driver
from bussrv.policy.logins.users import SecretHash
from bussrv.testing.server import RunningServer
from tests.client.shells import PATIENCE, SHELLS, core_of, handler, run
from tests.end_to_end.cables import Bench, Cable
from tests.forked import ForkedServer
from tests.net.tls.tls_clients import Place
from tests.tables import each_row

pytestmark = pytest.mark.processes

SCHEMES = {"objects": "bus", "business": "business", "websocket": "ws", "spp": "spp", "inbus": "inbus"}
MEMBERS = ("objects", "business", "websocket")
QUICK = Backoff(0.01, 0.1)

Connect = Callable[..., Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with ForkedServer(tmp_path_factory.mktemp("server") / "journal", ["--websocket", "0"]) as running:
        yield running


@pytest.fixture(params=SHELLS)
def connect(request: pytest.FixtureRequest) -> Connect:
    return SHELLS[request.param]


def url(server: RunningServer, name: str) -> str:
    return f"{SCHEMES[name]}://127.0.0.1:{server.port(name)}"


async def received(events: Any, number: int) -> list[Any]:
    """The next events."""
    found: list[Any] = []
    while len(found) < number:
        taken = await events.take(number - len(found), timeout=PATIENCE)
        assert taken, found
        found += taken
    return found


@pytest.mark.parametrize("publisher", [*MEMBERS, "inbus"])
@pytest.mark.parametrize("subscriber", [*MEMBERS, "spp", "inbus"])
def test_a_publication(connect: Connect, server: RunningServer, publisher: str, subscriber: str) -> None:
    name = f"{publisher}/{subscriber}"

    async def work() -> None:
        async with (
            connect(url(server, publisher)) as bus,
            connect(url(server, subscriber)) as other,
            other.subscribe(name, "another") as events,
        ):
            if subscriber == "inbus":
                while not await events.take(100, timeout=0.1):
                    await bus.publish(name, b"first")
            if subscriber == "spp":
                await provided(bus, name, other)
            await bus.publish(name, b"\x00on", type="text/plain")
            while (event := (await received(events, 1))[0]).payload != b"\x00on":
                pass
            assert isinstance(event, Message)
            assert event.service == name
            if subscriber in MEMBERS:
                assert (event.metadata["sender"], event.provider) == (name, event.metadata["route"][0])

    async def provided(bus: Any, name: str, other: Any) -> None:
        async with other.watch() as changes:
            await bus.publish(name, b"first")
            while Appeared("service", name) not in await changes.take(100, timeout=PATIENCE):
                pass

    run(work())


@pytest.mark.parametrize("kind", MEMBERS)
def test_requests(connect: Connect, server: RunningServer, kind: str) -> None:
    def answer(request: Any) -> Any:
        if request.payload == b"own":
            raise ServiceError("too-hot", "it is too hot")
        if request.payload == b"any":
            raise KeyError("door")
        return {b"": None, b"text": "grün", b"type": (b"<b>", "text/html")}.get(request.payload, request.payload)

    async def work() -> None:
        async with connect(url(server, kind)) as bus, connect(url(server, kind)) as asker:
            with pytest.raises(NoService):
                await asker.request(f"door/{kind}", b"x")
            async with bus.serve(f"door/{kind}", handler(connect, answer)) as service:
                await service.registered()
                for sent, came, content_type in (
                    (b"", b"", None),
                    (b"text", "grün".encode(), "text/plain; charset=UTF-8"),
                    (b"type", b"<b>", "text/html"),
                    (b"x" * 300_000, b"x" * 300_000, "application/octet-stream"),
                ):
                    reply = await asker.request(f"door/{kind}", sent, note="n")
                    assert (reply.service, reply.payload, reply.type) == (f"door/{kind}", came, content_type)
                    assert reply.provider == bus.routing_id
                with pytest.raises(BusError, match="it is too hot") as failed:
                    await asker.request(f"door/{kind}", b"own")
                assert failed.value.reason == "too-hot"
                with pytest.raises(BusError, match="KeyError: 'door'"):
                    await asker.request(f"door/{kind}", b"any")
            with pytest.raises(NoService):
                await asker.request(f"door/{kind}", b"x")

    run(work())


def test_whoever_is_told_that_nobody_serves_is_right(server: RunningServer) -> None:
    """A member that answers requests sees those for services that it is about to register."""
    handled: set[bytes] = set()
    refused: set[bytes] = set()

    async def early(request: Any) -> bytes:
        handled.add(request.payload)
        return b""

    async def ask(bus: Any, number: int) -> None:
        while True:
            payload = b"%d of %d" % (len(refused), number)
            try:
                await bus.request("early", payload)
            except NoService:
                refused.add(payload)
            else:
                return

    async def work() -> None:
        async with SHELLS["aio"](url(server, "objects")) as asker, SHELLS["aio"](url(server, "objects")) as bus:
            asking = asyncio.gather(*(ask(asker, number) for number in range(50)))
            await asker.flush()
            async with bus.serve("early", early):
                await asking

    run(work())
    assert refused
    assert not handled & refused


def test_handlers_run_side_by_side(server: RunningServer) -> None:
    most = running = 0

    async def slow(request: Any) -> bytes:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1
        return bytes(request.payload)

    async def work() -> None:
        async with SHELLS["aio"](url(server, "objects")) as bus, bus.serve("slow", slow, concurrency=20) as service:
            await service.registered()
            replies = await asyncio.gather(*(bus.request("slow", b"%d" % number) for number in range(200)))
            assert [int(each.payload) for each in replies] == list(range(200))

    run(work())
    assert most == 20


def test_requests_wait_in_order_and_no_more_than_some(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are refused. What was accepted is answered, also if the service ends meanwhile."""
    monkeypatch.setattr("bussrv.client.shell.service.MAX_ACCEPTED", 3)
    handled: list[bytes] = []

    async def work() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slow(request: Any) -> bytes:
            handled.append(request.payload)
            begun.set()
            await go_on.wait()
            return bytes(request.payload)

        async with SHELLS["aio"](url(server, "objects")) as bus, SHELLS["aio"](url(server, "objects")) as asker:
            async with bus.serve("queue", slow, concurrency=1):
                asked = [asyncio.create_task(asker.request("queue", b"%d" % number)) for number in range(6)]
                for each in asked[4:]:
                    with pytest.raises(BusError) as refused:
                        await each
                    assert refused.value.reason == "too-many-requests"
                assert (begun.is_set(), handled) == (True, [b"0"])
                asyncio.get_running_loop().call_soon(go_on.set)  # Leaving has begun then.
            assert [(await each).payload for each in asked[:4]] == handled == [b"0", b"1", b"2", b"3"]

    run(work())


def test_handlers_that_block_run_side_by_side(server: RunningServer) -> None:
    together = threading.Barrier(40)

    def wait(request: Any) -> bytes:
        together.wait(PATIENCE)
        return b""

    async def work() -> None:
        async with (
            SHELLS["blocking"](url(server, "objects")) as bus,
            bus.serve("together", wait, concurrency=40),
            SHELLS["aio"](url(server, "objects")) as asker,
        ):
            await asyncio.gather(*(asker.request("together", timeout=PATIENCE) for _ in range(40)))

    run(work())


def test_a_provider_that_only_publishes(connect: Connect, server: RunningServer) -> None:
    async def work() -> None:
        async with connect(url(server, "objects")) as bus, connect(url(server, "business")) as asker:
            await bus.publish("lamp", b"on", confirm=True)
            with pytest.raises(NoService):
                await asker.request("lamp", timeout=5)

    run(work())


def test_a_plain_function_is_no_handler_for_asyncio(server: RunningServer) -> None:
    plain: Any = repr

    async def work() -> None:
        async with SHELLS["aio"](url(server, "objects")) as bus, bus.serve("plain", plain):
            with pytest.raises(BusError, match="TypeError: a handler is an async function"):
                await bus.request("plain")

    run(work())


def test_refusals(connect: Connect, server: RunningServer) -> None:
    async def work() -> None:
        async with connect(url(server, "objects")) as bus:
            with pytest.raises(BusError, match="reserved-name"):
                await bus.publish("bus/mine", b"x", confirm=True)
            with pytest.raises(BusError, match="bad-service-name"):
                await bus.publish("", b"x")
            with pytest.raises(BusError, match="bad-service-name"):
                async with bus.subscribe("\n"):
                    pass
            with pytest.raises(TypeError, match="a payload is bytes, not str"):
                await bus.publish("lamp", "on")
            for call in (bus.publish("lamp", b"on", confirm=True, event="switched"), bus.request("lamp", name="hall")):
                with pytest.raises(ValueError, match="itself: use another name"):
                    await call
            with pytest.raises(ValueError, match="at least one"):
                bus.subscribe()
            with pytest.raises(TypeError, match="a string, not list: subscribe"):
                bus.subscribe(["lamp", "door"])
            with pytest.raises(RuntimeError, match="begins when it is entered"):
                await bus.subscribe("lamp").take(1)
            with pytest.raises(BusError, match="reserved-name"):
                async with bus.serve("bus/mine", handler(connect, lambda request: b"")):
                    pass
            async with bus.serve("mute", handler(connect, lambda request: b"")) as service:
                await service.registered()
                with pytest.raises(TimedOut):
                    await bus.request("mute", timeout=0)
            async with bus.subscribe("lamp") as events:
                await bus.publish("lamp", b"still", confirm=True)
                assert (await received(events, 1))[0].payload == b"still"
        with pytest.raises(Closed):
            await bus.publish("lamp", b"on")
        async with connect(url(server, "spp")) as spp:
            for call in (spp.publish("lamp", b"on"), spp.request("lamp"), spp.flush()):
                with pytest.raises(Unsupported):
                    await call

    run(work())


def test_arguments_are_checked(connect: Connect) -> None:
    for given, options, words in (
        ("http://hall", {}, "begins with none of bus://"),
        ("bus://ann:secret@hall", {}, "has no user"),
        ("bus://hall/x", {}, "after the host"),
        ("bus://hall:99999", {}, "the port"),
        ("spp://", {}, "names no host"),
        (["bus://a", "spp://b"], {}, "one wire format"),
        ("bus://hall", {"secret": "s"}, "say user="),
        ("bus://hall", {"offline": "maybe"}, "offline is"),
    ):
        with pytest.raises(ValueError, match=words):
            connect(given, **options)
    with pytest.raises(TypeError, match="unknown"):
        connect("bus://hall", unknown=1)


def test_nobody_listens(connect: Connect, closed_port: int) -> None:
    async def work() -> None:
        addresses = [f"bus://127.0.0.1:{closed_port}", f"bus://localhost:{closed_port}"]
        with pytest.raises(Offline, match="cannot connect to"):
            async with connect(addresses, reconnect=QUICK):
                pass
        async with connect(addresses, offline=Buffer(2, 10), reconnect=QUICK) as bus:
            assert not bus.is_up
            await bus.publish("lamp", b"12345")
            with pytest.raises(BufferFull):
                await bus.publish("lamp", b"123456")
            await bus.publish("lamp", b"12345")
            with pytest.raises(BufferFull):
                await bus.publish("lamp", b"")
            with pytest.raises(TimedOut):
                await bus.request("lamp", timeout=0.01)

    run(work())


def test_logins(connect: Connect, tmp_path: Path) -> None:
    # A hash that is checked quickly.
    (tmp_path / "users").write_text(f"ann:{SecretHash(b'salt', bytes(32), 2, 8, 1).made_of(b'a secret of ann')}\n")
    options = ["--websocket", "0", f"--auth=users:{tmp_path / 'users'}"]
    with ForkedServer(tmp_path / "journal", options) as server:

        async def work() -> None:
            for kind in (*MEMBERS, "spp"):
                async with connect(url(server, kind), user="ann", secret=lambda: "a secret of ann", timeout=60) as bus:
                    assert bus.is_up
                with pytest.raises(BadLogin):
                    async with connect(url(server, kind), user="ann", secret="another", offline="wait", timeout=60):
                        pass

        run(work())


def test_tls(connect: Connect, tmp_path: Path) -> None:
    for each in ("one", "another"):
        (tmp_path / each).mkdir()
    place, other = Place(tmp_path / "one"), Place(tmp_path / "another")
    with ForkedServer("off", ["--objects", place.port, "--spp", place.port, "--websocket", place.port]) as server:

        async def work() -> None:
            for scheme, kind in (("buss", "objects"), ("spps", "spp"), ("wss", "websocket")):
                address = f"{scheme}://localhost:{server.port(kind)}"
                async with connect(address, tls=Tls(ca=place.authority.file)) as bus:
                    assert bus.is_up
                with pytest.raises(Offline, match="certificate of the server is not accepted"):
                    async with connect(address, tls=Tls(ca=other.authority.file)):
                        pass
                with pytest.raises(Offline, match="No such file"):
                    async with connect(address, tls=Tls(ca=tmp_path / "none.pem")):
                        pass
            with pytest.raises(Offline, match="does that port speak TLS"):
                async with connect(url(server, "objects"), timeout=5):
                    pass

        run(work())


@asynccontextmanager
async def plugged(server: RunningServer, kind: str) -> AsyncIterator[tuple[Cable, str]]:
    with Bench() as bench:
        cable = Cable(bench)
        cable.plug(server.addresses[kind])
        try:
            yield cable, f"{SCHEMES[kind]}://127.0.0.1:{cable.port}"
        finally:
            cable.close()


@pytest.mark.parametrize(("reconnect", "error"), [(Backoff(PATIENCE, PATIENCE), Offline), (None, Closed)])
def test_nothing_is_begun_without_a_connection(
    connect: Connect, server: RunningServer, reconnect: Backoff | None, error: type[BusError]
) -> None:
    async def work() -> None:
        async with (
            plugged(server, "objects") as (cable, address),
            connect(address, reconnect=reconnect) as bus,
            bus.states() as states,
        ):
            cable.unplug()
            assert [type(each) for each in await received(states, 2)] == [Up, Down]
            for begun in (bus.subscribe("lamp"), bus.serve("door", handler(connect, bytes)), bus.watch()):
                with pytest.raises(error):
                    async with begun:
                        pass
            if reconnect is None:
                with pytest.raises(Closed, match="connects no more"):
                    await states.take(1)

    run(work())


@pytest.mark.parametrize("kind", MEMBERS)
def test_everything_is_restored(connect: Connect, server: RunningServer, kind: str) -> None:
    async def work() -> None:
        async with (
            plugged(server, kind) as (cable, address),
            connect(address, offline="wait", reconnect=QUICK) as bus,
            connect(url(server, "objects")) as other,
            bus.subscribe(f"back/{kind}", "second") as events,
            bus.serve(f"echo/{kind}", handler(connect, lambda request: request.payload)) as service,
            bus.states() as states,
        ):
            await service.registered()
            assert isinstance((await received(states, 1))[0], Up)
            await other.publish(f"back/{kind}", b"1", confirm=True)
            assert [each.payload for each in await received(events, 1)] == [b"1"]
            routing_id = bus.routing_id
            cable.unplug()
            assert isinstance((await received(states, 1))[0], Down)
            await other.publish(f"back/{kind}", b"2", confirm=True)
            cable.plug(server.addresses[kind])
            up, restored = [each for each in await received(states, 2) if not isinstance(each, Down)]
            assert isinstance(up, Up)
            assert restored == Restored((f"back/{kind}", "second"), (f"echo/{kind}",))
            assert bus.routing_id == routing_id
            await other.publish(f"back/{kind}", b"3", confirm=True)
            gap, event = await received(events, 2)
            assert (gap, event.payload) == (Gap(None, "connection-lost"), b"3")
            assert (await other.request(f"echo/{kind}", b"again")).payload == b"again"

    run(work())


def test_the_next_address_is_tried(connect: Connect, server: RunningServer, closed_port: int) -> None:
    async def work() -> None:
        async with plugged(server, "objects") as (cable, address):
            addresses = [f"bus://127.0.0.1:{closed_port}", address, url(server, "objects")]
            async with connect(addresses, reconnect=QUICK) as bus, bus.states() as states:
                assert [each.address for each in await received(states, 1)] == [f"127.0.0.1:{cable.port}"]
                cable.unplug()
                down, up, _ = await received(states, 3)
                assert (down.reason, up.address) == ("connection-lost", f"127.0.0.1:{server.port('objects')}")

    run(work())


def test_spp_gets_the_state_again(connect: Connect, server: RunningServer) -> None:
    async def work() -> None:
        async with (
            plugged(server, "spp") as (cable, address),
            connect(url(server, "objects")) as bus,
            connect(address, reconnect=QUICK, offline="wait") as spp,
            spp.subscribe("state") as events,
        ):
            await bus.publish("state", b"1", confirm=True)
            assert [each.payload for each in await received(events, 1)] == [b"1"]
            cable.unplug()
            assert await received(events, 1) == [Gap(None, "connection-lost")]
            await bus.publish("state", b"2", confirm=True)
            cable.plug(server.addresses["spp"])
            assert [each.payload for each in await received(events, 1)] == [b"2"]

    run(work())


def test_a_server_that_stops_is_left_before_it_closes(connect: Connect, tmp_path: Path) -> None:
    with ForkedServer(tmp_path / "journal", ["--drain", "20"]) as server, Bench() as bench:

        async def work() -> None:
            cable = Cable(bench)
            cable.plug(server.addresses["objects"])
            addresses = [url(server, "objects"), f"bus://127.0.0.1:{cable.port}"]
            async with connect(addresses, reconnect=QUICK, offline="wait") as bus, bus.states() as states:
                assert (await received(states, 1))[0].address == addresses[0].removeprefix("bus://")
                server.process.send_signal(signal.SIGTERM)
                assert (await received(states, 1))[0].reason == "server-stopped"
            # It did not wait for the end of this client's session for long.
            await asyncio.to_thread(server.wait)
            cable.close()

        run(work())


def test_inbus_notices_that_nobody_listens(connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbus, "GRACE", 0.1)  # This machine says at once that nobody listens.
    with ForkedServer(tmp_path / "journal") as server:
        port = server.port("inbus")

        async def work() -> None:
            async with (
                connect(f"inbus://127.0.0.1:{port}", reconnect=QUICK, offline="wait") as bus,
                bus.states() as states,
                bus.subscribe("lamp") as events,
            ):
                await received(states, 1)
                server.process.kill()
                await asyncio.to_thread(server.wait)
                # What was sent while the server ended may have told already that it is gone: then this one waits.
                waits = asyncio.ensure_future(bus.publish("lamp", b"lost"))
                assert (await received(states, 1))[0].reason == "unreachable"
                assert await received(events, 1) == [Gap(None, "unreachable")]
                with ForkedServer(tmp_path / "journal", ["--inbus", str(port)]):
                    while not isinstance((await received(states, 1))[0], Up):
                        pass
                    await waits
                    await bus.publish("lamp", b"on")
                    while (event := (await received(events, 1))[0]).payload != b"on":
                        assert event.payload == b"lost"

        run(work())


def test_a_buffer_is_sent_when_the_server_is_back(connect: Connect, server: RunningServer) -> None:
    async def work() -> None:
        async with plugged(server, "objects") as (cable, address):
            cable.unplug()
            async with (
                connect(url(server, "objects")) as other,
                other.subscribe("kept") as events,
                connect(address, offline=Buffer(), reconnect=QUICK) as bus,
            ):
                for number in range(5):
                    await bus.publish("kept", b"%d" % number)
                waiting = asyncio.ensure_future(bus.publish("kept", b"5", confirm=True))
                cable.plug(server.addresses["objects"])
                await waiting
                assert [each.payload for each in await received(events, 6)] == [b"%d" % each for each in range(6)]

    run(work())


def test_what_was_under_way_is_lost(connect: Connect, server: RunningServer) -> None:
    async def work() -> None:
        async with (
            plugged(server, "objects") as (cable, address),
            connect(address, reconnect=QUICK) as bus,
            connect(url(server, "objects")) as other,
            other.serve("slow", handler(connect, lambda request: b"")),
        ):
            cable.hold()
            request = asyncio.ensure_future(bus.request("slow"))
            publication = asyncio.ensure_future(bus.publish("lamp", b"on", confirm=True))
            while (core := core_of(bus)).has_output or len(core._questions) < 3:
                await asyncio.sleep(0.001)  # a request, a publication, and the question whether it was taken
            cable.unplug()
            for call in (request, publication):
                with pytest.raises(Lost) as lost:
                    await call
                assert lost.value.maybe_done

    run(work())


@each_row(
    "answer",
    {
        "a type that is no text": lambda: (b"x", 5),
        "a type that is no Unicode": lambda: (b"x", "text/\udcff"),
        "an error of its own that is no Unicode": lambda: fail(ServiceError("\udcff", "\udcff")),
        "an error that is no Unicode": lambda: fail(OSError("\udcff")),
    }.values(),
)
def test_what_cannot_be_sent_is_answered_with_an_error(
    connect: Connect, server: RunningServer, answer: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is logged cannot be sent either, not even to the process that gathers the results of tests.
    monkeypatch.setattr(logging.getLogger("bussrv.client"), "disabled", True)

    async def work() -> None:
        # The longest time that a silent server may have is for ever.
        async with (
            connect(url(server, "objects"), silence=inf) as bus,
            bus.serve("door/odd", handler(connect, lambda _: answer())),
        ):
            with pytest.raises(BusError, match=r"service-error|udcff"):
                await bus.request("door/odd", timeout=PATIENCE / 2)

    run(work())


def fail(error: Exception) -> Any:
    raise error


def test_a_silent_server_is_noticed(connect: Connect, server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "FAREWELL", 0.05)  # The server would not take anything for longer either.

    async def work() -> None:
        async with (
            plugged(server, "objects") as (cable, address),
            connect(address, reconnect=QUICK, silence=0.4) as bus,
            bus.states() as states,
        ):
            await received(states, 1)
            cable.hold()
            assert (await received(states, 1))[0].reason == "silent"

    run(work())


def test_overflows(connect: Connect, server: RunningServer) -> None:
    async def work() -> None:
        async with (
            connect(url(server, "objects")) as bus,
            connect(url(server, "objects")) as other,
            bus.subscribe("flood", queue=10) as dropping,
            bus.subscribe("flood", queue=10, overflow="fail") as failing,
            other.subscribe("flood", queue=10, overflow="pause") as pausing,
        ):
            for number in range(1000):
                await bus.publish("flood", b"%d" % number)
            await bus.flush()
            gap, *kept = await received(dropping, 11)
            assert gap == Gap(1000 - 10, "overflow")
            assert [int(each.payload) for each in kept] == list(range(990, 1000))
            assert [int(each.payload) for each in await failing.take(100)] == list(range(10))
            with pytest.raises(Overflowed):
                await failing.take(1)
            assert [int(each.payload) for each in await received(pausing, 1000)] == list(range(1000))
            assert (dropping.dropped, pausing.dropped) == (990, 0)

    run(work())


def test_who_comes_and_goes(connect: Connect, server: RunningServer) -> None:
    async def work() -> None:
        async with connect(url(server, "objects")) as bus, bus.watch() as sessions:
            await bus.flush()
            async with connect(url(server, "objects")) as other:
                routing_id = other.routing_id
                assert await received(sessions, 1) == [Appeared("session", routing_id)]
            assert await received(sessions, 1) == [Gone("session", routing_id)]
            async with connect(url(server, "spp")) as spp, spp.watch() as services:
                assert Appeared("service", "bus/clock") in await services.take(100, timeout=PATIENCE)
                async with bus.serve("short", handler(connect, lambda request: b"")) as service:
                    await service.registered()
                    assert await received(services, 1) == [Appeared("service", "short")]
                assert await received(services, 1) == [Gone("service", "short")]

    run(work())


def test_objects_as_they_are(connect: Connect, server: RunningServer) -> None:
    async def work() -> None:
        async with (
            connect(url(server, "objects")) as bus,
            bus.subscribe("mine") as messages,
            bus.objects("text/*", "@chat/*") as objects,
        ):
            await bus.send({"event": "chat/said", "sender": "mine"}, b"")
            await bus.send({"type": "image/png"}, b"no")
            await bus.send({"type": "text/html; charset=UTF-8", "sender": "mine", "x": 1}, b"yes")
            await bus.flush()
            first, second = await received(objects, 2)
            assert first.metadata["event"] == "chat/said"
            assert (second.metadata["x"], second.payload) == (1, b"yes")
            # Nobody provides it, so these were no publications, whatever they claim.
            assert messages.waiting == 0

    run(work())


def test_the_last_rule_that_matches_decides(connect: Connect, server: RunningServer) -> None:
    rules = ("*", "!@services/*", "!@routing/*", "!text/*", "text/html", "!#secret")

    async def work() -> None:
        async with connect(url(server, "objects")) as bus, bus.objects(*rules) as objects:
            # The observer takes no requests, so nobody may answer this one.
            with pytest.raises(NoService):
                await bus.request("nobody/serves/this", timeout=PATIENCE)
            for number, content_type in enumerate(("text/plain", "TEXT/html", "text/html", "a")):
                natures = {"natures": ["secret"]} if number == 2 else {}
                await bus.send({"type": content_type, "x": number, **natures}, b"x")
            await bus.send({"event": "chat/said", "x": 4})
            assert [each.metadata["x"] for each in await received(objects, 3)] == [1, 3, 4]

    run(work())


@pytest.mark.parametrize("kind", [*MEMBERS, "spp"])
def test_patterns(connect: Connect, server: RunningServer, kind: str) -> None:
    """Each message comes once, however many names and patterns cover its service. SPP may begin with a later one."""
    at = f"patterns/{kind}/{'blocking' if connect is SHELLS['blocking'] else 'aio'}"
    names = [f"{at}/early", f"{at}/late", f"{at}/deep/late"]

    async def work() -> None:
        async with connect(url(server, "objects")) as bus, connect(url(server, kind)) as other:
            await bus.publish(names[0], b"0", confirm=True)
            wanted = (f"{at}/+", names[0], f"patterns/{kind}/#", f"{at}x/+")
            async with other.subscribe(*wanted) as events, other.subscribe(names[1]) as late:
                for number in range(1, 4):
                    for name in (*names, f"other/{at}"):
                        await bus.publish(name, b"%d" % number, confirm=True)
                seen: dict[str, list[bytes]] = {name: [] for name in names}
                while any(payloads[-1:] != [b"3"] for payloads in seen.values()):
                    for each in await received(events, 1):
                        seen[each.service].append(each.payload)
                if kind != "spp":
                    assert list(seen.values()) == [[b"1", b"2", b"3"]] * 3
                assert {each.service for each in await received(late, 1)} == {names[1]}

    run(work())


def test_names_with_wildcards_over_spp(connect: Connect, server: RunningServer) -> None:
    way = "blocking" if connect is SHELLS["blocking"] else "aio"
    lamp, door = f"yard/{way}/lamp", f"yard/{way}/door"

    async def work() -> None:
        async with connect(url(server, "objects")) as bus, connect(url(server, "spp")) as other, other.watch() as seen:
            await bus.publish(lamp, b"1", confirm=True)
            while Appeared("service", lamp) not in await seen.take(timeout=PATIENCE):
                pass
            async with other.subscribe(f"yard/{way}/*", lamp) as events:
                assert await received(events, 1) == [Message(lamp, b"1")]
                await bus.publish("cellar/lamp", b"no", confirm=True)
                await bus.publish(door, b"2", confirm=True)
                while (event := (await received(events, 1))[0]).payload != b"2":
                    assert event == Message(door, b"")
                await bus.publish(lamp, b"3", confirm=True)
                assert await received(events, 1) == [Message(lamp, b"3")]
            async with other.subscribe(f"yard/{way}/lam?") as events:
                assert await received(events, 1) == [Message(lamp, b"3")]

    run(work())


def test_draining_answers_what_was_accepted(server: RunningServer) -> None:
    async def work() -> None:
        asked, done = asyncio.Event(), asyncio.Event()

        async def slow(request: Any) -> bytes:
            asked.set()
            await done.wait()
            return b"done"

        async with (
            SHELLS["aio"](url(server, "objects")) as asker,
            SHELLS["aio"](url(server, "objects")) as bus,
            bus.serve("slow-one", slow) as service,
        ):
            await service.registered()
            request = asyncio.ensure_future(asker.request("slow-one"))
            await asked.wait()
            draining = asyncio.ensure_future(bus.drain())
            with pytest.raises(NoService):
                await refused(asker)
            done.set()
            await draining
            assert (await request).payload == b"done"

    async def refused(asker: Any) -> None:
        while True:
            with suppress(TimedOut):
                await asker.request("slow-one", timeout=0.05)

    run(work())


def test_cancelling_takes_nothing(server: RunningServer) -> None:
    async def work() -> None:
        async with SHELLS["aio"](url(server, "objects")) as bus, bus.subscribe("whole", queue=5000) as events:
            taken: list[int] = []

            async def consume() -> None:
                async for event in events:
                    taken.append(int(event.payload))  # noqa: PERF401  it may be cancelled

            publishing = asyncio.ensure_future(publish(bus))
            while len(taken) < 2000:
                task = asyncio.ensure_future(consume())
                await asyncio.sleep(0.001)
                task.cancel()
                await asyncio.wait([task])
            await publishing
            assert taken == list(range(2000))
            waiting = [asyncio.ensure_future(bus.request("nobody-answers")) for _ in range(10)]
            for each in waiting:
                each.cancel()
            await asyncio.wait(waiting)

    async def publish(bus: Any) -> None:
        for number in range(2000):
            await bus.publish("whole", b"%d" % number)

    run(work())


@pytest.mark.skipif(sys.version_info < (3, 11), reason="TaskGroup is new in Python 3.11")
def test_a_task_group_that_fails_leaves_nothing(server: RunningServer) -> None:
    """Its tasks wait for messages, for requests and for a reply."""

    async def work() -> None:
        asked, served, answer = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def handle(_: Any) -> bytes:
            asked.set()
            await answer.wait()
            return b""

        async def listen(events: Any) -> None:
            async with events:
                await events.take()

        async def serve(bus: Any) -> None:
            async with bus.serve("brief", handle):
                served.set()
                await answer.wait()

        async def group_that_fails(bus: Any, asker: Any) -> None:
            async with asyncio.TaskGroup() as group:
                for each in (bus.subscribe("tv"), bus.watch(), bus.objects()):
                    group.create_task(listen(each))
                group.create_task(serve(bus))
                group.create_task(asker.request("endless", timeout=None))
                await asked.wait()
                await served.wait()
                raise ZeroDivisionError

        async with (
            SHELLS["aio"](url(server, "objects")) as bus,
            SHELLS["aio"](url(server, "objects")) as asker,
            bus.serve("endless", handle),
        ):
            (failed,) = await asyncio.gather(group_that_fails(bus, asker), return_exceptions=True)
            assert [type(each) for each in failed.exceptions] == [ZeroDivisionError]
            core = bus._core
            assert (core._inboxes, core._watchers, core._services.names) == ({}, [], ("endless",))
            assert len(asker._core._questions) == 0
            await bus.publish("lamp", b"on", confirm=True)
            answer.set()

    run(work())


def test_both_shells_have_the_same_names() -> None:
    assert sorted(aio.__all__) == sorted(blocking.__all__)
    for name in (*errors.__all__, *events.__all__):
        assert getattr(blocking, name) is getattr(aio, name)
