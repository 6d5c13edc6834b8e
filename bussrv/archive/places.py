"""Places for files: a directory of this machine, or one that fsspec opens.

A file appears under its name when it is whole, so that nobody ever sees a part of it. They raise whatever the place
raises: :mod:`bussrv.archive.store` makes one sentence of that.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast
from urllib.parse import unquote, urlsplit

from bussrv.errors import JournalError
from bussrv.journal.files import FILES, Files
from bussrv.journal.lock import DIRECTORY_MODE
from bussrv.journal.regular import read_regular
from bussrv.journal.segment import write_file

BLOCK = 8 << 20
"""How many bytes of an object are in memory. S3 takes no smaller parts than 5 MiB."""

COMMITTING = frozenset({"s3", "s3a", "gs", "gcs"})
"""The stores in which an object appears as a whole, by itself. Elsewhere a file is written under another name first."""

_STAGED = ".part"

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})


class Place(Protocol):
    """A directory for files."""

    def names(self) -> Iterable[str]:
        """The names in it; none if there is no such directory."""

    def exists(self, name: str) -> bool:
        """Whether there is a file of that name."""

    def create(self, name: str, parts: Iterable[bytes]) -> None:
        """Make a file of some parts. One that is there stays as it is, and an error is raised."""

    def replace(self, name: str, parts: Iterable[bytes]) -> None:
        """Make a file of some parts, in the place of the one that is there."""

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading."""


def place_at(url: str) -> Place:
    """The place at a URL.

    :raises JournalError: there is no such place, or what opens it is not installed.
    """
    parts = urlsplit(url)
    if not parts.scheme:
        raise JournalError(f"{url} is not a URL such as s3://BUCKET/PATH or file:/PATH")
    if parts.password is not None:
        raise JournalError("a URL with credentials is refused: it is written to files. Set them in the environment")
    if parts.scheme != "file":
        return RemotePlace(url, parts.scheme)
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise JournalError(f"{url} is not a URL such as file:/PATH")
    return LocalPlace(Path(unquote(parts.path)).absolute())


class LocalPlace:
    """A directory of this machine. Data is on the disk when a write returns."""

    def __init__(self, directory: Path, files: Files = FILES) -> None:
        self.directory = directory
        self._files = files

    def names(self) -> Iterable[str]:
        """See :class:`Place`."""
        with suppress(FileNotFoundError):
            return [each.name for each in self.directory.iterdir()]
        return []

    def exists(self, name: str) -> bool:
        """See :class:`Place`."""
        return (self.directory / name).exists()

    def create(self, name: str, parts: Iterable[bytes]) -> None:
        """See :class:`Place`."""
        staged, target = self._stage(name, parts), self.directory / name
        try:
            os.link(staged, target)
        except OSError as error:
            if error.errno not in _NO_LINKS or target.exists():
                self._files.remove(staged)
                raise
            self._files.rename(staged, target)
        self._files.remove(staged)
        self._files.sync_directory(self.directory)

    def replace(self, name: str, parts: Iterable[bytes]) -> None:
        """See :class:`Place`."""
        self._files.rename(self._stage(name, parts), self.directory / name)
        self._files.sync_directory(self.directory)

    def open(self, name: str) -> BinaryIO:
        """See :class:`Place`."""
        return read_regular(self.directory / name)

    def _stage(self, name: str, parts: Iterable[bytes]) -> Path:
        self.directory.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        staged = self.directory / f"{name}{_STAGED}"
        try:
            write_file(staged, parts, self._files)
        except Exception:
            with suppress(OSError):
                self._files.remove(staged)
            raise
        return staged


class RemotePlace:
    """A directory that fsspec opens.

    :raises JournalError: fsspec does not know it, or a package is missing.
    """

    def __init__(self, url: str, scheme: str) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise JournalError(f"{url} needs fsspec: pip install 'bussrv[ship]'") from error
        try:
            self._files, self._path = url_to_fs(url, use_listings_cache=False, skip_instance_cache=True, **_how(scheme))
        except ImportError as error:
            extra = ", with bussrv: pip install 'bussrv[s3]'" if scheme in ("s3", "s3a") else ""
            raise JournalError(f"{url} needs a package that is not installed: {error}{extra}") from error
        except ValueError as error:
            raise JournalError(f"{url} cannot be used: {error}") from error
        self._commits = scheme in COMMITTING

    def names(self) -> Iterable[str]:
        """See :class:`Place`."""
        with suppress(FileNotFoundError):
            return [each.rpartition("/")[2] for each in self._files.ls(self._path, detail=False)]
        return []

    def exists(self, name: str) -> bool:
        """See :class:`Place`."""
        return bool(self._files.exists(self._at(name)))

    def create(self, name: str, parts: Iterable[bytes]) -> None:
        """See :class:`Place`."""
        if self._commits:
            self._commit(name, "xb", parts)
            return
        staged, target = self._stage(name, parts), self._at(name)
        if self._files.exists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        self._files.mv(staged, target)

    def replace(self, name: str, parts: Iterable[bytes]) -> None:
        """See :class:`Place`."""
        if self._commits:
            self._commit(name, "wb", parts)
            return
        staged, target = self._stage(name, parts), self._at(name)
        # HDFS gives no file the name of another one.
        if self._files.exists(target):
            self._files.rm_file(target)
        self._files.mv(staged, target)

    def open(self, name: str) -> BinaryIO:
        """See :class:`Place`."""
        return cast("BinaryIO", self._files.open(self._at(name), "rb", block_size=BLOCK))

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}"

    def _commit(self, name: str, mode: str, parts: Iterable[bytes]) -> None:
        file = self._files.open(self._at(name), mode, block_size=BLOCK, autocommit=False)
        try:
            for part in parts:
                file.write(part)
            file.close()
            file.commit()
        except BaseException:
            with suppress(Exception):
                file.discard()
            # A file that is not closed is when it is collected, which would write what it has.
            file.closed = True
            raise

    def _stage(self, name: str, parts: Iterable[bytes]) -> str:
        self._files.makedirs(self._path, exist_ok=True)
        staged = self._at(f"{name}{_STAGED}")
        with self._files.open(staged, "wb") as file:
            for part in parts:
                file.write(part)
        return staged


def _how(scheme: str) -> dict[str, Any]:
    """Options of the package that opens URLs of this scheme."""
    if scheme not in ("s3", "s3a"):
        return {}
    # s3fs tries again itself. On top of that, a store that does not answer would take hours.
    how: dict[str, Any] = {"config_kwargs": {"retries": {"max_attempts": 0}}}
    if region := os.environ.get("AWS_REGION"):
        # The other clients of S3 look there, too.
        how["client_kwargs"] = {"region_name": region}
    return how
