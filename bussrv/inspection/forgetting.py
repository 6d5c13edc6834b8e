"""The command ``bussrv journal forget``: the key of a person is destroyed, the journal stays as it is."""

from __future__ import annotations

import sys
from pathlib import Path

from bussrv.journal.pseudonym_keys import forget as destroy

UNKNOWN = 1


def forget(file: Path, actor: str | None, peer: str | None, *, as_json: bool = False) -> int:
    """Forget a user, or an address.

    :returns: the exit status.
    :raises JournalError: if the file cannot be read or replaced, or is damaged.
    """
    if actor is not None:
        removed, whom = destroy(file, "actor", actor), "actor"
    else:
        removed, whom = destroy(file, "peer", peer or ""), "address"
    if as_json:
        sys.stdout.write('{"forgotten":true}\n' if removed else '{"forgotten":false}\n')
        return 0 if removed else UNKNOWN
    if not removed:
        sys.stdout.write(f"There is no such {whom} in the key file.\n")
        return UNKNOWN
    sys.stdout.write(f"The {whom} is forgotten: nothing leads from its pseudonyms to it any more.\n")
    return 0
