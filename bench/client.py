"""The cost of the client for asyncio: CPU and time for each message, beside nats-py, in turns on the same machine.

Each scenario is measured in a process of its own, against a server and, where somebody has to answer or to publish, a
helper process with the same client. nats-py and nats-server are not installed with bussrv: without them, only bussrv is
measured.

    python bench/client.py --rounds 5 --messages 50000
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import compare_servers

from bussrv.client.aio import Message, connect

PAYLOAD = b"x" * 16
READY = "ready"
IN_FLIGHT = 100


class Bussrv:
    """Our client."""

    NAME = "bussrv"

    @staticmethod
    @contextlib.asynccontextmanager
    async def connected(url: str) -> AsyncIterator[Any]:
        async with connect(url) as bus:
            yield bus

    @staticmethod
    async def publish(bus: Any, number: int) -> None:
        for _ in range(number):
            await bus.publish("tv", PAYLOAD)
        await bus.flush()

    @staticmethod
    async def receive(bus: Any, number: int, ready: Callable[[], None]) -> None:
        async with bus.subscribe("tv", queue=10 * number) as events:
            ready()
            seen = 0
            async for event in events:
                seen += isinstance(event, Message)
                if seen == number:
                    return

    @staticmethod
    async def request(bus: Any) -> None:
        await bus.request("clock", PAYLOAD)

    @staticmethod
    @contextlib.asynccontextmanager
    async def served(bus: Any) -> AsyncIterator[None]:
        async def answer(request: Any) -> bytes:
            return bytes(request.payload)

        async with bus.serve("clock", answer, concurrency=1000) as service:
            await service.registered()
            yield


class Nats:
    """nats-py."""

    NAME = "nats-py"

    @staticmethod
    @contextlib.asynccontextmanager
    async def connected(url: str) -> AsyncIterator[Any]:
        import nats

        client = await nats.connect(url)
        yield client
        await client.close()

    @staticmethod
    async def publish(client: Any, number: int) -> None:
        for _ in range(number):
            await client.publish("tv", PAYLOAD)
        await client.flush()

    @staticmethod
    async def receive(client: Any, number: int, ready: Callable[[], None]) -> None:
        done = asyncio.Event()
        seen = 0

        async def take(_: Any) -> None:
            nonlocal seen
            seen += 1
            if seen == number:
                done.set()

        # Its fastest way: messages come to a callback.
        await client.subscribe("tv", cb=take, pending_msgs_limit=10 * number, pending_bytes_limit=1 << 30)
        await client.flush()
        ready()
        await done.wait()

    @staticmethod
    async def request(client: Any) -> None:
        await client.request("clock", PAYLOAD)

    @staticmethod
    @contextlib.asynccontextmanager
    async def served(client: Any) -> AsyncIterator[None]:
        async def answer(message: Any) -> None:
            await message.respond(message.data)

        await client.subscribe("clock", cb=answer)
        await client.flush()
        yield


CLIENTS: dict[str, Any] = {each.NAME: each for each in (Bussrv, Nats)}


def say_ready() -> None:
    """The other process may begin."""
    print(READY, flush=True)


async def requests(kind: Any, client: Any, number: int, in_flight: int) -> None:
    """Ask so many times, with so many questions open at the same time."""

    async def ask(times: int) -> None:
        for _ in range(times):
            await kind.request(client)

    await asyncio.gather(*(ask(number // in_flight) for _ in range(in_flight)))


async def measured(work: Callable[[], Awaitable[None]], number: int) -> tuple[float, float]:
    """Microseconds of CPU, and of time, for each of ``number``."""
    cpu, begin = time.process_time(), time.perf_counter()
    await work()
    return (time.process_time() - cpu) / number * 1e6, (time.perf_counter() - begin) / number * 1e6


async def run_scenario(kind: Any, url: str, scenario: str, number: int, helper: Helper) -> tuple[float, float]:
    """One scenario in this process."""
    async with kind.connected(url) as client:
        if scenario == "publish":
            return await measured(lambda: kind.publish(client, number), number)
        if scenario == "receive":
            return await measured(lambda: kind.receive(client, number, lambda: helper.start("publishing")), number)
        in_flight = IN_FLIGHT if scenario == "100 requests in flight" else 1
        number //= 1 if in_flight > 1 else 10
        helper.start("serving")
        return await measured(lambda: requests(kind, client, number, in_flight), number)


SCENARIOS = ("publish", "receive", "1 request in flight", "100 requests in flight")


class Helper:
    """A process with the other side of a scenario."""

    def __init__(self, name: str, url: str, number: int) -> None:
        self._arguments = [name, url, str(number)]
        self._process: subprocess.Popen[str] | None = None

    def start(self, role: str) -> None:
        """Start it, and wait until it serves, or is about to publish."""
        command = [sys.executable, __file__, "--helper", role, *self._arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != READY:
            raise RuntimeError(f"the helper that is {role} has failed")

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.communicate()


async def help_out(role: str, name: str, url: str, number: int) -> None:
    """The other side of a scenario."""
    kind = CLIENTS[name]
    async with kind.connected(url) as client:
        if role == "publishing":
            say_ready()
            await kind.publish(client, number)
        else:
            async with kind.served(client):
                say_ready()
                await asyncio.Event().wait()


def measure_in_a_process(name: str, url: str, scenario: str, number: int) -> tuple[float, float]:
    """One scenario in a new process."""
    command = [sys.executable, __file__, "--measure", scenario, name, url, str(number)]
    cpu, took = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return float(cpu), float(took)


@contextlib.contextmanager
def servers(directory: Path) -> Iterator[dict[str, str]]:
    """The URL of a server for each client that can be measured."""
    for name in ("bussrv", "nats"):
        (directory / name).mkdir()
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(compare_servers.start(compare_servers.BUSSRV, directory / "bussrv"))
        found = {Bussrv.NAME: f"bus://127.0.0.1:{ours.places['objects'].partition(':')[2]}"}
        if importlib.util.find_spec("nats") and compare_servers.program_path(compare_servers.NATS):
            theirs = stack.enter_context(compare_servers.start(compare_servers.NATS, directory / "nats"))
            found[Nats.NAME] = f"nats://127.0.0.1:{theirs.places['nats'].partition(':')[2]}"
        else:
            print("nats-py or nats-server is not installed: nothing to compare with", file=sys.stderr)
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--helper", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.helper:
        role, name, url, number = options.helper
        asyncio.run(help_out(role, name, url, int(number)))
    elif options.measure:
        scenario, name, url, number = options.measure
        helper = Helper(name, url, int(number))
        print(*asyncio.run(run_scenario(CLIENTS[name], url, scenario, int(number), helper)))
        helper.stop()
    else:
        compare(options.messages, options.rounds)


def compare(messages: int, rounds: int) -> None:
    """Measure all scenarios in turns, and print a table of medians."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as directory, servers(Path(directory)) as places:
        for _ in range(rounds):
            for scenario in SCENARIOS:
                for name, url in places.items():
                    measure = measure_in_a_process(name, url, scenario, messages)
                    found.setdefault((scenario, name), []).append(measure)
    for scenario in SCENARIOS:
        rows = {name: tuple(map(statistics.median, zip(*found[scenario, name], strict=True))) for name in places}
        said = [f"{name} {cpu:.1f} us CPU, {took:.1f} us" for name, (cpu, took) in rows.items()]
        if len(rows) > 1:
            cpu, took = (theirs / ours for theirs, ours in zip(rows[Nats.NAME], rows[Bussrv.NAME], strict=True))
            said.append(f"ratio of CPU {cpu:.2f}, of time {took:.2f}")
        print(f"{scenario:24}", "; ".join(said))


if __name__ == "__main__":
    main()
