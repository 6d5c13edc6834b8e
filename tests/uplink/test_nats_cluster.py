"""The NATS servers of these tests: they are as said, and each fault is one."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from itertools import permutations
from pathlib import Path
from typing import TypeVar

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NatsTimeout
from nats.js.errors import APIError

from tests.uplink.nats_cluster import PATIENCE, NatsCluster

T = TypeVar("T")

STREAM = "KEPT"
SOON = 1.0


def at(url: str, work: Callable[[Client], Awaitable[T]]) -> T:
    """Do something as a client of one node."""

    async def connected() -> T:
        async with await nats.connect(url, max_reconnect_attempts=1) as client:
            return await work(client)

    return asyncio.run(connected())


def is_silent(url: str) -> bool:
    """Whether nobody says anything there; a NATS server speaks first."""
    host, _, port = url.removeprefix("nats://").partition(":")
    try:
        with socket.create_connection((host, int(port)), SOON) as connection:
            return not connection.recv(1)
    except OSError:
        return True


def make_stream(cluster: NatsCluster) -> None:
    """Make an empty stream, and wait until every node knows of it."""
    replicas = len(cluster.urls)
    at(cluster.urls[0], lambda client: client.jetstream().add_stream(name=STREAM, num_replicas=replicas))
    for url in cluster.urls:
        store_in_time(url)
    at(cluster.urls[0], lambda client: client.jetstream().purge_stream(STREAM))


def store(url: str) -> None:
    at(url, lambda client: client.jetstream(timeout=SOON).publish(STREAM, b"something"))


def stored(url: str) -> int:
    return at(url, lambda client: client.jetstream().stream_info(STREAM)).state.messages


def wait_until_stored(url: str) -> None:
    """Wait until a node has what the others stored without it."""
    give_up = time.monotonic() + PATIENCE
    while not stored(url):
        assert time.monotonic() < give_up, "it has nothing"


def store_in_time(url: str) -> None:
    """Store, at least once, when there is a leader of the stream."""
    give_up = time.monotonic() + PATIENCE
    while not is_stored(url):
        assert time.monotonic() < give_up, "no leader of the stream"


def is_stored(url: str) -> bool:
    try:
        store(url)
    except NatsError:
        return False
    return True


def hear(source: str, target: str, payload: bytes) -> list[bytes]:
    """Publish at one node until a subscriber at another one hears it. :returns: the different payloads it heard."""

    async def hear_there(subscriber: Client) -> list[bytes]:
        heard: dict[bytes, Msg] = {}
        subscription = await subscriber.subscribe("all.>")
        await subscriber.flush()
        async with await nats.connect(source) as publisher:
            give_up = time.monotonic() + PATIENCE
            while payload not in heard:
                await publisher.publish("all.said", payload)
                await publisher.flush()
                try:
                    message = await subscription.next_msg(0.1)
                    heard[message.data] = message
                except NatsTimeout:
                    assert time.monotonic() < give_up, f"{payload!r} did not arrive"
        return list(heard)

    return at(target, hear_there)


def test_one_alone_keeps_its_store(nats_server: NatsCluster) -> None:
    make_stream(nats_server)
    (url,) = nats_server.urls
    store(url)
    nats_server.kill(0)
    assert is_silent(url)
    nats_server.start(0)
    assert nats_server.urls == [url]
    assert stored(url) == 1


def test_a_test_leaves_no_streams_to_the_next(nats_server: NatsCluster) -> None:
    make_stream(nats_server)
    nats_server.kill(0)
    nats_server.mend()
    with pytest.raises(APIError, match="stream not found"):
        stored(nats_server.urls[0])


@pytest.mark.processes
def test_a_full_store_refuses_until_it_is_emptied(tmp_path: Path) -> None:
    with NatsCluster(tmp_path, nodes=1, store=2 << 20) as server:
        make_stream(server)
        server.fill()
        with pytest.raises(APIError, match="insufficient"):
            store(server.urls[0])
        # Others wait for readiness also while it is full.
        server.wait_until_ready()
        server.empty()
        store(server.urls[0])


def test_each_of_three_reaches_each(nats_cluster: NatsCluster) -> None:
    for source, target in permutations(nats_cluster.urls, 2):
        assert hear(source, target, b"hello") == [b"hello"]


@pytest.mark.long
def test_a_killed_leader_is_replaced_and_returns(nats_cluster: NatsCluster) -> None:
    make_stream(nats_cluster)
    killed = nats_cluster.leader
    assert killed is not None
    nats_cluster.kill(killed)
    assert is_silent(nats_cluster.urls[killed])
    nats_cluster.wait_until_ready()
    assert nats_cluster.leader not in (None, killed)
    store_in_time(nats_cluster.urls[killed - 1])
    nats_cluster.start(killed)
    wait_until_stored(nats_cluster.urls[killed])


def test_a_paused_node_is_silent_and_not_gone(nats_cluster: NatsCluster) -> None:
    make_stream(nats_cluster)
    nats_cluster.pause(1)
    assert is_silent(nats_cluster.urls[1])
    store_in_time(nats_cluster.urls[0])
    nats_cluster.resume(1)
    nats_cluster.wait_until_ready()
    wait_until_stored(nats_cluster.urls[1])


@pytest.mark.long
def test_a_split_cluster_stores_on_one_side(nats_cluster: NatsCluster) -> None:
    make_stream(nats_cluster)
    alone, *others = nats_cluster.urls
    nats_cluster.split(0)
    at(alone, lambda client: client.publish("all.said", b"alone"))
    assert hear(others[0], others[1], b"together") == [b"together"]
    assert not is_stored(alone)
    store_in_time(others[0])
    nats_cluster.heal()
    assert hear(alone, others[0], b"again") == [b"again"]
    wait_until_stored(alone)


@pytest.mark.processes
@pytest.mark.long
def test_a_full_cluster_stores_nowhere(tmp_path: Path) -> None:
    with NatsCluster(tmp_path, store=2 << 20) as cluster:
        make_stream(cluster)
        cluster.fill()
        assert not any(map(is_stored, cluster.urls))
        cluster.empty()
        store_in_time(cluster.urls[0])


@pytest.mark.processes
def test_no_process_outlives_a_failure(tmp_path: Path) -> None:
    servers = NatsCluster(tmp_path, nodes=1)

    def fail() -> None:
        with servers:
            servers.pause(0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert is_silent(servers.urls[0])
