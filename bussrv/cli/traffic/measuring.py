"""The measurements of ``bussrv bench``: each has clients in processes of their own."""

from __future__ import annotations

import multiprocessing
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from bussrv.client.objects import ObjectsClient

WINDOW = 200
"""The most objects in flight while throughput is measured. With more, the server would drop some in the end."""

SERVICE = "bench"
PATIENCE = 30.0

_STAMP = struct.Struct("=d")
_ALL = ["*", "!@services/*", "!@routing/*"]
_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Load:
    """The size of the measurements.

    :ivar seconds: how long each measurement takes.
    :ivar size: bytes of a payload.
    :ivar subscribers: how many receive each object.
    :ivar rate: objects a second while the time of delivery is measured.
    """

    seconds: float
    size: int
    subscribers: int
    rate: int


def all_of(port: int, load: Load) -> Iterator[dict[str, Any]]:
    """Every measurement, one after the other.

    :param port: the port of Object System.
    """
    with _subscribers(port, load) as counts, _member(port, ["!*"]) as publisher:
        publisher.register(SERVICE)
        yield _throughput(publisher, counts, load)
    with _subscribers(port, load) as counts, _member(port, ["!*"]) as publisher:
        publisher.register(SERVICE)
        yield _delivery(publisher, counts, load)
    with _service(port), _member(port, ["@services/reply", "@error"]) as asker:
        yield _requests(asker, load)
    with _member(port, ["!*"]) as member:
        yield _changes(member, load)


@contextmanager
def _member(port: int, wants: Sequence[str]) -> Iterator[ObjectsClient]:
    with ObjectsClient(port=port, timeout=PATIENCE) as client:
        client.subscribe(subscriptions=list(wants))
        yield client


class _Subscriber:
    """A process that receives publications and counts them.

    :ivar count: how many objects it has received.
    """

    def __init__(self, port: int, ready: Any) -> None:
        self.count = _SPAWN.Value("L", 0)
        self.times, theirs = _SPAWN.Pipe(duplex=False)
        self.process = _SPAWN.Process(target=_receive, args=(port, self.count, theirs, ready), daemon=True)
        self.process.start()
        theirs.close()


def _receive(port: int, count: Any, times: Any, ready: Any) -> None:
    """In the process of a subscriber: receive until an empty payload comes, then send the times of delivery."""
    taken: list[float] = []
    with _member(port, _ALL) as client:
        ready.release()
        while payload := client.receive(PATIENCE).payload:
            taken.append(time.monotonic() - _STAMP.unpack_from(payload)[0])
            count.value += 1
    times.send(taken)


@contextmanager
def _subscribers(port: int, load: Load) -> Iterator[list[_Subscriber]]:
    ready = _SPAWN.Semaphore(0)
    found = [_Subscriber(port, ready) for _ in range(load.subscribers)]
    try:
        for _ in found:
            if not ready.acquire(timeout=PATIENCE):
                raise TimeoutError("the clients did not start in time")
        yield found
    finally:
        for each in found:
            each.process.join(5.0)
            each.process.kill()
            each.process.join()


def _publish(client: ObjectsClient, size: int) -> None:
    payload = _STAMP.pack(time.monotonic()).ljust(size, b"x") if size else b""
    client.send({"type": "application/octet-stream", "sender": SERVICE}, payload)


def _throughput(client: ObjectsClient, subscribers: Sequence[_Subscriber], load: Load) -> dict[str, Any]:
    sent, begun = 0, time.monotonic()
    while time.monotonic() - begun < load.seconds:
        if sent - min(each.count.value for each in subscribers) < WINDOW:
            _publish(client, load.size)
            sent += 1
        else:
            time.sleep(0.0002)
    took = time.monotonic() - begun
    received = sum(each.count.value for each in subscribers)
    _end(client, subscribers)
    title = f"1 to {load.subscribers}, {load.size} bytes"
    return {"measured": title, "unit": "deliveries", "per_second": received / took, "seconds": took}


def _delivery(client: ObjectsClient, subscribers: Sequence[_Subscriber], load: Load) -> dict[str, Any]:
    begun = time.monotonic()
    for index in range(max(1, int(load.rate * load.seconds))):
        time.sleep(max(0.0, begun + index / load.rate - time.monotonic()))
        _publish(client, load.size)
    return {"measured": f"delivery at {load.rate}/s", **_percentiles(_end(client, subscribers))}


def _end(client: ObjectsClient, subscribers: Sequence[_Subscriber]) -> list[float]:
    _publish(client, 0)
    taken: list[float] = []
    for each in subscribers:
        if each.times.poll(PATIENCE):
            taken += each.times.recv()
    return taken


@contextmanager
def _service(port: int) -> Iterator[None]:
    ready = _SPAWN.Semaphore(0)
    process = _SPAWN.Process(target=_serve, args=(port, ready), daemon=True)
    with ExitStack() as stack:
        process.start()
        stack.callback(process.join)
        stack.callback(process.kill)
        if not ready.acquire(timeout=PATIENCE):
            raise TimeoutError("the service did not start in time")
        yield


def _serve(port: int, ready: Any) -> None:
    """In the process of the service."""
    with _member(port, ["@services/request"]) as client:
        client.register(SERVICE)
        ready.release()
        for asked in client.requests():
            client.reply(asked, asked.payload)


def _requests(client: ObjectsClient, load: Load) -> dict[str, Any]:
    taken, begun = [], time.monotonic()
    while (now := time.monotonic()) - begun < load.seconds:
        client.request(SERVICE, b"x" * load.size)
        taken.append(time.monotonic() - now)
    return _each("requests, one at a time", "requests", taken, begun)


def _changes(client: ObjectsClient, load: Load) -> dict[str, Any]:
    taken: list[float] = []
    begun = time.monotonic()
    while (now := time.monotonic()) - begun < load.seconds:
        client.register(f"{SERVICE}-{len(taken)}")
        taken.append(time.monotonic() - now)
        client.unregister(f"{SERVICE}-{len(taken) - 1}")
    return _each("durable registrations", "registrations", taken, begun)


def _each(title: str, unit: str, taken: list[float], begun: float) -> dict[str, Any]:
    took = time.monotonic() - begun
    return {"measured": title, "unit": unit, "per_second": len(taken) / took, **_percentiles(taken), "seconds": took}


def _percentiles(taken: list[float]) -> dict[str, float]:
    ordered = sorted(taken)
    if not ordered:
        raise TimeoutError("nothing arrived in time")
    return {"p50": ordered[len(ordered) // 2], "p99": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]}
