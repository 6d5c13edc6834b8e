"""A journal in a directory of the test, with a disk and a reactor that do as they are told."""

import pytest

from bussrv.journal.writer import FileJournal
from tests.journal.support import Disk, FakeReactor, writer


@pytest.fixture
def disk():
    disk = Disk()
    yield disk
    disk.go_on()


@pytest.fixture
def reactor():
    return FakeReactor()


@pytest.fixture
def open_journal(tmp_path, disk, reactor):
    """Opens journals; closes those that the test leaves open."""
    opened = []

    def open_(**options):
        journal = FileJournal(writer(tmp_path, files=disk, **options), reactor)
        opened.append(journal)
        return journal

    yield open_
    disk.go_on()
    for journal in opened:
        if not journal._is_closed:
            reactor.wait(journal.close())
