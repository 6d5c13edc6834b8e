"""What changed is looked at once, later, and in slices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from twisted.internet.task import Clock

from bussrv.services.discovery.changed_keys import PAUSE, ChangedKeys
from bussrv.turns.slices import Slices

SLICE = 0.002
LOOK = 0.001
"""Seconds that it takes to look at one."""


class Scene:
    def __init__(self) -> None:
        self.reactor = Clock()
        self.seen: list[str] = []
        self.again: set[str] = set()
        self.counters: Counter[str] = Counter()
        slices = Slices(self.reactor, SLICE, self.counters)
        self.changed: ChangedKeys[str] = ChangedKeys(self.look, slices, self.reactor)

    def look(self, key: str) -> Iterator[None]:
        self.seen.append(key)
        yield
        self.reactor.rightNow += LOOK
        if key in self.again:
            self.again.remove(key)
            self.changed.add(key)


def test_each_is_looked_at_once_and_later() -> None:
    scene = Scene()
    for key in ("tv", "radio", "tv"):
        scene.changed.add(key)
    scene.reactor.advance(PAUSE * 0.9)
    assert (scene.seen, len(scene.changed)) == ([], 2)
    scene.reactor.advance(PAUSE * 0.2)
    assert (scene.seen, len(scene.changed)) == (["tv", "radio"], 0)
    scene.changed.add("tv")
    scene.reactor.advance(PAUSE)
    assert scene.seen == ["tv", "radio", "tv"]


def test_what_changes_while_it_is_looked_at_is_looked_at_again() -> None:
    scene = Scene()
    scene.again = {"tv"}
    scene.changed.add("tv")
    scene.reactor.advance(PAUSE)
    assert scene.seen == ["tv", "tv"]


def test_others_are_served_between_slices() -> None:
    scene = Scene()
    for number in range(1_000):
        scene.changed.add(str(number))
    scene.reactor.advance(PAUSE)
    assert scene.seen == [str(number) for number in range(1_000)]
    assert scene.counters["slice-over"] >= 0.9 * 1_000 * LOOK / SLICE


def test_what_nobody_wants_to_know_is_not_looked_at() -> None:
    scene = Scene()
    scene.changed.add("tv")
    scene.changed.clear()
    scene.reactor.advance(PAUSE)
    scene.changed.add("radio")
    scene.reactor.advance(PAUSE)
    assert scene.seen == ["radio"]
