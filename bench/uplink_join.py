"""How long a server takes to know a whole net: 100 servers with 1,000 services each, whose directories are made up.

NATS, the server and its uplink are real. The directories are in the stream before the uplink starts, and each made-up
server has a heartbeat. The time is counted from the start of the uplink until the server offers all services to a
screen. Run as ``python bench/uplink_join.py``; it needs ``pip install "bussrv[bench]"``.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import nats
from bar import Bar, print_bars
from nats.aio.client import Client

from bussrv.bus.links.paths import RemoteSession
from bussrv.client.spp import SppClient
from bussrv.testing.server import RunningServer
from bussrv.testing.uplink import RunningUplink
from bussrv.uplink.crossing.directory import everything
from bussrv.uplink.crossing.interest import Interest, differences
from bussrv.uplink.crossing.peers import Beat, Entries, encode_entry
from bussrv.uplink.nats.directory_stream import DirectoryStream
from bussrv.uplink.nats.subjects import Subjects
from bussrv.wire import spp
from bussrv.wire.objects import encode_json
from examples.demo.cluster import nats_cluster

SUBJECTS = Subjects("bench")
LONGEST = 10.0
"""Seconds that it may take."""

MOST = 1 << 20
"""The most bytes of a message of NATS."""

SESSIONS = 10
"""Sessions of each server; its services are theirs."""


def directory(server: str, services: int) -> Iterator[bytes]:
    """The entries of a made-up server."""
    each = services // SESSIONS
    remotes = [
        RemoteSession(
            routing_id=f"{server}-{number}",
            path=(server,),
            is_member=True,
            session=f"{server}.{number}",
            services=frozenset(f"{server}/{number}/{place}" for place in range(each)),
        )
        for number in range(SESSIONS)
    ]
    events = [*everything(remotes), *differences(None, Interest(events=False, types=frozenset()), [server])]
    yield from Entries(_boot(server)).snapshot(list(map(encode_json, events)), MOST)


def _boot(server: str) -> str:
    return server.encode().ljust(8)[-8:].hex()


async def pretend(url: str, servers: list[str], services: int, ready: asyncio.Event) -> None:
    """Publish the directories, then heartbeats for ever."""
    client = await nats.connect(url)
    await DirectoryStream(client.jetstream(), SUBJECTS.root).ensure()
    entries = {server: list(directory(server, services)) for server in servers}
    for server, parts in entries.items():
        for part in parts:
            await client.jetstream().publish(SUBJECTS.of("reg", server), part)
    ready.set()
    while True:
        await _beat(client, {server: len(parts) for server, parts in entries.items()})
        await asyncio.sleep(1)


async def _beat(client: Client, servers: dict[str, int]) -> None:
    for server, last in servers.items():
        await client.publish(SUBJECTS.of("beat", server), encode_entry(Beat(_boot(server), last)))


def offered(screen: SppClient, number: int) -> None:
    """Wait until a screen was offered so many services."""
    found = 0
    while found < number:
        screen.wait_for(lambda event: isinstance(event, spp.Offer))
        found += 1


async def measure(servers: int, services: int) -> float:
    """:returns: the seconds until a server knows everything."""
    place = Path(tempfile.mkdtemp(prefix="bussrv-bench-", dir="/tmp"))
    with ExitStack() as stack:
        (url,) = stack.enter_context(nats_cluster(place, 1))
        names = [f"s{number}" for number in range(servers)]
        ready = asyncio.Event()
        pretending = asyncio.create_task(pretend(url, names, services, ready))
        await asyncio.wait([pretending, asyncio.create_task(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
        if pretending.done():
            pretending.result()
        total = servers * services
        limits = ["--max-linked", str(2 * total), "--max-remote-sessions", str(2 * total)]
        options = ["--server-id", "hall", "--servers", "0", "--link-allow", "127.0.0.1", *limits]
        server = stack.enter_context(RunningServer(place / "journal", options))
        screen = stack.enter_context(SppClient(port=server.port("spp"), timeout=120))
        begun = time.monotonic()
        bus = f"bus://127.0.0.1:{server.port('servers')}"
        stack.enter_context(RunningUplink(url, "--bus", bus, "--net", SUBJECTS.net))
        await asyncio.to_thread(offered, screen, total)
        taken = time.monotonic() - begun
        pretending.cancel()
        return taken


def main() -> None:
    """Measure, and print the time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=100)
    parser.add_argument("--services", type=int, default=1000, help="of each server")
    options = parser.parse_args()
    taken = asyncio.run(measure(options.servers, options.services))
    what = f"{options.servers} servers with {options.services} services each are known after {taken:.1f} s"
    print_bars([Bar(f"{what}; at most {LONGEST:g} s", LONGEST / taken)])


if __name__ == "__main__":
    main()
