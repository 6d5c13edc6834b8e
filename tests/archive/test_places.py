"""Places for files: a file is whole or not there, and none takes the place of another one unasked."""

import errno
import os
import sys

import pytest

from bussrv.archive.places import LocalPlace, RemotePlace, place_at
from bussrv.archive.shipping import Shipper
from bussrv.archive.store import DELAYS, Store, StoreError, is_passing, open_store
from bussrv.errors import JournalError
from tests.archive.stores import claim, written
from tests.journal.support import Disk


@pytest.fixture(params=["local", "without links", "fsspec: local", "fsspec: memory"])
def place(request, tmp_path, monkeypatch):
    if request.param == "local":
        return LocalPlace(tmp_path / "archive" / "hall")
    if request.param == "without links":

        def link(source, target):
            raise OSError(errno.EEXIST if target.exists() else errno.EPERM, "no")

        monkeypatch.setattr(os, "link", link)
        return LocalPlace(tmp_path / "archive" / "hall")
    if request.param == "fsspec: local":
        return RemotePlace(f"local://{tmp_path}/archive/hall", "local")
    return RemotePlace(f"memory://archive{tmp_path}/hall", "memory")


def content(place, name):
    with place.open(name) as file:
        return file.read()


def breaking():
    yield b"some of it"
    raise TimeoutError("no answer")


def test_files_come_whole_or_not_at_all(place):
    assert list(place.names()) == []
    with pytest.raises(FileNotFoundError):
        place.open("one")
    place.create("one", [b"first ", b"part"])
    assert (place.exists("one"), place.exists("two"), content(place, "one")) == (True, False, b"first part")
    with pytest.raises(OSError, match=r"File exists|no"):
        place.create("one", [b"another"])
    assert content(place, "one") == b"first part"
    with pytest.raises(TimeoutError):
        place.create("two", breaking())
    with pytest.raises(TimeoutError):
        place.replace("one", breaking())
    assert (place.exists("two"), content(place, "one")) == (False, b"first part")
    place.replace("one", [b"next"])
    place.replace("three", [b"new"])
    assert (content(place, "one"), content(place, "three")) == (b"next", b"new")
    assert {each for each in place.names() if not each.endswith(".part")} == {"one", "three"}


def test_what_is_written_here_is_synced_before_it_has_its_name(tmp_path):
    disk = Disk()
    place = LocalPlace(tmp_path / "there", disk)
    synced = []
    disk.sync = lambda descriptor: synced.append({path.name for path in (tmp_path / "there").iterdir()})
    place.create("one", [b"x"])
    place.replace("one", [b"y"])
    assert synced == [{"one.part"}, {"one", "one.part"}]
    with pytest.raises(FileExistsError):
        place.create("one", [b"z"])
    assert list(place.names()) == ["one"]
    with pytest.raises(TimeoutError):
        place.replace("one", breaking())
    assert list(place.names()) == ["one"]
    assert disk.calls["sync_directory"] == 2


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("archive/hall", "is not a URL such as s3://BUCKET/PATH or file:/PATH"),
        ("file:", "is not a URL such as file:/PATH"),
        ("file://elsewhere/hall", "is not a URL such as file:/PATH"),
        ("s3://ann:secret@bucket/hall", "a URL with credentials is refused"),
        ("nothing://bucket/hall", "cannot be used: Protocol not known: nothing"),
    ],
)
def test_a_url_that_cannot_be_used_is_one_sentence(url, said):
    with pytest.raises(JournalError, match=said) as found:
        place_at(url)
    assert "secret" not in str(found.value)


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("fsspec", r"s3://bucket/hall needs fsspec: pip install 'bussrv\[ship\]'"),
        ("s3fs", r"needs a package that is not installed: .*pip install 'bussrv\[s3\]'"),
    ],
)
def test_a_package_that_is_missing_is_named(missing, said, monkeypatch):
    for name in [each for each in sys.modules if each.split(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    if missing == "s3fs":
        for scheme in ("s3", "s3a"):
            monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, scheme, raising=False)
    else:
        monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(JournalError, match=said):
        place_at("s3://bucket/hall")


def test_a_path_means_the_same_wherever_a_program_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_store("file:the archive/hall/").url == (tmp_path / "the archive/hall").as_uri()
    assert open_store("file:///a%20b").at("x") == "file:///a%20b/x"
    written(tmp_path / "here", *"ab")
    assert Shipper(tmp_path / "here", open_store("file:archive")).look().segments == 0
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(JournalError, match="is shipped to file:///"):
        Shipper(tmp_path / "here", open_store("file:archive")).look()


class HTTPClientError(Exception):
    """As botocore names them."""


class ReadTimeoutError(HTTPClientError):
    pass


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (TimeoutError("x"), True),
        (ConnectionResetError(errno.ECONNRESET, "x"), True),
        (ReadTimeoutError("x"), True),
        (OSError(errno.EBUSY, "slow down"), True),
        (OSError(errno.EREMOTEIO, "internal error"), True),
        (FileNotFoundError(errno.ENOENT, "x"), False),
        (PermissionError(errno.EACCES, "x"), False),
        (OSError(errno.EINVAL, "x"), False),
        (OSError(errno.ENOSPC, "x"), False),
        (ValueError("x"), False),
    ],
)
def test_what_may_pass_is_tried_again(error, passes, tmp_path):
    assert is_passing(error) is passes
    waited = []
    store = Store("file:///there", LocalPlace(tmp_path), waited.append)

    def failing(file):
        raise error

    (tmp_path / "one").touch()
    with pytest.raises(StoreError) as found:
        store.read("one", failing)
    assert (found.value.is_passing, waited) == (passes, list(DELAYS) if passes else [])
    assert "\n" not in str(found.value)


def test_a_journal_is_shipped_to_what_fsspec_opens(tmp_path):
    written(tmp_path / "here", *"abc")
    url = f"memory://archive{tmp_path}/hall"
    assert Shipper(tmp_path / "here", open_store(url)).look().segments == 0
    assert claim(tmp_path / "here") == 3
    assert Shipper(tmp_path / "here", open_store(url)).look().segments == 0
