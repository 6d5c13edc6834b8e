r"""The request of a log to a witness, and its judgement (c2sp.org/tlog-witness, ``add-checkpoint``). Pure.

::

    old 20852014\n            the size of the checkpoint that the witness cosigned last; 0: none
    <base64>\n                the consistency proof from there on
    \n
    <the checkpoint, a signed note>

The answer is the lines of cosignatures. A refusal is one of these:

| status | reason |
|---|---|
| 400 | the body is no such text, or the old size is larger than the new one |
| 403 | no key of the log has signed the checkpoint, or a signature is wrong |
| 404 | the witness does not know the log |
| 409 | the witness cosigned another size last; the answer is that size |
| 422 | the log is not what it was: it does not begin with the tree that was cosigned |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from bussrv.transparency.checkpoints import Checkpoint, parse_checkpoint
from bussrv.transparency.cosignatures import Cosignature, check_signature, signed_by
from bussrv.transparency.notes import (
    ED25519,
    Note,
    NoteError,
    NoteSignature,
    VerifierKey,
    decimal,
    parse_key,
    parse_note,
)
from bussrv.transparency.proofs import encode_hashes, parse_hashes
from bussrv.transparency.tree import EMPTY_ROOT, is_consistent

SIZE_TYPE = "text/x.tlog.size"
"""The content type of the answer to a wrong old size."""

MALFORMED, UNSIGNED, UNKNOWN, CONFLICT, INCONSISTENT = 400, 403, 404, 409, 422

Keys = Mapping[str, Sequence[VerifierKey]]
"""The keys of logs, by their origins."""


class WitnessAddress(Struct, frozen=True):
    """A witness, as a log knows it.

    :ivar url: what its paths begin with.
    :ivar keys: its verifier keys, of which at least one has to cosign.
    """

    url: str
    keys: tuple[VerifierKey, ...]

    @property
    def name(self) -> str:
        """The name of its first key, by which people know it."""
        return self.keys[0].name


def parse_witness(text: str) -> WitnessAddress:
    """The witness that a URL and verifier keys name, with blanks between them.

    :raises NoteError: there is no key, or one is none of a witness.
    """
    url, *keys = text.split()
    found = tuple(map(parse_key, keys))
    if not found:
        raise NoteError("the verifier key of the witness is missing: it follows the URL")
    if any(each.type == ED25519 for each in found):
        raise NoteError(f"the key of {found[0].name} signs logs: a witness has keys of cosignatures")
    return WitnessAddress(url, found)


class Submission(Struct, frozen=True):
    """The request of a log.

    :ivar old: the size that the witness cosigned last, as far as the log knows.
    :ivar proof: that the tree of that size is the beginning of the new one.
    """

    old: int
    proof: tuple[bytes, ...]
    note: Note

    def encode(self) -> bytes:
        """The body of the request."""
        lines = [f"old {self.old}", *encode_hashes(self.proof), "", ""]
        return ("\n".join(lines) + self.note.encode()).encode()


class Rejection(Exception):
    """The witness does not cosign.

    :ivar status: of HTTP, see the table of this module.
    :ivar size: what the witness cosigned last; only of :data:`CONFLICT`.
    """

    def __init__(self, status: int, message: str, size: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.size = size


def parse_submission(body: bytes) -> Submission:
    """The request in a body.

    :raises Rejection: :data:`MALFORMED`.
    """
    head, blank, rest = body.partition(b"\n\n")
    try:
        first, *lines = head.decode("ascii").split("\n")
        if not blank or not first.startswith("old "):
            raise NoteError("a submission begins with the old size, and has an empty line before its checkpoint")
        return Submission(decimal(first.removeprefix("old "), "the old size"), parse_hashes(lines), parse_note(rest))
    except UnicodeDecodeError as error:
        raise Rejection(MALFORMED, "the lines before the checkpoint are ASCII") from error
    except NoteError as error:
        raise Rejection(MALFORMED, str(error)) from error


def judge(submission: Submission, keys: Keys, latest: Callable[[str], Checkpoint | None]) -> Checkpoint:
    """See whether a checkpoint may be cosigned.

    :param latest: gives the checkpoint of a log that was cosigned last.
    :returns: the checkpoint. A witness keeps it before anybody learns that it cosigned it.
    :raises Rejection: it may not.
    """
    try:
        found = parse_checkpoint(submission.note.text)
    except NoteError as error:
        raise Rejection(MALFORMED, str(error)) from error
    _check_signed(submission.note, found.origin, keys)
    if submission.old > found.size:
        raise Rejection(MALFORMED, f"the old size {submission.old} is larger than the new one, {found.size}")
    known = latest(found.origin) or Checkpoint(found.origin, 0, EMPTY_ROOT)
    if submission.old != known.size:
        raise Rejection(CONFLICT, f"the size that was cosigned last is {known.size}", known.size)
    if not is_consistent(known.size, known.root, found.size, found.root, submission.proof):
        raise Rejection(
            INCONSISTENT,
            f"the proof does not show that the {known.size} cosigned entries of {found.origin} are still there",
        )
    return found


def _check_signed(note: Note, origin: str, keys: Keys) -> None:
    if origin not in keys:
        raise Rejection(UNKNOWN, f"{origin} is not a log of this witness")
    try:
        # A signature that is wrong makes the note malformed, whatever the others are.
        found = [signed_by(note, key) for key in keys[origin]]
        if not any(found):
            raise Rejection(UNSIGNED, f"no key of {origin} has signed the checkpoint")
    except NoteError as error:
        raise Rejection(UNSIGNED, str(error)) from error


def cosignatures_in(answer: bytes, text: str, keys: Iterable[VerifierKey]) -> list[tuple[NoteSignature, Cosignature]]:
    """The cosignatures of a checkpoint in the answer of a witness that are of keys which are trusted.

    :param text: of the checkpoint.
    :raises NoteError: the answer is none, or one of these is wrong, or says no time.
    """
    note = parse_note(text.encode() + b"\n" + answer)
    found = []
    for key in keys:
        for signature in note.of(key):
            cosignature = check_signature(text, signature, key)
            if not cosignature.time:
                raise NoteError(f"the cosignature of {key.name} says no time")
            found.append((signature, cosignature))
    return found
