"""Histories and registries of the past, out of journals of several segments."""

from __future__ import annotations

import json
import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from bussrv.admin.journal.past import WantedRecords, read_history
from bussrv.admin.journal.reading import MOST_WAITING, Pace, Reading, Stopped
from bussrv.cli.main import main
from bussrv.errors import JournalError
from bussrv.journal.moments import Moment
from bussrv.journal.reading import read_journal
from bussrv.journal.record import encode
from bussrv.journal.segment import list_segments
from bussrv.registry.state.history import snapshots
from bussrv.transparency.checkpoints import parse_checkpoint
from tests.admin.test_running import get
from tests.attacks.bystanders import Bystanders
from tests.forked import ForkedServer


class Hurried(Pace):
    """Says after so many steps that the time is over."""

    def __init__(self, steps: int) -> None:
        super().__init__(1000)
        self._left = self._steps = steps

    def restart(self) -> None:
        self._left = self._steps

    def step(self) -> bool:
        self._left -= 1
        return self._left <= 0


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("past") / "journal"
    assert main(["journal", "synth", str(directory), "--events", "10000", "--compress"]) == 0
    assert len(list_segments(directory)) > 2
    return directory


@pytest.fixture(scope="module")
def histories(journal: Path) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = defaultdict(list)
    for record in read_journal(journal):
        if record.event.session is not None:
            found[record.event.session].append(encode(record).rstrip())
    return found


def pages(journal: Path, session: str, limit: int, steps: int) -> Iterator[list[bytes]]:
    after: int | None = 0
    while after is not None:
        items, more = read_history(journal, WantedRecords(session, after, limit, None), Hurried(steps))
        assert more is None or more > after
        after = more
        yield [bytes(each) for each in items]


@pytest.mark.dear
def test_a_history_is_every_record_about_the_session(journal: Path, histories: dict[str, list[bytes]]) -> None:
    draw = random.Random(5)
    for session in draw.sample(sorted(histories), 12):
        limit, steps = draw.randint(1, 5), draw.choice([900, 4000, 10**9])
        found = list(pages(journal, session, limit, steps))
        assert [each for page in found for each in page] == histories[session]
        assert all(len(page) <= limit for page in found)
    assert list(pages(journal, "none", 10, 10**9)) == [[]]


def test_where_a_session_was_opened_is_found_by_the_time(journal: Path, histories: dict[str, list[bytes]]) -> None:
    opened = {record.event.session: record.time for record in read_journal(journal) if record.event.session}
    begun: dict[str, int] = {}
    for record in read_journal(journal):
        begun.setdefault(record.event.session or "", record.time)
    for session in random.Random(6).sample(sorted(opened), 10):
        items, _ = read_history(journal, WantedRecords(session, 0, 1000, begun[session]), Hurried(10**9))
        assert [bytes(each) for each in items] == histories[session]


def test_a_segment_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000001.jsonl").write_text("not JSON\n")
    with pytest.raises(JournalError, match=r"00000000000000000001\.jsonl"):
        read_history(tmp_path, WantedRecords("x", 0, 10, None), Hurried(100))


# The thread.


def test_a_reader_stops_when_nobody_waits_and_few_may_wait() -> None:
    reactor, begun, ended = Clock(), threading.Event(), threading.Event()

    class Reactor:
        seconds = reactor.seconds

        def addSystemEventTrigger(self, *_: object) -> None:
            """There is no shutdown."""

        def callFromThread(self, function: object, *arguments: object) -> None:
            """The result comes too late for everybody."""

    def read(pace: Pace) -> None:
        begun.set()
        try:
            while True:
                pace.step()
        except Stopped:
            ended.set()

    reading = Reading(Reactor())
    first = Deferred.fromCoroutine(reading.do(read, Pace(1000)))
    assert begun.wait(10)
    first.addErrback(lambda _: None)
    waiting = [Deferred.fromCoroutine(reading.do(read, Pace(1000))) for _ in range(MOST_WAITING - 1)]
    refused: list[Failure] = []
    Deferred.fromCoroutine(reading.do(read, Pace(1000))).addErrback(refused.append)
    assert [each.value.code for each in refused] == ["too-busy"]
    first.cancel()
    assert ended.wait(10)
    for each in waiting:
        each.addErrback(lambda _: None)
        each.cancel()
    assert reading._thread._pool is not None
    reading._thread._pool.stop()


# A server.


@pytest.mark.processes
def test_a_server_tells_of_its_past(journal: Path, histories: dict[str, list[bytes]]) -> None:
    with ForkedServer(journal, ["--journal-compress"]) as server:
        session = max(histories, key=lambda each: len(histories[each]))
        found: list[object] = []
        after = 0
        while after is not None:
            page = get(server, f"/api/v1/sessions/{session}/history?limit=7&after={after}")[1]
            found += page["items"]
            after = page["next"]
        told = [json.loads(each) for each in histories[session]]
        assert found[: len(told)] == told
        for seq in (0, 1, 1234):
            status, registry, _ = get(server, f"/api/v1/registry?at={seq}")
            wanted = json.loads(msgspec.json.encode(snapshots(journal, [Moment(seq=seq)])[0]))
            assert (status, registry) == (200, wanted)
        assert get(server, "/api/v1/registry?at=999999999")[1]["type"].endswith("journal-unreadable")
        assert get(server, "/api/v1/registry?at=2026-02-31T00:00:00Z")[1]["type"].endswith("no-such-moment")
        shown = get(server, "/api/v1/journal")[1]
        assert shown["segments"] == len(list_segments(journal))
        assert shown["head"]["seq"] == shown["seq"]
        newest = get(server, "/api/v1/journal/checkpoint")[1]
        assert newest["seal"]["seq"] == parse_checkpoint(newest["checkpoint"]).size <= shown["seq"]
        assert (newest["is_signed"], newest["cosigned"]) == (False, None)


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(300)
def test_bystanders_do_not_wait_for_readers_of_the_journal(tmp_path: Path) -> None:
    assert main(["journal", "synth", str(tmp_path / "journal"), "--events", "300000"]) == 0
    with ForkedServer(tmp_path / "journal") as server, Bystanders(server) as bystanders:
        with bystanders.during() as waits:
            for path in ("/api/v1/sessions/none/history", "/api/v1/registry?at=250000"):
                assert get(server, path)[0] in (200, 503)
        assert waits.worst() < 0.1
