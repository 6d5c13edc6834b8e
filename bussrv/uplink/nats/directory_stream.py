"""The stream with the directories of a net, for servers that come later, or were away. It is no record of anything.

Each server publishes the entries of its directory on a subject of its own. A JetStream stream keeps them. When much has
come since the last snapshot, the server publishes another one, and what was before it is removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from nats.errors import Error
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StreamConfig
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

MOST_REPLICAS = 3

MAX_AGE = 7 * 24 * 3600
"""Seconds until the entries of a server that does not come back are removed."""

_NO_CLUSTER = 10074
_FEW_PEERS = 10005
_BATCH = 256
_PATIENCE = 2.0


def text_of(error: Exception) -> str:
    """What an error of a stream is, for people."""
    if isinstance(error, ServiceUnavailableError) and not error.description:
        return "JetStream is off in NATS, or not allowed"
    return str(error) or type(error).__name__


async def ensure_stream(stream: JetStreamContext, config: StreamConfig) -> bool:
    """Make a stream, unless it is there, on as many servers of the cluster as it can have, at most three.

    :returns: whether it was there.
    :raises Error: it could not be made.
    """
    with suppress(NotFoundError):
        await stream.stream_info(str(config.name))
        return True
    for replicas in (MOST_REPLICAS, 1):
        config.num_replicas = replicas
        try:
            await stream.add_stream(config)
        except APIError as error:
            if error.err_code not in (_NO_CLUSTER, _FEW_PEERS) or replicas == 1:
                raise
        else:
            break
    return False


class DirectoryStream:
    """The stream.

    :param root: the beginning of all subjects of the net.
    """

    def __init__(self, stream: JetStreamContext, root: str) -> None:
        self._stream = stream
        self._root = root
        self.name = f"{root}.reg".replace(".", "_")

    async def ensure(self) -> bool:
        """Make the stream. :returns: whether it was there. :raises Error: it could not be made."""
        config = StreamConfig(name=self.name, subjects=[f"{self._root}.reg.*"], max_age=MAX_AGE)
        return await ensure_stream(self._stream, config)

    async def last(self, subject: str) -> bytes | None:
        """The newest entry of a server; ``None``: there is none. :raises Error: it cannot be read."""
        try:
            message = await self._stream.get_last_msg(self.name, subject)
        except NotFoundError:
            return None
        return message.data

    async def compact(self, subject: str, keep: int) -> None:
        """Remove all entries of a server but the newest ones."""
        await self._stream.purge_stream(self.name, subject=subject, keep=keep)

    async def read(self, subject: str) -> AsyncIterator[tuple[str, bytes]]:
        """The entries on a subject, or on several: subjects and bytes.

        :raises Error: they cannot be read.
        """
        config = ConsumerConfig(
            ack_policy=AckPolicy.NONE, deliver_policy=DeliverPolicy.ALL, inactive_threshold=30.0, mem_storage=True
        )
        consumer = await self._stream.pull_subscribe(subject, stream=self.name, config=config)
        try:
            while True:
                try:
                    messages = await consumer.fetch(_BATCH, timeout=_PATIENCE)
                except (NatsTimeoutError, asyncio.TimeoutError):
                    return
                for message in messages:
                    yield message.subject, message.data
                if not messages or not messages[-1].metadata.num_pending:
                    return
        finally:
            with suppress(Error):
                await consumer.unsubscribe()
