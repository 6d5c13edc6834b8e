"""Tools of others check what is made here, and the other way round: aics-tlog, aics-witness and sigstore of PyPI.

They need Python 3.12 and newer libraries than bussrv does. ``tox -e foreign`` installs them and runs this.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bussrv.journal.keys import generate
from bussrv.journal.leaves import JournalTree
from bussrv.transparency.cosignatures import SigningKey, check_signature, has_ml_dsa, signed_by
from bussrv.transparency.notes import COSIGNATURE, ED25519, ML_DSA_44, parse_key, parse_note
from bussrv.transparency.tree import is_consistent, is_included, leaf_hash
from bussrv.witness.program import signing_keys
from tests.forked import ForkedServer
from tests.journal.test_witnesses import ONE, TWO, honest
from tests.witness.logs import Log
from tests.witness.test_program import running
from tests.witness.test_witnessed import await_line, cosigned_sizes, events, told

WHY = "tox -e foreign installs it: it needs Python 3.12"
tlog: Any = pytest.importorskip("aics_tlog", reason=f"aics-tlog is not installed: {WHY}")
feeder: Any = pytest.importorskip("aics_witness.feeder", reason=f"aics-witness is not installed: {WHY}")
rekor: Any = pytest.importorskip("sigstore._internal.rekor.checkpoint", reason=f"sigstore is not installed: {WHY}")

ENTRIES = [b"entry %d" % number for number in range(40)]
SIZES = (1, 2, 3, 7, 8, 9, 31, 32, 33, 40)


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A journal that two witnesses cosigned, one of them with ML-DSA-44, too, which aics-tlog does not know."""
    place = tmp_path_factory.mktemp("foreign") / "journal"
    further = signing_keys("three.example/w", bytes(32), ml_dsa=None)[1:]
    return honest(place, witnesses=(ONE, TWO, *further))


def test_aics_tlog_and_sigstore_read_checkpoints_of_a_journal(journal: Any) -> None:
    newest = journal.checkpoints()[-1]
    assert newest.key is not None
    note = tlog.parse_note(newest.text)
    log, *witnesses = (tlog.parse_vkey(each.text) for each in (newest.key, ONE.verifier, TWO.verifier))
    found = tlog.verify_checkpoint(note, log, witnesses, quorum=2)
    assert found.ok, found
    head = tlog.parse_checkpoint(note.text)
    size, root = newest.checkpoint.size, newest.checkpoint.root
    assert (head.origin, head.size, head.root) == (newest.checkpoint.origin, size, root)
    # A changed byte, or a signature too few.
    changed = newest.text.replace(f"\n{size}\n", f"\n{size + 1}\n", 1)
    assert not tlog.verify_checkpoint(tlog.parse_note(changed), log, witnesses, quorum=2).ok
    lone = tlog.parse_vkey(SigningKey("lone.example/w", COSIGNATURE, bytes(32)).verifier.text)
    assert not tlog.verify_checkpoint(note, log, [*witnesses[:1], lone], quorum=2).ok
    # sigstore.
    signed = rekor.SignedCheckpoint.from_text(newest.text)
    assert signed.checkpoint.origin == newest.checkpoint.origin
    assert (signed.checkpoint.log_size, signed.checkpoint.log_hash) == (size, root.hex())
    assert signed.checkpoint.other_content == list(newest.checkpoint.extensions)
    assert signed.signed_note.note == newest.note.text
    assert [(each.name, each.sig_hash) for each in signed.signed_note.signatures] == [
        (each.name, each.id) for each in newest.note.signatures
    ]
    assert len(signed.signed_note.signatures) == 3 + has_ml_dsa()


def test_aics_tlog_verifies_proofs_of_a_journal(journal: Any) -> None:
    newest, older = journal.checkpoints()[-1].checkpoint, journal.checkpoints()[1].checkpoint
    records = JournalTree(journal.directory)
    tree = records.tree(newest.size)
    for seq, line in records.lines(range(1, newest.size + 1)):
        path = tree.inclusion(seq - 1)
        assert tlog.verify_leaf_inclusion(line, seq - 1, newest.size, path, newest.root)
        assert not tlog.verify_leaf_inclusion(line + b"\n", seq - 1, newest.size, path, newest.root)
    proof = tree.consistency(older.size)
    assert tlog.verify_consistency(older.size, newest.size, older.root, newest.root, proof)
    assert not tlog.verify_consistency(older.size, newest.size, newest.root, newest.root, proof)


def test_trees_and_signatures_agree_both_ways() -> None:
    theirs, ours = tlog.MerkleTree(ENTRIES), Log("log.example", ENTRIES)
    for size in SIZES:
        assert theirs.root(size) == ours.tree.root(size)
        for old in (each for each in SIZES if each <= size):
            assert is_consistent(old, theirs.root(old), size, theirs.root(size), theirs.consistency_proof(old, size))
            proof = ours.tree.consistency(old, size)
            assert tlog.verify_consistency(old, size, ours.tree.root(old), ours.tree.root(size), proof)
        for index in range(size):
            path = theirs.inclusion_proof(index, size)
            assert is_included(leaf_hash(ENTRIES[index]), index, size, path, theirs.root(size))
            assert list(path) == ours.tree.inclusion(index, size)
    secret = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    public = secret.public_key()
    head = tlog.Checkpoint("log.example", 40, theirs.root(40))
    note = parse_note(tlog.sign_checkpoint(head, secret, "log.example").to_bytes())
    key = parse_key(tlog.format_vkey(tlog.vkey_from_ed25519("log.example", public)))
    assert key == SigningKey("log.example", ED25519, bytes(range(32))).verifier
    assert signed_by(note, key)
    _, line = tlog.sign_cosignature(secret, "wit.example/w1", 1767000000, "log.example", 40, theirs.root(40))
    witness = parse_key(tlog.format_vkey(tlog.cosignature_vkey("wit.example/w1", public)))
    own = SigningKey("wit.example/w1", COSIGNATURE, bytes(range(32)))
    assert witness == own.verifier
    made = own.sign(note.text, 1767000000)
    assert (made.id, made.value) == (line.key_id, line.signature)
    assert check_signature(note.text, made, witness).time == 1767000000


@contextmanager
def foreign_witness(place: Path, origin: str, log: str) -> Iterator[tuple[str, str]]:
    """aics-witness, which knows a log. :returns: its URL, and its verifier key."""
    program, config = str(Path(sys.executable).with_name("aics-witness")), place / "witness.json"
    given = ("--config", str(config), "--name", "attic.example/w1", "--listen", "127.0.0.1:0")
    said = subprocess.run([program, "init", *given], check=True, capture_output=True, text=True).stdout
    key = re.search(r"attic\.example/w1\+[0-9a-f]{8}\+\S+", said)
    assert key is not None, said
    document = json.loads(config.read_text())
    document["logs"] = [{"origin": origin, "vkeys": [log], "extension_lines": True}]
    config.write_text(json.dumps(document))
    with subprocess.Popen(
        [program, "serve", "--config", str(config)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = next(match for line in process.stdout if (match := re.search(r"http://127\.0\.0\.1:\d+", line)))
            yield url[0], key[0]
        finally:
            process.kill()


@pytest.mark.processes
def test_aics_witness_cosigns_a_server_and_refuses_an_older_disk(tmp_path: Path) -> None:
    journal, key, origin = tmp_path / "journal", tmp_path / "hall.key", "hall.example/journal"
    generate(key)
    signed = ("--journal-key", str(key), "--journal-origin", origin)
    with ForkedServer(journal, signed) as server:
        server.stop()
    with foreign_witness(tmp_path, origin, told("checkpoint", str(journal), "--verifier-key")) as (url, witness):

        def run(awaited: str) -> None:
            with ForkedServer(journal, (*signed, "--witness", f"{url} {witness}")) as server:
                await_line(server, awaited)
                assert server.stop() == 0

        for _ in range(2):
            run("the witness attic.example/w1 cosigned")
        older = shutil.copytree(journal, tmp_path / "older")
        for _ in range(2):
            run("the witness attic.example/w1 cosigned")
        assert len(cosigned_sizes(journal, [parse_key(witness)])) == 4
        assert told("verify", str(journal), "--witness-key", witness)
        shutil.rmtree(journal)
        older.rename(journal)
        run("the witness attic.example/w1 does not cosign: it has cosigned")
        assert len(events(journal, "seal.refused")) == 1


@pytest.mark.processes
def test_a_log_of_others_is_cosigned_by_bussrv_witness(tmp_path: Path) -> None:
    tree, secret = tlog.MerkleTree(ENTRIES), Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    log = tlog.format_vkey(tlog.vkey_from_ed25519("log.example", secret.public_key()))

    def checkpoint(size: int, of: Any = tree) -> bytes:
        head = tlog.Checkpoint("log.example", size, of.root(size))
        return bytes(tlog.sign_checkpoint(head, secret, "log.example").to_bytes())

    with running(tmp_path, "--ml-dsa", log_keys=[log]) as witness:
        ed25519 = next(each.text for each in witness.keys if each.type == COSIGNATURE)
        assert [each.type for each in witness.keys] == [COSIGNATURE, ML_DSA_44]
        with feeder.WitnessClient(f"http://127.0.0.1:{witness.port}", ed25519) as client:
            for size in (3, 9, 40):
                answer = client.submit(checkpoint(size), tree.consistency_proof)
                assert answer.startswith("\N{EM DASH} attic.example/w1 ")
            assert client.max_cosigned("log.example") == 40
            # It forgot its end, and it shows another history.
            with pytest.raises(feeder.WitnessAhead):
                client.submit(checkpoint(9), tree.consistency_proof)
            other = tlog.MerkleTree([b"other", *ENTRIES[1:], b"more"])
            with pytest.raises(feeder.WitnessRejected, match="422"):
                client.submit(checkpoint(41, other), other.consistency_proof)
