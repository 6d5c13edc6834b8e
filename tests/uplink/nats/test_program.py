"""Servers of a net in processes of their own, on real NATS servers: what each may do to the others."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.errors import TimeoutError as NatsTimeout
from nats.js.errors import APIError, NotFoundError

from bussrv.cli.failure import TAKEN_OVER
from bussrv.client.aio import Bus
from bussrv.client.events import Gap, Message
from bussrv.uplink.nats.directory_stream import DirectoryStream
from tests.forked_uplink import ForkedUplink
from tests.uplink.nats.site import Site, joined
from tests.uplink.nats_cluster import NatsCluster

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[3]

PATIENCE = 30
KEEP = ["--keep", "tv", "--keep-size", "1000000"]


async def within(awaited: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(awaited, PATIENCE)


async def heard(publisher: Bus, events: AsyncIterator[Message | Gap], service: str = "tv") -> int:
    """Publish until the first message comes: from then on the way is open. :returns: how many were published."""
    published = 0

    async def publish() -> None:
        nonlocal published
        while True:
            published += 1
            await publisher.publish(service, b"open?", confirm=True)
            await asyncio.sleep(0.05)

    publishing = asyncio.ensure_future(publish())
    try:
        await within(anext(events))
    finally:
        publishing.cancel()
    return published


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
                there.subscribe("tv", queue=100_000) as events,
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
            assert [counted(site, f"bad {what}") for what in ("frame", "object", "entry")] == [0, 0, 0]


async def answer(request: Any) -> bytes:
    return bytes(request.payload) + b" yes"


class Stream:
    """Numbers that one client publishes, and that another one is given."""

    def __init__(self, publisher: Bus, events: AsyncIterator[Message | Gap]) -> None:
        self._publisher = publisher
        self._events = events
        self.sent = 0
        self.found: list[int] = []
        self.missing = 0

    async def send(self, number: int) -> None:
        """Publish so many more, not faster than anybody can take."""
        for _ in range(number // 20):
            for _ in range(20):
                await self._publisher.publish("tv", b"%d" % self.sent)
                self.sent += 1
            await asyncio.sleep(0.002)

    async def take_all(self) -> None:
        """Take everything up to one that is published now, again and again until one comes."""
        last, publishing = self.sent, asyncio.ensure_future(self._go_on())
        try:
            while not self.found or self.found[-1] < last:
                event = await within(anext(self._events))
                if isinstance(event, Gap):
                    self.missing += event.lost or 0
                elif event.payload.isdigit():
                    self.found.append(int(event.payload))
        finally:
            publishing.cancel()

    async def _go_on(self) -> None:
        while True:
            await self.send(20)
            await asyncio.sleep(0.1)

    def check(self) -> int:
        """Nothing came twice, or in another order. :returns: how many did not come."""
        assert self.found == sorted(set(self.found))
        return self.found[-1] - self.found[0] + 1 - len(self.found)


def memory(site: Site) -> int:
    """The most bytes that an uplink has had in memory."""
    status = Path(f"/proc/{site.uplink.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def counted(site: Site, what: str) -> int:
    """A counter in the last line of an uplink that has stopped."""
    return int(site.uplink.lines[-1].partition(f"{what} ")[2].partition(",")[0])


@pytest.mark.long
def test_of_a_node_that_is_killed_each_loss_is_counted(tmp_path: Any, nats_cluster: NatsCluster) -> None:
    with joined(tmp_path, "ab", [[url] for url in nats_cluster.urls[:2]]) as (a, b):
        stream: list[Stream] = []

        async def test() -> None:
            async with (
                a.client() as here,
                b.client() as there,
                there.subscribe("tv", queue=100_000) as events,
                here.serve("tv", answer),
            ):
                await heard(here, events)
                stream.append(Stream(here, events))
                sending = asyncio.ensure_future(stream[0].send(20_000))
                await asyncio.sleep(0.3)
                await asyncio.to_thread(nats_cluster.kill, 0)
                await sending
                await stream[0].take_all()

        run(test)
        a.uplink.wait_for("is lost")
        a.uplink.wait_for("NATS is back")
        b.uplink.stop()
        assert stream[0].check() == counted(b, "lost") == stream[0].missing


def test_it_stops_while_it_waits_for_its_server_or_for_nats(nats_server: NatsCluster) -> None:
    for url in (nats_server.urls[0], "nats://127.0.0.1:1"):
        with ForkedUplink(url, "--bus", "bus://127.0.0.1:1") as uplink:
            uplink.wait_for("is lost")
            assert uplink.stop() == 0


def test_of_two_uplinks_of_a_server_the_first_gives_up(tmp_path: Any, nats_server: NatsCluster) -> None:
    """The one of a journal that is not there says where it looks for it."""
    missing = tmp_path / "none"
    with joined(tmp_path, "a", nats_server.urls) as (site,), site.uplink as first:
        first.wait_for("server a is on the net")
        site.start_uplink("--journal", str(missing))
        assert first.wait() == TAKEN_OVER
        assert "run one of them only" in first.lines[-1]
        site.uplink.wait_for(f"there is no journal {missing}")
        assert site.uplink.stop() == 0


@pytest.mark.long
def test_the_parts_of_a_cluster_that_is_split_join_again(tmp_path: Any, nats_cluster: NatsCluster) -> None:
    with joined(tmp_path, "ab", [[url] for url in nats_cluster.urls[:2]]) as (a, b):
        lines = [len(site.uplink.lines) for site in (a, b)]
        nats_cluster.split(0)
        for site, other, seen in ((a, "b", lines[0]), (b, "a", lines[1])):
            site.uplink.wait_for(f"server {other} has left", seen)
        lines = [len(site.uplink.lines) for site in (a, b)]
        nats_cluster.heal()
        for site, other, seen in ((a, "b", lines[0]), (b, "a", lines[1])):
            site.uplink.wait_for(f"server {other} has joined", seen)

        async def test() -> None:
            async with (
                a.client() as here,
                b.client() as there,
                there.subscribe("tv", queue=100_000) as events,
                here.serve("tv", answer),
            ):
                await heard(here, events)
                assert (await within(there.request("tv", b"?"))).payload == b"? yes"

        run(test)


@pytest.mark.long
def test_an_uplink_may_be_killed_under_load(tmp_path: Any, nats_server: NatsCluster) -> None:
    """That of the receiver, and that of the sender: nothing comes twice, and all goes on. In memory:
    :mod:`tests.uplink.crossing.test_node`.
    """
    with joined(tmp_path, "ab", nats_server.urls) as (a, b):

        async def test() -> None:
            async with (
                a.client() as here,
                b.client() as there,
                there.subscribe("tv", queue=100_000) as events,
                here.serve("tv", answer),
            ):
                await heard(here, events)
                stream = Stream(here, events)
                for site in (b, a):
                    sending = asyncio.ensure_future(stream.send(10_000))
                    await asyncio.sleep(0.2)
                    site.uplink.kill()
                    site.start_uplink()
                    await sending
                    await stream.take_all()
                stream.check()

        run(test)


@pytest.mark.long
def test_clients_do_not_notice_an_engine_that_hangs(tmp_path: Any, nats_server: NatsCluster) -> None:
    with joined(tmp_path, "ab", nats_server.urls) as (a, b):

        async def test() -> None:
            async with (
                a.client() as here,
                a.client() as near,
                near.subscribe("tv", queue=100_000) as events,
                here.serve("tv", answer),
            ):
                await heard(here, events)
                nats_server.pause(0)
                try:
                    stream = Stream(here, events)
                    for _ in range(10):
                        await here.publish("tv", bytes(4 << 20), confirm=True)
                    await stream.send(50_000)
                    await stream.take_all()
                    assert stream.check() == 0
                    assert memory(a) < 256 << 20
                finally:
                    nats_server.resume(0)

        run(test)
        b.uplink.wait_for("server a has joined")


def test_a_server_that_is_killed_gets_what_is_kept(tmp_path: Any, nats_cluster: NatsCluster) -> None:
    """It misses 100 publications, is started again, and gets each of them once."""
    with joined(tmp_path, "ab", nats_cluster.urls, KEEP) as (a, b):

        async def test() -> None:
            async with (
                a.client() as here,
                b.client() as there,
                there.subscribe("tv", queue=100_000) as events,
                here.serve("tv", answer),
            ):
                await heard(here, events)
                b.server.process.kill()
                b.server.wait()
                b.uplink.kill()
                for number in range(100):
                    await here.publish("tv", b"%d" % number, confirm=True)
                await asyncio.to_thread(b.start_server)
                b.start_uplink()
                found = [each for each in await numbers(events, 99) if isinstance(each, int)]
                assert found == list(range(100))

        run(test)


@pytest.mark.long
def test_what_the_bound_removed_is_told(tmp_path: Any, nats_server: NatsCluster) -> None:
    small = ["--keep", "tv", "--keep-size", "65536"]
    with joined(tmp_path, "ab", nats_server.urls, small) as (a, b):

        async def test() -> None:
            async with a.client() as here, b.client() as there, here.serve("tv", answer):
                async with there.subscribe("tv") as events:
                    before = await heard(here, events)
                b.uplink.kill()
                for number in range(1000):
                    await here.publish("tv", (b"%d" % number).zfill(500), confirm=number % 100 == 99)
                b.start_uplink()
                async with there.subscribe("tv") as events:
                    event = await within(anext(events))
                    while not isinstance(event, Gap):
                        event = await within(anext(events))
                    found = await numbers(events, 999)
                    # What had come, and was not noted as taken yet, is among them.
                    assert event.reason == "objects-expired"
                    assert event.lost in range(1000 - len(found), 1001 - len(found) + before)
                    assert found == list(range(1000 - len(found), 1000))

        run(test)


@pytest.mark.long
def test_seals_are_published_for_others_to_keep(tmp_path: Any, nats_server: NatsCluster) -> None:
    with joined(tmp_path, "ab", nats_server.urls) as (a, _):
        a.uplink.kill()
        journal = tmp_path / "a" / "journal"
        a.start_uplink("--journal", str(journal))
        a.uplink.wait_for("has joined")

        async def newest() -> bytes:
            async with await nats.connect(nats_server.urls[0]) as client:
                stream = client.jetstream()
                while True:
                    with suppress(NotFoundError):
                        return (await stream.get_last_msg(f"bus_{a.net}_seal", f"bus.{a.net}.seal.a")).data or b""
                    await asyncio.sleep(0.05)

        line = asyncio.run(asyncio.wait_for(newest(), PATIENCE))
        assert line in (journal / "manifest").read_bytes().splitlines()


@pytest.mark.long
def test_what_is_not_kept_crosses_while_the_disks_are_full(tmp_path: Any, nats_server: NatsCluster) -> None:
    with joined(tmp_path, "ab", nats_server.urls, KEEP) as (a, b):
        nats_server.fill()

        async def test() -> None:
            async with (
                a.client() as here,
                b.client() as there,
                there.subscribe("radio") as events,
                here.serve("tv", answer),
                here.serve("radio", answer),
            ):
                await heard(here, events, "radio")
                await here.publish("tv", b"x", confirm=True)
                await asyncio.to_thread(a.uplink.wait_for, "takes nothing")
                assert (await within(there.request("radio", b"?"))).payload == b"? yes"

        run(test)


HEADERS = b"NATS/1.0 \xff\xff\xff\r\n\r\n"
POISON = [
    b"PUB bus.%b.reg.%%FF 1\r\nx\r\n",
    b"PUB bus.%b.reg.\xff\xfe 1\r\nx\r\n",
    b"PUB bus.%b.reg.a 2\r\n\xff\xfe\r\n",
]
POISON += [b"HPUB bus.%%b.reg.b %d %d\r\n%bx\r\n" % (len(HEADERS), len(HEADERS) + 1, HEADERS)]
POISON += [b"PUB bus.%b.beat.c 27\r\n" + b'{"boot":"c","n":1,"x":"yyy"}'[:27] + b"\r\n", b"PUB bus.%b.ask.a 0\r\n\r\n"]


@pytest.mark.long
def test_what_strangers_publish_stops_nobody(tmp_path: Any, nats_server: NatsCluster) -> None:
    """Neither those who hear it, nor those who read it later from where NATS keeps it."""
    with joined(tmp_path, "ab", nats_server.urls) as (a, b):
        host, _, port = nats_server.urls[0].removeprefix("nats://").partition(":")
        with socket.create_connection((host, int(port)), PATIENCE) as stranger:
            said = b"".join(each % a.net.encode() for each in POISON)
            stranger.sendall(b'CONNECT {"verbose":false,"headers":true}\r\n%bPING\r\n' % said)
            answer = b""
            while b"PONG" not in answer:
                answer += stranger.recv(4096)
        assert b"-ERR" not in answer
        b.uplink.kill()
        b.start_uplink()
        b.uplink.wait_for("server a has joined")
        for site in (a, b):
            assert site.uplink.stop() == 0
            assert not [line for line in site.uplink.lines if "a bug" in line]


@pytest.mark.long
def test_a_user_of_one_server_poses_as_no_other_one(tmp_path: Any) -> None:
    """With the permissions of the page, all crosses, and NATS refuses what only another server may say."""
    page = (ROOT / "docs/how-to/nats.md").read_text()
    (text,) = re.findall(r"```text\n(authorization .*?)```", page, re.DOTALL)
    for name, secret in (("hall", "2"), ("cellar", "3")):
        (tmp_path / name).touch(0o600)
        (tmp_path / name).write_text(f"change-this-{secret}")
    with ExitStack() as stack:
        server = stack.enter_context(NatsCluster(tmp_path / "nats", 1, further=f"{text}\nno_auth_user: maker"))
        asyncio.run(make_stream(server.urls[0]))
        sites = []
        for name in ("hall", "cellar"):
            login = ["--nats-user", name, "--nats-password-file", str(tmp_path / name)]
            (tmp_path / f"of-{name}").mkdir()
            sites.append(stack.enter_context(Site(tmp_path / f"of-{name}", name, server.urls, "office", login)))
        here, there = sites
        here.uplink.wait_for("server cellar has joined")
        there.uplink.wait_for("server hall has joined")

        async def test() -> None:
            async with here.client() as a, there.client() as b, a.serve("tv", answer):
                async with b.subscribe("tv", queue=100_000) as events:
                    await heard(a, events)
                assert (await within(b.request("tv", b"?"))).payload == b"? yes"
            refused: list[str] = []

            async def note(error: Exception) -> None:
                refused.append(str(error))

            login = {"user": "cellar", "password": "change-this-3", "error_cb": note}
            async with await nats.connect(server.urls[0], **login) as client:
                for kind in ("reg", "beat", "obj", "seal"):
                    await client.publish(f"bus.office.{kind}.hall", b"x")
                await client.flush()
                with pytest.raises((APIError, TimeoutError, NatsTimeout)):
                    await client.jetstream(timeout=1).add_stream(name="own", subjects=["bus.office.pub.own"])
            assert [each for each in ("reg", "beat", "obj", "seal") if f"{each}.hall" not in "".join(refused)] == []

        run(test)
        for site in sites:
            assert site.uplink.stop() == 0
            assert not [line for line in site.uplink.lines if "refuses" in line or "does not do" in line]


async def make_stream(url: str) -> None:
    async with await nats.connect(url) as client:
        await DirectoryStream(client.jetstream(), "bus.office").ensure()
