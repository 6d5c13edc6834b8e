"""The records that a name leads to, found in lines without decoding all others.

The journals are read twice, seldom more often: for the sessions with that name, and then for the services of these
sessions and the sessions that provide these services, until no further service is found. The first time, only lines are
decoded that have the bytes of the name. Later, of each line only the members that say whether it matters. Nothing is
verified, and lines that are no JSON objects are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Struct

from bussrv.errors import JournalError
from bussrv.inspection.timeline.baseline import baseline
from bussrv.inspection.timeline.journals import Window
from bussrv.inspection.timeline.lines import Line, NamedLine, line_of, lines_with, moment_of, read_line, read_lines
from bussrv.journal.evidence.lines import decode_record, decode_snapshot
from bussrv.journal.header import decode_header
from bussrv.journal.record import Record
from bussrv.journal.versions import FIRST_WITH_CLAIMS

CAUSES = frozenset({"server.started", "server.recovered", "server.stopped", "link.down"})
"""The events that may explain others, whomever they are about."""

PROVIDES = ("service.registered", "service.unregistered")
WANTS = ("subscription.added", "subscription.removed")
CHANGES = frozenset({*PROVIDES, *WANTS})
"""The events with which a session begins or ceases to provide or want a service."""

NAMES = ("session.opened", "session.identified")
REPLACED = "replaced"

MOST_TEXT = 64 << 20
"""The most bytes of records that are kept as they are. Others are read again if they are shown."""

Place = tuple[int, int, int]
"""The place of a record among those of its server: number, time, monotonic clock."""

_OLDEST = -(1 << 63)


class Names(Struct, gc=False):
    """The names of a client, as a record has them. The records of a session share them."""

    session: str | None
    routing_id: str | None
    actor: str | None
    claimed: str | None
    peer: str | None


class Found(Struct, gc=False):
    """A record that matters: what the other ones need to know of it.

    :ivar moment: UTC microseconds since 1970.
    :ivar window, segment, line: where it stands: the index of its window, the number of the segment, the index of the
        line. A record of a baseline stands nowhere: ``segment`` is 0.
    :ivar text: the line; ``None``: it has to be read again.
    """

    event: str
    server: str
    boot: str
    seq: int
    moment: int
    mono: int
    session: str | None
    names: Names
    service: str | None
    reason: str | None
    window: int = 0
    segment: int = 0
    line: int = 0
    text: bytes | None = None

    @property
    def is_given(self) -> bool:
        """Whether it is part of a baseline."""
        return not self.segment

    @property
    def place(self) -> Place:
        """Its place, also with equal numbers, and after the baseline. A time may be older if a clock was set back."""
        return self.seq, _OLDEST if self.is_given else self.moment, self.mono


class Boot(Struct):
    """The first and the last record of a boot, and whether it was stopped."""

    first: Place
    last: Place
    is_stopped: bool = False

    @property
    def begun(self) -> int:
        """When it began, UTC microseconds."""
        return self.first[1]

    @property
    def ended(self) -> int:
        """The moment of its last record, UTC microseconds."""
        return self.last[1]


class Server(Struct):
    """What was found of one server.

    :ivar services: the service of the name, and those that the subjects provide or want.
    :ivar subjects: the sessions with the name.
    :ivar users: those that a record with the service of the name is about.
    :ivar kept: all of these, and from then on those that provided one of the services, or replaced a session.
    :ivar contested: routing ids of which sessions were replaced.
    :ivar found: records in order, those of the baseline among them.
    :ivar boots: by their ids.
    """

    services: set[str]
    subjects: set[str] = msgspec.field(default_factory=set)
    users: set[str] = msgspec.field(default_factory=set)
    kept: set[str] = msgspec.field(default_factory=set)
    contested: set[str] = msgspec.field(default_factory=set)
    found: list[Found] = []
    boots: dict[str, Boot] = {}

    def forget(self) -> None:
        """Begin again with what is known of sessions and services."""
        self.kept, self.contested, self.found, self.boots = self.subjects | self.users, set(), [], {}


class Scan:
    """The records of some segments that a name leads to.

    :param windows: of journals. Several may be of one server.
    :ivar servers: what was found, by server.
    :ivar servers_of: the servers of each window.
    """

    def __init__(self, windows: Sequence[Window], name: str) -> None:
        self._windows = windows
        self._name = name
        self._needle = name.encode(errors="replace")
        self._texts: dict[Any, Any] = {}
        self._names: dict[str | None, Names] = {}
        self._room = MOST_TEXT
        self._opened: dict[int, tuple[int, list[bytes]]] = {}
        self.servers: dict[str, Server] = {}
        self.servers_of: list[set[str]] = [set() for _ in windows]
        self._given = self._baselines()
        self._look_for_name()
        while self._take_all():
            pass
        self._put_in_order()

    def record(self, found: Found) -> Record | None:
        """A record as a whole; ``None``: the line is none. Ask for them in order: a segment at a time is in memory."""
        if found.text is not None:
            return _decoded(found.text)
        number, texts = self._opened.get(found.window, (0, []))
        if number != found.segment:
            texts = self._windows[found.window].read(found.segment).split(b"\n")
            self._opened[found.window] = found.segment, texts
        return _decoded(texts[found.line]) if found.line < len(texts) else None

    def _server(self, name: str) -> Server:
        if name not in self.servers:
            self.servers[name] = Server({self._name})
        return self.servers[name]

    def _baselines(self) -> list[NamedLine]:
        """The registry before the first segment of each server, as lines."""
        first: dict[str, tuple[int, list[Record]]] = {}
        for window in self._windows:
            for number, content in islice(window.contents(), 1):
                server, records = beginning(content, number)
                if server is not None and (server not in first or number < first[server][0]):
                    first[server] = number, records
        return [line_of(each) for _, records in first.values() for each in records]

    # The sessions with the name.

    def _look_for_name(self) -> None:
        for line in self._given:
            self._consider(line)
        for window in self._windows:
            for _, content in window.contents():
                for text in lines_with(content, (self._needle, b"\\")):
                    named = read_line(text, NamedLine)
                    if named is not None:
                        self._consider(named)

    def _consider(self, line: NamedLine) -> None:
        if line.event and line.session is not None:
            server = self._server(line.server)
            if line.session not in server.subjects and self._name in line.names():
                server.subjects.add(line.session)
            if line.session in server.subjects and line.service is not None and line.event in CHANGES:
                server.services.add(line.service)
            if line.service == self._name:
                server.users.add(line.session)

    # The records.

    def _take_all(self) -> bool:
        """Take every record that matters. :returns: whether earlier records were missed, of services found later."""
        self._room = MOST_TEXT
        for server in self.servers.values():
            server.forget()
        before = sum(len(each.services) for each in self.servers.values())
        for line in self._given:
            self._take(self._server(line.server), line, (0, 0, 0))
        for index, window in enumerate(self._windows):
            for number, content in window.contents():
                self._take_segment(content, index, number)
        return sum(len(each.services) for each in self.servers.values()) > before

    def _take_segment(self, content: bytes, index: int, number: int) -> None:
        texts = content.split(b"\n")
        lines = read_lines(content, Line, len(texts) - 1)
        servers = {*map(_server_of, lines)}
        if len(servers) > 1 or not any(line.event for line in lines):
            servers = {line.server for line in lines if line.event}
        self.servers_of[index] |= servers
        for name in servers:
            server = self._server(name)
            for at in self._chosen(lines, texts, server):
                if lines[at].server == name and lines[at].event:
                    self._take(server, lines[at], (index, number, at), texts[at])
        for at in _ends_of_boots(lines):
            self._note(lines[at])

    def _chosen(self, lines: Sequence[Line], texts: Sequence[bytes], server: Server) -> Iterator[int]:
        """The indices of lines that matter. The sets of the server may grow meanwhile."""
        # As most lines do not matter, the checks are in the order of what they cost.
        kept, services, contested = server.kept, server.services, server.contested
        name, needle = self._name, self._needle
        for at, line in enumerate(lines):
            session, service = line.session, line.service
            if (
                session in kept
                or (service in services and (service == name or line.event in PROVIDES))
                or line.event in CAUSES
                or (session is None and (needle in texts[at] or b"\\" in texts[at]))
                or (contested and line.event in NAMES and line.routing_id in contested)
            ):
                yield at

    def _take(self, server: Server, line: Line, where: tuple[int, int, int], text: bytes = b"") -> None:
        found = self._found(line, where, text)
        if found is None:
            return
        session, event = line.session, line.event
        if session is not None and event not in CAUSES:
            server.kept.add(session)
            if session in server.subjects and line.service is not None and event in CHANGES:
                server.services.add(line.service)
        if line.reason == REPLACED and line.routing_id is not None and event != "subscription.removed":
            server.contested.add(line.routing_id)
        server.found.append(found)

    def _found(self, line: Line, where: tuple[int, int, int], text: bytes) -> Found | None:
        moment = moment_of(line.time)
        if moment is None:
            return None
        actor, claimed = line.actor, line.claimed
        if line.v < FIRST_WITH_CLAIMS:
            try:
                today = decode_record(text).event
            except JournalError:
                return None
            actor, claimed = today.actor, today.claimed
        self._room -= len(text)
        names = self._names.get(line.session)
        if (
            names is None
            or names.routing_id != line.routing_id
            or names.peer != line.peer
            or names.actor != actor
            or names.claimed != claimed
        ):
            session = line.session if names is None else names.session
            names = self._names[session] = Names(session, line.routing_id, actor, claimed, line.peer)
        # Each of the others is kept once.
        once = self._texts.setdefault
        event, server, boot, service, reason = line.event, line.server, line.boot, line.service, line.reason
        return Found(
            once(event, event), once(server, server), once(boot, boot), line.seq, moment, line.mono,
            names.session, names, service and once(service, service), reason and once(reason, reason),
            *where, text if text and self._room >= 0 else None,
        )  # fmt: skip

    def _note(self, line: Line) -> None:
        moment = moment_of(line.time)
        if moment is None:
            return
        boots, place = self._server(line.server).boots, (line.seq, moment, line.mono)
        boot = boots.setdefault(line.boot, Boot(place, place))
        boot.first, boot.last = min(boot.first, place), max(boot.last, place)

    def _put_in_order(self) -> None:
        for server in self.servers.values():
            server.found.sort(key=lambda each: each.place)
            for each in server.found:
                if each.event == "server.stopped":
                    server.boots[each.boot].is_stopped = True


_server_of, _boot_of = attrgetter("server"), attrgetter("boot")


def _decoded(text: bytes) -> Record | None:
    try:
        return decode_record(text)
    except JournalError:
        return None


def beginning(content: bytes, number: int) -> tuple[str | None, list[Record]]:
    """The server of a segment, and the registry before it."""
    end = content.find(b"\n") + 1
    try:
        header = decode_header(content[:end])
        parts = []
        for _ in range(header.parts):
            begin, end = end, content.find(b"\n", end) + 1
            parts.append(decode_snapshot(content[begin:end]))
    except JournalError:
        return None, []
    return header.server, baseline(parts, header.server, number)


def _ends_of_boots(lines: Sequence[Line]) -> Iterator[int]:
    """The indices of the first and the last record of each boot, and perhaps of more."""
    if len({*map(_boot_of, lines)}) > 1 and len({line.boot for line in lines if line.event}) > 1:
        for _, some in groupby((at for at, line in enumerate(lines) if line.event), lambda at: lines[at].boot):
            first, *rest = some
            yield from (first, *rest[-1:])
        return
    for indices in (range(len(lines)), range(len(lines) - 1, -1, -1)):
        yield from islice((at for at in indices if lines[at].event), 1)
