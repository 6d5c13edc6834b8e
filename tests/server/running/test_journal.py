"""The journal of a server: what is done when it is opened, closed and abandoned."""

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from bussrv import events as ev
from bussrv.errors import JournalError
from bussrv.journal import closed
from bussrv.journal.batch import Rotation
from bussrv.journal.files import Files
from bussrv.journal.keys import generate
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.segment import is_compressed, list_segments
from bussrv.journal.upkeep import UpkeepPolicy
from bussrv.journal.verify import verify
from bussrv.registry.state.fold import RegistryFold
from bussrv.server.running.journal import JournalConfig, JournalPlace
from bussrv.turns.clock import SystemClock
from bussrv.values import InEffect, PolicyRule, PolicyText
from tests.journal.support import PATIENCE, FakeReactor, actors, note, stamp

EACH = Rotation(bytes=1)


def config(tmp_path: Path, **options: object) -> JournalConfig:
    return JournalConfig(directory=tmp_path / "journal", rotation=EACH, **options)


def live(reactor: FakeReactor, config: JournalConfig, *names: str) -> None:
    """A whole run of a server."""
    place = JournalPlace(config, SystemClock(), reactor)
    journal = place.open("hall", "boot")
    for name in names:
        reactor.wait(journal.append([note(name)]))
    reactor.wait(place.close())


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture
def reactor() -> FakeReactor:
    return FakeReactor()


def test_what_was_written_is_sealed_when_it_is_closed(tmp_path: Path, reactor: FakeReactor) -> None:
    public = generate(tmp_path / "key")
    for name in ("a", "b"):
        live(reactor, config(tmp_path, key=tmp_path / "key"), name, name)
    report = verify(tmp_path / "journal", public)
    assert (report.faults, report.records, report.sealed_seq, report.is_trusted) == ([], 4, 4, True)
    assert actors(tmp_path / "journal") == ["a", "a", "b", "b"]


def test_an_abandoned_journal_is_left_as_it_was_and_to_others(tmp_path: Path, reactor: FakeReactor) -> None:
    """Even where an earlier run left something undone."""
    live(reactor, config(tmp_path), "a", "b", "c")
    (tmp_path / "journal" / MANIFEST_NAME).unlink()
    for path in list_segments(tmp_path / "journal")[1:]:
        path.unlink()
    before = contents(tmp_path / "journal")
    threads = threading.active_count()
    place = JournalPlace(config(tmp_path, policy=UpkeepPolicy(compress=True)), SystemClock(), reactor)
    place.open("hall", "boot")
    place.abandon()
    JournalPlace(config(tmp_path), SystemClock(), reactor).abandon()
    while threading.active_count() > threads:
        for thread in threading.enumerate():
            if thread.name == "bussrv-journal":
                thread.join(PATIENCE)
    assert contents(tmp_path / "journal") == before


def test_closing_does_not_wait_for_all_compression(
    tmp_path: Path, reactor: FakeReactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(reactor, config(tmp_path), *"abcdef")
    has_begun, may_end = threading.Event(), threading.Event()
    compress = closed.compress

    def take_long(*arguments: object) -> None:
        has_begun.set()
        assert may_end.wait(PATIENCE)
        compress(*arguments)

    monkeypatch.setattr(closed, "compress", take_long)

    class Background(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(False, cancel_futures=cancel_futures)
            may_end.set()
            super().shutdown(wait)

    monkeypatch.setattr("bussrv.server.running.journal.ThreadPoolExecutor", Background)
    compressing = config(tmp_path, policy=UpkeepPolicy(compress=True))
    place = JournalPlace(compressing, SystemClock(), reactor)
    journal = place.open("hall", "boot")
    assert has_begun.wait(PATIENCE)
    # Nor does writing wait.
    reactor.wait(journal.append([note("g")]))
    reactor.wait(place.close())
    assert [is_compressed(path) for path in list_segments(tmp_path / "journal")] == [True] + [False] * 6
    monkeypatch.undo()
    place = JournalPlace(compressing, SystemClock(), reactor)
    place.open("hall", "boot")
    place._background.shutdown()
    place.abandon()
    assert all(map(is_compressed, list_segments(tmp_path / "journal")))
    assert actors(tmp_path / "journal") == list("abcdefg")
    assert verify(tmp_path / "journal").faults == []


def test_a_key_has_to_lie_elsewhere(tmp_path: Path, reactor: FakeReactor) -> None:
    (tmp_path / "journal" / "keys").mkdir(parents=True)
    generate(tmp_path / "journal" / "keys" / "key")
    (tmp_path / "link").symlink_to(tmp_path / "journal" / "keys")
    for key in (tmp_path / "journal" / "keys" / "key", tmp_path / "link" / "key"):
        with pytest.raises(JournalError, match=r"lies in the journal directory .* Put it elsewhere"):
            JournalPlace(config(tmp_path, key=key), SystemClock(), reactor)
    # And it is left to others.
    live(reactor, config(tmp_path), "a")


def fail(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left")


def test_a_first_key_that_cannot_be_written_down_is_said(
    tmp_path: Path, reactor: FakeReactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate(tmp_path / "key")
    keyed = replace(config(tmp_path), key=tmp_path / "key")
    place = JournalPlace(keyed, SystemClock(), reactor)
    with monkeypatch.context() as patch:
        patch.setattr(Files, "write", fail)
        with pytest.raises(JournalError, match=f"cannot write {tmp_path / 'journal' / MANIFEST_NAME}: No space left"):
            place.open("hall", "boot")
    place.abandon()
    live(reactor, keyed, "a")
    assert len(read_manifest(tmp_path / "journal" / MANIFEST_NAME).entries) == 2


def test_a_start_keeps_pseudonyms_and_hides_names_from_before(tmp_path: Path, reactor: FakeReactor) -> None:
    """Of sessions that outlive a restart, and of the rules in effect. No start makes further keys for those."""
    rule = PolicyRule(line=1, users=("ann",), clauses=(("watch", "*", 1),))
    started = ev.ServerStarted(version="1", in_effect=InEffect(policy=PolicyText(name="p", rules=(rule,))))
    phone = {"protocol": "mqtt", "session": "s", "routing_id": "r", "actor": "ann", "peer": "10.0.0.1:1"}
    events = (started, ev.SessionOpened(persistent=True, expiry=1, **phone))
    keys = []
    for number, pseudonyms in enumerate((None, tmp_path / "keys", tmp_path / "keys", tmp_path / "keys")):
        place = JournalPlace(config(tmp_path, pseudonyms=pseudonyms), SystemClock(), reactor)
        assert [each.actor for each in place.state.sessions.values()] == ["ann"] * bool(number)
        journal = place.open("hall", "boot")
        reactor.wait(journal.append([stamp(each) for each in (events if number == 0 else (started,))]))
        reactor.wait(place.close())
        keys.append((tmp_path / "keys").read_bytes() if pseudonyms is not None else b"")
    assert keys[1] == keys[2] == keys[3] != b""
    last = list_segments(tmp_path / "journal")[-1].read_bytes()
    assert b"ann" not in last
    assert b'"in_effect"' in last
    report = verify(tmp_path / "journal", registry=RegistryFold)
    assert [each.code for each in report.faults] == []
