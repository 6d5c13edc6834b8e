"""Sealing: adds digests of segments, and removals, to the manifest of a journal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from msgspec.structs import asdict

from bussrv.journal.chain import START
from bussrv.journal.checkpoints import default_name, name_in, sealed_checkpoint
from bussrv.journal.files import FILES, Files
from bussrv.journal.keys import PrivateKey
from bussrv.journal.manifest import MANIFEST_NAME, Cosigned, Manifest, Pruned, Seal, last_seq
from bussrv.journal.manifest_file import ManifestFile
from bussrv.journal.outside_changes import set_aside
from bussrv.journal.segment import Extent
from bussrv.turns.clock import Clock

MARKER = "rotate"
"""A file of this name in the journal directory asks the writer to end the segment; removed when that is sealed."""

Reason = Literal["age", "size"]


class Sealer:
    """Adds to the manifest of a journal directory.

    :param manifest: what :func:`bussrv.journal.manifest_file.read_manifest` found there.
    :param key: what seals are signed with; a first key is introduced.
    :param name: of the journal in its checkpoints; by default the one it has, or it is made of the id of the server.
    :raises JournalError: if the key in force is another one.
    :raises OSError: if a first key cannot be written down.
    """

    def __init__(
        self,
        directory: Path,
        server: str,
        *,
        manifest: Manifest,
        key: PrivateKey | None,
        clock: Clock,
        name: str | None = None,
        files: Files = FILES,
    ) -> None:
        self._name = name or name_in(manifest) or default_name(server)
        self._path = directory / MANIFEST_NAME
        self._server = server
        self._key = key
        self._clock = clock
        self._files = files
        self._file = self._open(manifest)
        # The one that is missed, as long as no other one is begun.
        self._missed: ManifestFile | None = None

    def _open(self, manifest: Manifest) -> ManifestFile:
        key = self._key
        if key is None or manifest.in_force is not None:
            return ManifestFile(self._path, manifest, key, files=self._files)
        file = ManifestFile(self._path, manifest, files=self._files)
        file.introduce(key.public, key, time=self._clock.utc(), server=self._server)
        return file

    @property
    def last_hash(self) -> str | None:
        """The hash of the last line of the manifest, if there is one."""
        return None if self._file.last_hash == START else self._file.last_hash

    @property
    def is_sparing(self) -> bool:
        """Whether the manifest is so long that a growing segment is sealed only once before it ends."""
        return self._file.is_long

    def begin_anew_if_changed(self, hold: Callable[[], None]) -> str | None:
        """Begin another manifest if another program changed it, or removed it. The changed one is kept aside.

        :param hold: called after a change was seen and before anything is moved. It raises if another server has the
            directory: then what was seen is the manifest of that one.
        :returns: what happened, as a sentence without its end; ``None``: nothing.
        :raises OSError: if the disk fails; it may be called again then.
        """
        found = self._file.change()
        if found is None:
            return None
        hold()
        kept = set_aside(self._path, self._files)
        before, self._file = self._file, self._open(Manifest())
        if before.is_begun:
            self._missed = before
        return found.what if kept is None else f"{found.what} (it is kept as {kept.name})"

    def go_on_if_back(self) -> bool:
        """Go on with the manifest that was missed if it is back as it was, and no other one is begun.

        :returns: whether it is so.
        :raises OSError: if the disk fails; it may be called again then.
        """
        missed = self._missed
        if missed is None or self._file.is_begun or missed.change() is not None:
            return False
        self._file, self._missed = missed, None
        return True

    def seal(self, extents: Sequence[Extent], *, closed: bool) -> list[tuple[Seal, str]]:
        """Seal segments up to their present ends.

        :param closed: whether nothing more will be written to them.
        :returns: the seals, each with the hash of its line.
        :raises OSError: if the manifest cannot be written; nothing is sealed then.
        """
        time = self._clock.utc()
        seals = [self._seal(extent, time, closed=closed) for extent in extents]
        return list(zip(seals, self._file.append(seals), strict=True))

    def _seal(self, extent: Extent, time: int, *, closed: bool) -> Seal:
        head = extent.tree
        # A tree without leaves says nothing.
        checkpoint = sealed_checkpoint(head, self._name, time, self._key) if head is not None and head.size else None
        members = asdict(extent)
        del members["tree"]
        return Seal(time=time, server=self._server, closed=closed, checkpoint=checkpoint, **members)

    def cosign(self, seal: str, signatures: str) -> None:
        """Say that witnesses cosigned the checkpoint of a seal.

        :param seal: the hash of its line.
        :param signatures: the lines of their signatures.
        :raises OSError: if the manifest cannot be written.
        """
        self._file.append([Cosigned(self._clock.utc(), self._server, seal, signatures)])

    def prune(self, seal: Seal, reason: Reason) -> None:
        """Say that a segment is about to be removed.

        :raises OSError: if the manifest cannot be written; it must not be removed then.
        """
        pruned = Pruned(self._clock.utc(), self._server, seal.segment, last_seq(seal), seal.bytes, seal.digest, reason)
        self._file.append([pruned])


def in_words(seal: Seal) -> str:
    """A seal in words."""
    how = "to its end" if seal.closed else "so far"
    return f"segment {seal.segment} {how}, records {seal.first_seq} to {seal.last_seq}"
