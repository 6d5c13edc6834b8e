"""Logins of SPP: secrets are checked in threads, a few at a time, because a check is slow by design."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred, succeed
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool
from zope.interface import implementer

from bussrv.addresses import address_key, is_exempt
from bussrv.bus.interfaces import IBus, IReloadable
from bussrv.errors import ConfigError
from bussrv.formats.login_delays import OF_ADDRESS, OF_USER_AT_ADDRESS, Failures
from bussrv.formats.login_queue import Check, LoginQueue
from bussrv.formats.spp_users import MAX_SECRET, MAX_USER, NOBODY, SecretHash, read_users
from bussrv.formats.verified_secrets import VerifiedSecrets
from bussrv.interfaces import IAuthenticator
from bussrv.settings import Settings

MAX_CHECKING = 2
"""How many secrets are checked at a time: strangers decide how many there are, and each takes memory and a thread."""

MAX_WAITING = 10_000
"""How many logins may wait for that. Beyond it the latest of the address with most is refused."""

NICENESS = 10
"""The priority of the threads that check secrets, where the reactor has 0."""

log = Logger()

_Login = Deferred[bool]


class _Address(NamedTuple):
    """The origin of a login.

    :ivar key: what addresses are counted by.
    :ivar is_exempt: whether it has no limits for one address.
    """

    key: str
    is_exempt: bool


_Check = Check[_Login, _Address]


@implementer(IAuthenticator)
class UserList:
    """Users with their hashed secrets.

    :param in_thread: calls a function with arguments, off the reactor's thread, and returns a Deferred of its result.
    :param reactor: calls later.
    :param trusted: networks without limits for one address.
    """

    def __init__(
        self,
        users: Mapping[str, SecretHash],
        in_thread: Callable[..., Deferred[bool]],
        reactor: Any,
        trusted: tuple[IPv4Network | IPv6Network, ...] = (),
    ) -> None:
        self._in_thread = in_thread
        self._reactor = reactor
        self._verified = VerifiedSecrets(os.urandom(32))
        self._of_address = Failures(OF_ADDRESS)
        self._of_user = Failures(OF_USER_AT_ADDRESS)
        self._queue: LoginQueue[_Login, _Address] = LoginQueue(MAX_WAITING, self._address_due, self._user_due)
        self._checking: dict[bytes, _Check] = {}
        self._call: Any = None
        self._users: Mapping[str, SecretHash] = {}
        self.replace(users, trusted)

    def replace(
        self, users: Mapping[str, SecretHash], trusted: tuple[IPv4Network | IPv6Network, ...]
    ) -> frozenset[str]:
        """From now on these are the users and the trusted networks; no secret that was right before is remembered.

        :returns: the users who are gone, or have another secret now.
        """
        withdrawn = frozenset(user for user, known in self._users.items() if users.get(user) != known)
        self._users = users
        self._trusted = trusted
        self._verified.clear()
        # Somebody unknown takes as long as somebody known: otherwise the time would tell who is known.
        self._nobody = next(iter(users.values()), NOBODY)
        return withdrawn

    def authenticate(self, user: str, secret: bytes, peer: str) -> Deferred[bool]:
        """Whether ``secret`` is the one of ``user``; see :meth:`IAuthenticator.authenticate`."""
        if len(secret) > MAX_SECRET or len(user.encode()) > MAX_USER:
            return succeed(False)
        key = self._verified.key(user, secret)
        address = _Address(address_key(peer), is_exempt(peer, self._trusted))
        if self._verified.has(key, self._reactor.seconds()):
            return succeed(True)
        login: _Login = Deferred(partial(self._cancel, address))
        if key in self._checking:
            self._checking[key].logins[login] = address
            return login
        displaced = self._queue.put(login, address, key, user, secret)
        if displaced is not None:
            displaced.callback(False)
        # All that waits is delayed, if a call waits: only what came just now may be ready.
        if self._call is None or self._queue.due(address, user) < self._call.getTime():
            self._begin()
        return login

    def _cancel(self, address: _Address, login: _Login) -> None:
        """The client is gone: a check that nobody else waits for is not made."""
        self._queue.leave(login, address)
        if not self._queue:
            self._stop_waiting()

    def _address_due(self, address: _Address) -> float:
        return 0.0 if address.is_exempt else self._of_address.due(address)

    def _user_due(self, address: _Address, user: str) -> float:
        return self._of_user.due((address, user))

    def _begin(self) -> None:
        """Begin as many checks as may be under way."""
        while len(self._checking) < MAX_CHECKING:
            check = self._queue.take(self._reactor.seconds())
            if check is None:
                break
            self._checking[check.key] = check
            known = self._users.get(check.user)
            checked = self._in_thread((known or self._nobody).matches, check.secret)
            checked.addErrback(partial(_failed, check))
            checked.addCallback(self._checked, check, known)
        self._wait()

    def _wait(self) -> None:
        """Begin again when a delay is over."""
        self._stop_waiting()
        due = self._queue.next_due() if len(self._checking) < MAX_CHECKING else None
        if due is not None:
            self._call = self._reactor.callLater(max(0.0, due - self._reactor.seconds()), self._due_now)

    def _stop_waiting(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _due_now(self) -> None:
        self._call = None
        self._begin()

    def _checked(self, matches: bool, check: _Check, known: SecretHash | None) -> None:
        del self._checking[check.key]
        now = self._reactor.seconds()
        accepted = matches and known is not None and self._users.get(check.user) == known
        if accepted:
            self._verified.add(check.key, now)
        for address in check.addresses():
            if accepted:
                self._of_user.forget((address, check.user))
            else:
                self._of_user.failed((address, check.user), now)
                self._of_address.failed(address, now)
        for login in tuple(check.logins):
            if not login.called:
                login.callback(accepted)
        self._begin()


def _failed(check: _Check, failure: Failure) -> bool:
    peers = sorted(each.key for each in check.addresses())
    log.failure("spp: checking a secret of {peers} failed", failure, peers=peers)
    return False


def _patiently(function: Callable[..., bool], *arguments: Any) -> bool:
    """Call a function so that the reactor's thread comes first wherever both want a processor."""
    # On Linux threads have priorities of their own, and 0 is the calling one.
    if sys.platform == "linux" and os.getpriority(os.PRIO_PROCESS, 0) < NICENESS:
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    return function(*arguments)


class _Threads:
    """The threads that check secrets. The first one begins when it is needed."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._pool: ThreadPool | None = None

    def __call__(self, function: Callable[..., bool], *arguments: Any) -> Deferred[bool]:
        """Call a function off the reactor's thread."""
        if self._pool is None:
            self._pool = ThreadPool(0, MAX_CHECKING, "spp-secrets")
            self._pool.start()
            self._reactor.addSystemEventTrigger("during", "shutdown", self._pool.stop)
        return deferToThreadPool(self._reactor, self._pool, _patiently, function, *arguments)


@implementer(IReloadable)
class UsersFile:
    """The file of the users, which can be read again.

    :param path: where it is.
    :param withdraw: ends the sessions of users.
    :raises ConfigError: it makes no sense.
    """

    name = "SPP users"

    def __init__(
        self, path: Path, settings: Settings, withdraw: Callable[[frozenset[str]], None], reactor: Any
    ) -> None:
        self._path = path
        self._withdraw = withdraw
        self._settings = settings
        self.users = UserList(self._read(), _Threads(reactor), reactor, settings.trusted_network)

    def prepare(self) -> Callable[[], None]:
        """Read and check the file again; see :class:`bussrv.bus.interfaces.IReloadable`."""
        users = self._read()
        return lambda: self._withdraw(self.users.replace(users, self._settings.trusted_network))

    def _read(self) -> dict[str, SecretHash]:
        try:
            return read_users(self._path)
        except ConfigError as error:
            raise ConfigError(str(error), option="spp-users") from error


def make_authenticator(bus: IBus, withdraw: Callable[[frozenset[str]], None], reactor: Any) -> IAuthenticator | None:
    """The authenticator; ``None``: everybody may subscribe.

    :param withdraw: ends the sessions of users who are gone, or have another secret now.
    :raises ConfigError: the file of the users makes no sense.
    """
    if bus.settings.spp_users is None:
        return None
    file = UsersFile(bus.settings.spp_users, bus.settings, withdraw, reactor)
    bus.reloadables.append(file)
    return file.users
