"""The checkpoints of the journal that a server writes: the last one, the growth since others, and cosignatures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

from bussrv.journal.checkpoints import read_checkpoint, sealed_checkpoints, tree_begin
from bussrv.journal.leaves import JournalTree
from bussrv.journal.manifest import Manifest, Seal
from bussrv.journal.record_tree import HeaderTree
from bussrv.transparency.notes import Note, parse_signatures
from bussrv.witness.submitting import SealedNote


class JournalCheckpoints:
    """The checkpoints; a :class:`bussrv.witness.submitting.SealedJournal`, except for what it says in the journal.

    :param manifest: as the server found it.
    :param last_seal: gives the last seal, and the hash of its line.
    :param keep: keeps cosignatures in the manifest, soon: of the seal with that hash, their lines.
    """

    def __init__(
        self,
        directory: Path,
        manifest: Manifest,
        last_seal: Callable[[], tuple[Seal, str] | None],
        keep: Callable[[str, str], None],
        reactor: Any,
    ) -> None:
        self._directory = directory
        self._last_seal = last_seal
        self._keep = keep
        self._reactor = reactor
        self._last: tuple[str, SealedNote | None] | None = None
        # Headers never change, so those that were read for one proof serve the next one.
        self._trees: dict[int, HeaderTree | None] = {}
        self._cosigned = _newest_cosigned(manifest)

    def last_checkpoint(self) -> SealedNote | None:
        """The signed checkpoint of the last seal; ``None``: there is none."""
        last = self._last_seal()
        if last is None:
            return None
        if self._last is None or self._last[0] != last[1]:
            self._last = last[1], _sealed_note(*last)
        return self._last[1]

    def growth_proof(self, begin: int, old: int, size: int) -> Deferred[list[bytes]]:
        """The consistency proof between two sizes of the tree that begins with a record. It is made in a thread.

        :returns: fails with :class:`bussrv.errors.JournalError` if the journal cannot be read.
        """
        made = partial(self._growth, begin, old, size)
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), made)

    def _growth(self, begin: int, old: int, size: int) -> list[bytes]:
        return JournalTree(self._directory, begin, self._trees).tree(size).consistency(old)

    def cosign(self, sealed: SealedNote, signatures: str) -> None:
        """Keep cosignatures of a checkpoint in the manifest, soon."""
        known = self._cosigned
        note = known[1] if known is not None and known[0] == sealed.seal else sealed.note
        self._cosigned = sealed.seal, note.signed(parse_signatures(signatures))
        self._keep(sealed.seal, signatures)

    @property
    def cosigned(self) -> tuple[str, Note] | None:
        """The hash of the seal whose checkpoint a witness cosigned last, and the checkpoint with all cosignatures."""
        return self._cosigned


def _sealed_note(seal: Seal, seal_hash: str) -> SealedNote | None:
    if seal.checkpoint is None:
        return None
    found, note = read_checkpoint(seal.checkpoint)
    if not note.signatures:
        return None
    return SealedNote(seal_hash, tree_begin(seal, found), found.size, seal.closed, note)


def _newest_cosigned(manifest: Manifest) -> tuple[str, Note] | None:
    seal_hash = next((each for each in reversed(manifest.cosigned) if each in manifest.checkpoints), None)
    if seal_hash is None:
        return None
    only = Manifest(entries=manifest.entries, cosigned=manifest.cosigned)
    only.checkpoints = {seal_hash: manifest.checkpoints[seal_hash]}
    return seal_hash, next(sealed_checkpoints(only)).note
