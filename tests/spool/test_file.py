"""Opening the file of a spool: who may use it, of which version it is, and what becomes of a damaged one."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from bussrv.errors import SpoolUnavailable
from bussrv.journal.files import Files
from bussrv.spool.entries import AppendToAll
from bussrv.spool.file import NAME, VERSION, SpoolFile
from tests.spool.support import Scene

PAGE = 4096


def kept(scene: Scene, size: int = 40) -> list[bytes]:
    """Fill a spool, and stop it."""
    scene.claim()
    payloads = [b"<%04d>" % number * (1200 if number % 4 == 0 else 20) for number in range(size)]
    for each in payloads:
        scene.append(each)
    scene.close()
    return payloads


def test_only_its_owner_may_use_it(tmp_path: Path, scene: Scene) -> None:
    mask = os.umask(0)
    try:
        (tmp_path / "spool").mkdir(0o777)
        (tmp_path / "spool" / NAME).touch(0o666)
        scene.claim()
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "spool").stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "spool").iterdir()}
    assert modes == dict.fromkeys(["lock", NAME, f"{NAME}-wal", f"{NAME}-shm"], 0o600)


@pytest.mark.parametrize("what", ["directory", "link", "fifo"])
def test_what_is_no_file_is_refused(tmp_path: Path, scene: Scene, what: str) -> None:
    (tmp_path / "spool").mkdir()
    path = tmp_path / "spool" / NAME
    {"directory": path.mkdir, "link": lambda: path.symlink_to("x"), "fifo": lambda: os.mkfifo(path)}[what]()
    with pytest.raises(SpoolUnavailable):
        scene.claim()
    assert len(list((tmp_path / "spool").iterdir())) == 2, "nothing was set aside, nothing made"


def changed(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for each in statements:
            connection.execute(each)


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        ([f"PRAGMA user_version = {VERSION + 1}"], f"by a later bussrv, in version {VERSION + 1} of its format"),
        (["PRAGMA application_id = 7"], "is not a spool of bussrv"),
    ],
)
def test_a_file_of_a_later_version_is_left_alone(
    tmp_path: Path, scene: Scene, statements: list[str], said: str
) -> None:
    payloads = kept(scene)
    path = tmp_path / "spool" / NAME
    changed(path, *statements)
    scene.start()
    with pytest.raises(SpoolUnavailable, match="cannot be written"):
        scene.claim()
    assert said in str(scene.spool.trouble)
    assert str(path) in str(scene.spool.trouble)
    changed(path, f"PRAGMA user_version = {VERSION}", "PRAGMA application_id = 1651864435")
    scene.reactor.run_until(lambda: scene.spool.unavailable is None)
    assert scene.payloads() == payloads


def test_a_file_of_the_first_version_is_taken_on(tmp_path: Path, scene: Scene) -> None:
    payloads = kept(scene)
    changed(tmp_path / "spool" / NAME, "DROP TABLE common", "DROP TABLE waiting", "PRAGMA user_version = 1")
    scene.start()
    scene.claim()
    to_all = AppendToAll(owners=("ann",), kind="queue", heads=(b"",), payload=b"later")
    scene.reactor.wait(scene.spool.write([to_all]))
    assert scene.payloads() == [*payloads, b"later"]


def pages_of(path: Path) -> int:
    return path.stat().st_size // PAGE


def cut(part: float) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, int(pages_of(path) * part) * PAGE + 512)


def zeros(path: Path) -> None:
    """As after a power failure on a disk that lied: zeros in the place of every third page."""
    with path.open("r+b") as file:
        for number in range(2, pages_of(path), 3):
            file.seek(number * PAGE)
            file.write(bytes(PAGE))


def other_payload(path: Path) -> None:
    """A page of a long payload, all but its pointer to the next one."""
    data = bytearray(path.read_bytes())
    place = next(place for place in range(PAGE, len(data), PAGE) if data[place + 100 : place + 1000].count(b"<0012>"))
    data[place + 512 : place + 1024] = bytes(512)
    path.write_bytes(data)


DAMAGES = {
    "garbage": lambda path: path.write_bytes(os.urandom(3 * PAGE)),
    "header": lambda path: path.write_bytes(bytes(100) + path.read_bytes()[100:]),
    "cut short": cut(0.5),
    "nearly nothing left": cut(0),
    "zeros": zeros,
    "payload": other_payload,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_set_aside(
    tmp_path: Path, scene: Scene, damage: Callable[[Path], None], logged: list[str]
) -> None:
    payloads = kept(scene)
    path = tmp_path / "spool" / NAME
    damage(path)
    found = path.read_bytes()
    damaged: list[bool] = []
    scene.start().damage_observers.append(lambda: damaged.append(True))
    try:
        assert scene.payloads() == []
    except SpoolUnavailable:
        # Only a payload shows it, when that is read.
        assert damage is other_payload
        assert scene.payloads() == []
    assert scene.wait(scene.spool.owners()) == ()
    assert (damaged, scene.counters) == ([True], {"spool-damaged": 1})
    (aside,) = (each for each in path.parent.iterdir() if each.name.startswith(f"{NAME}.damaged."))
    assert aside.read_bytes() == found
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    assert sum(str(aside) in each and "spool.set-aside" in each for each in logged) >= 1
    scene.claim()
    scene.append(payloads[0])
    assert scene.payloads() == payloads[:1]


def test_a_damaged_file_that_cannot_be_set_aside(tmp_path: Path, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(scene)
    cut(0.5)(tmp_path / "spool" / NAME)
    rename = Files.rename

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Files, "rename", refuse)
    scene.start()
    with pytest.raises(SpoolUnavailable):
        scene.claim()
    assert "cannot be set aside" in str(scene.spool.trouble)
    assert scene.counters["spool-damaged"] == 0
    monkeypatch.setattr(Files, "rename", rename)
    scene.reactor.run_until(lambda: scene.spool.unavailable is None)
    assert scene.counters["spool-damaged"] == 1
    scene.claim()


def test_a_torn_end_of_the_log_is_what_was_not_confirmed(tmp_path: Path, scene: Scene) -> None:
    """Of the last commit only a part got to the disk: what was confirmed before is there."""
    scene.claim()
    scene.append(b"confirmed")
    log = tmp_path / "spool" / f"{NAME}-wal"
    size = log.stat().st_size
    scene.append(b"torn" * 3000)
    copy = tmp_path / "copy"
    copy.mkdir()
    for each in (NAME, f"{NAME}-wal"):
        (copy / each).write_bytes((tmp_path / "spool" / each).read_bytes())
    os.truncate(copy / f"{NAME}-wal", size + 5000)
    again = Scene(copy)
    assert again.payloads() == [b"confirmed"]
    again.append(b"next")
    assert again.payloads() == [b"confirmed", b"next"]
    again.close()


def test_a_file_without_its_tables_is_filled(tmp_path: Path, scene: Scene) -> None:
    """A crash came before the tables, after everything else."""
    (tmp_path / "spool").mkdir()
    changed(tmp_path / "spool" / NAME, "PRAGMA auto_vacuum = INCREMENTAL", "PRAGMA journal_mode = WAL")
    kept(scene)
    with closing(sqlite3.connect(tmp_path / "spool" / NAME)) as connection:
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_what_is_confirmed_is_synced_and_stays_in_its_files(tmp_path: Path) -> None:
    """No test cuts the power: what SQLite does then is its own affair, if it is told this."""
    file = SpoolFile(tmp_path / "spool")
    with closing(file.open()) as connection:
        settings = {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1, "temp_store": 2, "mmap_size": 0}
        found = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in settings}
    file.release()
    assert found == settings
