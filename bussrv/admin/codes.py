"""``/api/v1/codes``: what reasons and counters mean, for programs that show them to people."""

from __future__ import annotations

from msgspec import Struct

from bussrv.admin.call import Call
from bussrv.errors import COUNTERS, REASONS


class Codes(Struct, frozen=True):
    """The stable codes, each with a sentence.

    :ivar reasons: of refusals, denials and ends of sessions; they are counted, too.
    :ivar counters: those that are only counted.
    """

    reasons: dict[str, str]
    counters: dict[str, str]


async def show(call: Call) -> Codes:
    """What the codes mean."""
    return Codes(REASONS, COUNTERS)
