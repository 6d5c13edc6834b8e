"""Removing what is kept for a person, also while a server uses the spool: a process of its own does it."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from bussrv.errors import SpoolError
from bussrv.settings import Settings
from bussrv.spool.accounts import host_in
from bussrv.spool.file import BUSY_SECONDS, NAME, SpoolDamaged, open_path
from bussrv.spool.store import SpoolStore

_PAUSE = 0.05


def forget(directory: Path, actor: str | None, peer: str | None, session: str | None) -> tuple[int, int]:
    """Remove the owners of a user, an address or a session with all their entries, and their bytes from the files.

    :param peer: a host, in any of the ways to write it; a port is ignored.
    :param session: the key of an owner.
    :returns: how many owners, and how many entries.
    :raises SpoolError: there is no spool, or it cannot be read or written.
    """
    path = directory / NAME
    if not path.is_file():
        raise SpoolError(f"there is no spool in {directory}")
    host = None if peer is None else host_in(peer)
    try:
        store = SpoolStore(open_path(path), Settings(), lambda: time.time_ns() // 1000)
        try:
            store.begin()
            removed = store.remove_owners(actor=actor, address=host, owner=session)
            store.commit()
            store.rewrite()
            _tidy(store, path)
        finally:
            store.close()
    except (sqlite3.Error, OSError, SpoolDamaged) as error:
        raise SpoolError(f"cannot forget anybody in the spool {path}: {error}") from error
    return removed


def _tidy(store: SpoolStore, path: Path) -> None:
    until = time.monotonic() + BUSY_SECONDS
    while not store.tidy():
        if time.monotonic() > until:
            raise SpoolError(f"{path}: removed, but the old bytes are in the file until the server next tidies it up")
        time.sleep(_PAUSE)
