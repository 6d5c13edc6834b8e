"""The links that a server dials: a list of descriptions, which may change while the server runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger

from bussrv.bus.interfaces import IBus, IReloadable
from bussrv.errors import ConfigError
from bussrv.formats.dialing import LinkDialer, parse_link
from bussrv.server.faults import noting

log = Logger()


class DialedLinks:
    """The links, by the descriptions of their endpoints."""

    def __init__(self, bus: IBus, reactor: Any) -> None:
        self._bus = bus
        self._reactor = reactor
        self._dialers: dict[str, LinkDialer] = {}
        self._hanging_up: set[Deferred[Any]] = set()

    def prepare(self, descriptions: Iterable[str], place: str) -> Callable[[], None]:
        """Check the links that there are to be. Nothing is dialed yet.

        :param place: the place of the descriptions.
        :returns: dials the new ones, and hangs up the others; cannot fail.
        :raises ConfigError: has a sentence for each one that makes no sense.
        """
        wanted = tuple(descriptions)
        faults: list[str] = []
        new: list[LinkDialer] = []
        for each in wanted:
            if each not in self._dialers:
                with noting(place, faults):
                    new.append(LinkDialer(each, parse_link(each, self._bus, self._reactor), self._bus, self._reactor))
        if faults:
            raise ConfigError(*faults)

        def use() -> None:
            for each in self._dialers.keys() - set(wanted):
                log.info("no longer linking to {link}", link=each)
                self._hang_up(self._dialers.pop(each))
            for dialer in new:
                log.info("linking to {link}", link=dialer.description)
                self._dialers[dialer.description] = dialer
                dialer.startService()

        return use

    def leaving(self, descriptions: Iterable[str]) -> list[IReloadable]:
        """The certificates that no link among these needs any more."""
        left = [self._dialers[each] for each in self._dialers.keys() - set(descriptions)]
        return [each.certificates for each in left if each.certificates is not None]

    def _hang_up(self, dialer: LinkDialer) -> None:
        gone = dialer.stopService()
        self._hanging_up.add(gone)
        gone.addBoth(lambda _: self._hanging_up.discard(gone))

    async def stop(self) -> None:
        """Hang up all of them, and wait until they are gone."""
        while self._dialers:
            self._hang_up(self._dialers.popitem()[1])
        await DeferredList(list(self._hanging_up))
