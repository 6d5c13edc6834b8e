"""Streams of records: between the files and what is written meanwhile is no gap, and nothing comes twice."""

from __future__ import annotations

import json
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from bussrv.admin.journal.events import SIGN_OF_LIFE, JournalEvents, last_known
from bussrv.journal import lines as lines_module
from bussrv.journal.batch import Rotation
from bussrv.journal.record import Record, decode
from bussrv.journal.segment import list_segments
from tests.journal.support import Disk, fact, writer
from tests.size import sized
from tests.tables import each_row


class Client:
    """The other end of a stream, which takes what it is sent when it likes to."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.text = b""
        self.is_open = True
        self.is_full = False
        self._room: list[Deferred[None]] = []
        self._closed: Deferred[None] = Deferred()

    def send_encoded(self, text: bytes) -> None:
        self.text += text

    def comment(self) -> None:
        self.text += b":\n\n"

    def room(self) -> Deferred[None]:
        if not self.is_full:
            return succeed(None)
        self._room.append(Deferred())
        return self._room[-1]

    def closed(self) -> Deferred[None]:
        return self._closed

    def read(self) -> None:
        self.is_full = False
        waiting, self._room = self._room, []
        for each in waiting:
            each.callback(None)

    def leave(self) -> None:
        self.is_open = False
        self.read()
        self._closed.callback(None)

    def events(self) -> list[tuple[int, str, bytes]]:
        found = []
        for text in self.text.decode().split("\n\n"):
            lines = dict(line.split(": ", 1) for line in text.splitlines() if not line.startswith(":"))
            if lines:
                found.append((int(lines["id"]), lines["event"], lines["data"].encode()))
        return found


class EventsMachine(RuleBasedStateMachine):
    """Records are written, become known, and are sent, while clients come, are slow, go and come back."""

    @initialize(page=st.sampled_from([1, 1000, 1 << 16]))
    def begin(self, page: int) -> None:
        self.page, lines_module.PAGE = lines_module.PAGE, page
        self.place = tempfile.TemporaryDirectory()
        self.batches = writer(Path(self.place.name), rotation=Rotation(bytes=1500), files=Disk())
        self.untold: deque[list[Record]] = deque()
        self.written: list[bytes] = []
        self.reads: deque[tuple[Callable[[int], Any], int, Deferred[Any]]] = deque()
        self.done: deque[tuple[Deferred[Any], Any]] = deque()
        self.clients: list[Client] = []
        self.clock = Clock()
        self.events = JournalEvents(0, Path(self.place.name), self.read, self.clock)
        self.write(5)
        self.tell()

    def teardown(self) -> None:
        if hasattr(self, "events"):
            lines_module.PAGE = self.page
            self.finish()
            self.place.cleanup()

    async def read(self, page: Callable[[int], Any], until: int) -> Any:
        done: Deferred[Any] = Deferred()
        self.reads.append((page, until, done))
        return await done

    @rule(count=st.integers(1, 5))
    def write(self, count: int) -> None:
        self.batches.commit([fact("x" * 80) for _ in range(count)], self.durable)

    def durable(self, entries: Any, records: list[Record]) -> None:
        self.untold.append(records)

    @precondition(lambda self: self.untold)
    @rule()
    def tell(self) -> None:
        """The reactor hears of a batch."""
        self.events.written(self.untold.popleft())

    @precondition(lambda self: self.reads)
    @rule()
    def thread_reads(self) -> None:
        page, until, done = self.reads.popleft()
        self.done.append((done, page(until)))

    @precondition(lambda self: self.done)
    @rule()
    def thread_tells(self) -> None:
        done, result = self.done.popleft()
        done.callback(result)

    @precondition(lambda self: len(self.clients) < 4)
    @rule(data=st.data())
    def come(self, data: st.DataObject) -> None:
        self.connect(Client(data.draw(st.integers(0, self.events.seq))))

    def connect(self, client: Client) -> None:
        self.clients.append(client)
        failures: list[Any] = []
        Deferred.fromCoroutine(self.events.send(client, client.after)).addErrback(failures.append)
        assert not failures

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def is_slow(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.clients)).is_full = True

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def reads_on(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.clients)).read()

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def comes_back(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.clients))
        self.clients.remove(client)
        client.leave()
        got = client.events()
        self.connect(Client(got[-1][0] if got else client.after))

    @invariant()
    def every_client_has_each_record_once_in_order(self) -> None:
        for client in getattr(self, "clients", ()):
            got = client.events()
            assert [seq for seq, _, _ in got] == list(range(client.after + 1, client.after + 1 + len(got)))
            assert all(seq <= self.events.seq for seq, _, _ in got)

    def finish(self) -> None:
        """Everybody reads all of it, in the end."""
        while self.untold:
            self.tell()
        for client in self.clients:
            client.read()
        while self.reads or self.done:
            if self.reads:
                self.thread_reads()
            else:
                self.thread_tells()
        records = {}
        for path in list_segments(Path(self.place.name)):
            records.update({decode(line).seq: line for line in path.read_bytes().splitlines() if b'"event":' in line})
        for client in self.clients:
            assert client.events() == [
                (seq, json.loads(records[seq])["event"], records[seq])
                for seq in range(client.after + 1, self.events.seq + 1)
            ]
            client.leave()
        assert not self.clock.getDelayedCalls()


TestEvents = EventsMachine.TestCase
TestEvents.settings = settings(max_examples=sized(360), stateful_step_count=30, deadline=None)


# Ends.


def live(directory: Path | None, seq: int) -> JournalEvents:
    async def read(page: Callable[[int], Any], until: int) -> Any:
        return page(until)

    return JournalEvents(seq, directory, read, Clock())


def follow(events: JournalEvents, after: int | None) -> Client:
    client = Client(after or 0)
    Deferred.fromCoroutine(events.send(client, after)).addErrback(pytest.fail)
    return client


def test_records_that_are_not_there_any_more_are_counted(tmp_path: Path) -> None:
    batches = writer(tmp_path, rotation=Rotation(bytes=1))
    for number in range(6):
        batches.commit([fact(f"{number}")])
    first, second, third, _, fifth, _ = list_segments(tmp_path)
    for path in (first, second, fifth):
        path.unlink()
    client = follow(live(tmp_path, 6), 0)
    assert [(seq, event) for seq, event, _ in client.events()] == [
        (2, "skipped"),
        (3, "auth.succeeded"),
        (4, "auth.succeeded"),
        (5, "skipped"),
        (6, "auth.succeeded"),
    ]
    assert client.events()[0][2] == b'{"count":2}'
    # Only records that cannot be read are skipped.
    third.write_bytes(third.read_bytes().replace(b'"seq":3', b'"seq":x'))
    client = follow(live(tmp_path, 6), 2)
    skipped = [(3, "skipped", b'{"count":1}'), (5, "skipped", b'{"count":1}')]
    assert [each for each in client.events() if each[1] == "skipped"] == skipped
    assert [seq for seq, event, _ in client.events() if event != "skipped"] == [4, 6]
    # If the last ones cannot be read, the stream continues with those to come.
    list_segments(tmp_path)[-1].write_bytes(b"{\n")
    client = follow(live(tmp_path, 6), 4)
    assert client.events() == [(6, "skipped", b'{"count":2}')]


def test_without_a_journal_only_what_comes_can_be_sent() -> None:
    events = live(None, 5)
    clients = follow(events, 2), follow(events, None), follow(events, 77)
    assert [client.events() for client in clients] == [[(5, "skipped", b'{"count":3}')], [], []]
    record = Record(6, 0, 0, "s", "b", fact("x").stamped[0].event)
    events.written([record])
    assert [client.events()[-1][:2] for client in clients] == [(6, "auth.succeeded")] * 3


def test_a_client_is_shown_that_the_server_is_there() -> None:
    clock = Clock()
    events = JournalEvents(0, None, None, clock)  # type: ignore[arg-type]
    client = follow(events, None)
    assert client.text == b":\n\n"
    clock.advance(SIGN_OF_LIFE)
    assert client.text == b":\n\n" * 2
    client.leave()
    assert not clock.getDelayedCalls()


@each_row(
    ("header", "after", "found"),
    [(None, None, None), (None, 3, 3), ("5", 3, 5), ("", 3, 3), ("abc", None, None), ("9" * 30, 3, 3), ("²", 1, 1)],
)
def test_the_header_comes_before_the_parameter(header: str | None, after: int | None, found: int | None) -> None:
    assert last_known(header, after) == found
