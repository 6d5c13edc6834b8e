r"""What of a journal is in an object store: a file that ``bussrv journal ship`` writes and the server reads.

The file ``shipped`` of a journal directory is one JSON object, replaced as a whole::

    {"v":1,"url":"s3://archive/hall","segment":813,"digest":"<sha256>","last_seq":1699,"time":"…"}\n

The segment ``segment``, all closed segments before it, and their lines of the manifest were read back at the URL, and
are what their seals say. ``digest`` is that of the seal. So a file that is left of another journal says nothing of this
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from bussrv.errors import JournalError, os_errors_as
from bussrv.journal.files import FILES, Files
from bussrv.journal.manifest import Count, Hash, Number, Seal
from bussrv.journal.regular import read_regular
from bussrv.journal.segment import write_file

SHIPPED_NAME = "shipped"

_STAGED = "shipped.part"
"""Not with the ending of segments that are being made: a server that starts removes those."""

_MOST = 1 << 16


class Shipped(Struct, frozen=True, kw_only=True):
    """The content of the file.

    :ivar segment: the last segment that is there.
    :ivar last_seq: its last record.
    :ivar time: when this was found, as in the journal.
    """

    v: Literal[1] = 1
    url: str
    segment: Number
    digest: Hash
    last_seq: Count
    time: str

    def is_of(self, seals: Mapping[int, Seal]) -> bool:
        """Whether it is about the journal with these seals, the last of each segment."""
        seal = seals.get(self.segment)
        return seal is not None and seal.closed and seal.digest == self.digest


def read_shipped(directory: Path) -> Shipped | None:
    """The file of a journal directory; ``None``: nothing is known to be shipped, since it is missing or damaged.

    :raises OSError: it cannot be read.
    """
    with suppress(FileNotFoundError, msgspec.DecodeError), read_regular(directory / SHIPPED_NAME) as file:
        return msgspec.json.decode(file.read(_MOST), type=Shipped)
    return None


def write_shipped(directory: Path, shipped: Shipped, files: Files = FILES) -> None:
    """Replace the file of a journal directory. When this returns, it is on the disk.

    :raises JournalError: it cannot be written. The one from before is there then.
    """
    staged = directory / _STAGED
    with os_errors_as(JournalError, f"cannot write {directory / SHIPPED_NAME}"):
        write_file(staged, [msgspec.json.encode(shipped) + b"\n"], files)
        files.rename(staged, directory / SHIPPED_NAME)
        files.sync_directory(directory)
