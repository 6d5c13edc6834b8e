"""The form of lines: is each, byte for byte, what a server writes? Pure.

JSON can say the same in many ways: with a member twice, with white space, with an escape that is not needed. Programs
that read such a line may disagree about it. A server writes each line in one way only. So a line that is encoded again
has to be the same line.
"""

from __future__ import annotations

from msgspec.structs import replace

from bussrv.journal.header import Header, Part, encode_header, encode_part
from bussrv.journal.record import Record, rewritten, version_of


def is_as_written(text: bytes, found: Header | Part | Record, version: int | None) -> bool:
    """Whether a line is what a server of a schema version writes.

    The ``state`` of a part is left as it is: only the registry knows its form.

    :param text: with or without its newline.
    :param found: what the line says.
    :param version: of the segment, since a server begins a segment of its own; ``None``: that of the line.
    """
    try:
        written = _written(text, found, version_of(text) if version is None else version)
    except (ValueError, TypeError):
        return False
    return text == written or text == written[:-1]


def _written(text: bytes, found: Header | Part | Record, version: int) -> bytes:
    if isinstance(found, Record):
        return rewritten(text, found, version)
    if isinstance(found, Header):
        return encode_header(found, version)
    return encode_part(found if found.version == version else replace(found, version=version))
