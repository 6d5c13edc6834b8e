"""The file of a spool: opened for one server, checked, set aside if it is damaged.

The directory, ``0700``, holds ``lock``, the SQLite file ``spool`` and its companions ``spool-wal`` and ``spool-shm``,
all ``0600``. A damaged file gets the name ``spool.damaged.TIME``, and a new one is begun.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from bussrv.errors import SpoolError
from bussrv.journal.files import FILES
from bussrv.journal.regular import open_regular
from bussrv.journal.space import Space

NAME = "spool"
LOCK = "lock"
APPLICATION_ID = 0x62757373
VERSION = 2

BUSY_SECONDS = 5.0
"""How long one process waits for another, such as ``bussrv journal forget``."""

_DIRECTORY_MODE = 0o700
_MODE = 0o600

# Numbers are never used again (AUTOINCREMENT). `size` is in the index, so that all sizes are added up from that alone.
_SCHEMA = """
    CREATE TABLE owner (
        id INTEGER PRIMARY KEY, owner TEXT NOT NULL UNIQUE, address TEXT NOT NULL, actor TEXT,
        drops_oldest INTEGER NOT NULL, dropped INTEGER NOT NULL
    );
    CREATE TABLE entry (
        number INTEGER PRIMARY KEY AUTOINCREMENT, owner INTEGER NOT NULL, kind TEXT NOT NULL, key TEXT,
        expires INTEGER, size INTEGER NOT NULL, digest INTEGER NOT NULL, payload BLOB NOT NULL
    );
    CREATE INDEX entry_order ON entry (owner, kind, number, size);
    CREATE UNIQUE INDEX entry_key ON entry (owner, kind, key) WHERE key IS NOT NULL;
    CREATE INDEX entry_expires ON entry (expires) WHERE expires IS NOT NULL;
"""

# Entries that owners have in common; `waiting` changes often, and has no payload to be written with it.
_SINCE_VERSION_2 = """
    CREATE TABLE common (
        number INTEGER PRIMARY KEY, kind TEXT NOT NULL, expires INTEGER, size INTEGER NOT NULL,
        owners BLOB NOT NULL, heads BLOB NOT NULL, digest INTEGER NOT NULL, payload BLOB NOT NULL
    );
    CREATE TABLE waiting (number INTEGER PRIMARY KEY, waits BLOB NOT NULL);
    CREATE INDEX common_expires ON common (expires) WHERE expires IS NOT NULL;
    INSERT INTO sqlite_sequence SELECT 'entry', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence);
"""

Connect = Callable[..., sqlite3.Connection]


class SpoolDamaged(Exception):
    """The file is not what was written, or is gone. The message says how that shows."""


def is_damage(error: Exception) -> bool:
    """Whether SQLite says that the file is damaged. A disk that is full or fails causes an ``OperationalError``."""
    return type(error) is sqlite3.DatabaseError


class SpoolFile:
    """The place of a spool.

    :param directory: made if it is missing; ``None``: it is kept in memory.
    :param space: the space that stays free there; ``None``: nobody looks.
    """

    def __init__(self, directory: Path | None, space: Space | None = None, connect: Connect = sqlite3.connect) -> None:
        self.directory = directory
        self.space = space
        self._connect = connect
        self._lock: int | None = None
        self._identity: tuple[int, int] | None = None

    def open(self) -> sqlite3.Connection:
        """Open the file for this process alone, and make it if it is missing.

        :raises SpoolDamaged: see :meth:`set_aside`.
        :raises SpoolError: another server uses it, or it is of a later version, or no spool.
        :raises OSError, sqlite3.Error: it cannot be read or written.
        """
        directory = self.directory
        if directory is None:
            return prepared(self._connect(":memory:", isolation_level=None, check_same_thread=False), "the spool")
        if not directory.exists():
            directory.mkdir(_DIRECTORY_MODE)
            FILES.sync_directory(directory.parent)
        directory.chmod(_DIRECTORY_MODE)
        self._lock = _take(directory)
        path = directory / NAME
        # SQLite gives its companions the mode of the file.
        descriptor = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, _MODE)
        try:
            os.fchmod(descriptor, _MODE)
            found = os.fstat(descriptor)
            self._identity = found.st_dev, found.st_ino
        finally:
            os.close(descriptor)
        FILES.sync_directory(directory)
        return open_path(path, self._connect)

    def check(self) -> None:
        """See whether the file still has its name. :raises SpoolDamaged: another program removed or replaced it."""
        if self.directory is not None:
            try:
                found = FILES.look(f"{self.directory}/{NAME}")
            except FileNotFoundError:
                raise SpoolDamaged("another program removed it") from None
            if (found.st_dev, found.st_ino) != self._identity:
                raise SpoolDamaged("another program replaced it")

    def set_aside(self) -> Path | None:
        """Give a damaged file another name. It must not be open. :returns: the name; ``None``: it is gone."""
        if self.directory is None or not (self.directory / NAME).exists():
            return None
        now = datetime.now(timezone.utc)
        aside = self.directory / f"{NAME}.damaged.{now:%Y%m%dT%H%M%S.%fZ}"
        for companion in ("-shm", "-wal", "-journal", ""):
            with suppress(FileNotFoundError):
                FILES.rename(self.directory / f"{NAME}{companion}", Path(f"{aside}{companion}"))
        FILES.sync_directory(self.directory)
        return aside

    def release(self) -> None:
        """Let another server have the place. The file must not be open."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _take(directory: Path) -> int:
    descriptor = open_regular(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, _MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise SpoolError(f"another server is using the spool {directory}") from error
        raise
    return descriptor


def open_path(path: Path, connect: Connect = sqlite3.connect) -> sqlite3.Connection:
    """Open a file that is there, and fill it if it is empty; raises as :meth:`SpoolFile.open`."""
    connection = connect(str(path), timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        prepared(connection, str(path))
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except BaseException as error:
        connection.close()
        if isinstance(error, Exception) and is_damage(error):
            raise SpoolDamaged(str(error)) from error
        raise
    if found != "ok":
        connection.close()
        raise SpoolDamaged(str(found).partition("\n")[0])
    return connection


def prepared(connection: sqlite3.Connection, name: str) -> sqlite3.Connection:
    """The connection, set up and with its tables.

    :raises SpoolError: it is of a later version, or no spool.
    """

    def pragma(setting: str) -> int:
        return int(connection.execute(f"PRAGMA {setting}").fetchone()[0])

    if not pragma("schema_version"):
        # Both stay in the file, and only an empty one takes the first.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        _make_tables(connection, _SCHEMA + _SINCE_VERSION_2)
    if pragma("application_id") != APPLICATION_ID:
        raise SpoolError(f"{name} is not a spool of bussrv: move it away")
    if pragma("user_version") > VERSION:
        raise SpoolError(
            f"{name} was written by a later bussrv, in version {pragma('user_version')} of its format; this one knows "
            f"version {VERSION}: use the later bussrv, or move the file away"
        )
    if pragma("user_version") < VERSION:
        _make_tables(connection, _SINCE_VERSION_2)
    # Removed entries are overwritten, commits are synced, and nothing is written elsewhere.
    for setting in ("secure_delete = ON", "synchronous = FULL", "temp_store = MEMORY", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {setting}")
    return connection


def _make_tables(connection: sqlite3.Connection, schema: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for statement in schema.split(";")[:-1]:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")
