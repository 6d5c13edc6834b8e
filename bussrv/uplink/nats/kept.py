"""Services of which NATS keeps what was published, so that a server that was away gets it when it is back.

A JetStream stream for each service keeps publications up to an age and a size. A server that wants the service reads
them from there. How far it is stands in a file, which is written when the server has taken something. So it gets
nothing twice, and what was removed before it came is told as missing. A server begins with what comes after its uplink
was first started.

The publisher publishes again what was not acknowledged, by the same id: within its window, the stream takes it once.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta, Struct
from nats.errors import Error
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, DiscardPolicy, StreamConfig

from bussrv.errors import ConfigError, os_errors_as
from bussrv.uplink.lines import Lines, RareLines
from bussrv.uplink.nats.directory_stream import ensure_stream, text_of
from bussrv.uplink.nats.settings import Keep
from bussrv.uplink.nats.subjects import token

MOST_WAITING = 64 << 20
"""The most bytes of a service that wait for the stream. Beyond it the newest are dropped, and count as lost."""

PATIENCE = 30.0
"""Seconds that a frame waits for the stream to take it."""

HEADERS = 512
"""Bytes of a message that are left for its headers."""

Boot = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z")]

_WINDOW = 120.0
_AGAIN = 1.0
_BATCH = 100
_WAIT = 5.0
_INACTIVE = 60.0


class Place(Struct):
    """How far a server has taken what a stream keeps.

    :ivar sequence: the number of the last message in the stream.
    :ivar origins: the boot, and the number of the next object, of each origin.
    :ivar stream: when the stream was made.
    """

    sequence: Annotated[int, Meta(ge=0)]
    origins: dict[str, tuple[Boot, Annotated[int, Meta(ge=1)]]] = {}
    stream: str = ""


class PlaceFile:
    """The file with a place.

    :param path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> Place | None:
        """The place; ``None``: there is none yet.

        :raises OSError, msgspec.MsgspecError: the file cannot be read, or has something else in it.
        """
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=Place)
        except FileNotFoundError:
            return None

    def save(self, place: Place) -> None:
        """Remember this. A crash leaves the former place, or this one.

        :raises OSError: the file cannot be written.
        """
        new = self.path.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(place))
        new.replace(self.path)


def check_state(directory: Path) -> None:
    """Make the directory that says how far a server is, and see whether files can be written there.

    :raises ConfigError: they cannot.
    """
    with os_errors_as(ConfigError, f"--state {directory}"):
        directory.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=directory):
            pass


class _Frame(Struct, gc=False):
    """A frame that waits for the stream.

    :ivar until: when it is given up.
    """

    id: str
    data: bytes
    objects: int
    until: float


class ITaker(Protocol):
    """The server, to a service that is kept."""

    def take(self, subject: str, frame: bytes) -> None:
        """Take a frame."""

    async def taken(self) -> None:
        """Wait until the server has taken everything so far."""

    def origins(self, subject: str) -> dict[str, tuple[str, int]]:
        """What it expects of each origin now; see :class:`Place`."""


class KeptService:
    """One service that is kept.

    :param subject: the subject of its publications.
    :param root: the beginning of all subjects of the net.
    :param server: the routing id of this server.
    """

    def __init__(
        self, stream: JetStreamContext, subject: str, *, root: str, server: str, keep: Keep, log: Lines
    ) -> None:
        self._stream = stream
        self._log = RareLines(log)
        self.subject = subject
        digest = hashlib.sha256(subject.encode()).hexdigest()[:16]
        self.name = f"{root}.keep.{digest}".replace(".", "_")
        self._file = PlaceFile(keep.state / f"{self.name}.{token(server)}.json")
        self._config = StreamConfig(
            name=self.name,
            subjects=[subject],
            max_age=keep.age,
            max_bytes=keep.size,
            discard=DiscardPolicy.OLD,
            duplicate_window=min(_WINDOW, keep.age),
        )
        self._place: Place | None = None
        self._frames: deque[_Frame] = deque()
        self._waiting = 0
        run = secrets.token_hex(8)
        self._ids = (f"{run}.{number}" for number in count())
        self._wake = asyncio.Event()

    async def begin(self) -> Place:
        """Make the stream. :returns: the place of this server in it.

        :raises Error: that could not be done.
        """
        await ensure_stream(self._stream, self._config)
        info = await self._stream.stream_info(self.name)
        made = "" if info.created is None else info.created.isoformat()
        place = self._place or self._load()
        if place is None:
            place = Place(info.state.last_seq, stream=made)
            self._save(place)
        elif place.stream != made or place.sequence > info.state.last_seq:
            # The stream is another one: its numbers begin anew.
            place.sequence, place.stream = 0, made
        self._place = place
        return place

    def _load(self) -> Place | None:
        try:
            return self._file.load()
        except (OSError, msgspec.MsgspecError) as error:
            self._log.warn(
                "uplink: {path} does not say how far the server is, which begins with what comes next: {error}",
                event="uplink.state-failed",
                path=self._file.path,
                error=error,
            )
            return None

    def _save(self, place: Place) -> None:
        try:
            self._file.save(place)
        except OSError as error:
            self._log.warn(
                "uplink: {path} cannot be written; if the uplink ends, some things may come again: {error}",
                event="uplink.state-failed",
                path=self._file.path,
                error=error,
            )

    # What this server publishes.

    def publish(self, frame: bytes, objects: int) -> bool:
        """Have a frame published.

        :param objects: how many objects it has.
        :returns: whether there was room for it.
        """
        if self._waiting + len(frame) > MOST_WAITING:
            return False
        until = asyncio.get_running_loop().time() + PATIENCE
        self._frames.append(_Frame(next(self._ids), frame, objects, until))
        self._waiting += len(frame)
        self._wake.set()
        return True

    def waiting(self) -> int:
        """How many objects wait for the stream."""
        return sum(each.objects for each in self._frames)

    async def publish_all(self, lost: Callable[[int], None]) -> None:
        """Publish frames, one after the other, for ever.

        :param lost: is called with the number of objects that the stream did not take in time.
        """
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._frames:
                frame = self._frames[0]
                if not await self._published(frame):
                    lost(frame.objects)
                self._frames.popleft()
                self._waiting -= len(frame.data)

    async def _published(self, frame: _Frame) -> bool:
        while True:
            if await self._has_taken(frame):
                return True
            if asyncio.get_running_loop().time() >= frame.until:
                return False
            await asyncio.sleep(_AGAIN)

    async def _has_taken(self, frame: _Frame) -> bool:
        headers = {"Nats-Msg-Id": frame.id}
        try:
            await self._stream.publish(self.subject, frame.data, timeout=_WAIT, stream=self.name, headers=headers)
        except (Error, asyncio.TimeoutError) as error:
            self._complain("takes nothing", error)
            return False
        return True

    def _complain(self, what: str, error: Exception) -> None:
        self._log.warn(
            "uplink: the stream {stream} {what}, and it is tried again: {error}",
            event="uplink.engine-failed",
            stream=self.name,
            what=what,
            error=text_of(error),
        )

    # What this server wants.

    async def consume(self, place: Place, taker: ITaker) -> None:
        """Give the server what the stream has, from a place on, for ever. It is brought up to date.

        :raises Error: the stream cannot be read.
        """
        config = ConsumerConfig(
            ack_policy=AckPolicy.NONE,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=place.sequence + 1,
            inactive_threshold=_INACTIVE,
        )
        consumer = await self._stream.pull_subscribe(self.subject, stream=self.name, config=config)
        try:
            while True:
                try:
                    messages = await consumer.fetch(_BATCH, timeout=_WAIT)
                except (NatsTimeoutError, asyncio.TimeoutError):
                    messages = []
                if not messages:
                    await consumer.consumer_info()  # It is gone after a while without a connection.
                    continue
                for message in messages:
                    taker.take(self.subject, message.data)
                await taker.taken()
                place.sequence = messages[-1].metadata.sequence.stream
                place.origins = taker.origins(self.subject)
                self._save(place)
        finally:
            with suppress(Error):
                await consumer.unsubscribe()
