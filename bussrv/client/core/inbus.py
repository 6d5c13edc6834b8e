"""The core of Inbus: datagrams, and subscriptions that are renewed before their lease is over.

The server answers nothing, so the client is up as soon as its socket is. A machine that says that nobody listens at the
port of the server is a loss: the client is down, renews its subscriptions after growing pauses, and is up again when a
datagram comes, or when no such answer does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from bussrv.client.core.base import Core, OnDone, Tell
from bussrv.client.core.inbox import Inbox
from bussrv.client.core.names import check_name
from bussrv.client.errors import BusError
from bussrv.client.events import Message, Restored
from bussrv.client.settings import Settings
from bussrv.errors import RemoteProtocolError
from bussrv.values import UTF8_TEXT
from bussrv.wire import inbus
from bussrv.wire.objects import encode_json

VERSION = 2

GRACE = 1.0
"""Seconds after which a server that was out of reach counts as back, if no machine says that nobody listens there."""


class InbusCore(Core):
    """A publisher and subscriber of Inbus.

    :ivar own: this machine's address as the server sees it, and the port; set before :meth:`opened`.
    """

    NAME = "inbus"

    def __init__(self, settings: Settings, tell: Tell) -> None:
        super().__init__(settings, tell)
        self.own = ("", 0)
        self._renew_at: float | None = None
        self._up_at: float | None = None

    def opened(self, address: str, now: float) -> None:
        """Subscribe again."""
        super().opened(address, now)
        self._renew(now)
        if self._is_back:
            self._up_at = now + GRACE
        else:
            self._come_up()

    def _come_up(self) -> bool:
        self._up_at = None
        is_back = super()._come_up()
        if is_back:
            self._tell(Restored(tuple(self._inboxes), ()))
        return is_back

    def lost(self, error: BusError, now: float) -> None:
        self._renew_at = self._up_at = None
        super().lost(error, now)

    def received(self, data: bytes, now: float) -> None:
        """A datagram came. Those that are no publications are dropped: anybody who can reach the port can send some."""
        try:
            datagram = inbus.decode(data)
        except RemoteProtocolError:
            return
        inboxes = self._inboxes.get(datagram.app_key)
        if datagram.opcode != inbus.PUBLISH or inboxes is None:
            return
        self.heard = now
        if self._up_at is not None:
            self._come_up()
        raw = encode_json({"app-type": datagram.app_type, "version": datagram.version})
        message = Message(datagram.app_key, datagram.payload, UTF8_TEXT if datagram.version == 1 else None, raw)
        for inbox in inboxes:
            inbox.put(message, len(datagram.payload))

    def tick(self, now: float) -> None:
        if self._up_at is not None and now >= self._up_at:
            self._come_up()
        if self._renew_at is not None and now >= self._renew_at:
            self._renew(now)

    def deadline(self) -> float | None:
        return self._renew_at if self._up_at is None else self._up_at

    def _renew(self, now: float) -> None:
        self._renew_at = now + self.settings.lease
        self._say(inbus.subscribe, self._inboxes)

    def _say(self, make: Callable[[str, str, int, int], bytes], names: Iterable[str]) -> None:
        """Send a datagram for each name, if there is a socket; also before the server counts as back."""
        if self._renew_at is not None:
            self._output += [make(name, *self.own, VERSION) for name in names]

    def close(self, error: BusError) -> None:
        """The server is told that nothing more is wanted."""
        self._say(inbus.unsubscribe, self._inboxes)
        super().close(error)

    def subscribe(self, inbox: Inbox[Message], names: Collection[str], done: OnDone) -> None:
        """The server does not say whether it accepts it."""
        for name in names:
            _check(name)
        new = [name for name in names if name not in self._inboxes]
        self._add_inbox(inbox, names)
        self._say(inbus.subscribe, new)
        done(None)

    def unsubscribe(self, inbox: Inbox[Any]) -> None:
        self._say(inbus.unsubscribe, self._remove_inbox(inbox))

    def publish(
        self, service: str, payload: bytes, content_type: str | None, attributes: dict[str, Any], done: OnDone | None
    ) -> None:
        """Of the attributes, a datagram has room for ``app_type`` only.

        :raises ValueError: no datagram can carry it.
        """
        app_type = attributes.pop("app-type", 1)
        if done is not None:
            self.cannot("learn what the server took")
        if attributes:
            raise ValueError(f"a publication of Inbus carries app_type, and no {', '.join(attributes)}")
        if not isinstance(app_type, int):
            raise ValueError(f"an app_type is an integer, not {app_type!r}")
        if not self.is_up:
            raise self.offline()
        _check(service)
        self._output.append(publication(service, app_type, payload))


def publication(app_key: str, app_type: int, payload: bytes, version: int = VERSION) -> bytes:
    """The datagram that publishes. :raises ValueError: none can carry that."""
    data = inbus.publish(app_key, app_type, payload, version)
    if len(data) > inbus.MAX_DATAGRAM:
        raise ValueError(
            f"a payload of {len(payload)} bytes makes a datagram of {len(data)} bytes, the most is {inbus.MAX_DATAGRAM}"
        )
    return data


def _check(name: str) -> None:
    """:raises BusError: it cannot be an app-key."""
    check_name(name)
    if name in inbus.RESERVED_APP_KEYS:
        raise BusError("reserved-app-key", f"the app-key {name!r} is reserved")
