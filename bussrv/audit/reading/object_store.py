"""The directory of a journal in an object store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from bussrv.audit.fold.stored import reading
from bussrv.audit.reading.remote import File


class StoredDirectory:
    """See :class:`bussrv.audit.reading.remote.Directory`.

    :param url: ``s3://BUCKET/PATH``.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def files(self) -> Iterator[File]:
        """The files in it."""
        from pyarrow.fs import FileSelector, FileType

        with reading(self._url) as (store, path):
            found = store.get_file_info(FileSelector(path))
        for each in found:
            if each.type == FileType.File:
                yield File(each.base_name, self._url, each.size, f"{each.size} {each.mtime_ns}")

    def fetch(self, name: str, target: Path) -> None:
        """Copy a file to this machine."""
        with (
            target.open("wb") as file,
            reading(self._url) as (store, path),
            store.open_input_stream(f"{path}/{name}") as source,
        ):
            shutil.copyfileobj(source, file, 1 << 20)
