r"""Proofs (c2sp.org/tlog-proof@v1): one entry of a log, its path to the root of a checkpoint, and the checkpoint.

::

    c2sp.org/tlog-proof@v1\n
    extra <base64>\n                    only if there is extra data, which nothing proves
    index 73894\n                       the leaf, counted from 0
    <base64>\n                          the hashes from its sibling up to the child of the root
    \n
    <the checkpoint, a signed note>

Who checks it computes the hash of the leaf from the entry itself.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable

from msgspec import Struct

from bussrv.transparency.checkpoints import Checkpoint, parse_checkpoint
from bussrv.transparency.notes import Note, NoteError, decimal, decode_base64, parse_note
from bussrv.transparency.tree import HASH_BYTES, MOST_HASHES, is_included

HEAD = "c2sp.org/tlog-proof@v1"

SUFFIX = ".tlog-proof"


class Proof(Struct, frozen=True):
    """The content of a file of a proof. Nobody has checked the signatures of its note.

    :ivar index: of the leaf, from 0.
    :ivar hashes: the path from its sibling up to the child of the root.
    :ivar note: the checkpoint, signed.
    :ivar extra: what else is in it, which nothing proves.
    """

    index: int
    hashes: tuple[bytes, ...]
    note: Note
    extra: bytes | None = None

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint.

        :raises NoteError: if the note is none.
        """
        return parse_checkpoint(self.note.text)

    def proves(self, hashed: bytes) -> bool:
        """Whether the leaf with this hash is the one.

        :raises NoteError: if the note is no checkpoint.
        """
        checkpoint = self.checkpoint
        return is_included(hashed, self.index, checkpoint.size, self.hashes, checkpoint.root)

    def encode(self) -> str:
        """The file."""
        extra = [] if self.extra is None else [f"extra {base64.b64encode(self.extra).decode()}"]
        lines = [HEAD, *extra, f"index {self.index}", *encode_hashes(self.hashes), "", ""]
        return "\n".join(lines) + self.note.encode()


def encode_hashes(hashes: Iterable[bytes]) -> list[str]:
    """The lines of the hashes of a proof, without their ends."""
    return [base64.b64encode(each).decode() for each in hashes]


def parse_hashes(lines: Iterable[str]) -> tuple[bytes, ...]:
    """The hashes that the lines of a proof are.

    :raises NoteError: if one is none, or there are too many.
    """
    found = tuple(decode_base64(each, "a hash of the proof") for each in lines)
    if len(found) > MOST_HASHES or any(len(each) != HASH_BYTES for each in found):
        raise NoteError(f"a proof has at most {MOST_HASHES} hashes, of {HASH_BYTES} bytes each")
    return found


def parse_proof(data: bytes) -> Proof:
    """The proof that the bytes of a file are.

    :raises NoteError: if they are none.
    """
    head, blank, rest = data.partition(b"\n\n")
    try:
        lines = head.decode().split("\n")
    except UnicodeDecodeError as error:
        raise NoteError("a proof is UTF-8, and this is not") from error
    if lines.pop(0) != HEAD or not blank:
        raise NoteError(f"a proof begins with {HEAD}, and has an empty line before its checkpoint")
    extra = None
    if lines and lines[0].startswith("extra "):
        extra = decode_base64(lines.pop(0).removeprefix("extra "), "the extra data")
    if not lines or not lines[0].startswith("index "):
        raise NoteError("a proof has a line with the index of its entry")
    index = decimal(lines.pop(0).removeprefix("index "), "the index")
    proof = Proof(index, parse_hashes(lines), parse_note(rest), extra)
    if index >= proof.checkpoint.size:
        raise NoteError(f"entry {index} is not in a log of {proof.checkpoint.size} entries")
    return proof
