"""The core of the Service providing protocol. It subscribes to services as they are offered, and publishes nothing."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from bussrv.client.core.base import Core, OnDone, Tell
from bussrv.client.core.inbox import Inbox
from bussrv.client.core.names import check_name, is_wide, matches
from bussrv.client.errors import BadLogin, BusError
from bussrv.client.events import Appeared, Change, Gone, Message, Restored
from bussrv.client.settings import Settings
from bussrv.values import MAX_SERVICE_NAME, check_known_name
from bussrv.wire import spp

_MOST_ADDED = MAX_SERVICE_NAME + 8
"""The bytes of a packet besides its payload: the name of the service, and two lengths."""


class SppCore(Core):
    """A subscriber of services.

    The protocol has no errors and no pings. A subscription to a service that is not offered waits until it is. Whoever
    drives this core has to let the system notice a server that is silent.
    """

    NAME = "spp"
    LOGIN = "the login: does it ask its clients who they are?"
    WATCHES = "service"
    IS_WIDE = staticmethod(is_wide)

    def __init__(self, settings: Settings, tell: Tell) -> None:
        super().__init__(settings, tell)
        self._reader: spp.SppReader
        self._subscribed: set[str] = set()

    def opened(self, address: str, now: float) -> None:
        """Log in, if there are credentials."""
        super().opened(address, now)
        self._reader = spp.SppReader("server", self.settings.max_payload + _MOST_ADDED)
        credentials = self.settings.login.credentials()
        if not credentials.keys() & {"secret", "token"}:
            self._come_up()
            return
        self._accept_by = now + self.settings.timeout
        self._log_in()

    def _log_in(self) -> None:
        found = self.settings.login.credentials()
        token = found.get("token")
        self._output.append(spp.authenticate(found.get("user", ""), found["secret"] if token is None else token))

    def _come_up(self) -> bool:
        is_back = super()._come_up()
        if is_back:
            self._tell(Restored(tuple(self._inboxes), ()))
        for service in filter(self._inboxes_on, sorted(self._present)):
            self._want(service)
        return is_back

    def received(self, data: bytes, now: float) -> None:
        if self._is_too_late:
            return
        self.heard = now
        self._reader.feed(data)
        while (event := self._reader.next_event()) is not None:
            if isinstance(event, spp.Info):
                message = Message(event.service, event.message)
                for inbox in self._inboxes_on(event.service):
                    inbox.put(message, len(event.message))
            elif isinstance(event, spp.Offer):
                self._offer(event.service)
            elif isinstance(event, spp.Removed):
                self._see(event.service, Gone)
            elif isinstance(event, spp.Other) and event.msgtype == spp.AUTH_RESULT:
                self._logged_in(spp.auth_code(event.data))

    def _logged_in(self, code: int) -> None:
        if code == spp.AUTH_UNCHECKED:
            self._log_in()
        elif code != spp.AUTH_ACCEPTED:
            self.ending = BadLogin("bad-credentials", f"{self.address} does not accept the credentials")
        elif not self.is_up:
            self._come_up()

    def _offer(self, service: str) -> None:
        """It is offered. Subscribers stay subscribed when it is so no more."""
        if self._see(service, Appeared) and self.is_up and self._inboxes_on(service):
            # Perhaps again: what was asked for while the service went, the server has ignored.
            self._want(service)

    def _want(self, service: str) -> None:
        self._subscribed.add(service)
        self._output.append(spp.subscribe(service))

    def lost(self, error: BusError, now: float) -> None:
        self._subscribed.clear()
        super().lost(error, now)

    def subscribe(self, inbox: Inbox[Message], names: Collection[str], done: OnDone) -> None:
        """The first message is the state of the service. Names may be patterns, or have ``*`` and
        ``?``: they stand for all services that are offered, now or later, and match.
        """
        for name in names:
            check_name(name, check_known_name)
        self._add_inbox(inbox, names)
        if self.is_up:
            # Also those that are subscribed already: so this inbox gets their state, too.
            known, patterns = self._present | self._subscribed, list(filter(is_wide, names))
            for service in sorted(known.intersection(names).union(each for each in known if matches(each, patterns))):
                self._want(service)
        done(None)

    def unsubscribe(self, inbox: Inbox[Any]) -> None:
        self._remove_inbox(inbox)
        for service in sorted(self._subscribed):
            if not self._inboxes_on(service):
                self._subscribed.discard(service)
                self._output.append(spp.unsubscribe(service))

    def watch(self, inbox: Inbox[Change]) -> None:
        """Services that are offered already are told at once."""
        super().watch(inbox)
        for service in sorted(self._present):
            inbox.put(Appeared("service", service), 0)
