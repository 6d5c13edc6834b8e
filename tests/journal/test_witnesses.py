"""An attacker with the key and the disk: what a witness, or a checkpoint that was kept, finds."""

import shutil
from pathlib import Path

import pytest

from bussrv.errors import JournalError
from bussrv.journal.batch import Rotation
from bussrv.journal.checkpoints import sealed_checkpoints
from bussrv.journal.evidence.witnesses import GRACE, Others, Quorum
from bussrv.journal.keys import PrivateKey
from bussrv.journal.leaves import JournalTree, leaves_path, root_at
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.record_tree import leaf_hashes
from bussrv.journal.recovery import recover
from bussrv.journal.sealing import Sealer
from bussrv.journal.segment import list_segments
from bussrv.journal.upkeep import Upkeep, UpkeepPolicy
from bussrv.journal.verify import verify
from bussrv.registry.state.fold import RegistryFold
from bussrv.transparency.cosignatures import SigningKey
from bussrv.transparency.notes import COSIGNATURE, Note, NoteSignature
from bussrv.transparency.tree import is_consistent, is_included
from tests.journal.support import FakeClock, fact, writer

KEY = PrivateKey(bytes(range(32)))
ONE = SigningKey("one.example/w", COSIGNATURE, bytes([1] * 32))
TWO = SigningKey("two.example/w", COSIGNATURE, bytes([2] * 32))
MINUTE = 60


class Server:
    """A server of which the attacker has everything: it writes what it is told, and asks the witnesses."""

    def __init__(self, directory: Path, name: str = "hall", **policy) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.clock = FakeClock()
        manifest = read_manifest(directory / MANIFEST_NAME)
        self.sealer = Sealer(directory, name, manifest=manifest, key=KEY, clock=self.clock)
        fold = RegistryFold()
        recovered = recover(directory, fold)
        self.writer = writer(
            directory, recovered=recovered, fold=fold, server=name, clock=self.clock, rotation=Rotation(bytes=3000)
        )
        self.upkeep = Upkeep(
            directory, self.sealer, manifest=manifest, unsealed=recovered.unsealed, clock=self.clock,
            policy=UpkeepPolicy(seal_interval=MINUTE, **policy), later=lambda do: do(),
        )  # fmt: skip

    def write(self, *names: str, witnesses=()) -> None:
        """Write records, seal them, and let witnesses cosign."""
        for name in names:
            self.writer.commit([fact(name)])
        self.clock.advance(MINUTE)
        self.upkeep.do_due_work(self.writer)
        for witness in witnesses:
            newest = self.checkpoints()[-1]
            signature = witness.sign(newest.note.text, self.clock.utc() // 1_000_000)
            self.sealer.cosign(newest.hash, signature.line)

    def stop(self) -> None:
        self.writer.close()
        self.upkeep.do_due_work(self.writer, at_end=True)

    def checkpoints(self):
        return list(sealed_checkpoints(read_manifest(self.directory / MANIFEST_NAME)))


def honest(directory: Path, witnesses=(ONE, TWO), count=30, name="hall") -> Server:
    server = Server(directory, name)
    for number in range(0, count, 5):
        server.write(*(f"record {each}" for each in range(number, number + 5)), witnesses=witnesses)
    return server


def others(*keys, quorum=None, kept=(), now=None) -> Others:
    asked = Quorum(tuple(each.verifier for each in keys), quorum or len(keys)) if keys else None
    late = FakeClock().utc() + 10 * GRACE if now is None else now
    return Others(quorum=asked, kept=tuple(each.note for each in kept), now=late)


def found(directory: Path, known: Others):
    report = verify(directory, KEY.public, others=known)
    return [(each.code, each.seq, each.last_seq) for each in report.faults], report


def test_an_honest_journal_is_clean(tmp_path):
    server = honest(tmp_path / "journal")
    known = others(ONE, TWO, kept=server.checkpoints()[::2])
    faults, report = found(server.directory, known)
    assert (faults, report.witnessed_seq) == ([], 30)
    assert len(list_segments(server.directory)) > 2
    server.stop()
    assert found(server.directory, known)[0] == []


def test_a_rewritten_history_has_no_cosignatures(tmp_path):
    """With the key everything is made anew, and fits. The cosignatures stay with what was."""
    server = Server(tmp_path / "journal")
    server.write("a", "b", "c", witnesses=[ONE])
    before = shutil.copytree(server.directory, tmp_path / "before")
    server.write("the truth", *"defghij" * 2, witnesses=[ONE])
    kept = server.checkpoints()[-1]
    shutil.rmtree(server.directory)
    shutil.copytree(before, server.directory)
    liar = Server(server.directory)
    liar.clock.advance(MINUTE)
    liar.write("a lie", *"defghij" * 2, *"klm" * 9)
    liar.stop()
    assert found(server.directory, others())[0] == []
    ((code, seq, last),), report = found(server.directory, others(ONE))
    assert (code, seq, last, report.witnessed_seq) == ("not-witnessed", 4, report.last_seq, 3)
    # Who kept a checkpoint finds it, too, and an older one says from where on.
    older = server.checkpoints()[0]
    assert found(server.directory, others(kept=[kept]))[0] == [("other-history", 1, 18)]
    assert found(server.directory, others(kept=[kept, older]))[0] == [("other-history", older.checkpoint.size + 1, 18)]


def test_a_shorter_history_is_found_by_who_kept_a_checkpoint(tmp_path):
    """The disk was rolled back, or the end was cut off with its seals, which leaves the same files."""
    server = honest(tmp_path / "journal", count=10)
    older = shutil.copytree(server.directory, tmp_path / "older")
    server.write(*"abcde", witnesses=[ONE, TWO])
    newest = server.checkpoints()[-1]
    assert found(server.directory, others(ONE, kept=[newest]))[0] == []
    # By itself it is whole.
    assert found(older, others(ONE, TWO))[0] == []
    assert found(older, others(kept=[newest]))[0] == [("other-history", 11, 15)]


def test_two_versions_are_told_apart(tmp_path):
    server = honest(tmp_path / "journal", count=5, witnesses=[ONE])
    twin = Server(shutil.copytree(server.directory, tmp_path / "twin"))
    twin.clock.advance(MINUTE)
    server.write("to one", "party", witnesses=[ONE])
    twin.write("to the", "other")
    faults, report = found(twin.directory, others(kept=[server.checkpoints()[-1]]))
    assert faults == [("other-history", 1, 7)]
    assert found(server.directory, others(kept=[twin.checkpoints()[-1]]))[0] == [("other-history", 1, 7)]
    assert "another history" in report.faults[0].message


def test_a_tampering_that_no_seal_shows_is_found_by_the_tree(tmp_path):
    """The attacker keeps trees, checkpoints and cosignatures, and makes the rest fit with the key."""
    from tests.tamperings.copies import Copy

    server = honest(tmp_path / "journal")
    server.stop()
    copy = Copy(server.directory)
    copy.segments[1][3] = copy.segments[1][3].replace(b"record 2", b"record 9")
    copy._tree = lambda *_: None
    copy.without_seals()
    copy.chain_from(1)
    copy.seal_anew(KEY)
    copy.save()
    faults, report = found(server.directory, others(ONE, TWO))
    assert report.witnessed_seq == 30
    assert faults[0][:2] == ("broken-tree", 1)
    assert {code for code, *_ in faults} == {"broken-tree"}


def test_a_quorum_counts_each_witness_once(tmp_path):
    server = honest(tmp_path / "journal", witnesses=[ONE, ONE])
    assert found(server.directory, others(ONE))[0] == []
    assert found(server.directory, others(ONE, TWO, quorum=1))[0] == []
    assert [code for code, *_ in found(server.directory, others(ONE, TWO))[0]] == ["not-witnessed"]


def test_a_wrong_cosignature_counts_for_nothing(tmp_path):
    server = honest(tmp_path / "journal", witnesses=[])
    seal = server.checkpoints()[-1]
    right = ONE.sign(seal.note.text, 5)
    server.sealer.cosign(seal.hash, NoteSignature(right.name, right.id, right.value[:-1] + b"x").line)
    codes = {code for code, *_ in found(server.directory, others(ONE))[0]}
    assert codes == {"bad-manifest", "not-witnessed"}


def test_witnesses_have_a_while(tmp_path):
    """Of a server that runs, the newest segment need not be cosigned yet."""
    server = honest(tmp_path / "journal", witnesses=[ONE])
    server.write(*"abcdefghijkl")
    now = server.clock.utc()
    assert found(server.directory, others(ONE, now=now))[0] == []
    ((code, seq, _),) = found(server.directory, others(ONE, now=now + GRACE + 1))[0]
    assert (code, seq) == ("not-witnessed", 31)


def test_a_checkpoint_of_a_stranger_is_refused(tmp_path):
    server = honest(tmp_path / "journal", count=5)
    text = server.checkpoints()[-1].note.text
    strange = Others(kept=(Note(text, (TWO.sign(text, 1),)),))
    with pytest.raises(JournalError, match="signed neither by the key of the journal"):
        verify(server.directory, others=strange)
    assert found(server.directory, others(TWO, kept=[server.checkpoints()[-1]]))[0] == []


def test_every_record_is_proved_also_when_others_are_gone(tmp_path):
    server = Server(tmp_path / "journal", retain_bytes=4000)
    for number in range(0, 60, 5):
        server.write(*(f"record {each}" for each in range(number, number + 5)))
    first, *_ = list_segments(server.directory)
    newest = server.checkpoints()[-1].checkpoint
    assert int(first.name[:20]) > 1
    assert leaves_path(server.directory, 1).stat().st_size % 32 == 0
    tree = JournalTree(server.directory)
    made = tree.tree(newest.size)
    assert made.root() == newest.root == root_at(server.directory, 1, newest.size)
    here = range(int(first.name[:20]), newest.size + 1)
    for seq, line in tree.lines(here):
        (leaf,) = leaf_hashes(line + b"\n")
        assert is_included(leaf, seq - 1, newest.size, made.inclusion(seq - 1), newest.root)
    for old in server.checkpoints():
        proof = made.consistency(old.checkpoint.size)
        assert is_consistent(old.checkpoint.size, old.checkpoint.root, newest.size, newest.root, proof)
    with pytest.raises(JournalError, match="record 1 is not in"):
        list(tree.lines([1]))
    assert found(server.directory, others(kept=server.checkpoints()[-3:]))[0] == []
    leaves_path(server.directory, 1).unlink()
    with pytest.raises(JournalError, match="nothing is known of record"):
        JournalTree(server.directory).tree(newest.size).inclusion(0)


def test_headers_are_read_once_for_many_proofs(tmp_path, monkeypatch):
    server = honest(tmp_path / "journal")
    known: dict = {}
    first = JournalTree(server.directory, 1, known).tree(30).consistency(5)
    assert sorted(known) == [int(each.name[:20]) for each in list_segments(server.directory)]
    known[999] = None
    monkeypatch.setattr("bussrv.journal.leaves.read_header", None)
    again = JournalTree(server.directory, 1, known)
    assert 999 not in known
    monkeypatch.undo()
    assert again.tree(30).consistency(5) == first
