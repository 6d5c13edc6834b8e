"""Killed fifty times in the middle of its work, a server comes back each time with everything that it acknowledged."""

from __future__ import annotations

import json
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import msgspec
import pytest

from bussrv import events as ev
from bussrv.client.spp import SppClient
from bussrv.errors import JournalError
from bussrv.journal.keys import PublicKey, generate
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.record import Record
from bussrv.journal.segment import TORN_SUFFIX, first_seq, is_compressed, list_segments, torn_size
from bussrv.journal.verify import Report, verify
from bussrv.registry.state.history import Moment, snapshots
from bussrv.testing.server import RunningServer
from bussrv.wire import spp
from tests.end_to_end.doomed import SEGMENT_BYTES, Load, Told, choose_doom
from tests.end_to_end.journals import records
from tests.end_to_end.linked import assert_journal_is_closed, tracebacks
from tests.forked import ForkedServer
from tests.journal.without_seals import faults_without_seals
from tests.size import sized

SIDE_BY_SIDE = 2
KILLS = sized(50, 10) // SIDE_BY_SIDE * SIDE_BY_SIDE
PATIENCE = 20.0
TORN = 0.3
"""How often a line is left unfinished, as by a machine that went down, too; the process alone hardly ever does so."""

UNFINISHED = b'{"v":4,"prev":"' + b"0" * 64 + b'","seq":'

Found = TypeVar("Found")


@pytest.mark.timeout(300)
def test_killed_fifty_times_it_keeps_what_it_said(tmp_path: Path) -> None:
    # Each with a journal of its own: most of the time goes by while a server starts.
    places = [tmp_path / str(number) for number in range(SIDE_BY_SIDE)]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        crashes = list(pool.map(lambda place: kill_again_and_again(place, KILLS // SIDE_BY_SIDE), places))
    assert sum(each.kills for each in crashes) == KILLS
    assert sum(len(each.told) for each in crashes) > KILLS


def kill_again_and_again(directory: Path, kills: int) -> Crashes:
    directory.mkdir()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        device.bind(("127.0.0.1", 0))
        crashes = Crashes(directory, Random(directory.name), device)
        for _ in range(kills):
            crashes.live_and_die()
        crashes.end()
    return crashes


class Crashes:
    """A journal and the servers that died on it, one after the other.

    :ivar told: what their clients were told of.
    :ivar starts: how many seconds each server took to start.
    :ivar torn: the sizes of the unfinished lines that were set aside.
    """

    def __init__(self, directory: Path, random: Random, device: socket.socket) -> None:
        self.told: set[Told] = set()
        self.starts: list[float] = []
        self.torn: dict[str, int] = {}
        self.kills = 0
        self._journal = directory / "journal"
        self._random = random
        self._device = device
        self._public: PublicKey = generate(directory / "key")
        self._options = (
            *("--journal-key", str(directory / "key")),
            *("--journal-segment-bytes", str(SEGMENT_BYTES)),
            *("--journal-seal-interval", "0.2"),
            "--journal-compress",
        )

    def live_and_die(self) -> None:
        with self._start() as server:
            doom = choose_doom(self._random, server, self._journal)
            try:
                self._check(server)
                load = Load(server, doom, f"{self.kills}", self._random, self._device)
                load.run()
                assert server.wait() == -9
                assert tracebacks(server) == []
            except AssertionError as error:
                error.add_note(f"{server.lines} {doom}")
                raise
        self.told.update(load.told)
        self.kills += 1
        self._look_for_torn_lines()

    def end(self) -> None:
        """The one that is not killed, and the one that closes what outlives a server."""
        for options in ((), ("--inbus", "off")):
            with self._start(*options) as server:
                self._check(server)
                assert server.stop() == 0
        report = self._verify()
        assert (report.faults, report.is_trusted, report.sealed_seq) == ([], True, report.last_seq)
        assert faults_without_seals(self._journal) == []
        events = [record.event for record in records(self._journal)]
        opened = Counter(event.session for event in events if isinstance(event, ev.SessionOpened))
        closed = Counter(event.session for event in events if isinstance(event, ev.SessionClosed))
        assert closed == opened
        assert set(opened.values()) == {1}
        assert_journal_is_closed(events)
        recovered = [event for event in events if isinstance(event, ev.ServerRecovered)]
        assert len(recovered) == self.kills
        assert [event.torn_bytes for event in recovered if event.torn_bytes] == list(self.torn.values())

    def _start(self, *options: str) -> RunningServer:
        began = time.monotonic()
        server = ForkedServer(self._journal, (*self._options, *options))
        self.starts.append(time.monotonic() - began)
        return server

    def _check(self, server: RunningServer) -> None:
        """Hold what a server found against what was said before it, and what it says against what is written."""
        self._await_seals(server)
        # Sessions that a crash cut off are closed by the next server, and clients may have seen them go before. The
        # answer to a subscription is durable, and so is everything before it: these closings, too.
        registry = ask_for_registry(server)
        found = undisturbed(lambda: records(self._journal))
        assert [record.seq for record in found] == list(range(1, len(found) + 1))
        assert self.told - set(map(as_told, found)) == set()
        assert {path.name for path in self._journal.glob(f"*{TORN_SUFFIX}")} == self.torn.keys()
        moment = Moment(seq=registry["seq"])
        (folded,) = undisturbed(lambda: snapshots(self._journal, [moment]))
        assert json.loads(msgspec.json.encode(folded)) == registry

    def _await_seals(self, server: RunningServer) -> None:
        """What the one before did not come to seal is sealed soon, and the server logs that it is."""
        report = self._verify()
        try:
            while report.faults or not report.segments:
                server.next_line()
                report = self._verify()
        except RuntimeError as error:
            raise AssertionError(f"{report.faults}") from error
        assert report.is_trusted

    def _verify(self) -> Report:
        return undisturbed(lambda: verify(self._journal, self._public))

    def _look_for_torn_lines(self) -> None:
        """Only what was being written when the server was killed may end in the middle of a line."""
        *older, last = list_segments(self._journal)
        assert [path.name for path in older if not is_compressed(path) and torn_size(path)] == []
        if is_compressed(last) or self._is_closed(last):
            return
        if not torn_size(last) and self._random.random() < TORN:
            with last.open("ab") as file:
                file.write(UNFINISHED[: self._random.randint(1, len(UNFINISHED))])
        tail = torn_size(last)
        if tail:
            self.torn[last.name + TORN_SUFFIX] = tail

    def _is_closed(self, segment: Path) -> bool:
        """Whether it was sealed for good: then nothing was being written to it, even if there is no next one yet."""
        closed = read_manifest(self._journal / MANIFEST_NAME).closed()
        return first_seq(segment) in {seal.segment for seal in closed}


def as_told(record: Record) -> Told:
    event = record.event
    return Told(type(event), (event.claimed if isinstance(event, ev.SessionIdentified) else event.service) or "")


def ask_for_registry(server: RunningServer) -> dict[str, Any]:
    with SppClient(port=server.port("spp")) as client:
        client.wait_for(lambda event: event == spp.Offer("bus/registry"))
        client.subscribe("bus/registry")
        info = client.wait_for(lambda event: isinstance(event, spp.Info) and event.service == "bus/registry")
        assert isinstance(info, spp.Info)
        registry: dict[str, Any] = json.loads(info.message)
        return registry


def undisturbed(look: Callable[[], Found]) -> Found:
    """What is to be seen in a journal in which a segment may be compressed while it is looked at; that ends soon."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with suppress_vanished():
            return look()
    return look()


@contextmanager
def suppress_vanished() -> Iterator[None]:
    """A segment that was there when the directory was read is there compressed when it is opened."""
    try:
        yield
    except JournalError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
