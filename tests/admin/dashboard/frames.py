"""How long the page lets people wait: the longest tasks of its main thread, in the time of a processor.

A frame waits for the task before it. The time on the wall would say as much about the other programs on the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

CATEGORIES = ["toplevel", "__metadata"]


class Frames:
    """Watches the tasks of a page, from now until :meth:`longest` is asked."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._events: list[dict[str, Any]] = []
        self._is_complete = False
        self._session = page.context.new_cdp_session(page)
        self._session.on("Tracing.dataCollected", lambda data: self._events.extend(data["value"]))
        self._session.on("Tracing.tracingComplete", self._complete)
        categories = {"includedCategories": CATEGORIES, "excludedCategories": ["*"]}
        self._session.send("Tracing.start", {"transferMode": "ReportEvents", "traceConfig": categories})

    def _complete(self, _: object) -> None:
        self._is_complete = True

    def longest(self, number: int = 10) -> list[float]:
        """The longest tasks, in milliseconds, the longest first."""
        self._session.send("Tracing.end")
        while not self._is_complete:
            self._page.wait_for_timeout(50)
        threads = {place(each): each["args"]["name"] for each in self._events if each["name"] == "thread_name"}
        tasks = (each for each in self._events if each["name"].endswith("RunTask") and "tdur" in each)
        times = [each["tdur"] / 1000 for each in tasks if threads.get(place(each)) == "CrRendererMain"]
        assert len(times) > 100, "the browser has traced no tasks"
        return sorted(times, reverse=True)[:number]


def place(event: dict[str, Any]) -> tuple[int, int]:
    """The process and the thread of an event."""
    return event["pid"], event["tid"]
