r"""Checkpoints (c2sp.org/tlog-checkpoint@v1): how large a log is, and its root hash, as the text of a note.

::

    example.com/log\n                                 the origin: which log it is
    20852163\n                                        the size: how many leaves it has
    CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n    the root hash in base64
    any other line\n                                  extension lines, if there are any
"""

from __future__ import annotations

import base64

from msgspec import Struct

from bussrv.transparency.notes import NoteError, decimal, decode_base64
from bussrv.transparency.tree import HASH_BYTES


class Checkpoint(Struct, frozen=True):
    """A log of some size.

    :ivar origin: which log it is. It should be a URL without a scheme.
    :ivar root: 32 bytes.
    :ivar extensions: further lines, without their ends.
    """

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text of its note."""
        lines = [self.origin, str(self.size), base64.b64encode(self.root).decode(), *self.extensions]
        return "".join(f"{each}\n" for each in lines)


def origin_fault(origin: str) -> str | None:
    """Why a text cannot be the origin of a log that signs with a key of that name; ``None``: it can."""
    if not origin or "+" in origin or any(each.isspace() or not each.isprintable() for each in origin):
        return "an origin is a text without blanks, control characters and +, like example.com/log"
    return None


def parse_checkpoint(text: str) -> Checkpoint:
    """The checkpoint that the text of a note is.

    :raises NoteError: if it is none.
    """
    *lines, rest = text.split("\n")
    if rest or len(lines) < 3 or not all(lines):
        raise NoteError("a checkpoint has an origin, a size and a root hash, each in a line of its own")
    origin, size, root, *extensions = lines
    found = Checkpoint(origin, decimal(size, "the size"), decode_base64(root, "the root hash"), tuple(extensions))
    if len(found.root) != HASH_BYTES:
        raise NoteError(f"a root hash has {HASH_BYTES} bytes, not {len(found.root)}")
    return found
