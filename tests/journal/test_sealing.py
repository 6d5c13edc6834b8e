"""What a server says of its segments in the manifest."""

from __future__ import annotations

from pathlib import Path

import pytest

from bussrv.errors import JournalError
from bussrv.journal.files import Files
from bussrv.journal.keys import PrivateKey
from bussrv.journal.manifest import MANIFEST_NAME, KeyEntry, Manifest, Pruned, Seal
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.sealing import Sealer, in_words
from bussrv.journal.segment import Extent
from tests.inspection.journals import HASTY, KEY, STRANGER
from tests.journal.support import Disk, FakeClock

FIRST = Extent(segment=1, bytes=900, digest="1" * 64, records=3, first_seq=1, last_seq=3, first_time=10, last_time=30)
SECOND = Extent(segment=4, bytes=500, digest="4" * 64, records=1, first_seq=4, last_seq=4, first_time=40, last_time=40)


def sealer(directory: Path, key: PrivateKey | None = KEY, files: Files = HASTY) -> Sealer:
    manifest = read_manifest(directory / MANIFEST_NAME)
    return Sealer(directory, "hall", manifest=manifest, key=key, clock=FakeClock(), files=files)


def read(directory: Path) -> Manifest:
    manifest = read_manifest(directory / MANIFEST_NAME)
    assert manifest.findings == []
    return manifest


def test_the_first_key_is_introduced_and_what_follows_is_signed(tmp_path: Path) -> None:
    mine = sealer(tmp_path)
    introduced = mine.last_hash
    ((_, first), (_, second)) = mine.seal([FIRST, SECOND], closed=True)
    manifest = read(tmp_path)
    assert [entry.hash for entry in manifest.entries] == [introduced, first, second]
    assert isinstance(manifest.entries[0].body, KeyEntry)
    assert {entry.key for entry in manifest.entries} == {KEY.public.fingerprint}
    assert mine.last_hash == second
    assert [seal.segment for seal in manifest.closed()] == [1, 4]


def test_without_a_key_nothing_is_introduced(tmp_path: Path) -> None:
    mine = sealer(tmp_path, None)
    assert mine.last_hash is None
    assert not (tmp_path / MANIFEST_NAME).exists()
    ((seal, _),) = mine.seal([FIRST], closed=False)
    assert read(tmp_path).seals == {1: seal}
    assert (seal.closed, seal.time, seal.server) == (False, FakeClock().utc(), "hall")
    assert in_words(seal) == "segment 1 so far, records 1 to 3"


def test_the_next_boot_goes_on(tmp_path: Path) -> None:
    sealer(tmp_path).seal([FIRST], closed=False)
    sealer(tmp_path).seal([FIRST], closed=True)
    assert [type(entry.body) for entry in read(tmp_path).entries] == [KeyEntry, Seal, Seal]


@pytest.mark.parametrize(("before", "after"), [(KEY, None), (KEY, STRANGER)])
def test_another_key_is_refused(tmp_path: Path, before: PrivateKey, after: PrivateKey | None) -> None:
    sealer(tmp_path, before).seal([FIRST], closed=True)
    with pytest.raises(JournalError, match="so it cannot go on with"):
        sealer(tmp_path, after)


def test_a_key_may_come_later(tmp_path: Path) -> None:
    sealer(tmp_path, None).seal([FIRST], closed=True)
    sealer(tmp_path, KEY).seal([SECOND], closed=True)
    assert [entry.key for entry in read(tmp_path).entries] == [None, *[KEY.public.fingerprint] * 2]


def test_what_is_removed_is_said(tmp_path: Path) -> None:
    mine = sealer(tmp_path)
    ((seal, _),) = mine.seal([FIRST], closed=True)
    mine.prune(seal, "size")
    assert read(tmp_path).pruned == {1: Pruned(FakeClock().utc(), "hall", 1, 3, 900, "1" * 64, "size")}
    assert read(tmp_path).closed() == []


def test_a_disk_that_fails(tmp_path: Path) -> None:
    disk = Disk()
    mine = sealer(tmp_path, files=disk)
    before = (tmp_path / MANIFEST_NAME).read_bytes()
    disk.failing.add("sync")
    with pytest.raises(OSError, match="Input/output error"):
        mine.seal([FIRST], closed=True)
    disk.failing.clear()
    ((_, sealed),) = mine.seal([FIRST], closed=True)
    assert [entry.hash for entry in read(tmp_path).entries][1:] == [sealed]
    assert (tmp_path / MANIFEST_NAME).read_bytes().startswith(before)


def test_a_manifest_that_somebody_removed(tmp_path: Path) -> None:
    mine = sealer(tmp_path)
    assert not mine.begin_anew_if_changed(lambda: None)
    mine.seal([FIRST], closed=True)
    (tmp_path / MANIFEST_NAME).unlink()
    assert mine.begin_anew_if_changed(lambda: None)
    mine.seal([SECOND], closed=True)
    assert [type(entry.body) for entry in read(tmp_path).entries] == [KeyEntry, Seal]
