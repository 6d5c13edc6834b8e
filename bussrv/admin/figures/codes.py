"""``/api/v1/codes``: the meaning of reasons and counters, for programs that show them to people."""

from __future__ import annotations

from msgspec import Struct

from bussrv.admin.http.routes import Call
from bussrv.errors import COUNTERS, REASONS


class Codes(Struct, frozen=True):
    """The stable codes, each with a sentence.

    :ivar reasons: reasons of refusals, denials and ends of sessions. They are counters, too.
    :ivar counters: counters that are not reasons.
    """

    reasons: dict[str, str]
    counters: dict[str, str]


async def show(call: Call) -> Codes:
    """The meaning of reasons and counters, a sentence each."""
    return Codes(REASONS, COUNTERS)
