"""Checkpoints: the newest seal of a server's journal, published for whoever wants to hold it against the journal later.

A seal says what the journal was. A copy elsewhere shows if somebody changes the journal and its seals afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from nats.js import JetStreamContext
from nats.js.api import StreamConfig

from bussrv.uplink.lines import Lines
from bussrv.uplink.nats.directory_stream import ensure_stream
from bussrv.uplink.seals import Seals

MOST_KEPT = 100_000
"""The most checkpoints of one server that the stream keeps."""

LOOK = 1.0
"""Seconds between two looks at the manifest."""


async def publish_checkpoints(stream: JetStreamContext, root: str, subject: str, journal: Path, log: Lines) -> None:
    """Publish the newest line of the manifest with a seal, whenever there is another one, for ever.

    :param root: the beginning of all subjects of the net.
    :param subject: that of the server.
    :param journal: its journal directory.
    :raises JournalError: the manifest cannot be read, or is damaged.
    :raises Error: the stream does not take it.
    """
    config = StreamConfig(
        name=f"{root}.seal".replace(".", "_"), subjects=[f"{root}.seal.*"], max_msgs_per_subject=MOST_KEPT
    )
    await ensure_stream(stream, config)
    seals = Seals(journal)
    await asyncio.to_thread(seals.look)
    if not seals.newest_line:
        is_there = await asyncio.to_thread(journal.is_dir)
        what = "no seal in the journal" if is_there else "no journal"
        waiting = "uplink: there is {what} {journal}: its seals are published when there are some"
        log.warn(waiting, event="uplink.no-seals", what=what, journal=journal.absolute())
    await _follow(seals, lambda line: stream.publish(subject, line, stream=config.name))


async def _follow(seals: Seals, publish: Callable[[bytes], Awaitable[object]]) -> None:
    published = b""
    while True:
        await asyncio.to_thread(seals.look)
        if seals.newest_line and seals.newest_line != published:
            published = seals.newest_line
            await publish(published)
        await asyncio.sleep(LOOK)
