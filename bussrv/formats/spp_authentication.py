"""Who may watch over SPP: secrets are checked in threads, a few at a time, for checking one is slow by design."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, DeferredSemaphore, succeed
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from bussrv.formats.spp_users import NOBODY, SecretHash, read_users
from bussrv.interfaces import IAuthenticator
from bussrv.settings import Settings

MAX_CHECKING = 2
"""How many secrets are checked at a time: strangers decide how many there are, and each takes memory and a thread."""

MAX_WAITING = 100
"""How many may wait for that. Beyond it clients are refused at once, so that nobody waits for long."""

log = Logger()


@implementer(IAuthenticator)
class UserList:
    """Users with their hashed secrets.

    :param in_thread: calls a function with arguments, off the reactor's thread, and returns a Deferred of its result.
    """

    def __init__(self, users: Mapping[str, SecretHash], in_thread: Callable[..., Deferred[bool]]) -> None:
        self._users = users
        self._in_thread = in_thread
        self._turns = DeferredSemaphore(MAX_CHECKING)
        # Somebody unknown takes as long as somebody known: otherwise the time would tell who is known.
        self._nobody = next(iter(users.values()), NOBODY)

    def authenticate(self, user: str, secret: bytes, peer: str) -> Deferred[bool]:
        """Whether ``secret`` is the one of ``user``; see :meth:`IAuthenticator.authenticate`."""
        if len(self._turns.waiting) >= MAX_WAITING:
            return succeed(False)
        known = self._users.get(user)
        checked: Deferred[bool] = self._turns.run(self._in_thread, (known or self._nobody).matches, secret)
        checked.addCallbacks(lambda matches: matches and known is not None, partial(_failed, peer))
        return checked


def _failed(peer: str, failure: Failure) -> bool:
    log.failure("spp: checking the secret of {peer} failed", failure, peer=peer)
    return False


def make_authenticator(settings: Settings, reactor: Any) -> IAuthenticator | None:
    """What decides who may watch; ``None``: everybody may.

    :raises ConfigError: the file of the users makes no sense.
    """
    if settings.spp_users is None:
        return None
    return UserList(read_users(settings.spp_users), partial(deferToThreadPool, reactor, reactor.getThreadPool()))
