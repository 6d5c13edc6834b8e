"""``bussrv journal synth``: write a journal of a server that never ran."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bussrv.errors import JournalError
from bussrv.journal.keys import read_private
from bussrv.journal.segment import list_segments
from bussrv.synth.journal import write_journal


def synth(
    directory: Path,
    *,
    events: int,
    seed: int,
    server: str,
    key: Path | None,
    compress: bool,
    faults: Sequence[str],
    attacks: Sequence[str],
) -> None:
    """Write it, and say what was put in.

    :param events: about how many records.
    :raises JournalError: if there is a journal already, or it cannot be written.
    """
    if directory.exists() and list_segments(directory):
        raise JournalError(f"{directory} holds a journal already")
    try:
        made = write_journal(
            directory,
            events=events,
            seed=seed,
            server=server,
            key=None if key is None else read_private(key),
            compress=compress,
            faults=faults,
            attacks=attacks,
        )
    except OSError as error:
        raise JournalError(f"cannot write {directory}: {error.strerror}") from error
    for each in made:
        sys.stdout.write(msgspec.json.encode(each).decode() + "\n")
