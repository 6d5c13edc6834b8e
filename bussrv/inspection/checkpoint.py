"""The command ``bussrv journal checkpoint``."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from bussrv.inspection.words import write
from bussrv.journal.checkpoints import SealedCheckpoint, newest_checkpoint
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.record import format_time
from bussrv.terminal import cleaned

NO = 1


class CheckpointFacts(Struct, frozen=True):
    """A checkpoint, as JSON.

    :ivar seal: the hash of the line of its seal.
    :ivar last_seq: the last record in the tree, which has ``size`` records.
    :ivar root: the root hash in base64.
    :ivar verifier_key: the key that it is signed with; ``None``: it is not signed.
    :ivar checkpoint: all of it.
    """

    seal: str
    last_seq: int | None
    time: str
    origin: str
    size: int
    root: str
    verifier_key: str | None
    checkpoint: str


def facts(found: SealedCheckpoint) -> CheckpointFacts:
    """A checkpoint, as JSON."""
    return CheckpointFacts(
        seal=found.hash,
        last_seq=found.seal.last_seq,
        time=format_time(found.seal.time),
        origin=found.checkpoint.origin,
        size=found.checkpoint.size,
        root=base64.b64encode(found.checkpoint.root).decode(),
        verifier_key=None if found.key is None else found.key.text,
        checkpoint=found.text,
    )


def run_checkpoint(directory: Path, *, verifier_key: bool, as_json: bool) -> int:
    """Print the newest checkpoint of a journal, or the key that it is signed with.

    :returns: the exit status.
    :raises JournalError: if the manifest cannot be read, or the signature is wrong.
    """
    found = newest_checkpoint(read_manifest(directory / MANIFEST_NAME))
    if found is None:
        return _complain(f"{directory} has no checkpoint: nothing is sealed, or an older server wrote it")
    if as_json:
        write(msgspec.json.encode(facts(found)) + b"\n")
    elif not verifier_key:
        write(found.text.encode())
    elif found.key is None:
        return _complain(f"the checkpoints of {directory} are not signed: give the server a key (--journal-key)")
    else:
        write(f"{found.key.text}\n".encode())
    return 0


def _complain(said: str) -> int:
    sys.stderr.write(f"bussrv journal checkpoint: {cleaned(said)}\n")
    return NO
