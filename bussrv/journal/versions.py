"""The schema versions of the journal, and what lines of an older one say in the words of today's.

Version 2 had one field, ``actor``, for two things: the user that a session proved to be, and the user that it merely
said it was. Since version 3 the second one is ``claimed``. Only SPP ever asked for a proof.

Since version 4 the policy and the limits are in the journal: in ``server.started`` and ``config.reloaded``, and in each
snapshot. Of the time before they are not known.

A segment that was begun with one version may follow one of another: a server that is upgraded begins a new segment.
"""

from __future__ import annotations

from msgspec.structs import replace

from bussrv.events import AuthFailed, Event

SCHEMA_VERSION = 4
"""The version that is written."""

READ_VERSIONS = (2, 3, 4)

FIRST_WITH_CLAIMS = 3

PROVING = "spp"
"""The wire format whose ``actor`` was proved already before version 3, except in ``auth.failed``."""


def of_today(event: Event, version: int) -> Event:
    """An event of a record of a schema version, with ``actor`` and ``claimed`` as they are meant today."""
    if version >= FIRST_WITH_CLAIMS:
        return event
    is_proved = event.protocol == PROVING and not isinstance(event, AuthFailed)
    actor, claimed = (event.actor, None) if is_proved else (None, event.actor)
    if (actor, claimed) == (event.actor, event.claimed):
        return event
    return replace(event, actor=actor, claimed=claimed)
