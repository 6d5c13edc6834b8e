"""What operators do while a server works: a dashboard is open, and Prometheus scrapes each second.

``python bench/watcher.py HOST PORT`` reads both event streams that the dashboard reads, and asks for what its first
view asks for now and then. It writes a line when all of that is under way, and ends with exit status 1 if the server
ends any of it.
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
"""Seconds between two scrapes."""

SELDOM = 5
"""The dashboard asks for what it does not stream once in so many scrapes."""

STREAMS = ("/api/v1/live", "/api/v1/events")
ASKED = ("/readyz", "/api/v1/closed", "/api/v1/denied")

Place = tuple[str, int]


def read(place: Place, path: str, begun: Callable[[], None]) -> None:
    """Read a stream until it ends."""
    connection = http.client.HTTPConnection(*place)
    connection.request("GET", path)
    answer = connection.getresponse()
    assert answer.status == 200, f"{path}: {answer.status}"
    answer.readline()
    begun()
    while answer.readline():
        pass
    print(f"{path} ended", file=sys.stderr)


def ask(place: Place, begun: Callable[[], None]) -> None:
    """Ask for figures each second, and for the rest now and then."""
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
    """The same, but the process ends with it."""

    def run() -> None:
        try:
            work()
        finally:
            os._exit(1)

    return run


def main() -> None:
    """Read the command line, and do everything at once."""
    place = (sys.argv[1], int(sys.argv[2]))
    # Whoever starts servers does so on their CPU alone. Operators are elsewhere.
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
