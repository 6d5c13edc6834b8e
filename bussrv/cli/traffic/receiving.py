"""Publications on services, received over any wire format."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bussrv.cli.connection import ConnectionOptions

if TYPE_CHECKING:
    from bussrv.client.blocking import Subscription
    from bussrv.client.events import Gap, Message, Object

FORMATS = ("objects", "business", "inbus", "spp")

RULES = {"objects": ("*", "!@services/*", "!@routing/*"), "business": ("*",)}
"""The rules that take every publication, for names with wildcards. They take no requests: a member of ``objects`` that
does counts as one that may answer.
"""


@dataclass(frozen=True)
class ReceivedPublication:
    """A payload on a service, with the attributes that its wire format has.

    :ivar sender: the routing id of the client that published it.
    """

    service: str
    payload: bytes
    type: str | None = None
    app_type: int | None = None
    sender: str | None = None
    id: str | None = None

    @classmethod
    def of(cls, service: str, payload: bytes, fields: dict[str, Any]) -> ReceivedPublication:
        """The publication with this metadata."""
        route, app_type = fields.get("route"), fields.get("app-type")
        return cls(
            service,
            payload,
            _text(fields.get("type")),
            app_type if isinstance(app_type, int) else None,
            _text(route[0]) if isinstance(route, list) and route else None,
            _text(fields.get("id")),
        )

    def as_json(self) -> dict[str, Any]:
        """The object of JSON for programs."""
        from bussrv.cli.show.output import payload_fields

        shown: dict[str, Any] = {"service": self.service, "type": self.type, "app_type": self.app_type}
        shown |= {"from": self.sender, "id": self.id}
        return {**{name: value for name, value in shown.items() if value is not None}, **payload_fields(self.payload)}


@contextmanager
def receiving(
    connection: ConnectionOptions, wire_format: str, names: Sequence[str], *, reconnect: bool = False
) -> Iterator[Receiving]:
    """Subscribe to services.

    :param wire_format: one of :data:`FORMATS`.
    :param reconnect: continue when the connection ended, after a gap.
    :raises ValueError: the wire format has no such subscription.
    """
    from bussrv.cli.traffic.joining import joined
    from bussrv.client.blocking import connect
    from bussrv.client.core.inbox import Overflow
    from bussrv.client.core.names import has_wildcard, is_wide

    has_wildcards = any(map(has_wildcard, names))
    if wire_format == "inbus" and any(map(is_wide, names)):
        raise ValueError("a subscription over Inbus is to a service by its whole name")
    # A stream is read only as fast as its publications are shown. Datagrams come anyway.
    overflow: Overflow = "drop-oldest" if wire_format == "inbus" else "pause"
    with joined(connect, connection, wire_format, reconnect=reconnect) as bus:
        if has_wildcards and wire_format in RULES:
            with bus.objects(*RULES[wire_format], overflow=overflow) as objects:
                yield Receiving(objects, names, has_breaks=reconnect)
        else:
            with bus.subscribe(*names, overflow=overflow) as messages:
                yield Receiving(messages, names, has_breaks=reconnect)


class Receiving:
    """Takes publications from a subscription.

    :param names: of the services; they may have ``*`` and ``?``.
    :param has_breaks: whether the subscription continues when the connection ended.
    """

    def __init__(
        self, events: Subscription[Message] | Subscription[Object], names: Sequence[str], *, has_breaks: bool
    ) -> None:
        self._events = events
        self._names = names
        self._has_breaks = has_breaks
        self._taken: deque[Message | Object | Gap] = deque()

    def receive(self, timeout: float | None) -> ReceivedPublication | Gap | None:
        """The next publication, or that some are missing before it.

        :param timeout: the limit in seconds; ``None``: there is none.
        :returns: ``None`` if none came in time.
        """
        end = None if timeout is None else time.monotonic() + timeout
        # Also while there are only unwanted objects, the time is over some time.
        while end is None or time.monotonic() < end:
            if not self._taken:
                self._taken += self._events.take(timeout=None if end is None else end - time.monotonic())
            found = self._wanted(self._taken.popleft()) if self._taken else None
            if found is not None:
                return found
        return None

    def _wanted(self, event: Message | Object | Gap) -> ReceivedPublication | Gap | None:
        from bussrv.client.core.names import matches
        from bussrv.client.events import Gap, Message

        if isinstance(event, Gap):
            # If the command ends with the connection, nothing comes after the gap.
            return event if self._has_breaks or event.lost is not None else None
        if isinstance(event, Message):
            return ReceivedPublication.of(event.service, event.payload, event.metadata)
        name, service = event.metadata.get("event"), event.metadata.get("sender")
        is_special = isinstance(name, str) and name.startswith(("services/", "routing/"))
        if is_special or not isinstance(service, str) or not matches(service, self._names):
            return None
        return ReceivedPublication.of(service, event.payload, event.metadata)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
