"""The knowledge of others about a journal, as an auditor names it: keys of witnesses, and files with checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bussrv.errors import JournalError
from bussrv.journal.evidence.witnesses import Others, Quorum
from bussrv.journal.regular import read_regular
from bussrv.transparency.notes import MOST_BYTES, Note, NoteError, parse_key, parse_note, without_duplicates
from bussrv.transparency.proofs import HEAD, parse_proof


def read_others(
    witness_keys: Sequence[str], quorum: int | None, checkpoints: Sequence[Path], now: int
) -> Others | None:
    """The witnesses that are trusted, and the checkpoints that were kept; ``None``: there are none.

    :param witness_keys: verifier keys.
    :param quorum: how many witnesses have to cosign; ``None``: all.
    :param now: UTC microseconds.
    :raises JournalError: if one of them cannot be used, or there are not so many witnesses.
    """
    if not witness_keys and not checkpoints:
        return None
    try:
        keys = tuple(map(parse_key, witness_keys))
        without_duplicates(keys)
    except NoteError as error:
        raise JournalError(f"--witness-key: {error}") from error
    names = len({each.name for each in keys})
    if (quorum or 0) > names:
        raise JournalError(f"--quorum {quorum} is larger than the number of witnesses of --witness-key, {names}")
    asked = Quorum(keys, names if quorum is None else quorum) if keys else None
    return Others(quorum=asked, kept=tuple(map(_read_note, checkpoints)), now=now)


def _read_note(path: Path) -> Note:
    """The checkpoint in a file, which may be a proof with one.

    :raises JournalError: if it is none, or cannot be read.
    """
    try:
        with read_regular(path) as file:
            data = file.read(MOST_BYTES + 1)
        return parse_proof(data).note if data.startswith(HEAD.encode()) else parse_note(data)
    except NoteError as error:
        raise JournalError(f"{path} is no checkpoint: {error}") from error
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror}") from error
