"""One tap: its filter, and the objects that wait for its reader."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from twisted.internet.defer import Deferred, succeed

from bussrv.bus.interest.interests import bare_type
from bussrv.bus.interest.vocabulary import REQUEST
from bussrv.patterns import Wildcards
from bussrv.policy.permissions.permissions import Permissions, content

MOST_ANSWERS = 1024
"""The most combinations of event, type and service whose answer a tap remembers."""

LONGEST_NAME = 255
"""Longer events and types are not remembered: clients choose their length."""

TOLD_AFTER = 1.0
"""Seconds after which the reader is woken because of skipped objects, if no object comes earlier."""

_Key = tuple[str | None, str | None, str | None]


class TapFilter(Struct, frozen=True, kw_only=True):
    """The filter of a tap. An empty text lets every object pass.

    :ivar service: the service of a publication or a request; ``*`` stands for any characters.
    :ivar session: the id or routing id of the sender, or the routing id that the object is addressed to.
    :ivar type: the content type, or ``@`` and the event; ``*`` stands for any characters.
    :ivar format: the wire format of the sender.
    :ivar sample: the tap shows one of so many objects.
    :ivar rate: the most objects a second.
    :ivar payload: whether payloads are shown.
    """

    service: str = ""
    session: str = ""
    type: str = ""
    format: str = ""
    sample: int = 1
    rate: int = 100
    payload: bool = False


class TappedSender(Struct, frozen=True):
    """The session that sent an object; ``session`` and ``protocol`` are ``None`` if it is not known here."""

    routing_id: str
    session: str | None
    protocol: str | None


class Tapped(Struct, frozen=True):
    """An object that a tap shows.

    :ivar time: UTC microseconds.
    :ivar to_count: how many other sessions received it; a link to another server counts as one. A provider that asks
        itself, and a client of MQTT that gets its own message, count, too.
    :ivar service: the service of a publication or a request.
    :ivar size: the size of its payload in bytes.
    :ivar metadata: its metadata as it came; of a publication of Inbus, the metadata of the object that members get.
    :ivar payload: the first bytes of its payload; ``None`` unless payloads are shown.
    """

    time: int
    sender: TappedSender
    route: list[str]
    to_count: int
    event: str | None
    type: str | None
    service: str | None
    size: int
    metadata: bytes
    payload: bytes | None

    @property
    def held(self) -> int:
        """The bytes of memory that it takes while it waits."""
        return len(self.metadata) + len(self.payload or b"")


class Tap:
    """One tap; :meth:`bussrv.bus.interfaces.ITaps.open` makes it.

    :param most: the most bytes of objects that may wait.
    :param is_within_share: whether it may show so many objects a second, beside other taps.
    :ivar shown: how many objects it has shown so far.
    :ivar is_open: whether further objects may come.
    """

    def __init__(
        self,
        wanted: TapFilter,
        permissions: Permissions,
        most: int,
        is_within_share: Callable[[int], bool],
        reactor: Any,
    ) -> None:
        self.filter = wanted
        self.is_open = True
        self.shown = self.skipped_so_far = 0
        self._most = most
        self._is_within_share = is_within_share
        self._reactor = reactor
        self._types = Wildcards([wanted.type.lower()])
        self._services = Wildcards([wanted.service])
        self._waiting: deque[Tapped] = deque()
        self._held = self._skipped = self._seen = 0
        self._second = 0
        self._in_second = 0
        self._woken: Deferred[None] | None = None
        self._call: Any = None
        self.permissions_changed(permissions)

    def permissions_changed(self, permissions: Permissions) -> None:
        """Show only objects that a session with these permissions may receive, from now on."""
        self._permissions = permissions
        self._answers: dict[_Key, bool] = {}

    def is_for(self, sender: TappedSender, to: str | list[str] | None = None) -> bool:
        """Whether the filter wants objects of a sender that are addressed to ``to``."""
        wanted = self.filter
        if wanted.format and sender.protocol != wanted.format:
            return False
        if not wanted.session or wanted.session in (sender.session, sender.routing_id):
            return True
        return to is not None and (wanted.session == to if isinstance(to, str) else wanted.session in to)

    def takes(self, event: str | None, content_type: str | None, service: str | None) -> bool:
        """Whether to show an object: it passes the filter and the sampling, is within the rate, and there is room."""
        key = (event, content_type, service)
        wants = self._answers.get(key)
        if wants is None:
            wants = self._wants(event, content_type, service)
            if len(event or "") + len(content_type or "") <= LONGEST_NAME:
                if len(self._answers) >= MOST_ANSWERS:
                    self._answers.clear()
                self._answers[key] = wants
        if not wants:
            return False
        self._seen += 1
        if self._seen % self.filter.sample:
            return False
        if self._held >= self._most or not self._is_within_rate():
            self._skip()
            return False
        return True

    def _wants(self, event: str | None, content_type: str | None, service: str | None) -> bool:
        wanted, bare = self.filter, bare_type(content_type or "")
        lower = None if event is None else event.lower()
        if wanted.type and not (self._types.match(bare) or (lower is not None and self._types.match(f"@{lower}"))):
            return False
        if wanted.service and (service is None or not self._services.match(service)):
            return False
        if service is not None and lower != REQUEST:
            return self._permissions.may("watch", service)
        return self._permissions.may("observe", content(lower, bare))

    def _is_within_rate(self) -> bool:
        second = int(self._reactor.seconds())
        if second != self._second:
            self._second, self._in_second = second, 0
        self._in_second += 1
        return self._in_second <= self.filter.rate and self._is_within_share(self._in_second)

    def _skip(self) -> None:
        self._skipped += 1
        self.skipped_so_far += 1
        if self._call is None:
            self._call = self._reactor.callLater(TOLD_AFTER, self._wake_late)

    def put(self, tapped: Tapped) -> None:
        """Queue an object that :meth:`takes` has accepted."""
        self.shown += 1
        self._waiting.append(tapped)
        self._held += tapped.held
        self._wake()

    def take(self) -> Tapped | None:
        """Take the object that has waited for longest; ``None``: no object waits."""
        if not self._waiting:
            return None
        tapped = self._waiting.popleft()
        self._held -= tapped.held
        return tapped

    def take_skipped(self) -> int:
        """How many objects were skipped since the last call."""
        skipped, self._skipped = self._skipped, 0
        return skipped

    def news(self) -> Deferred[None]:
        """:returns: fires when objects wait, when the reader should be told of skipped ones, or when the tap ends."""
        is_late = self._skipped and self._call is None
        if self._waiting or is_late or not self.is_open:
            return succeed(None)
        self._woken = Deferred()
        return self._woken

    def _wake_late(self) -> None:
        self._call = None
        self._wake()

    def _wake(self) -> None:
        woken, self._woken = self._woken, None
        if woken is not None and not woken.called:
            woken.callback(None)

    def end(self) -> None:
        """End the tap. Objects that wait are dropped."""
        self.is_open = False
        self._waiting.clear()
        self._held = 0
        if self._call is not None:
            self._call.cancel()
            self._call = None
        self._wake()
