"""One session of an uplink: from the moment that the link with its server stands, until it ends."""

from __future__ import annotations

import asyncio
import secrets
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from nats.errors import Error
from nats.js import JetStreamContext

from bussrv.errors import REASONS, JournalError, RemoteProtocolError
from bussrv.service_patterns import matches
from bussrv.uplink.bus_connection import BusConnection
from bussrv.uplink.crossing.node import Node
from bussrv.uplink.crossing.peers import read_entry
from bussrv.uplink.figures import Figures
from bussrv.uplink.lines import Lines, RareLines
from bussrv.uplink.nats.checkpoints import publish_checkpoints
from bussrv.uplink.nats.connection import Connection
from bussrv.uplink.nats.directory_stream import DirectoryStream, text_of
from bussrv.uplink.nats.kept import HEADERS, KeptService
from bussrv.uplink.nats.settings import BEAT, Settings
from bussrv.uplink.nats.subjects import covers
from bussrv.uplink.stopping import TakenOver
from bussrv.wire.objects import BusObject

CHECK = 10.0
"""Seconds between two looks at whether the stream has the newest entry of this server."""

LEAST_PAYLOAD = 4096
"""If NATS takes smaller messages, nothing crosses."""

MOST_PAUSE = 4.0
"""The most seconds between two attempts to get the directories of servers."""

TOLD_ANEW = 1.0
"""The least seconds between two snapshots that others ask for."""

_MANY = 3

REPLACED = "replaced"
"""The farewell of a server to which another program has linked as the same net."""


COUNTERS = {
    "sent": "Objects that were given to the engine.",
    "not-sent": "Objects that the engine could not be given.",
    "received": "Objects that came through the engine.",
    "lost": "Objects that did not come through the engine.",
    "crosses-elsewhere": "Objects that came over a link from a server that is on the net itself.",
    "server-too-slow": "Messages that were dropped because the server reads too slowly.",
    "reply-to-nobody": "Replies to requests that are not known.",
    "bad-frame": "Messages of objects that were none.",
    "bad-entry": "Messages about servers, and parts of them, that were none.",
    "bad-object": "Objects that another server may not send.",
    "over-limit": "What was left out because of a limit of the uplink.",
    "same-server": "Heartbeats of another server with the id of this one.",
}
"""What is counted, and what it means."""


class SessionFigures:
    """The figures of all sessions of a program."""

    def __init__(self, figures: Figures) -> None:
        self.servers = figures.gauge("servers", "Other servers on the net.")
        self._counters = {name: figures.counter(name.replace("-", "_"), text) for name, text in COUNTERS.items()}

    def add(self, counted: Counter[str]) -> None:
        """Add what was counted, and count anew."""
        for name, number in counted.items():
            if name in self._counters:
                self._counters[name].inc(number)
        counted.clear()


class Session:
    """The net and the server, joined.

    :param link: stands.
    """

    def __init__(
        self, link: BusConnection, connection: Connection, settings: Settings, figures: SessionFigures, log: Lines
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._link = link
        self._figures = figures
        self._log = log
        server = link.server.result()
        self._connection = connection
        self._settings = settings
        self.subjects = settings.subjects
        self.node = Node(
            server,
            settings.node,
            secrets.token_bytes(8),
            self.subjects,
            max_payload=settings.max_payload,
            limits=link.limits,
            understood=link.understood,
        )
        self._stream: JetStreamContext = connection.jetstream(timeout=5)
        self._directory = DirectoryStream(self._stream, self.subjects.root)
        self._kept = {self.subjects.publication(name): self._keep(name) for name in settings.keep.services}
        self.node.keep(settings.keep.services)
        self._seen: set[str] = set()
        self._interest_changed = asyncio.Event()
        self._wake = asyncio.Event()
        self._reading = asyncio.Event()
        self._pongs: dict[str, asyncio.Future[None]] = {}
        self._pings = 0
        self._told_at = -TOLD_ANEW
        self._telling_anew: asyncio.TimerHandle | None = None
        self._compacting: asyncio.Task[None] | None = None
        self._rare = RareLines(log)
        self._tasks: list[asyncio.Task[None]] = []
        self._own_entries, self._own_beat = (self.subjects.of(kind, server) for kind in ("reg", "beat"))

    def _keep(self, name: str) -> KeptService:
        subject, keep = self.subjects.publication(name), self._settings.keep
        server = self._link.server.result()
        return KeptService(self._stream, subject, root=self.subjects.root, server=server, keep=keep, log=self._log)

    async def run(self) -> str:
        """Serve until the link is gone.

        :returns: why it is.
        :raises TakenOver: another uplink of the server has it.
        """
        self._connection.received = self._came
        self._link.serve(self._of_server, self._wake.set)
        jobs: list[Callable[[], Awaitable[None]]] = [self._publish, self._beat, self._read, self._check]
        if (journal := self._settings.journal) is not None:
            subject = self.subjects.of("seal", self.node.server)
            jobs.append(partial(publish_checkpoints, self._stream, self.subjects.root, subject, journal, self._log))
        for each in self._kept.values():
            jobs += [partial(self._serve_kept, each), partial(each.publish_all, self._not_kept)]
        self._tasks = [self._loop.create_task(self._forever(job)) for job in jobs]
        try:
            ended: list[asyncio.Future[Any]] = [self._link.gone, self._connection.ended, *self._tasks]
            await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
            if self._connection.is_closed:
                # nats-py cancels whoever waits for a message.
                return self._end_with_engine()
            for task in self._tasks:
                if task.done():
                    task.result()
            why = await self._link.gone
            farewell = self.node.farewell
            if farewell == REPLACED:
                raise TakenOver(
                    f"another uplink of server {self.node.server} has joined it to the net {self.subjects.net}, and "
                    "took the place of this one: run one of them only"
                )
            return f"{why}: {REASONS.get(farewell, farewell)}" if farewell else why
        except TakenOver:
            raise
        except Exception as error:
            return self._bug(error)
        finally:
            self._connection.received = lambda subject, data: None
            await self._leave()

    async def _forever(self, job: Callable[[], Awaitable[None]]) -> None:
        """Do a job, again if it fails: for example while the engine is away. The same failure is logged once."""
        logged = ""
        while True:
            try:
                await job()
            except (Error, asyncio.TimeoutError, OSError, JournalError) as error:
                said = text_of(error)
                if said != logged:
                    failing = "uplink: NATS does not do its part, which is tried again: {error}"
                    self._log.warn(failing, event="uplink.engine-failed", error=said)
                logged = said
            await asyncio.sleep(1)

    def _end_with_engine(self) -> str:
        """End the link because NATS has ended the connection. :returns: why it ends."""
        why = "NATS has ended the connection"
        error = self._connection.last_error
        self._log.warn("uplink: {why}, and is dialed anew: {error}", event="uplink.lost", why=why, error=error)
        self._link.end(why, "server-stopped")
        return why

    def _bug(self, error: Exception) -> str:
        """End the link because of a bug. :returns: why it ends."""
        where = "".join(traceback.format_exception(error)[-2:])
        self._log.error("uplink: a bug, the link begins anew: {where}", event="uplink.bug", where=where)
        self._link.end("a bug in the uplink", "internal-error")
        return "a bug in the uplink"

    async def _leave(self) -> None:
        for each in self._kept.values():
            self._not_kept(each.waiting())
        self._figures.add(self.node.counters)
        if self._telling_anew is not None:
            self._telling_anew.cancel()
        tasks = [*self._tasks, *([] if self._compacting is None else [self._compacting])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(Error, asyncio.TimeoutError):
            await self._connection.give(self._own_beat, self.node.beat(left=True))
            await self._connection.listen(set())
            await asyncio.wait_for(self._connection.flush(), 1)

    # From the server to the engine.

    def _of_server(self, objs: list[BusObject]) -> None:
        self.node.received(objs)
        if self.node.pongs:
            for ping_id in self.node.pongs:
                waiting = self._pongs.pop(ping_id, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(None)
            self.node.pongs.clear()

    async def _publish(self) -> None:
        """Publish what comes from the server, whenever something has come."""
        node, connection = self.node, self._connection
        while True:
            await self._wake.wait()
            self._wake.clear()
            snapshots, number = node.snapshots, node.entries.number
            may_repeat = self._loop.time() >= self._told_at + TOLD_ANEW
            most = max(LEAST_PAYLOAD, connection.max_payload - HEADERS)
            for subject, data, objects in node.to_publish(most, may_repeat=may_repeat):
                kept = self._kept.get(subject)
                if kept is not None:
                    taken = kept.publish(data, objects)
                else:
                    # Who misses something sees it by the numbers, and asks for what is missing of a directory.
                    taken = await connection.give(subject, data)
                node.counters["sent" if taken else "not-sent"] += objects
            if node.snapshots > snapshots:
                self._told_at = self._loop.time()
                if self._compacting is None or self._compacting.done():
                    self._compacting = self._loop.create_task(self._compact(node.entries.number - number))
            if node.entries.number > number:
                changed, self._interest_changed = self._interest_changed, asyncio.Event()
                changed.set()
                await self._listen()
            self._tell()

    async def _compact(self, keep: int) -> None:
        """Remove what was before a snapshot, once the engine has taken it."""
        with suppress(Error, asyncio.TimeoutError):
            await self._connection.flush()
            await self._directory.compact(self._own_entries, keep)

    async def _listen(self) -> None:
        """Subscribe to what the server wants, and to what every uplink has to know."""
        subjects = self.node.listens_to()
        if subjects != self._connection.listened_to:
            await self._connection.listen(subjects)
            heard = subjects | self.node.kept
            self.node.arrivals.forget(lambda subject: any(covers(each, subject) for each in heard))

    # From the engine to the server.

    def _came(self, subject: str, data: bytes) -> None:
        """A message came."""
        node = self.node
        if self._link.is_full and self.subjects.kind(subject) in ("pub", "obj", "to"):
            # The numbers of later objects tell how many are missing.
            node.counters["server-too-slow"] += 1
            return
        try:
            node.came(subject, data, self._loop.time())
            self._tell()
        except Exception as error:
            # It would end the loop that reads the connection.
            self._bug(error)
        if node.unknown:
            self._reading.set()
        if node.is_asked and self._telling_anew is None:
            self._telling_anew = self._loop.call_at(self._told_at + TOLD_ANEW, self._tell_anew)

    def _tell_anew(self) -> None:
        """Others have asked for the whole directory, and it was not published a moment ago."""
        self._telling_anew = None
        self._wake.set()

    def _tell(self) -> None:
        """Tell the server what is new, a part in each turn. A server that reads too slowly is told at a later beat."""
        node = self.node
        if self._link.is_full:
            return
        has_more = node.tell()
        self._link.send(node.to_server)
        node.to_server.clear()
        if has_more:
            self._loop.call_soon(self._tell)

    # The directory.

    async def _beat(self) -> None:
        """Give a sign of life, and look for others'."""
        while True:
            if not self._pongs:
                self.node.directory.end_loans()
            for subject, data in self.node.beats():
                await self._connection.give(subject, data)
            for server in self.node.lapsed(self._loop.time() - self._settings.lapse):
                self._log.warn("uplink: server {server} gives no sign of life", event="uplink.lapsed", server=server)
            if self.node.counters["same-server"]:
                self._rare.warn(
                    "uplink: another uplink says that it is of server {server}: give each server an id of its own",
                    event="uplink.same-server",
                    server=self.node.server,
                )
            self._figures.add(self.node.counters)
            self._figures.servers.set(len(self.node.peers))
            self._note_servers()
            self._tell()
            await asyncio.sleep(BEAT)

    def _note_servers(self) -> None:
        """Log which servers came to the net, and which left it."""
        now = {server for server, peer in self.node.peers.items() if peer.is_known}
        for server in sorted(now - self._seen):
            self._log.info("uplink: server {server} has joined", event="uplink.joined", server=server)
        for server in sorted(self._seen - now):
            self._log.warn("uplink: server {server} has left", event="uplink.left", server=server)
        self._seen = now

    async def _read(self) -> None:
        """Read the directories of servers that are not known, or of which something is missing.

        Of some servers nothing may ever come. So the pauses grow, for each of them.
        """
        attempts: dict[str, tuple[float, float]] = {}
        while True:
            await self._reading.wait()
            self._reading.clear()
            now, unknown = self._loop.time(), self.node.unknown
            attempts = {server: each for server, each in attempts.items() if server in unknown}
            wanted = sorted(server for server in unknown if attempts.get(server, (0.0, 0.0))[0] <= now)
            if wanted:
                await self._read_from(wanted)
            for server in wanted:
                if server in self.node.unknown:
                    await self._connection.give(self.subjects.of("ask", server), b"")
                    pause = min(MOST_PAUSE, 2 * attempts.get(server, (0.0, BEAT / 4))[1])
                    attempts[server] = now + pause, pause
            await asyncio.sleep(BEAT / 2)

    async def _read_from(self, servers: list[str]) -> None:
        subjects = (
            [self.subjects.of("reg", each) for each in servers] if len(servers) <= _MANY else [self.subjects.of("reg")]
        )
        try:
            for subject in subjects:
                async for on, data in self._directory.read(subject):
                    self._was_read(on, data)
        except (Error, asyncio.TimeoutError) as error:
            self._rare.warn(
                "uplink: the stream of directories cannot be read: {error}",
                event="uplink.engine-failed",
                error=text_of(error),
            )

    def _was_read(self, subject: str, data: bytes) -> None:
        """The stream has this. What is wrong with it is counted."""
        try:
            _, server = self.subjects.parts(subject)
        except RemoteProtocolError as error:
            self.node.counters[error.reason] += 1
            return
        if server in self.node.unknown:
            self.node.came(subject, data, self._loop.time())
            self._tell()

    async def _check(self) -> None:
        """Look after the stream of directories: it is there, and has the newest entry of this server."""
        was_behind = False
        while True:
            was_there = await self._directory.ensure()
            newest = await self._directory.last(self._own_entries)
            node = self.node
            is_behind = newest is None or not self._is_newest(newest)
            if node.entries.number and is_behind and (was_behind or not was_there):
                node.is_asked = True
                self._wake.set()
            was_behind = is_behind
            await asyncio.sleep(CHECK)

    def _is_newest(self, data: bytes) -> bool:
        """Whether this is the newest entry of this server. It may be anything: others may write into the stream."""
        try:
            entry = read_entry(data)
        except RemoteProtocolError:
            return False
        return (entry.boot, entry.n) == (self.node.boot, self.node.entries.number)

    # What is kept; see :class:`bussrv.uplink.nats.kept.ITaker`.

    async def _serve_kept(self, kept: KeptService) -> None:
        """Give the server what is kept of a service, for as long as it wants it."""
        service = self.subjects.service(kept.subject) or ""
        place = await kept.begin()
        self.node.arrivals.continue_at(kept.subject, place.origins)
        consuming: asyncio.Task[None] | None = None
        changed: asyncio.Task[Any] | None = None
        try:
            while True:
                changed = self._loop.create_task(self._interest_changed.wait())
                if self._wants(service) and consuming is None:
                    consuming = self._loop.create_task(kept.consume(place, self))
                elif consuming is not None and not self._wants(service):
                    consuming.cancel()
                    consuming = None
                waited: set[asyncio.Task[Any]] = {changed} if consuming is None else {changed, consuming}
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                if consuming is not None and consuming.done():
                    consuming.result()
        finally:
            for task in (consuming, changed):
                if task is not None:
                    task.cancel()

    def _wants(self, service: str) -> bool:
        own = self.node.own
        return self.node.is_told and (own.has_content or any(matches(each, service) for each in own.services))

    def _not_kept(self, objects: int) -> None:
        self.node.counters["not-sent"] += objects

    def take(self, subject: str, frame: bytes) -> None:
        """Give the server a frame that was kept."""
        try:
            self.node.frame(subject, frame)
        except RemoteProtocolError as error:
            self.node.counters[error.reason] += 1
        self._tell()

    async def taken(self) -> None:
        """Wait until the server has taken everything so far."""
        self._pings += 1
        ping_id = f"uplink-{self._pings}"
        waiting = self._pongs[ping_id] = self._loop.create_future()
        self.node.ping(ping_id)
        self._tell()
        await waiting
        self.node.directory.end_loans()
        self._tell()

    def origins(self, subject: str) -> dict[str, tuple[str, int]]:
        """What is expected of each origin now."""
        return self.node.arrivals.places(subject)
