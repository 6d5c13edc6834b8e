"""The chain: every line of a journal, and of its manifest, holds the hash of the line before it.

``hash of a line`` is the SHA-256 of its bytes without the newline, in 64 hexadecimal digits. An attacker who changes a
line must also rewrite every later line, up to one whose hash is known elsewhere: in the next header, or in a seal.
"""

from __future__ import annotations

from hashlib import sha256

START = "0" * 64
"""The first line of a chain holds this instead of a hash."""


def line_hash(line: bytes) -> str:
    """The hash of a line.

    :param line: with or without its newline.
    """
    return sha256(line.removesuffix(b"\n")).hexdigest()
