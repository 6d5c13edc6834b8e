"""Arrivals: of the objects that come through the engine, those that are new, and how many are missing. Pure.

Each origin numbers what it sends on a subject. An engine may give the same frame twice, and may lose frames. So the
next number of each subject and origin is remembered for as long as the subject is subscribed to.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from bussrv.uplink.crossing.frames import Frame

MOST_REMEMBERED = 1_000_000
"""Of how many subjects and origins the next number is remembered. Beyond it, all are forgotten."""


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

    :ivar parts: the parts so far of an object that comes in parts.
    """

    boot: bytes
    number: int
    parts: list[bytes] = []


class Arrivals:
    """Remembers what came.

    :param most: the most bytes of an object that comes in parts.
    :ivar repeated: how many objects came again.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._expected: dict[tuple[str, str], _Expected] = {}
        self._continued: set[str] = set()
        self.repeated = 0

    def take(self, subject: str, frame: Frame) -> Taken:
        """A frame came on a subject."""
        key = subject, frame.origin
        expected = self._expected.get(key)
        if expected is None or expected.boot != frame.boot:
            if len(self._expected) >= MOST_REMEMBERED:
                self._expected.clear()
            first = 1 if subject in self._continued else frame.number
            expected = self._expected[key] = _Expected(frame.boot, first)
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
        expected.parts.clear()
        return Taken(body, lost)

    def _part(self, expected: _Expected, frame: Frame, part: int) -> Taken:
        """A part of an object. One whose parts did not all come, in order, is missing when the next object comes."""
        if part < len(expected.parts) and frame.number == expected.number:
            return NOTHING
        lost = frame.number - expected.number
        if lost or not part:
            expected.parts.clear()
        expected.number = frame.number
        if part != len(expected.parts) or frame.lengths[0] > self._most:
            return Taken(b"", lost)
        expected.parts.append(frame.body)
        if sum(map(len, expected.parts)) < frame.lengths[0]:
            return Taken(b"", lost)
        whole = b"".join(expected.parts)
        expected.parts.clear()
        expected.number = frame.number + 1
        return Taken(whole, lost)

    def continue_at(self, subject: str, places: dict[str, tuple[str, int]]) -> None:
        """Go on where an earlier run stopped. What each origin sent on this subject since then is expected, all of it.

        :param places: the boot, and the number of the next object, of each origin.
        """
        self._continued.add(subject)
        for origin, (boot, number) in places.items():
            self._expected[subject, origin] = _Expected(bytes.fromhex(boot), number)

    def places(self, subject: str) -> dict[str, tuple[str, int]]:
        """Where a later run goes on; see :meth:`continue_at`."""
        return {
            origin: (each.boot.hex(), each.number) for (on, origin), each in self._expected.items() if on == subject
        }

    def forget(self, is_heard: Callable[[str], bool]) -> None:
        """Forget the subjects that are subscribed to no more: later gaps in them are none."""
        self._expected = {key: each for key, each in self._expected.items() if is_heard(key[0])}
