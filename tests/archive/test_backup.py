"""A copy of a journal that is being written is whole, whatever the server does meanwhile."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from bussrv.archive import fetching as module
from bussrv.archive.fetching import back_up, fetch, staging
from bussrv.archive.shipping import Shipper
from bussrv.archive.store import open_store
from bussrv.client.objects import ObjectsClient
from bussrv.errors import JournalError
from bussrv.journal.leaves import JournalTree, root_at
from bussrv.journal.reading import read_journal
from bussrv.journal.segment import list_segments
from bussrv.journal.verify import verify
from bussrv.registry.state.fold import RegistryFold
from bussrv.transparency.tree import is_included, leaf_hash
from tests.archive.stores import written
from tests.docs.golden import PLACE
from tests.forked import ForkedServer
from tests.journal.support import contents

SMALL = ("--journal-segment-bytes", "65536", "--journal-compress", "--journal-sync", "off")


def churn(port: int, stop: threading.Event) -> None:
    """Register and unregister, as fast as the server answers."""
    with ObjectsClient(port=port) as client:
        client.subscribe()
        while not stop.is_set():
            client.register("tv")
            client.unregister("tv")


@pytest.mark.processes
def test_a_busy_server_is_copied_and_one_starts_from_the_copy(tmp_path: Path) -> None:
    """Segments are begun, compressed and removed meanwhile."""
    journal, stop = tmp_path / "journal", threading.Event()
    with ForkedServer(journal, (*SMALL, "--journal-retain-bytes", "2000000")) as server:
        load = threading.Thread(target=churn, args=(server.port("objects"), stop))
        load.start()
        try:
            for number in range(5):
                last = verify(journal).last_seq or 0
                report = back_up(journal, tmp_path / f"copy{number}")
                assert (report.faults, (report.last_seq or 0) >= last) == ([], True)
        finally:
            stop.set()
            load.join()
        assert server.stop() == 0
    assert back_up(tmp_path / "copy4", tmp_path / "restored").faults == []
    assert contents(tmp_path / "restored") == contents(tmp_path / "copy4")
    with ForkedServer(tmp_path / "restored", SMALL) as again:
        assert again.stop() == 0
    assert verify(tmp_path / "restored", registry=RegistryFold).faults == []
    ours = [*read_journal(tmp_path / "copy4")]
    assert [*read_journal(tmp_path / "restored")][: len(ours)] == ours


def test_what_changed_meanwhile_is_copied_by_a_later_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    written(here, *"abc").end()
    fetch, attempts = module.fetch, []

    def meanwhile(*arguments: object, **named: object) -> object:
        attempts.append(1)
        if len(attempts) == 1:
            raise JournalError("there is no such file")
        return fetch(*arguments, **named)

    monkeypatch.setattr(module, "fetch", meanwhile)
    assert back_up(here, tmp_path / "copy").faults == []
    assert len(attempts) == 2


def test_what_was_damaged_before_gets_no_name(tmp_path: Path) -> None:
    here = tmp_path / "here"
    written(here, *"abc").end()
    path = list_segments(here)[1]
    path.chmod(0o600)
    path.write_bytes(path.read_bytes().replace(b'"b"', b'"x"', 1))
    with pytest.raises(JournalError, match="is not what the seal"):
        back_up(here, tmp_path / "copy", attempts=2)
    assert not (tmp_path / "copy").exists()
    assert staging(tmp_path / "copy").exists()


def test_a_copy_is_never_overwritten(tmp_path: Path) -> None:
    here = tmp_path / "here"
    written(here, "a").end()
    (tmp_path / "copy").mkdir()
    with pytest.raises(JournalError, match="is there already"):
        back_up(here, tmp_path / "copy")
    with pytest.raises(JournalError, match="holds no journal"):
        back_up(tmp_path / "copy", tmp_path / "other")


@pytest.mark.parametrize("how", ["backed up", "shipped and fetched"])
def test_copies_prove_records_though_earlier_ones_are_gone(tmp_path: Path, how: str) -> None:
    directory, copy = shutil.copytree(PLACE / "whole", tmp_path / "journal"), tmp_path / "copy"
    if how == "backed up":
        assert not back_up(directory, copy).faults
    else:
        store = open_store((tmp_path / "store").as_uri())
        Shipper(directory, store).look()
        assert not fetch(store, copy).faults
        # Once more is as good as once.
        Shipper(directory, store).look()
    size = 31
    tree, root = JournalTree(copy).tree(size), root_at(copy, 1, size)
    for seq, line in JournalTree(copy).lines(range(6, size + 1)):
        assert is_included(leaf_hash(line), seq - 1, size, tree.inclusion(seq - 1), root)
