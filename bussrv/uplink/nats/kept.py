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
from typing import Protocol

import msgspec
from msgspec import Struct
from nats.errors import Error
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, DiscardPolicy, StreamConfig

from bussrv.errors import ConfigError
from bussrv.uplink.lines import Lines
from bussrv.uplink.nats.directory_stream import ensure_stream
from bussrv.uplink.nats.settings import Keep
from bussrv.uplink.nats.subjects import token

MOST_WAITING = 1000
"""The most frames of a service that wait for the stream. Beyond it the newest are dropped, and count as lost."""

PATIENCE = 30.0
"""Seconds that a frame waits for the stream to take it."""

_WINDOW = 120.0
_AGAIN = 1.0
_BATCH = 100
_WAIT = 5.0
_INACTIVE = 60.0


class Place(Struct):
    """How far a server has taken what a stream keeps.

    :ivar sequence: the number of the last message in the stream.
    :ivar origins: the boot, and the number of the next object, of each origin.
    """

    sequence: int
    origins: dict[str, tuple[str, int]] = {}


class PlaceFile:
    """The file with a place.

    :param path: the file. Its directory is made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    def load(self) -> Place | None:
        """The place; ``None``: there is none yet.

        :raises ConfigError: the file has something else in it.
        """
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Place)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{self._path} does not say how far the server is: {error}") from error

    def save(self, place: Place) -> None:
        """Remember this. A crash leaves the former place, or this one."""
        new = self._path.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(place))
        new.replace(self._path)


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
        self._log = log
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
        self._frames: deque[tuple[str, bytes]] = deque()
        run = secrets.token_hex(8)
        self._ids = (f"{run}.{number}" for number in count())
        self._wake = asyncio.Event()

    async def begin(self) -> Place:
        """Make the stream. :returns: the place of this server in it.

        :raises Error: that could not be done.
        """
        await ensure_stream(self._stream, self._config)
        state = (await self._stream.stream_info(self.name)).state
        place = self._file.load()
        if place is None:
            place = Place(state.last_seq)
            self._file.save(place)
        elif place.sequence > state.last_seq:
            # The stream is another one: its numbers begin anew.
            place.sequence = 0
        return place

    # What this server publishes.

    def publish(self, frame: bytes) -> bool:
        """Have a frame published. :returns: whether there was room for it."""
        if len(self._frames) >= MOST_WAITING:
            return False
        self._frames.append((next(self._ids), frame))
        self._wake.set()
        return True

    async def publish_all(self, lost: Callable[[], None]) -> None:
        """Publish frames, one after the other, for ever.

        :param lost: is called for each that the stream did not take in time.
        """
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._frames:
                frame_id, frame = self._frames[0]
                if not await self._published(frame_id, frame):
                    lost()
                self._frames.popleft()

    async def _published(self, frame_id: str, frame: bytes) -> bool:
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE
        while True:
            if await self._has_taken(frame_id, frame):
                return True
            if loop.time() >= until:
                return False
            await asyncio.sleep(_AGAIN)

    async def _has_taken(self, frame_id: str, frame: bytes) -> bool:
        headers = {"Nats-Msg-Id": frame_id}
        try:
            await self._stream.publish(self.subject, frame, timeout=_WAIT, stream=self.name, headers=headers)
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
            error=str(error) or type(error).__name__,
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
                    await consumer.consumer_info()  # It is gone after a while without a connection.
                    continue
                for message in messages:
                    taker.take(self.subject, message.data)
                await taker.taken()
                place.sequence = messages[-1].metadata.sequence.stream
                place.origins = taker.origins(self.subject)
                self._file.save(place)
        finally:
            with suppress(Error):
                await consumer.unsubscribe()
