"""``bussrv journal verify``, ``seal`` and ``keygen`` as a person or a script meets them."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from bussrv.cli.main import main
from bussrv.inspection import proof
from bussrv.inspection.proof import run_verify
from bussrv.journal import verify as module
from bussrv.journal.batch import BatchWriter, Rotation
from bussrv.journal.files import FILES
from bussrv.journal.keys import generate, read_private, read_public
from bussrv.journal.lock import JournalLock
from bussrv.journal.manifest import MANIFEST_NAME, KeyEntry
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.recovery import recover
from bussrv.journal.sealing import MARKER, Sealer
from bussrv.journal.segment import first_seq, list_segments, segment_name
from bussrv.journal.upkeep import Upkeep, UpkeepPolicy
from bussrv.journal.verify import verify
from bussrv.journal.writer import FileJournal
from bussrv.registry.state.fold import RegistryFold
from tests.audit.commands import BUSSRV, ROOT
from tests.inspection.journals import House
from tests.inspection.shell import Shell
from tests.journal.support import FakeClock, FakeReactor, fact, note, writer
from tests.tamperings.copies import Copy, changed


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.0)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    generate(tmp_path / "key")
    return tmp_path / "key"


@pytest.fixture
def house(tmp_path: Path, key: Path) -> House:
    """Whose server has stopped: records 1 to 10, signed."""
    house = House(tmp_path / "journal", key=read_private(key))
    house.boot()
    house.go_on(8)
    house.stop()
    return house


def going(house: House) -> Path:
    """The same with a second boot that was killed; its records 11 to 15, of which 12 and 13 are not sealed."""
    house.boot()
    house.write_unseen(house.traffic.next(), house.traffic.next())
    house.crash()
    return house.directory


# verify


def test_a_journal_that_is_whole(shell: Shell, house: House, key: Path) -> None:
    fingerprint = read_public(key.with_name("key.pub")).fingerprint
    where = house.directory
    said = f"{where}: 1 segment, records 1 to 10, sealed up to record 10, signed with the key {fingerprint}\nOK\n"
    assert shell.run("verify", where, "--public-key", f"{key}.pub") == (0, said, "")
    assert shell.run("verify", where, "--public-key", f"{key}.pub", "--sealed") == (0, said, "")
    status, unknown, _ = shell.run("verify", where)
    assert (status, unknown.splitlines()[1:]) == (0, said.splitlines())
    assert "was not compared with one that you know: use --public-key" in unknown


def test_what_is_not_sealed_yet_is_said(shell: Shell, house: House, key: Path) -> None:
    where = going(house)
    status, said, _ = shell.run("verify", where, "--public-key", f"{key}.pub")
    assert (status, said.splitlines()[-1]) == (
        0, "OK. Records after 11 are not sealed yet.",
    )  # fmt: skip
    assert said.startswith("note: records 12 to 13, after record 11 of 2027-01-15T08:00:02.750000Z, are not sealed yet")
    status, said, _ = shell.run("verify", where, "--public-key", f"{key}.pub", "--sealed")
    assert (status, said.splitlines()[-1]) == (1, "1 FAULT")
    assert said.startswith(
        f"FAULT {segment_name(11)}, records 12 to 13: broken-seal: records 12 to 13, after record 11"
    )


def test_a_fault_names_file_line_and_record(shell: Shell, house: House) -> None:
    copy = Copy(house.directory)
    copy.forge(1, 4, changed)
    copy.save()
    status, said, complained = shell.run("verify", house.directory)
    assert (status, complained) == (1, "")
    first, second, *_, last = said.splitlines()
    assert first.startswith(f"FAULT {segment_name(1)}, line 6, records 4 to 5: broken-chain: record 5 does not hold")
    assert second.startswith(f"FAULT {segment_name(1)}, records 1 to 10: broken-seal: it is not what was sealed")
    assert last == "2 FAULTS"


def test_verify_as_json(shell: Shell, house: House, key: Path) -> None:
    fingerprint = read_public(key.with_name("key.pub")).fingerprint
    status, said, _ = shell.run("verify", house.directory, "--json", "--public-key", f"{key}.pub")
    assert (status, json.loads(said)) == (0, {
        "faults": [], "notes": [], "segments": 1, "records": 10, "first_seq": 1, "last_seq": 10, "sealed_seq": 10,
        "witnessed_seq": None, "witnessed": [], "key": fingerprint, "is_trusted": True,
    })  # fmt: skip
    copy = Copy(house.directory)
    copy.forge(1, 4, changed)
    copy.save()
    status, said, _ = shell.run("verify", house.directory, "--json")
    assert status == 1
    fault = json.loads(said)["faults"][0]
    assert fault.pop("message").startswith("record 5 does not hold the hash of the line before it")
    assert fault == {
        "path": segment_name(1), "code": "broken-chain", "segment": 1, "line": 6, "seq": 4, "last_seq": 5,
    }  # fmt: skip


def test_a_seal_that_was_noted(shell: Shell, house: House, key: Path) -> None:
    noted = [entry.hash for entry in read_manifest(house.directory / MANIFEST_NAME).entries]
    options = [each for entry_hash in noted for each in ("--includes", entry_hash)]
    assert shell.run("verify", house.directory, *options)[0] == 0
    status, said, _ = shell.run("verify", house.directory, *options, "--includes", "0" * 64)
    assert status == 1
    assert f"FAULT {MANIFEST_NAME}: bad-manifest: entry {'0' * 64} is not there" in said


def test_another_key(shell: Shell, house: House, tmp_path: Path) -> None:
    generate(tmp_path / "other")
    status, said, _ = shell.run("verify", house.directory, "--public-key", tmp_path / "other.pub", "--json")
    report = json.loads(said)
    assert (status, len(report["faults"]), report["is_trusted"]) == (1, 1, False)
    assert "no entry is signed with the trusted key" in report["faults"][0]["message"]


def test_what_cannot_be_verified(shell: Shell, house: House, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, said in [
        ((tmp_path / "nowhere",), "cannot read the journal directory"),
        ((tmp_path / "empty",), "holds no journal"),
        ((house.directory, "--public-key", tmp_path / "no-key"), "there is no key"),
        ((house.directory, "--public-key", tmp_path / "key"), "is not an Ed25519 public key"),
    ]:
        status, nothing, complained = shell.run("verify", *arguments)
        assert (status, nothing, complained.count("\n")) == (2, "", 1)
        assert complained.startswith("bussrv journal: ")
        assert said in complained


def test_a_segment_that_is_no_file(shell: Shell, house: House) -> None:
    (house.directory / segment_name(11)).mkdir()
    status, _, complained = shell.run("verify", house.directory)
    assert (status, complained.count("\n")) == (2, 1)


def test_bytes_that_are_no_text(shell: Shell, house: House) -> None:
    copy = Copy(house.directory)
    copy.segments[1][4] = b'{"v":4,"prev":"\xff\xfe\n'
    copy.save()
    status, said, _ = shell.run("verify", house.directory)
    assert (status, f"FAULT {segment_name(1)}, line 5, record 4: bad-line: not a journal record" in said) == (1, True)


@pytest.mark.processes
def test_nobody_reads_what_verify_says(house: House) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, *BUSSRV, "journal", "verify", str(house.directory)]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)})
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_verify_while_a_segment_is_compressed_and_another_begun(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there when the directory is looked at is gone, or not the last any more, when it is read."""
    house.boot()
    real = module.Scan

    def scan(path: Path, sizes: Iterable[int] = (), **options: Any) -> object:
        monkeypatch.setattr(module, "Scan", real)
        (packed := path.with_name(path.name + ".gz")).write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
        assert packed.exists()
        house.rotate()
        house.go_on(3)
        return real(path, sizes, **options)

    monkeypatch.setattr(module, "Scan", scan)
    assert verify(house.directory, house.key.public).faults == []


def test_verify_waits_for_a_seal_that_is_being_made(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 20.0)
    house.boot()
    house.writer.rotate()
    house.write_unseen(house.traffic.next())
    monkeypatch.setattr(module.time, "sleep", lambda _: house.look())
    assert verify(house.directory, house.key.public).faults == []
    monkeypatch.undo()


def test_verify_goes_on_behind_what_retention_removes_meanwhile(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house._policy = UpkeepPolicy(retain_age=5.0)
    house.boot()
    house.go_on(3)
    real = module.Scan

    def scan(path: Path, sizes: Iterable[int] = (), **options: Any) -> object:
        monkeypatch.setattr(module, "Scan", real)
        for _ in range(4):
            house.clock.advance(10)
            house.write(house.traffic.next())
        assert not path.exists()
        return real(path, sizes, **options)

    monkeypatch.setattr(module, "Scan", scan)
    report = verify(house.directory, house.key.public)
    assert (report.faults, report.first_seq) == ([], 11)


def test_verify_misses_nothing_when_retention_removes_more(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first segment is looked at; then it is removed together with the second one, and others stay."""
    for _ in range(3):
        house.boot()
        house.go_on(8)
        house.stop()
    first, second, third, *_ = segments = list_segments(house.directory)
    sizes = [path.stat().st_size for path in segments]
    house._policy = UpkeepPolicy(retain_bytes=sum(sizes[2:]) + sizes[1] - 1)
    real = module.Scan

    def scan(path: Path, sizes: Iterable[int] = (), **options: Any) -> object:
        if path == second:
            house.boot()
            house.clock.advance(10)
            house.write(house.traffic.next())
            assert [each.exists() for each in (first, second, third)] == [False, False, True]
        return real(path, sizes, **options)

    monkeypatch.setattr(module, "Scan", scan)
    assert verify(house.directory, house.key.public).faults == []


@pytest.mark.dear
def test_verify_while_a_server_writes(house: House, key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments end, are compressed and are removed while it looks."""
    monkeypatch.setattr(module, "PATIENCE", 20.0)
    policy = UpkeepPolicy(compress=True, retain_bytes=12_000)
    server = Server(house.directory, key, policy, Rotation(bytes=1500))
    pause = threading.Event()

    def write_all() -> None:
        for number in count():
            for _ in range(5):
                server.journal.append_fact(note("ann"))
            pause.wait(0.005)
            # On a machine that has much else to do, nothing may have been removed yet.
            if number >= 150 and first_seq(list_segments(house.directory)[0]) > 100:
                return

    writing = threading.Thread(target=write_all)
    writing.start()
    reports = []
    try:
        while writing.is_alive():
            reports.append(verify(house.directory, house.key.public))
    finally:
        writing.join()
        server.close()
    assert [report.faults for report in reports if report.faults] == []
    report = verify(house.directory, house.key.public, to_the_end=True)
    assert (report.faults, report.last_seq) == ([], report.sealed_seq)
    assert (report.first_seq or 0) > 100


# seal


class Server:
    """A journal that is open for writing, in this process; the lock of the directory is held."""

    def __init__(
        self, directory: Path, key: Path | None, policy: UpkeepPolicy | None = None, rotation: Rotation | None = None
    ) -> None:
        self.reactor = FakeReactor()
        self._lock = JournalLock(directory)
        clock = FakeClock(mono=10**9)
        fold = RegistryFold()
        recovered = recover(directory, fold)
        manifest = read_manifest(directory / MANIFEST_NAME)
        private = None if key is None else read_private(key)
        sealer = Sealer(directory, "hall", manifest=manifest, key=private, clock=clock)
        upkeep = Upkeep(
            directory, sealer, manifest=manifest, unsealed=recovered.unsealed, policy=policy or UpkeepPolicy(),
            clock=clock, later=lambda function: function(),
        )  # fmt: skip
        writer = BatchWriter(
            directory, "hall", "boot", recovered=recovered, fold=fold, sync="always", clock=clock,
            last_seal=lambda: sealer.last_hash, rotation=rotation or Rotation(),
        )  # fmt: skip
        self._ticking = threading.Event()
        self._clock = threading.Thread(target=self._tick, args=(clock,))
        self._clock.start()
        self.journal = FileJournal(writer, self.reactor, upkeep)
        self.reactor.wait(self.journal.append([note("ann")]))

    def _tick(self, clock: FakeClock) -> None:
        """So that each look is one of those that are due."""
        while not self._ticking.wait(0.01):
            clock.advance(2)

    def close(self) -> None:
        self.reactor.wait(self.journal.close())
        self._ticking.set()
        self._clock.join()
        self._lock.release()


@pytest.fixture
def server(house: House, key: Path) -> Iterator[Server]:
    server = Server(house.directory, key)
    yield server
    server.close()


def test_a_running_server_is_asked(
    shell: Shell, house: House, key: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 20.0)
    before = len(list_segments(house.directory))
    assert shell.run("seal", house.directory) == (0, f"the server sealed {house.directory}\n", "")
    assert not (house.directory / MARKER).exists()
    seal = read_manifest(house.directory / MANIFEST_NAME).seals[11]
    assert (seal.closed, seal.records) == (True, 1)
    server.reactor.wait(server.journal.append([note("bob")]))
    assert len(list_segments(house.directory)) == before + 1
    assert verify(house.directory, read_public(key.with_name("key.pub"))).faults == []


def test_a_server_that_does_not_answer(shell: Shell, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "SEAL_TIMEOUT", 0.05)
    monkeypatch.setattr(proof, "_POLL", 0.01)
    going(house)
    lock = JournalLock(house.directory)
    status, said, complained = shell.run("seal", house.directory)
    lock.release()
    assert (status, said) == (2, "")
    assert "the server did not seal" in complained


def test_without_a_server(shell: Shell, house: House, key: Path) -> None:
    where = going(house)
    before = (where / MANIFEST_NAME).read_bytes()
    status, said, complained = shell.run("seal", where)
    assert (status, said) == (2, "")
    assert "so it cannot go on with no key" in complained
    generate(key.with_name("other"))
    assert shell.run("seal", where, "--key", key.with_name("other"))[0] == 2
    assert (where / MANIFEST_NAME).read_bytes() == before
    assert shell.run("seal", where, "--key", key) == (0, f"{where}: sealed 1 segment\n", "")
    assert shell.run("seal", where, "--key", key) == (0, f"{where}: everything was sealed already\n", "")
    assert shell.run("verify", where, "--public-key", f"{key}.pub", "--sealed")[0] == 0
    house.boot()
    house.stop()
    assert verify(where, house.key.public, to_the_end=True).faults == []


def test_what_was_never_sealed(shell: Shell, tmp_path: Path, key: Path) -> None:
    house = House(tmp_path / "journal", seals=False)
    for _ in range(3):
        house.boot()
        house.go_on(4)
        house.stop()
    twin = shutil.copytree(house.directory, tmp_path / "twin")
    assert shell.run("seal", house.directory)[1] == f"{house.directory}: sealed 3 segments\n"
    assert shell.run("verify", house.directory, "--sealed")[0] == 0
    assert shell.run("seal", twin, "--key", key)[0] == 0
    assert shell.run("verify", twin, "--sealed", "--public-key", f"{key}.pub")[0] == 0


def test_a_damaged_journal_is_not_sealed(shell: Shell, house: House, key: Path) -> None:
    where = going(house)
    copy = Copy(where)
    copy.forge(1, 4, changed)
    copy.save()
    before = (where / MANIFEST_NAME).read_bytes()
    status, _, complained = shell.run("seal", where, "--key", key)
    assert (status, segment_name(1) in complained) == (2, True)
    assert (where / MANIFEST_NAME).read_bytes() == before


def test_nothing_to_seal(shell: Shell, tmp_path: Path) -> None:
    assert shell.run("seal", tmp_path)[0] == 2
    assert shell.run("seal", tmp_path / "nowhere")[0] == 2
    assert list(tmp_path.iterdir()) == []


# keygen


def test_a_key(shell: Shell, tmp_path: Path) -> None:
    status, said, complained = shell.run("keygen", tmp_path / "new")
    public = read_public(tmp_path / "new.pub")
    assert (status, complained) == (0, "")
    assert said == (f"the key {public.fingerprint} is in {tmp_path}/new; give {tmp_path}/new.pub to your auditors\n")
    assert read_private(tmp_path / "new").public == public
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["key", "key.pub"])
def test_a_key_is_never_written_over(shell: Shell, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("precious")
    status, _, complained = shell.run("keygen", tmp_path / "key")
    assert (status, f"there is a file {tmp_path / name} already" in complained) == (2, True)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [(name, "precious")]


def test_a_key_does_not_go_where_the_journal_is(shell: Shell, house: House, key: Path, tmp_path: Path) -> None:
    before = sorted(house.directory.rglob("*"))
    (tmp_path / "link").symlink_to(house.directory)
    for path in (house.directory / "new", tmp_path / "link" / "new", house.directory / ".." / "journal" / "new"):
        for options in ((), ("--replaces", key, "--of", house.directory)):
            status, _, complained = shell.run("keygen", path, *options)
            assert (status, "put the key elsewhere" in complained) == (2, True)
    (house.directory / "keys").mkdir()
    assert shell.run("keygen", house.directory / "keys" / "new", "--replaces", key, "--of", house.directory)[0] == 2
    (house.directory / "keys").rmdir()
    assert sorted(house.directory.rglob("*")) == before


def test_a_key_hands_over(shell: Shell, house: House, key: Path, tmp_path: Path) -> None:
    new, where = tmp_path / "new", house.directory
    assert shell.run("keygen", new, "--replaces", key, "--of", where)[0] == 0
    last = read_manifest(where / MANIFEST_NAME).entries[-1]
    assert isinstance(last.body, KeyEntry)
    assert (last.body.public, last.body.server) == (read_public(tmp_path / "new.pub").text, "hall")
    house.key = read_private(new)
    house.boot()
    house.stop()
    for public in (f"{key}.pub", f"{new}.pub"):
        assert shell.run("verify", where, "--public-key", public, "--sealed")[0] == 0
    status, _, complained = shell.run("keygen", tmp_path / "third", "--replaces", key, "--of", where)
    assert (status, "so it cannot go on with the key" in complained) == (2, True)
    assert not (tmp_path / "third").exists()


def test_a_key_cannot_hand_over(
    shell: Shell, house: House, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, where = tmp_path / "new", house.directory
    lock = JournalLock(where)
    assert shell.run("keygen", new, "--replaces", key, "--of", where)[0] == 2
    lock.release()
    for options in (("--replaces", key), ("--of", where), ("--replaces", key, "--of", tmp_path / "nowhere")):
        assert shell.run("keygen", new, *options)[0] == 2

    def fail(descriptor: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FILES, "write", fail, raising=False)
    status, _, complained = shell.run("keygen", new, "--replaces", key, "--of", where)
    assert (status, "No space left on device" in complained) == (2, True)
    monkeypatch.undo()
    assert not new.exists()
    assert not (tmp_path / "nowhere").exists()
    assert verify(where, read_public(tmp_path / "key.pub"), to_the_end=True).faults == []


# Help.


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("verify", "--includes HASH"), ("seal", "--key FILE"), ("keygen", "--replaces FILE"),
        ("tail", "--pseudonyms KEYFILE"), ("state", "--at TIME|SEQ"), ("diff", "Exit status:"), ("forget", "KEYFILE"),
    ],
)  # fmt: skip
def test_help(capsys: pytest.CaptureFixture[str], command: str, said: str) -> None:
    assert main(["journal", command, "--help"]) == 0
    assert said in capsys.readouterr().out


def test_a_directory_whose_name_is_not_utf_8(tmp_path, capfdbinary):
    directory = Path(os.fsdecode(os.fsencode(tmp_path) + b"/j\xff"))
    directory.mkdir()
    batches = writer(directory)
    batches.commit([fact("a")])
    batches.close()
    assert run_verify(directory, None, (), sealed=False, as_json=False) == 0
    assert b"/j\xff: 1 segment" in capfdbinary.readouterr().out
