"""The load of operators: an open dashboard, and Prometheus that scrapes each second.

``python bench/watcher.py HOST PORT`` reads both event streams of the dashboard. Every few seconds it sends the requests
of the dashboard's first view. It writes a line when all of that has begun. If the server ends a connection, it ends
with exit status 1.
"""

from __future__ import annotations

import http.client
import os
import sys
import threading
import time
from collections.abc import Callable
from itertools import count

SCRAPE = 1.0
"""The seconds between two scrapes."""

SELDOM = 5
"""The number of scrapes for each of the dashboard's other requests."""

STREAMS = ("/api/v1/live", "/api/v1/events")
ASKED = ("/readyz", "/api/v1/closed", "/api/v1/denied")

Place = tuple[str, int]


def read(place: Place, path: str, begun: Callable[[], None]) -> None:
    """Read a stream until it ends."""
    connection = http.client.HTTPConnection(*place)
    connection.request("GET", path, headers={"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200, f"{path}: {answer.status}"
    answer.readline()
    begun()
    while answer.readline():
        pass
    print(f"{path} ended", file=sys.stderr)


def ask(place: Place, begun: Callable[[], None]) -> None:
    """Request the figures each second, and the rest every few seconds."""
    connection = http.client.HTTPConnection(*place)
    for number in count():
        for path in ("/metrics", *(ASKED if number % SELDOM == 0 else ())):
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, f"{path}: {answer.status}"
        begun()
        time.sleep(SCRAPE)


def end_with(work: Callable[[], None]) -> Callable[[], None]:
    """The same function, except that the process ends when it returns."""

    def run() -> None:
        try:
            work()
        finally:
            os._exit(1)

    return run


def main() -> None:
    """Read the command line, and do everything at the same time."""
    place = (sys.argv[1], int(sys.argv[2]))
    # The bench starts this program on the CPU of the servers alone. Operators have other machines: leave that CPU.
    if sys.platform == "linux":
        everywhere = set(range(os.cpu_count() or 1))
        os.sched_setaffinity(0, everywhere - os.sched_getaffinity(0) or everywhere)
    begun = [threading.Event() for _ in range(len(STREAMS) + 1)]
    works: list[Callable[[], None]] = [
        lambda path=path, each=each: read(place, path, each.set)  # type: ignore[misc]
        for path, each in zip(STREAMS, begun, strict=False)
    ]
    works.append(lambda: ask(place, begun[-1].set))
    threads = [threading.Thread(target=end_with(each), daemon=True) for each in works]
    for each in threads:
        each.start()
    for event in begun:
        event.wait()
    print("watching", flush=True)
    threads[0].join()


if __name__ == "__main__":
    main()
