import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.transparency.checkpoints import Checkpoint
from bussrv.transparency.cosignatures import SigningKey
from bussrv.transparency.notes import ED25519, Note, NoteError
from bussrv.transparency.proofs import Proof, parse_hashes, parse_proof
from bussrv.transparency.tree import Tree, leaf_hash

LEAVES = [str(number).encode() for number in range(21)]
TREE = Tree(len(LEAVES), lambda begin, end: b"".join(map(leaf_hash, LEAVES[begin:end])))
CHECKPOINT = Checkpoint("bussrv.local/hall", TREE.size, TREE.root())
KEY = SigningKey(CHECKPOINT.origin, ED25519, bytes(32))
NOTE = Note(CHECKPOINT.text, (KEY.sign(CHECKPOINT.text),))


def proof_of(index, extra=None):
    return Proof(index, tuple(TREE.inclusion(index)), NOTE, extra)


@given(st.integers(0, TREE.size - 1), st.one_of(st.none(), st.binary(max_size=9)))
def test_proofs_go_back_and_forth(index, extra):
    proof = proof_of(index, extra)
    found = parse_proof(proof.encode().encode())
    assert found == proof
    assert found.proves(leaf_hash(LEAVES[index]))
    assert not found.proves(leaf_hash(b"x"))


def test_a_proof_is_written_as_the_format_has_it():
    lines = proof_of(20, b"hall").encode().splitlines()
    assert lines[:3] == ["c2sp.org/tlog-proof@v1", "extra aGFsbA==", "index 20"]
    assert lines[lines.index("") + 1 :] == NOTE.encode().splitlines()


PROOF = proof_of(3).encode()


@given(st.integers(0, PROOF.index("\n—") - 1), st.integers(0, 7))
def test_no_changed_byte_of_a_proof_proves_the_same(at, bit):
    data = PROOF.encode()
    changed = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
    try:
        found = parse_proof(changed)
    except NoteError:
        return
    # The checkpoint is signed, and of its text the proof depends on the size and the root hash.
    assert found.note.text != NOTE.text or not found.proves(leaf_hash(LEAVES[3]))


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("@v1", "@v2", "begins with c2sp.org/tlog-proof@v1"),
        ("index", "extra ?\nindex", "extra data is not base64"),
        ("index 3\n", "", "a line with the index"),
        ("index 3", "index 03", "the index is not a number"),
        ("index 3", "index 21", "not in a log of 21"),
        ("index 3\n", "index 3\nAAAA\n", "32 bytes each"),
        ("\n\n", "\n", "a hash of the proof is not base64"),
        ("index", "\udcff", "UTF-8"),
    ],
)
def test_a_wrong_proof_is_refused(old, new, what):
    with pytest.raises(NoteError, match=what):
        parse_proof(PROOF.replace(old, new, 1).encode("utf-8", "surrogateescape"))


def test_a_proof_with_too_many_hashes_is_refused():
    with pytest.raises(NoteError, match="at most 63 hashes"):
        parse_hashes([f"{'A' * 43}="] * 64)
