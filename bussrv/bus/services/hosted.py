"""A hosted service, which the server itself provides, as the bus knows it."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from twisted.internet.defer import Deferred

from bussrv.policy.permissions.permissions import Permissions


class Hosted(Struct, frozen=True):
    """One service.

    :ivar snapshot: makes its present state, as sessions with some permissions see it. If the service fails, it raises
        :class:`bussrv.errors.Refused`, ``internal-error``.
    :ivar ready: fires when the state can be made in little time; returns ``None`` if it can be made at once.
    """

    content_type: str
    snapshot: Callable[[Permissions], bytes]
    is_filtered: bool
    ready: Callable[[Permissions], Deferred[None] | None] = lambda _: None
