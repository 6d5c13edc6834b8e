"""The proof of a segment: the judge of lines looks at each line, and follows the registry."""

from __future__ import annotations

from io import BytesIO

from msgspec import Struct

from bussrv.journal.evidence.lines import LineJudge
from bussrv.journal.evidence.registries import Registries, RegistryJudge
from bussrv.journal.reading import MAX_LINE
from bussrv.registry.fold import RegistryFold


class Proved(Struct, frozen=True):
    """What the judge found out about a segment.

    :ivar is_sound: whether nothing is wrong with its lines.
    :ivar registries: what it begins and ends with; ``None`` if a line is wrong.
    """

    is_sound: bool
    registries: Registries | None


def prove(number: int, content: bytes, *, to_the_byte: bool) -> Proved:
    """Judge a segment.

    :param number: the number in its name.
    :param content: all of its lines.
    :param to_the_byte: whether each line has to be, byte for byte, what a server writes.
    """
    judge = LineJudge(number, to_the_byte=to_the_byte)
    registry = RegistryJudge(judge, RegistryFold())
    for line in BytesIO(content):
        if line.endswith(b"\n") and len(line) < MAX_LINE:
            registry.pass_line(judge.pass_line(line))
        else:
            judge.pass_unreadable("the line is too long" if len(line) >= MAX_LINE else "the line has no end")
    judge.end()
    return Proved(judge.wrong is None, registry.registries())
