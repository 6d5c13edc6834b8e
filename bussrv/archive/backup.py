"""A copy of a journal directory while its server writes to it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from bussrv.archive.fetching import fetch
from bussrv.archive.store import open_store
from bussrv.errors import JournalError
from bussrv.journal.files import FILES, Files
from bussrv.journal.keys import PublicKey
from bussrv.journal.reading import segments
from bussrv.journal.verify import Report

ATTEMPTS = 10
"""So often a copy is tried. Each keeps the closed segments of those before, so it takes less time than they did."""


def back_up(
    directory: Path, target: Path, trusted: PublicKey | None = None, *, attempts: int = ATTEMPTS, files: Files = FILES
) -> Report:
    """Copy a journal and verify the copy. It gets its name when it is whole.

    The server may begin, compress or remove a segment meanwhile. Then the copy does not fit its manifest, and is
    completed by another attempt.

    :param target: must not be there.
    :param trusted: the key that the seals must be traceable to.
    :returns: what :func:`bussrv.journal.verify.verify` says of the copy. With faults, it stays where
        :func:`bussrv.archive.fetching.staging` says.
    :raises JournalError: it cannot be copied.
    """
    if target.exists():
        raise JournalError(f"{target} is there already: name a directory that is not")
    segments(directory)
    store = open_store(directory.resolve().as_uri())
    for _ in range(attempts - 1):
        with suppress(JournalError):
            report = fetch(store, target, trusted, is_live=True, files=files)
            if not report.faults:
                return report
    return fetch(store, target, trusted, is_live=True, files=files)
