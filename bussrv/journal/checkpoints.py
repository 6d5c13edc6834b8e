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

from urllib.parse import quote

from bussrv.journal.keys import PrivateKey, PublicKey
from bussrv.journal.record import format_time
from bussrv.journal.record_tree import TreeHead, origin_of
from bussrv.transparency.checkpoints import Checkpoint, parse_checkpoint
from bussrv.transparency.cosignatures import SigningKey
from bussrv.transparency.notes import ED25519, Note, NoteError, VerifierKey, parse_note

DEFAULT_NAME = "bussrv.local"


def default_name(server: str) -> str:
    """The name of the journal of a server, if no other one is given."""
    return f"{DEFAULT_NAME}/{quote(server, safe='')}"


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
    note = parse_note(text.encode()) if "\n\n" in text else Note(text)
    return parse_checkpoint(note.text), note


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
