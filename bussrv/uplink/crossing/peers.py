"""Peers: the other servers of a net, and how far each directory is known. Pure.

Each server numbers the entries of its directory from 1, in each run of its uplink. An entry has advertisements, and the
interest of the server. Some entries together are a *snapshot*: everything, from the first one, with ``reset``, to the
one that is ``whole``. They come as they are published, and again when they are read from where the engine keeps them::

    entry = {"boot": ID, "n": NUMBER, ["reset": true], ["whole": false], "events": [...]}
    beat  = {"boot": ID, "n": NUMBER of the last entry, ["left": true]}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from bussrv.bus.links.paths import Paths
from bussrv.errors import RemoteProtocolError
from bussrv.uplink.crossing.interest import Interest

MOST_IN_ENTRY = 200 << 10
"""The most bytes of the events of an entry, if it has more than one event."""

_AROUND = 128
"""The most bytes of an entry besides its events."""


class Entry(Struct, omit_defaults=True):
    """A part of a directory.

    :ivar reset: whether it begins a snapshot.
    :ivar whole: whether what it belongs to ends with it: a snapshot has it in its last entry.
    """

    boot: str
    n: int
    events: list[dict[str, Any]]
    reset: bool = False
    whole: bool = True


class Beat(Struct, omit_defaults=True):
    """A sign of life.

    :ivar left: whether the server leaves the net.
    """

    boot: str
    n: int
    left: bool = False


class _Written(Struct, omit_defaults=True):
    boot: str
    n: int
    events: list[Raw]
    reset: bool = False
    whole: bool = True


_decode_entry = msgspec.json.Decoder(Entry).decode
_decode_beat = msgspec.json.Decoder(Beat).decode
encode_entry = msgspec.json.Encoder().encode


def read_entry(data: bytes) -> Entry:
    """:raises RemoteProtocolError: ``bad-entry``: it is none."""
    try:
        return _decode_entry(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteProtocolError("bad-entry", f"a message of the engine is no part of a directory: {error}") from error


def read_beat(data: bytes) -> Beat:
    """:raises RemoteProtocolError: ``bad-entry``: it is none."""
    try:
        return _decode_beat(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteProtocolError("bad-entry", f"a message of the engine is no heartbeat: {error}") from error


class Entries:
    """Writes the entries of this server's directory.

    :ivar number: that of the last one.
    :ivar since: how many bytes there are since the last snapshot began.
    """

    def __init__(self, boot: str) -> None:
        self.boot = boot
        self.number = 0
        self.since = 0

    def changes(self, events: list[bytes], most: int) -> Iterator[bytes]:
        """Entries with these events.

        :param most: the most bytes of an entry. Larger events are left out.
        """
        for part in _parts(events, most):
            yield self._entry(part)

    def snapshot(self, events: list[bytes], most: int) -> Iterator[bytes]:
        """Entries that together say everything.

        :param most: the most bytes of an entry. Larger events are left out.
        """
        self.since = 0
        parts = list(_parts(events, most)) or [[]]
        for place, part in enumerate(parts, 1):
            yield self._entry(part, reset=place == 1, whole=place == len(parts))

    def _entry(self, events: list[bytes], *, reset: bool = False, whole: bool = True) -> bytes:
        self.number += 1
        entry = encode_entry(_Written(self.boot, self.number, list(map(Raw, events)), reset, whole))
        self.since += len(entry)
        return entry


def _parts(events: list[bytes], most: int) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    size, most = 0, most - _AROUND
    for event in events:
        if len(event) > most:
            continue
        if part and size + len(event) > min(MOST_IN_ENTRY, most):
            yield part
            part, size = [], 0
        part.append(event)
        size += len(event) + 1
    if part:
        yield part


class Told(Struct):
    """What a server has told of itself in a snapshot.

    :ivar sessions: its sessions, folded.
    """

    sessions: Paths = field(default_factory=Paths)
    wanted: Interest = field(default_factory=Interest)


class Peer(Struct):
    """Another server.

    :ivar number: that of the last entry that was folded.
    :ivar heard: when it was last heard of, in seconds.
    :ivar snapshot: what a snapshot has told so far that is not whole yet; ``None``: none is on its way.
    :ivar is_known: whether a snapshot was whole, so that its directory is known.
    """

    boot: str
    number: int
    heard: float
    snapshot: Told | None = None
    is_known: bool = False

    def begins(self, entry: Entry) -> None:
        """The next entry, or the first of a snapshot, is to be folded."""
        self.number = entry.n
        if entry.reset:
            self.snapshot = Told()

    def is_next(self, entry: Entry) -> bool:
        """Whether everything before an entry is known, or need not be."""
        return entry.boot == self.boot and (entry.reset or entry.n == self.number + 1)
