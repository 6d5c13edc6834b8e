"""Arrivals: of the objects that come through the engine, those that are new, and how many are missing. Pure.

Each origin numbers what it sends on a subject. An engine may give the same frame twice, and may lose frames. So the
next number of each subject and origin is remembered for as long as the subject is subscribed to.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from bussrv.uplink.crossing.frames import Frame

MOST_REMEMBERED = 250_000
"""Of how many subjects and origins the next number is remembered. Beyond it, all are forgotten but
those of what is kept."""

MOST_ORIGINS = 10_000
"""Of how many origins the next number on one subject is remembered. Beyond it, all of that subject are forgotten."""

MOST_IN_PARTS = 128 << 20
"""The most bytes of objects that come in parts, and are not whole yet. Beyond it, all of these are lost."""


class Taken(Struct, frozen=True):
    """The news of a frame.

    :ivar body: the new objects; empty: there are none.
    :ivar lost: how many objects are missing before them.
    """

    body: bytes
    lost: int = 0


NOTHING = Taken(b"")


class _Expected(Struct, gc=False):
    """What comes next from one origin on one subject.

    :ivar parts: how many parts came of an object that comes in parts.
    :ivar begun: these parts.
    """

    boot: bytes
    number: int
    parts: int = 0
    begun: bytearray = msgspec.field(default_factory=bytearray)


class Arrivals:
    """Remembers what came.

    :param most: the most bytes of an object that comes in parts.
    :ivar repeated: how many objects came again.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._expected: dict[str, dict[str, _Expected]] = {}
        self._remembered = 0
        self._continued: set[str] = set()
        self._in_parts = 0
        self.repeated = 0

    def take(self, subject: str, frame: Frame) -> Taken:
        """A frame came on a subject."""
        expected = self._expected.get(subject, {}).get(frame.origin)
        if expected is None:
            expected = self._meet(subject, frame)
        elif expected.boot != frame.boot:
            self._drop(expected)
            expected.boot, expected.number = frame.boot, 1 if subject in self._continued else frame.number
        after = frame.number + frame.count
        if after <= expected.number:
            self.repeated += frame.count
            return NOTHING
        if frame.part is not None:
            return self._part(expected, frame, frame.part)
        lost = max(0, frame.number - expected.number)
        self.repeated += max(0, expected.number - frame.number)
        body = frame.body if expected.number <= frame.number else frame.after(expected.number)
        expected.number = after
        self._drop(expected)
        return Taken(body, lost)

    def _meet(self, subject: str, frame: Frame) -> _Expected:
        """The first frame of an origin on a subject."""
        if self._remembered >= MOST_REMEMBERED:
            self.forget(self._continued.__contains__)
        if len(self._expected.get(subject, ())) >= MOST_ORIGINS:
            # Later gaps of those that were forgotten would be none.
            self._continued.discard(subject)
            self._forget(subject)
        number = 1 if subject in self._continued else frame.number
        self._remembered += 1
        expected = self._expected.setdefault(subject, {})[frame.origin] = _Expected(frame.boot, number)
        return expected

    def _part(self, expected: _Expected, frame: Frame, part: int) -> Taken:
        """A part of an object. One whose parts did not all come, in order, is missing when the next object comes."""
        if part < expected.parts and frame.number == expected.number:
            return NOTHING
        lost = frame.number - expected.number
        if lost or not part:
            self._drop(expected)
        expected.number = frame.number
        if part != expected.parts or frame.lengths[0] > self._most:
            return Taken(b"", lost)
        if self._in_parts + len(frame.body) > MOST_IN_PARTS:
            self._drop_all()
            return Taken(b"", lost)
        expected.parts += 1
        expected.begun += frame.body
        self._in_parts += len(frame.body)
        if len(expected.begun) < frame.lengths[0]:
            return Taken(b"", lost)
        whole = bytes(expected.begun)
        self._drop(expected)
        expected.number = frame.number + 1
        return Taken(whole, lost)

    def _drop(self, expected: _Expected) -> None:
        """Drop the parts of an object that is whole, or does not become so."""
        if expected.parts:
            self._in_parts -= len(expected.begun)
            expected.parts, expected.begun = 0, bytearray()

    def _drop_all(self) -> None:
        for origins in self._expected.values():
            for each in origins.values():
                self._drop(each)

    def continue_at(self, subject: str, places: dict[str, tuple[str, int]]) -> None:
        """Go on where an earlier run stopped. What each origin sent on this subject since then is expected, all of it.

        :param places: the boot, and the number of the next object, of each origin.
        """
        self._forget(subject)
        self._continued.add(subject)
        self._remembered += len(places)
        self._expected[subject] = {
            origin: _Expected(bytes.fromhex(boot), number) for origin, (boot, number) in places.items()
        }

    def places(self, subject: str) -> dict[str, tuple[str, int]]:
        """Where a later run goes on; see :meth:`continue_at`."""
        return {origin: (each.boot.hex(), each.number) for origin, each in self._expected.get(subject, {}).items()}

    def forget(self, is_heard: Callable[[str], bool]) -> None:
        """Forget the subjects that are subscribed to no more: later gaps in them are none."""
        for subject in [each for each in self._expected if not is_heard(each)]:
            self._forget(subject)

    def _forget(self, subject: str) -> None:
        for each in self._expected.pop(subject, {}).values():
            self._remembered -= 1
            self._drop(each)
