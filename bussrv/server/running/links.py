"""The links that a server dials: a list of descriptions, which may change while the server runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger

from bussrv.admin.interfaces import Dialed
from bussrv.bus.interfaces import Effects, IBus, IReloadable, Use
from bussrv.errors import ConfigError, named
from bussrv.formats.objects.dialing import LinkDialer, make_dialer
from bussrv.net.tls.link_tokens import TokenFile
from bussrv.server.configuration.config import Config
from bussrv.server.configuration.faults import noting

log = Logger()


def read_token(config: Config) -> TokenFile | None:
    """The token for servers that dial this one.

    :raises ConfigError: the file cannot be used.
    """
    if config.link_token is None:
        return None
    with named(config.place("link-token")):
        return TokenFile(config.link_token)


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
                    new.append(make_dialer(each, self._bus, self._reactor))
        if faults:
            raise ConfigError(*faults)

        def use() -> None:
            for each in self._dialers.keys() - set(wanted):
                log.info("no longer linking to {link}", event="link.removed", link=each)
                self._hang_up(self._dialers.pop(each))
            for dialer in new:
                log.info("linking to {link}", event="link.added", link=dialer.description)
                self._dialers[dialer.description] = dialer
                dialer.startService()

        return use

    def prepare_token(self, config: Config) -> Use:
        """Read the token for servers that dial this one. Nothing changes yet.

        :returns: shows it from now on; cannot fail.
        :raises ConfigError: the file cannot be used.
        """
        token = read_token(config)

        def use() -> Effects | None:
            before = self._bus.links.use_token(token)
            for network, user in config.link_user:
                log.warn(
                    "WARNING: a server that links from {network} is {user}, and proves nothing (--link-user)",
                    event="link.user-unproved",
                    network=network,
                    user=user,
                )
            is_other = token is not None and before is not None and token() != before()
            return Effects((f"{token.name}: another one",)) if token is not None and is_other else None

        return use

    def dialed(self) -> list[Dialed]:
        """The links, as the admin interface shows them."""
        return [Dialed(name, each.server_id or None) for name, each in self._dialers.items()]

    def leaving(self, descriptions: Iterable[str]) -> list[IReloadable]:
        """The certificates and tokens that no link among these needs any more."""
        left = [self._dialers[each] for each in self._dialers.keys() - set(descriptions)]
        return [each for dialer in left for each in dialer.reloadables]

    def _hang_up(self, dialer: LinkDialer) -> None:
        self._bus.links.release(dialer.server_id)
        gone = dialer.stopService()
        self._hanging_up.add(gone)
        gone.addBoth(lambda _: self._hanging_up.discard(gone))

    async def stop(self) -> None:
        """Hang up all of them, and wait until they are gone."""
        while self._dialers:
            self._hang_up(self._dialers.popitem()[1])
        await DeferredList(list(self._hanging_up))
