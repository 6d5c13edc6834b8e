"""What a witness judges: a table of the specification, and a property of logs that cheat."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.transparency.checkpoints import Checkpoint, parse_checkpoint
from bussrv.transparency.cosignatures import SigningKey
from bussrv.transparency.notes import COSIGNATURE, ML_DSA_44, Note, NoteError
from bussrv.transparency.tree import is_consistent
from bussrv.transparency.witnessing import Rejection, Submission, cosignatures_in, judge, parse_submission
from tests.witness.logs import Log

HALL = Log(entries=[b"%d" % number for number in range(20)])
KEYS = {HALL.origin: [HALL.key.verifier]}
WITNESS = SigningKey("attic.example/w1", COSIGNATURE, bytes(32))


def at(size: int) -> Checkpoint | None:
    return parse_checkpoint(HALL.checkpoint(size).text) if size else None


def changed(submission: Submission, **fields: object) -> Submission:
    return Submission(**{name: fields.get(name, getattr(submission, name)) for name in Submission.__struct_fields__})


def signed(note: Note) -> Note:
    return note.signed([HALL.key.sign(note.text)])


OTHER_ROOT = Note(Checkpoint(HALL.origin, 7, bytes(32)).text)
EMPTY = Note(Checkpoint(HALL.origin, 0, bytes(32)).text)
WRONG = HALL.checkpoint().signatures[0]

REFUSED = {
    "an unknown log": (Log("other.example").submission(0, 0), 0, 404),
    "a key that is not the log's": (changed(HALL.submission(7), note=HALL.checkpoint(key=Log(seed=2).key)), 7, 403),
    "a wrong signature": (changed(HALL.submission(7), note=Note(OTHER_ROOT.text, (WRONG,))), 7, 403),
    "no signature of the log": (changed(HALL.submission(7), note=OTHER_ROOT.signed([WITNESS.sign("x", 1)])), 7, 403),
    "an old size beyond the new one": (HALL.submission(9, 8), 9, 400),
    "an old size that is too small": (HALL.submission(6), 7, 409),
    "an old size that is too large": (HALL.submission(8), 7, 409),
    "a size that was never cosigned": (HALL.submission(8), 0, 409),
    "an empty log with a root of its own": (changed(HALL.submission(0, 0), note=signed(EMPTY)), 0, 422),
    "a proof where there is nothing to prove": (changed(HALL.submission(0), proof=(bytes(32),)), 0, 422),
    "no proof": (changed(HALL.submission(7), proof=()), 7, 422),
    "one hash too many": (changed(HALL.submission(7), proof=(*HALL.submission(7).proof, bytes(32))), 7, 422),
    "another root of the same size": (
        changed(HALL.submission(7, 7), note=signed(OTHER_ROOT)), 7, 422,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_witness_refuses(what: str) -> None:
    submission, size, status = REFUSED[what]
    with pytest.raises(Rejection) as refused:
        judge(parse_submission(submission.encode()), KEYS, lambda origin: at(size))
    assert refused.value.status == status
    assert refused.value.size == (size if status == 409 else None)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"old 0\n", b"old 1", b"new 0\n\n", b"old 01\n\n", b"old -1\n\n", b"old 1\nAA==\n\n", b"\xff\n\n",
        b"old 0\n\nno note", b"old 0\n" + b"AAAA" * 11 + b"\n" * 2, HALL.submission(0).encode()[:-1],
        changed(HALL.submission(7), proof=(bytes(32),) * 64).encode(),
    ],
)  # fmt: skip
def test_what_is_no_submission_is_malformed(body: bytes) -> None:
    with pytest.raises(Rejection) as refused:
        judge(parse_submission(body), KEYS, lambda origin: None)
    assert refused.value.status == 400


@given(st.lists(st.binary(max_size=2), max_size=12), st.data())
def test_only_what_goes_on_from_what_was_cosigned_is_cosigned(entries: list[bytes], data: st.DataObject) -> None:
    """The log may have cosigned what it wants, forget its end, change an entry, and send any proof."""
    log = Log(entries=entries)
    old = data.draw(st.integers(0, len(entries)))
    latest = parse_checkpoint(log.checkpoint(old).text)
    cheating = Log(entries=list(entries))
    for place in data.draw(st.lists(st.integers(0, len(entries) - 1), max_size=2)) if entries else []:
        cheating.entries[place] = b"other"
    size = data.draw(st.integers(0, len(entries)))
    proof = tuple(data.draw(st.sampled_from([cheating, log])).tree.consistency(min(old, size), size))
    said = data.draw(st.sampled_from([old, min(old, size), size]))
    submission = Submission(said, proof, cheating.checkpoint(size))
    is_honest = said == old <= size and cheating.entries[:old] == entries[:old]
    try:
        found = judge(submission, KEYS, lambda origin: latest)
    except Rejection:
        fits = is_consistent(old, latest.root, size, cheating.tree.root(size), proof)
        assert not (is_honest and fits)
    else:
        assert is_honest
        assert (found.size, found.root) == (size, cheating.tree.root(size))


@pytest.mark.parametrize("type_", [COSIGNATURE, ML_DSA_44])
def test_only_cosignatures_of_trusted_keys_count(type_: int) -> None:
    key, other = (
        SigningKey("attic.example/w1", type_, bytes(32)),
        SigningKey("attic.example/w1", type_, bytes([1]) * 32),
    )
    text = HALL.checkpoint().text
    right, unknown, wrong = key.sign(text, 7), other.sign(text, 7), key.sign(HALL.checkpoint(3).text, 7)
    ((signature, cosignature),) = cosignatures_in((unknown.line + right.line).encode(), text, [key.verifier])
    assert (signature, cosignature.time) == (right, 7)
    assert cosignatures_in(unknown.line.encode(), text, [key.verifier]) == []
    for answer in (wrong.line.encode(), key.sign(text, 0).line.encode(), b"", right.line.encode()[:-1]):
        with pytest.raises(NoteError):
            cosignatures_in(answer, text, [key.verifier])
