"""Pseudonyms: how a journal that nobody can change forgets a person.

Before an event is written, its actor, the name it claims and the host of its peer are replaced by pseudonyms such as
``~3fa91c0be27d5846019ab3cd``. Only the key file leads from those to whom they stand for: see
:mod:`bussrv.journal.pseudonym_keys`.
"""

from __future__ import annotations

import fcntl
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from bussrv.errors import JournalError, os_errors_as
from bussrv.events import Event
from bussrv.journal.files import FILES, Files
from bussrv.journal.pseudonym_keys import (
    DIGITS,
    KEY_FILE_MODE,
    HiddenIdentity,
    Kind,
    cut_torn_line,
    is_at,
    join,
    new_key,
    open_key_file,
    read_lines,
    renamed,
    split,
)

_PSEUDONYM = re.compile(rf"~[0-9a-f]{{{DIGITS}}}")

AnEvent = TypeVar("AnEvent", bound=Event)


class _Table:
    """Both directions of what a key file says.

    :ivar pseudonyms: by kind, then by identity. An identity with several keys has several; this is the last.
    :ivar identities: by kind, then by pseudonym.
    """

    def __init__(self) -> None:
        self.pseudonyms: dict[Kind, dict[str, str]] = {"actor": {}, "peer": {}}
        self.identities: dict[Kind, dict[str, str]] = {"actor": {}, "peer": {}}

    def add(self, each: HiddenIdentity) -> None:
        self.pseudonyms[each.kind][each.identity] = each.pseudonym
        self.identities[each.kind][each.pseudonym] = each.identity


class Pseudonyms:
    """The pseudonyms of one journal, for the server that writes it.

    The thread of the reactor hides, the writer thread flushes and refreshes; what is to be revealed is revealed before
    there are two. Hiding never waits for the disk. No keys are kept but those on their way to the disk.
    """

    def __init__(self, path: Path, files: Files = FILES) -> None:
        """Open the key file; it is made if it is missing.

        :raises JournalError: if it cannot be read or written, is damaged, or others than its owner may use it.
        """
        self._path = path.resolve()
        self._files = files
        self._table = _Table()
        self._changing = threading.Lock()
        self._fresh: list[tuple[HiddenIdentity, bytes]] = []
        self._maybe_there = 0
        self._forgotten: set[str] = set()
        with os_errors_as(JournalError, f"cannot use the key file {path}"):
            files.close(files.open(self._path, KEY_FILE_MODE))
            self._descriptor = self._open()
            # It may have been made just now, or right before a crash.
            if not os.fstat(self._descriptor).st_size:
                files.sync_directory(self._path.parent)
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the file."""
        self._files.close(self._descriptor)

    def hide(self, event: AnEvent) -> AnEvent:
        """The event with pseudonyms in the place of the actor, of the claimed name, and of the host of the peer.

        :raises ValueError: if one of them cannot be written as UTF-8.
        """
        return renamed(event, self.hide_text)

    def reveal(self, event: AnEvent) -> AnEvent:
        """The inverse of :meth:`hide`; what is forgotten, or never was hidden, stays as it is."""
        return renamed(event, self.reveal_text)

    def hide_text(self, kind: Kind, text: str) -> str:
        """The text in the journal for an actor or a peer; an empty text is nobody and stays.

        :raises ValueError: if it cannot be written as UTF-8.
        """
        identity, port = split(kind, text)
        return join(self._table.pseudonyms[kind].get(identity) or self._name(kind, identity), port)

    def reveal_text(self, kind: Kind, text: str) -> str:
        """The actor or the peer that stands in the journal as ``text``; what is forgotten stays as it is.

        Such a pseudonym also stays as it is when it is hidden again: the end of a session is written of the one of
        whom its beginning was written.
        """
        pseudonym, port = split(kind, text)
        identity = self._table.identities[kind].get(pseudonym)
        if identity is not None:
            return join(identity, port)
        if _PSEUDONYM.fullmatch(pseudonym):
            self._forgotten.add(pseudonym)
        return text

    def flush(self) -> None:
        """Put the keys of new identities on the disk: to be called before anything that was hidden is written.

        With one write and one sync; without new identities it does nothing. When it fails, the next call tries again.

        :raises OSError: if the file cannot be written, or is missing.
        :raises JournalError: if another file has its name now, and that is damaged or others may use it.
        """
        if not self._fresh:
            return
        with self._locked():
            cut_torn_line(self._descriptor, self._path, self._files)
            fresh = tuple(self._fresh)
            self._append(fresh)
        with self._changing:
            del self._fresh[: len(fresh)]
            self._maybe_there = 0

    def refresh(self) -> None:
        """Forget who was forgotten since: see whether another file has the name, and take up what is in that one.

        When none has, it takes two looks at the file system. A file that is missing says nothing.

        :raises OSError: if it cannot be read.
        :raises JournalError: if it is damaged, or others than its owner may use it.
        """
        with suppress(FileNotFoundError):
            if not is_at(self._descriptor, self._path):
                with self._locked():
                    pass

    def _name(self, kind: Kind, identity: str) -> str:
        """The pseudonym of an identity that has none yet."""
        if not identity or identity in self._forgotten:
            return identity
        named, line = new_key(kind, identity)
        with self._changing:
            known = self._table.pseudonyms[kind].get(identity)
            if known is not None:
                return known
            self._table.add(named)
            self._fresh.append((named, line))
        return named.pseudonym

    def _append(self, fresh: tuple[tuple[HiddenIdentity, bytes], ...]) -> None:
        size, before = os.fstat(self._descriptor).st_size, self._maybe_there
        # Keys that can neither be synced nor cut off again may be found there and forgotten: see `_adopt`.
        self._maybe_there = len(fresh)
        try:
            self._files.write(self._descriptor, b"".join(line for _, line in fresh))
            self._files.sync(self._descriptor)
        except OSError:
            self._files.truncate(self._descriptor, size)
            self._maybe_there = before
            raise

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            if not is_at(self._descriptor, self._path):
                replaced, self._descriptor = self._descriptor, self._open()
                self._files.close(replaced)
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _open(self) -> int:
        """Open and lock the file that has the name now, and go from now on by what is in it."""
        descriptor = open_key_file(self._path, self._files)
        table = _Table()
        try:
            for _, each in read_lines(self._path):
                table.add(each)
        except BaseException:
            self._files.close(descriptor)
            raise
        self._adopt(table)
        return descriptor

    def _adopt(self, table: _Table) -> None:
        """Go by ``table``, and by what never was in the file; what was and is no more is forgotten."""
        with self._changing:
            maybe_there, new = self._fresh[: self._maybe_there], self._fresh[self._maybe_there :]
            still_there = [each for each in maybe_there if each[0].pseudonym in table.identities[each[0].kind]]
            self._fresh = still_there + new
            self._maybe_there = len(still_there)
            for named, _ in self._fresh:
                table.add(named)
            self._table = table


def is_pseudonym(text: str) -> bool:
    """Whether an actor, or a peer with or without a port, has the form of a pseudonym."""
    return _PSEUDONYM.fullmatch(split("peer", text)[0]) is not None
