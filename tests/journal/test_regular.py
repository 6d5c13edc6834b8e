"""What is not a regular file is not opened: it could make a server, or a check of its journal, wait for ever."""

import os
import re
import socket
import stat
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from bussrv.errors import JournalError
from bussrv.journal.batch import Rotation
from bussrv.journal.bounded import open_bounded
from bussrv.journal.files import FILES
from bussrv.journal.keys import read_private, read_public
from bussrv.journal.lock import JournalLock
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.pseudonym_keys import identities
from bussrv.journal.reading import read_end, read_journal
from bussrv.journal.recovery import recover
from bussrv.journal.regular import NotRegular, read_regular
from bussrv.journal.segment import list_segments
from bussrv.journal.upkeep import UpkeepPolicy
from bussrv.journal.verify import verify
from bussrv.registry.state.fold import RegistryFold
from tests.journal.kept import Kept

pytestmark = pytest.mark.timeout(20)


def fifo(path):
    os.mkfifo(path)


def unix_socket(path):
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(path.parent)  # The names of sockets are short.
        try:
            listening.bind(path.name)
        finally:
            os.chdir(here)


def device(path):
    path.symlink_to("/dev/zero")


def directory(path):
    path.mkdir()


WHAT = "not a regular file|Is a directory"
SPECIAL = [fifo, unix_socket, device, directory]


@pytest.fixture(params=SPECIAL, ids=lambda make: make.__name__)
def special(request):
    """Puts something in the place of a file."""

    def put(path):
        path.unlink(missing_ok=True)
        request.param(path)
        return path

    return put


@contextmanager
def named(path):
    with pytest.raises(JournalError) as caught:
        yield
    assert str(path) in str(caught.value)
    assert re.search(WHAT, str(caught.value))


@pytest.mark.parametrize(
    "use", [read_regular, partial(open_bounded, compressed=True), FILES.open, FILES.reopen, FILES.create]
)
def test_it_is_not_opened(tmp_path, special, use):
    path = special(tmp_path / "file")
    with pytest.raises((NotRegular, OSError)) as caught:
        use(path)
    assert str(path) in str(caught.value)


def test_a_fifo_that_somebody_reads_is_not_written_to(tmp_path):
    path = tmp_path / "file"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(NotRegular):
        FILES.open(path)
    os.close(reading)


def content(path):
    with read_regular(path) as file:
        return file.read()


def test_a_link_to_a_regular_file_is_followed_but_not_emptied(tmp_path):
    (tmp_path / "file").write_bytes(b"text")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "file")
    assert content(link) == b"text"
    with pytest.raises(OSError, match="symbolic"):
        FILES.create(link)
    assert content(link) == b"text"


def test_a_compressed_file_is_closed_with_what_it_is_read_from(tmp_path):
    kept = Kept(tmp_path, rotation=Rotation(bytes=1), policy=UpkeepPolicy(compress=True))
    kept.write("a")
    kept.write("b")
    kept.idle(1)
    (path, *_) = list_segments(tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with open_bounded(path, compressed=True) as file:
        assert file.readline().startswith(b"{")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    kept.end()


def journal(path):
    """Three segments that are sealed; the last one was stopped in order."""
    kept = Kept(path, rotation=Rotation(bytes=1))
    for name in "abc":
        kept.write(name)
    kept.end()
    return list_segments(path)


@pytest.mark.parametrize("which", [0, -1])
def test_among_the_segments_it_ends_every_use_with_an_error(tmp_path, special, which):
    path = special(journal(tmp_path)[which])
    with named(path):
        recover(tmp_path, RegistryFold())
    with named(path):
        list(read_journal(tmp_path))
    with named(path):
        read_end(tmp_path, 5, lambda record: True)
    with named(path):
        verify(tmp_path)


def test_a_compressed_one_too(tmp_path, special):
    path = journal(tmp_path)[0]
    path.unlink()
    packed = special(path.with_name(path.name + ".gz"))
    with named(packed):
        recover(tmp_path, RegistryFold())
    with named(packed):
        list(read_journal(tmp_path))


def test_instead_of_the_manifest_it_ends_every_use_with_an_error(tmp_path, special):
    journal(tmp_path)
    path = special(tmp_path / MANIFEST_NAME)
    with named(path):
        recover(tmp_path, RegistryFold())
    with named(path):
        verify(tmp_path)


def test_in_the_place_of_the_lock_or_of_a_key_it_is_an_error(tmp_path, special):
    special(tmp_path / "lock")
    with pytest.raises(JournalError, match=WHAT):
        JournalLock(tmp_path)
    key = special(tmp_path / "key")
    for use in (read_private, read_public, identities):
        with pytest.raises(JournalError, match=WHAT):
            use(key)


@pytest.mark.parametrize("umask", [0o022, 0o077, 0])
def test_a_journal_directory_is_made_for_its_owner_and_group(tmp_path, umask):
    before = os.umask(umask)
    try:
        JournalLock(tmp_path / "of" / "hall").release()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "of" / "hall").stat().st_mode) == 0o750 & ~umask
