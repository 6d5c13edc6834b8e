"""Services of which NATS keeps what was published, so that a server that was away gets it when it is back.

A JetStream stream for each service keeps publications up to an age and a size. A server that wants the service reads
them from there, by a consumer that goes on where it stopped: one for each server. What the server has taken is noted in
a file, then acknowledged. So it gets nothing twice, and what was removed before it came is told as missing.

The publisher publishes again what was not acknowledged, by the same id: within its window, the stream takes it once.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec
from nats.errors import Error
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, DiscardPolicy, StreamConfig
from nats.js.client import JetStreamContext as Context
from nats.js.errors import NotFoundError

from bussrv.uplink.nats.directory_stream import ensure_stream

log = logging.getLogger(__name__)

MOST_WAITING = 1000
"""The most frames of a service that wait for the stream. Beyond it the newest are dropped, and count as lost."""

PATIENCE = 30.0
"""Seconds that a frame waits for the stream to take it."""

_AGAIN = 1.0
_BATCH = 100
_WAIT = 5.0
_INACTIVE = 30 * 24 * 3600.0

Places = dict[str, tuple[str, int]]


class Position:
    """How far a server has taken what a stream keeps, in a file.

    :param path: the file. Its directory is made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    def load(self) -> Places | None:
        """The place of each origin; ``None``: there is no such file yet.

        :raises ValueError: it has something else in it.
        """
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Places)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise ValueError(f"{self._path} is no file of positions: {error}") from error

    def save(self, places: Places) -> None:
        """Remember this. A crash leaves the former file, or this one."""
        new = self._path.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(places))
        new.replace(self._path)


class KeptService:
    """One service that is kept.

    :param subject: the subject of its publications.
    :param root: the beginning of all subjects of the net.
    :param server: the routing id of this server.
    :param max_age: seconds for which the stream keeps something.
    :param max_bytes: the most bytes that it keeps.
    """

    def __init__(
        self, stream: JetStreamContext, subject: str, *, root: str, server: str, max_age: float, max_bytes: int
    ) -> None:
        self._stream = stream
        self.subject = subject
        digest = hashlib.sha256(subject.encode()).hexdigest()[:16]
        self.name = f"{root}.keep.{digest}".replace(".", "_")
        self._consumer = hashlib.sha256(server.encode()).hexdigest()[:16]
        self._config = StreamConfig(
            name=self.name,
            subjects=[subject],
            max_age=max_age,
            max_bytes=max_bytes,
            discard=DiscardPolicy.OLD,
            duplicate_window=min(120.0, max_age),
        )
        self._frames: deque[tuple[str, bytes]] = deque()
        self._wake = asyncio.Event()

    async def ensure(self) -> None:
        """Make the stream, and the consumer of this server: from now on the stream keeps what it misses.

        :raises Error: that could not be done.
        """
        await ensure_stream(self._stream, self._config)
        try:
            await self._stream.consumer_info(self.name, self._consumer)
        except NotFoundError:
            await self._stream.add_consumer(
                self.name,
                ConsumerConfig(
                    durable_name=self._consumer,
                    ack_policy=AckPolicy.ALL,
                    ack_wait=_WAIT * 2,
                    deliver_policy=DeliverPolicy.NEW,
                    inactive_threshold=_INACTIVE,
                ),
            )

    # What this server publishes.

    def publish(self, frame_id: str, frame: bytes) -> bool:
        """Have a frame published. :returns: whether there was room for it."""
        if len(self._frames) >= MOST_WAITING:
            return False
        self._frames.append((frame_id, frame))
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
        except (Error, TimeoutError) as error:
            log.warning("the stream %s takes nothing: %s", self.name, str(error) or type(error).__name__)
            return False
        return True

    # What this server wants.

    async def consume(
        self, take: Callable[[bytes], None], taken: Callable[[], asyncio.Future[None]], save: Callable[[], None]
    ) -> None:
        """Take what the stream has, for ever.

        :param take: is given each frame.
        :param taken: the future is done when the server has taken what it was given so far.
        :param save: notes how far the server is.
        """
        while True:
            try:
                subscription = await self._stream.pull_subscribe_bind(consumer=self._consumer, stream=self.name)
                await self._read(subscription, take, taken, save)
            except (Error, TimeoutError) as error:
                log.warning("the stream %s cannot be read: %s", self.name, str(error) or type(error).__name__)
            await asyncio.sleep(_AGAIN)

    async def _read(
        self,
        subscription: Context.PullSubscription,
        take: Callable[[bytes], None],
        taken: Callable[[], asyncio.Future[None]],
        save: Callable[[], None],
    ) -> None:
        try:
            while True:
                try:
                    messages = await subscription.fetch(_BATCH, timeout=_WAIT)
                except (NatsTimeoutError, TimeoutError):
                    continue
                for message in messages:
                    take(message.data)
                await taken()
                save()
                await messages[-1].ack()
        finally:
            with contextlib.suppress(Error):
                await subscription.unsubscribe()
