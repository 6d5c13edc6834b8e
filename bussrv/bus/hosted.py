"""A hosted service, which the server itself provides, as the bus knows it."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from bussrv.policy.permissions import Permissions


class Hosted(Struct, frozen=True):
    """One service.

    :ivar snapshot: makes its present state, as sessions with some permissions see it. If the service fails, it raises
        :class:`bussrv.errors.Refused`, ``internal-error``.
    """

    content_type: str
    snapshot: Callable[[Permissions], bytes]
    is_filtered: bool
