"""Logins with a secret, of every wire format: checked a few at a time, because a check is slow by design."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from ipaddress import IPv4Network, IPv6Network
from random import SystemRandom
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from bussrv.addresses import address_key, is_exempt, network_key
from bussrv.errors import TOO_MANY_LOGINS
from bussrv.policy.logins.credentials import Denial, Password, Proof
from bussrv.policy.logins.login_history import LoginHistory, LoginOrigin, VerifiedSecrets
from bussrv.policy.logins.login_queue import LoginLimits, LoginQueue, SecretCheck
from bussrv.policy.logins.users import MAX_SECRET, MAX_USER

MAX_CHECKING = 2
"""How many secrets are checked at a time: strangers decide how many there are, and each takes memory and a thread."""

PAUSE = 0.5
"""Seconds until a client is told that its login is not checked: it may try again at once then."""

log = Logger()

_WRONG = Denial("password")
_UNCHECKED = Denial("password", TOO_MANY_LOGINS)

_Login = Deferred["Proof | Denial"]
_Check = SecretCheck[_Login]


class Logins:
    """The logins that wait, and those that are being checked.

    :param check: checks a user and a secret. Its Deferred fires with ``None`` if they are wrong, and never fails.
    :param holds: whether that is still proved.
    :param reactor: calls later.
    """

    def __init__(
        self, check: Callable[[Password], Deferred[Proof | None]], holds: Callable[[Proof], bool], reactor: Any
    ) -> None:
        self._check = check
        self._holds = holds
        self._reactor = reactor
        self._trusted: tuple[IPv4Network | IPv6Network, ...] = ()
        self._verified = VerifiedSecrets(os.urandom(32))
        self._history = LoginHistory()
        self._queue: LoginQueue[_Login] = LoginQueue(self._history, SystemRandom())
        self._checking: dict[bytes, _Check] = {}
        self._call: Any = None

    def begin_anew(self, trusted: tuple[IPv4Network | IPv6Network, ...], limits: LoginLimits) -> None:
        """The users are other ones now: no secret that was right or wrong before is remembered.

        :param trusted: networks without limits for one address.
        """
        self._trusted, self._queue.limits = trusted, limits
        self._verified.clear()
        self._history.forget_secrets()

    def log_in(self, password: Password, peer: str) -> Deferred[Proof | Denial]:
        """Check what a client at the address ``peer`` said.

        :returns: never fails. A denial does not name the user. To be cancelled when the client is gone.
        """
        user, secret = password.user, password.secret
        if len(secret) > MAX_SECRET or len(user.encode("utf-8", "surrogatepass")) > MAX_USER:
            return succeed(_WRONG)
        key = self._verified.key(user, secret)
        origin = LoginOrigin(address_key(peer), network_key(peer), is_exempt(peer, self._trusted))
        now = self._reactor.seconds()
        known = self._verified.get(key, now)
        if known is not None:
            return succeed(known)
        login: _Login = Deferred(partial(self._cancel, origin))
        if key in self._checking:
            self._checking[key].logins[login] = origin
            return login
        self._refuse_later(self._queue.put(login, origin, key, user, secret, now))
        # All that waits is delayed, if a call waits: only what came just now may be ready.
        if self._call is None or self._history.due(origin, user) < self._call.getTime():
            self._begin()
        return login

    def _cancel(self, origin: LoginOrigin, login: _Login) -> None:
        """The client is gone: a check that nobody else waits for is not made."""
        self._queue.leave(login, origin)
        if not self._queue:
            self._stop_waiting()

    def _refuse_later(self, displaced: Iterable[_Login]) -> None:
        for each in displaced:
            self._reactor.callLater(PAUSE, _refuse, each)

    def _begin(self) -> None:
        """Begin as many checks as may be under way."""
        self._refuse_later(self._queue.overdue(self._reactor.seconds()))
        while len(self._checking) < MAX_CHECKING:
            check = self._queue.take(self._reactor.seconds())
            if check is None:
                break
            self._checking[check.key] = check
            checked = self._check(Password(check.user, check.secret))
            checked.addErrback(partial(_failed, check))
            checked.addCallback(self._checked, check)
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

    def _checked(self, proof: Proof | None, check: _Check) -> None:
        del self._checking[check.key]
        now = self._reactor.seconds()
        # Meanwhile the users may have become other ones.
        accepted = proof if proof is not None and self._holds(proof) else None
        if accepted is not None and accepted.may_be_remembered:
            self._verified.add(check.key, accepted, now)
        if accepted is not None:
            self._history.succeeded(check.origins(), check.user)
        else:
            self._history.failed(check.origins(), check.user, check.key, now)
        for login in tuple(check.logins):
            if not login.called:
                login.callback(accepted or _WRONG)
        self._begin()


def _refuse(login: _Login) -> None:
    if not login.called:
        login.callback(_UNCHECKED)


def _failed(check: _Check, failure: Failure) -> None:
    peers = sorted(each.key for each in check.origins())
    log.failure("checking a secret of {peers} failed", failure, event="auth.check-failed", peers=peers)
