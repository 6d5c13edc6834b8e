"""Servers of a net in processes of their own, on real NATS servers: what each may do to the others."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from bussrv.client.aio import Bus
from bussrv.client.events import Gap, Message
from tests.uplink.nats.site import joined
from tests.uplink.nats_cluster import NatsCluster

pytestmark = pytest.mark.processes

PATIENCE = 30


async def within(awaited: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(awaited, PATIENCE)


async def heard(publisher: Bus, events: AsyncIterator[Message | Gap], service: str = "tv") -> None:
    """Publish until the first message comes: from then on the way is open."""

    async def publish() -> None:
        while True:
            await publisher.publish(service, b"open?", confirm=True)
            await asyncio.sleep(0.05)

    publishing = asyncio.ensure_future(publish())
    try:
        await within(anext(events))
    finally:
        publishing.cancel()


async def numbers(events: AsyncIterator[Message | Gap], last: int) -> list[int | str]:
    """The numbers that come, up to the last one; a gap is its reason."""
    found: list[int | str] = []
    while not found or found[-1] != last:
        event = await within(anext(events))
        if isinstance(event, Gap):
            found.append(event.reason)
        elif event.payload != b"open?":
            found.append(int(event.payload))
    return found


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())


def test_publications_and_requests_cross(tmp_path: Any, nats_server: NatsCluster) -> None:
    with joined(tmp_path, "ab", nats_server.urls) as (a, b):

        async def test() -> None:
            async with (
                a.client() as here,
                b.client() as there,
                there.subscribe("tv") as events,
                here.serve("tv", answer),
            ):
                await heard(here, events)
                for number in range(1000):
                    await here.publish("tv", b"%d" % number)
                assert await numbers(events, 999) == list(range(1000))
                assert (await within(there.request("tv", b"?"))).payload == b"? yes"

        run(test)
        for site in (a, b):
            assert site.uplink.stop() == 0
            assert "bad frame 0, bad entry 0" in site.uplink.lines[-1]


async def answer(request: Any) -> bytes:
    return bytes(request.payload) + b" yes"


def test_a_server_that_is_killed_gets_what_is_kept(tmp_path: Any, nats_cluster: NatsCluster) -> None:
    """It misses 100 publications, is started again, and gets each of them once."""
    with joined(tmp_path, "ab", nats_cluster.urls, ["--keep", "tv", "--keep-size", "1000000"]) as (a, b):

        async def test() -> None:
            async with (
                a.client() as here,
                b.client() as there,
                there.subscribe("tv") as events,
                here.serve("tv", answer),
            ):
                await heard(here, events)
                b.server.process.kill()
                b.server.wait()
                b.uplink.wait_for("is lost")
                for number in range(100):
                    await here.publish("tv", b"%d" % number, confirm=True)
                await asyncio.to_thread(b.start_server)
                b.uplink.kill()
                b.start_uplink()
                found = [each for each in await numbers(events, 99) if isinstance(each, int)]
                assert found == list(range(100))

        run(test)
