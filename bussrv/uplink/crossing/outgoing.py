"""Outgoing: objects that wait to be sent, gathered in frames by subject, and changes of the directory. Pure.

What one publisher sends stays in order, also if it goes to different subjects: frames are sent in the order in which
they were begun, and no object joins a frame that was begun before the one with its publisher's last object. What the
server advertises stays in order with all objects: others have to know of a session before they get what it sends, and
for as long.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from bussrv.uplink.crossing.frames import overhead, pack, pack_parts

MOST_OBJECTS = 100
"""The most objects in a frame."""

MOST_SUBJECTS = 250_000
"""The most subjects whose objects are numbered. Beyond it, numbers begin again, as in another run of the uplink."""

MOST_BYTES = 64 << 10
"""The most bytes of objects in a frame, if it has more than one."""


class Publisher(Struct, gc=False):
    """Somebody whose objects stay in order.

    :ivar last: the number of the frame with its last object.
    """

    last: int = 0


class _Open(Struct, gc=False):
    """A frame that is not full yet."""

    subject: str
    place: int
    objects: list[bytes]
    size: int = 0


class Advertised(Struct, gc=False):
    """Changes of the directory, one after the other.

    :ivar events: their metadata.
    """

    events: list[bytes]


class Outgoing:
    """Gathers objects.

    :param origin: the routing id of this server.
    :param boot: 8 bytes that no other run of an uplink has.
    :ivar boot: those of the numbers.
    :ivar waiting: how many bytes wait.
    """

    def __init__(self, origin: str, boot: bytes) -> None:
        self.origin = origin
        self.boot = boot
        self.waiting = 0
        self._frames: list[_Open | Advertised] = []
        self._open: dict[str, _Open] = {}
        self._begun = 0
        self._numbers: dict[str, int] = {}
        self._used: set[str] = set()
        self._quiet: set[str] = set()

    def add(self, subject: str, publisher: Publisher, obj: bytes) -> None:
        """An object is to be sent."""
        frame = self._open.get(subject)
        size = len(obj)
        if (
            frame is None
            or frame.place < publisher.last
            or len(frame.objects) >= MOST_OBJECTS
            or frame.size + size > MOST_BYTES
        ):
            self._begun += 1
            frame = self._open[subject] = _Open(subject, self._begun, [])
            self._frames.append(frame)
        frame.objects.append(obj)
        frame.size += size
        self.waiting += size
        publisher.last = frame.place

    def advertise(self, event: bytes) -> None:
        """A change of the directory is to be sent: after the objects so far, before those that follow."""
        last = self._frames[-1] if self._frames else None
        if isinstance(last, Advertised):
            last.events.append(event)
        else:
            self._frames.append(Advertised([event]))
            self._open.clear()

    def __len__(self) -> int:
        return len(self._frames)

    def take(self, most: int) -> Iterator[Advertised | tuple[str, bytes, int]]:
        """All that waits: subjects and frames, and how many objects each has; of parts, the last one has it.

        :param most: the most bytes of a frame.
        """
        frames, self._frames = self._frames, []
        self._open.clear()
        self.waiting = 0
        for frame in frames:
            if isinstance(frame, Advertised):
                yield frame
                continue
            subject, objects = frame.subject, frame.objects
            if len(self._numbers) >= MOST_SUBJECTS and subject not in self._numbers:
                self._begin_again()
            number = self._numbers.get(subject, 0) + 1
            self._numbers[subject] = number + len(objects) - 1
            self._used.add(subject)
            if frame.size + overhead(self.origin, len(objects)) <= most:
                yield subject, pack(self.origin, self.boot, number, objects), len(objects)
            else:
                yield from self._parts(subject, number, objects, most)

    def _begin_again(self) -> None:
        """Number everything anew. What is lost at this moment is not noticed."""
        self._numbers.clear()
        self._used.clear()
        self._quiet.clear()
        self.boot = (int.from_bytes(self.boot, "big") + 1 & (1 << 64) - 1).to_bytes(8, "big")

    def _parts(self, subject: str, number: int, objects: list[bytes], most: int) -> Iterator[tuple[str, bytes, int]]:
        for place, obj in enumerate(objects, number):
            *parts, last = pack_parts(self.origin, self.boot, place, obj, most)
            for part in parts:
                yield subject, part, 0
            yield subject, last, 1

    def closings(self) -> Iterator[tuple[str, bytes]]:
        """Frames without objects, for subjects on which nothing was sent since this was last asked, but before that."""
        quiet, self._quiet, self._used = self._quiet - self._used, self._used, set()
        for subject in sorted(quiet):
            yield subject, pack(self.origin, self.boot, self._numbers[subject] + 1, [])
