"""Logs that ask witnesses."""

from __future__ import annotations

from collections.abc import Sequence

from bussrv.transparency.checkpoints import Checkpoint
from bussrv.transparency.cosignatures import SigningKey
from bussrv.transparency.notes import ED25519, Note
from bussrv.transparency.tree import HASH_BYTES, Tree, leaf_hash
from bussrv.transparency.witnessing import Submission


class Log:
    """A log with its entries.

    :ivar origin: its name.
    """

    def __init__(self, origin: str = "hall.example/journal", entries: Sequence[bytes] = (), seed: int = 1) -> None:
        self.origin = origin
        self.entries = list(entries)
        self.key = SigningKey(origin, ED25519, bytes([seed]) * 32)

    @property
    def tree(self) -> Tree:
        """The tree of its entries."""
        hashes = b"".join(map(leaf_hash, self.entries))
        return Tree(len(self.entries), lambda begin, end: hashes[begin * HASH_BYTES : end * HASH_BYTES])

    def checkpoint(self, size: int | None = None, *, key: SigningKey | None = None) -> Note:
        """Its checkpoint, signed."""
        size = len(self.entries) if size is None else size
        text = Checkpoint(self.origin, size, self.tree.root(size)).text
        return Note(text, ((key or self.key).sign(text),))

    def submission(self, old: int, size: int | None = None) -> Submission:
        """What it asks a witness that cosigned a checkpoint of some size."""
        size = len(self.entries) if size is None else size
        proof = tuple(self.tree.consistency(old, size)) if old <= size else ()
        return Submission(old, proof, self.checkpoint(size))
