r"""The checkpoints in seals: C2SP checkpoints (:mod:`bussrv.transparency.checkpoints`) of the tree of a journal.

::

    bussrv.local/hall\n                               the origin: the name of the journal, and where its tree begins
    812\n                                             how many records are in the tree
    CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n    its root hash
    time 2026-11-21T14:02:03.123456Z\n                the time of the seal

With a key it is a signed note: an empty line follows, and the signature of the key that signs the manifest, under the
origin as its name. Without a key it is only this text.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from msgspec import Struct

from bussrv.errors import JournalError
from bussrv.journal.keys import PrivateKey, PublicKey
from bussrv.journal.manifest import KeyEntry, Manifest, Seal, last_seq
from bussrv.journal.record import format_time
from bussrv.journal.record_tree import TreeHead, origin_of
from bussrv.transparency.checkpoints import Checkpoint, parse_checkpoint
from bussrv.transparency.cosignatures import SigningKey, signed_by
from bussrv.transparency.notes import ED25519, Note, NoteError, VerifierKey, parse_note, parse_signatures

DEFAULT_NAME = "bussrv.local"


def default_name(server: str) -> str:
    """The name of the journal of a server, if no other one is given."""
    return f"{DEFAULT_NAME}/{quote(server, safe='')}"


def name_in(manifest: Manifest) -> str | None:
    """The name of a journal, as its last checkpoint has it; ``None``: it has none."""
    seal = next(reversed(manifest.checkpoints.values()), None)
    if seal is None or seal.checkpoint is None:
        return None
    found, _ = read_checkpoint(seal.checkpoint)
    begin = tree_begin(seal, found)
    return found.origin if begin == 1 else found.origin.removesuffix(f"/{begin}")


def tree_begin(seal: Seal, checkpoint: Checkpoint) -> int:
    """The number of the record that is leaf 0 of the tree of a checkpoint.

    :param seal: that has it.
    """
    return last_seq(seal) + 1 - checkpoint.size


class SealedCheckpoint(Struct, frozen=True):
    """A checkpoint of a journal, with all that witnesses added to it.

    :ivar seal: the seal that has it, and ``hash`` that of its line.
    :ivar checkpoint: the checkpoint, and ``note`` its note, with the cosignatures.
    :ivar key: the verifier key of the journal; ``None``: it is not signed.
    """

    seal: Seal
    hash: str
    checkpoint: Checkpoint
    note: Note
    key: VerifierKey | None

    @property
    def begin(self) -> int:
        """The number of the record that is leaf 0 of its tree."""
        return tree_begin(self.seal, self.checkpoint)

    @property
    def text(self) -> str:
        """The note, or only its text if there is no signature under it."""
        return self.note.encode() if self.note.signatures else self.note.text


def sealed_checkpoints(manifest: Manifest) -> Iterator[SealedCheckpoint]:
    """The checkpoints of a journal, in order. Its own signature is checked, those of witnesses are not.

    :raises JournalError: if the signature under one is wrong.
    """
    keys = {each.fingerprint: each for each in map(PublicKey, _keys(manifest))}
    signers = {each.hash: each.key for each in manifest.entries if each.hash in manifest.checkpoints}
    for hashed, seal in manifest.checkpoints.items():
        found, note = read_checkpoint(seal.checkpoint or "")
        public = keys.get(signers.get(hashed) or "")
        key = None if public is None else log_key(found.origin, public)
        if key is not None:
            _check_signature(note, key, seal)
        added = [each for entry in manifest.cosigned.get(hashed, ()) for each in parse_signatures(entry.signatures)]
        yield SealedCheckpoint(seal, hashed, found, note.signed(added), key)


def newest_checkpoint(manifest: Manifest) -> SealedCheckpoint | None:
    """The newest checkpoint of a journal; ``None``: it has none.

    :raises JournalError: as :func:`sealed_checkpoints`.
    """
    last = next(reversed(manifest.checkpoints), None)
    if last is None:
        return None
    only = Manifest(entries=manifest.entries, cosigned=manifest.cosigned)
    only.checkpoints = {last: manifest.checkpoints[last]}
    return next(sealed_checkpoints(only))


def _keys(manifest: Manifest) -> Iterator[str]:
    return (each.body.public for each in manifest.entries if isinstance(each.body, KeyEntry))


def _check_signature(note: Note, key: VerifierKey, seal: Seal) -> None:
    try:
        found = signed_by(note, key)
    except NoteError as error:
        raise JournalError(f"the checkpoint of the seal up to record {last_seq(seal)}: {error}") from error
    if found is None:
        raise JournalError(f"the checkpoint of the seal up to record {last_seq(seal)} is not signed by {key.text}")


def sealed_checkpoint(head: TreeHead, name: str, time: int, key: PrivateKey | None) -> str:
    """The checkpoint of a tree, as it stands in a seal.

    :param name: of the journal.
    :param time: of the seal, UTC microseconds.
    """
    origin = origin_of(name, head.begin)
    text = Checkpoint(origin, head.size, head.root, (time_line(time),)).text
    return text if key is None else Note(text, (SigningKey(origin, ED25519, key.seed).sign(text),)).encode()


def time_line(time: int) -> str:
    """The extension line with the time of a seal."""
    return f"time {format_time(time)}"


def read_checkpoint(text: str) -> tuple[Checkpoint, Note]:
    """The checkpoint in a seal, and its note, which has no signature if there was no key.

    :raises NoteError: if it is none.
    """
    note = parse_note(text.encode()) if is_signed(text) else Note(text)
    return parse_checkpoint(note.text), note


def is_signed(text: str) -> bool:
    """Whether the checkpoint in a seal is a signed note, and not its text alone."""
    return "\n\n" in text


def checkpoint_fault(text: str, time: int, last_seq: int) -> str | None:
    """Why a seal cannot have a checkpoint; ``None``: it can. The signatures are not checked.

    :param time: of the seal.
    :param last_seq: the last record that it is about.
    """
    try:
        found, _ = read_checkpoint(text)
    except NoteError as error:
        return f"its checkpoint is wrong: {error}"
    if found.extensions != (time_line(time),) or not 1 <= found.size <= last_seq:
        return "its checkpoint has another time than the seal, or more records"
    return None


def log_key(origin: str, key: PublicKey) -> VerifierKey:
    """The verifier key of a journal: the public half of the key that signs its manifest."""
    return VerifierKey(origin, ED25519, bytes.fromhex(key.text))
