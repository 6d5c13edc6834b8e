import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.transparency.checkpoints import Checkpoint, origin_fault, parse_checkpoint
from bussrv.transparency.cosignatures import SigningKey, check_signature, signed_by, subtree_message
from bussrv.transparency.notes import (
    COSIGNATURE,
    ED25519,
    ML_DSA_44,
    MOST_SIGNATURES,
    Note,
    NoteError,
    VerifierKey,
    parse_key,
    parse_note,
    parse_signatures,
    without_duplicates,
)
from bussrv.transparency.tree import EMPTY_ROOT

# The example of the package sumdb/note of Go.
PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
PETER_SECRET = "AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
SAID = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
SIGNED = "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
NOTE = f"{SAID}\n{SIGNED}".encode()

# The keys of the tests of transparency-dev/formats, one of type 0x01 and one of type 0x04.
TEST = "TEST+7997405c+AQcC+FTVKf0jlTdHDY3rbevmnKxxPjigCXlVtGe6RIr6"
REMORA = "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2"

CHECKPOINT = Checkpoint("bussrv.local/hall", 7, bytes(range(32)), ("time 2026-11-28T21:00:00.000000Z",))
SEED = bytes(range(32))


def needs_ml_dsa():
    pytest.importorskip("cryptography.hazmat.primitives.asymmetric.mldsa")


def test_the_note_of_go_is_read_and_written():
    note, key = parse_note(NOTE), parse_key(PETER)
    assert (note.text, note.encode().encode()) == (SAID, NOTE)
    assert key.text == PETER
    assert signed_by(note, key).time is None
    signer = SigningKey("PeterNeumann", ED25519, base64.b64decode(PETER_SECRET)[1:])
    assert signer.verifier == key
    assert signer.sign(SAID).line == SIGNED


@given(st.integers(0, len(NOTE) - 1), st.integers(0, 7))
def test_no_changed_byte_of_a_note_goes_unnoticed(at, bit):
    changed = NOTE[:at] + bytes([NOTE[at] ^ 1 << bit]) + NOTE[at + 1 :]
    try:
        assert signed_by(parse_note(changed), parse_key(PETER)) is None
    except NoteError:
        return
    # Only a line of a signature may have become one of another key.
    assert parse_note(changed).text == SAID


@pytest.mark.parametrize(("text", "type_"), [(TEST, ED25519), (REMORA, COSIGNATURE)])
def test_published_keys_are_read_and_written(text, type_):
    key = parse_key(text)
    assert (key.type, key.text) == (type_, text)


@given(st.data())
def test_no_changed_character_of_a_key_goes_unnoticed(data):
    at = data.draw(st.integers(len("PeterNeumann"), len(PETER) - 1))
    other = data.draw(st.characters(max_codepoint=126).filter(lambda each: each != PETER[at]))
    with pytest.raises(NoteError):
        parse_key(PETER[:at] + other + PETER[at + 1 :])


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("bananas.sigstore.dev+12344556", "not a verifier key"),
        ("rekor.sigstore.dev+12345678+THIS_IS_NOT_BASE64!", "not a verifier key"),
        ("rekor.sigstore.dev+12345678+AwEB", "of type 0x03"),
        ("rekor.sigstore.dev+12345678+A", "not base64"),
        (f"x{PETER}", "its id is c74f20a3"),
        ("PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==", "has 38 bytes|not base64"),
        (f"{PETER}\n", "not a verifier key"),
    ],
)
def test_a_wrong_key_is_refused(text, what):
    with pytest.raises(NoteError, match=what):
        parse_key(text)


def test_a_published_time_of_a_cosignature_is_read():
    text = "ZGhGuQAAAABm/qTPeyKXD+R2rzyQsxPiP8mXum7qq/iF0u4vanlqJyocWODBt97w9uL+8qT7S5gxEHWWOworDcFiEBYJXORmnFBOBA=="
    (signature,) = parse_signatures(f"— example.com/w {text}\n")
    assert int.from_bytes(signature.value[:8], "big") == 1727964367


@pytest.mark.parametrize("type_", [COSIGNATURE, ML_DSA_44])
def test_cosignatures_go_back_and_forth(type_):
    if type_ == ML_DSA_44:
        needs_ml_dsa()
    key = SigningKey("witness.example/w1", type_, SEED)
    signature = key.sign(CHECKPOINT.text, 1679315147)
    note = parse_note(Note(CHECKPOINT.text, (signature,)).encode().encode())
    assert signed_by(note, key.verifier).time == 1679315147
    other = Checkpoint(CHECKPOINT.origin, 8, CHECKPOINT.root)
    with pytest.raises(NoteError, match="is wrong"):
        signed_by(Note(other.text, note.signatures), key.verifier)
    later = parse_signatures(signature.line.replace("AAAA", "AAAB", 1))
    with pytest.raises(NoteError, match="is wrong"):
        check_signature(note.text, later[0], key.verifier)


def test_the_newest_cosignature_of_a_key_counts():
    key = SigningKey("w", COSIGNATURE, SEED)
    note = Note(CHECKPOINT.text).signed(key.sign(CHECKPOINT.text, time) for time in (5, 9, 7))
    assert signed_by(note, key.verifier).time == 9
    assert signed_by(note, parse_key(REMORA)) is None


def test_a_key_signs_as_its_type_does():
    with pytest.raises(NoteError, match="at the time None"):
        SigningKey("w", COSIGNATURE, SEED).sign(CHECKPOINT.text)
    with pytest.raises(NoteError, match="at the time 5"):
        SigningKey("w", ED25519, SEED).sign(CHECKPOINT.text, 5)
    with pytest.raises(NoteError, match="has neither blanks"):
        SigningKey("a b", ED25519, SEED).sign(CHECKPOINT.text)
    with pytest.raises(NoteError, match="1 to 255 bytes"):
        subtree_message("w" * 256, 0, "o", begin=0, end=1, root=bytes(32))
    assert SEED.hex() not in repr(SigningKey("w", ED25519, SEED))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\xff\n\n", "UTF-8"),
        (NOTE.replace(b"problem,", b"problem\x1f"), "control characters"),
        (NOTE.replace(b"\n", b"\r\n"), "control characters"),
        (NOTE[:-1], "line for each signature"),
        (SAID.encode(), "line for each signature"),
        (f"{SAID}\n".encode(), "line for each signature"),
        (NOTE + NOTE.splitlines(keepends=True)[-1] * MOST_SIGNATURES, "at most 64 signatures"),
        (b"x" * (1 << 20) + NOTE, "at most 1048576 bytes"),
        (f"{SAID}\n— Peter+Neumann AAAAAAAA\n".encode(), "not a line of a signature"),
        (f"{SAID}\n- Peter AAAAAAAA\n".encode(), "not a line of a signature"),
        (f"{SAID}\n— Peter AAAA\n".encode(), "only 3 bytes"),
        (f"{SAID}\n— Peter AAAAAAA\n".encode(), "not base64"),
        (f"{SAID}\n— Peter AAAAAAB=\n".encode(), "not base64"),
        (f"{SAID}\n— Pe\u2028ter AAAAAAAA\n".encode(), "not a line of a signature"),
    ],
)
def test_a_wrong_note_is_refused(data, what):
    with pytest.raises(NoteError, match=what):
        parse_note(data)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_note_or_an_error(data):
    try:
        note = parse_note(data)
    except NoteError:
        return
    assert note.encode().encode() == data


def test_a_text_with_empty_lines_ends_at_the_last_one():
    note = parse_note(f"a\n\nb\n\n{SIGNED}".encode())
    assert note.text == "a\n\nb\n"


def test_checkpoints_go_back_and_forth():
    assert parse_checkpoint(CHECKPOINT.text) == CHECKPOINT
    assert CHECKPOINT.text.count("\n") == 4
    assert parse_checkpoint(Checkpoint("x", 0, EMPTY_ROOT).text).size == 0


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a\n1\n", "an origin, a size"),
        (CHECKPOINT.text[:-1], "an origin, a size"),
        (CHECKPOINT.text + "\n", "an origin, a size"),
        (CHECKPOINT.text.replace("\n7\n", "\n07\n"), "the size is not a number"),
        (CHECKPOINT.text.replace("\n7\n", "\n-7\n"), "the size is not a number"),
        (CHECKPOINT.text.replace("\n7\n", f"\n{1 << 63}\n"), "the size is not a number"),
        ("a\n1\nAAAA\n", "has 32 bytes"),
        ("a\n1\n?\n", "is not base64"),
    ],
)
def test_a_wrong_checkpoint_is_refused(text, what):
    with pytest.raises(NoteError, match=what):
        parse_checkpoint(text)


@pytest.mark.parametrize("origin", ["", "a b", "a+b", "a\nb", "a\u200eb"])
def test_an_origin_that_cannot_be_one_is_named(origin):
    assert origin_fault(origin)
    assert origin_fault("bussrv.local/hall") is None


def test_keys_are_told_apart_by_name_and_id():
    without_duplicates([parse_key(PETER), VerifierKey("Peter", ED25519, parse_key(PETER).key)])
    with pytest.raises(NoteError, match="the same name"):
        without_duplicates([parse_key(PETER), parse_key(PETER)])
