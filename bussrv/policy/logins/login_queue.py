"""Logins that wait for their secret to be checked, which is slow by design. Pure.

Whoever has many connections, or many addresses, must not keep out others. Logins with the same user and secret are one
*check*, wherever they come from. A *pair* is a user at an address. Checks are taken in four ways, each in its turn, so
that no flood can hold one back for long:

1. of a pair that succeeded before;
2. the check that was asked for most often: guesses differ, the right secret does not;
3. of an address without failures, the newest of them first: whoever guesses has failures soon;
4. of the network whose turn it is; in it the address, and there the user, whose turn it is.

Of the checks that wait for one pair all but one are guesses, and when they came does not tell which one. So every other
time the one that was asked for most often is taken, otherwise any of them by chance. Secrets that were wrong before
come last. If that takes long, their clients are told to try again: then the right secret has been asked for before.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import cycle
from random import Random
from typing import Generic, TypeVar

from msgspec import Struct

from bussrv.counts.tally import Tally
from bussrv.policy.logins.login_history import WRONG, LoginHistory, LoginOrigin

Login = TypeVar("Login")


class LoginLimits(Struct, frozen=True):
    """How much waits at most; beyond it a login is refused unchecked.

    :ivar logins: in all. Beyond it the latest of the address with most goes.
    :ivar secrets: different secrets of one pair. Beyond it those with one of them go.
    :ivar seconds: how long a login waits beside other secrets of its pair; see :meth:`LoginQueue.overdue`.
    """

    logins: int = 10_000
    secrets: int = 16
    seconds: float = 3.0


DEFAULT_LIMITS = LoginLimits()

MOST_OVERDUE = 100
"""The most logins that are taken out at once because they waited too long: clients wait meanwhile."""


class SecretCheck(Generic[Login]):
    """A user and a secret, and the logins that wait for it: each with its origin.

    :ivar asked: how often it was asked for; see :meth:`bussrv.policy.logins.login_history.LoginHistory.ask`.
    """

    def __init__(self, key: bytes, user: str, secret: bytes) -> None:
        self.key = key
        self.user = user
        self.secret = secret
        self.asked = 0
        self.logins: dict[Login, LoginOrigin] = {}

    def origins(self) -> set[LoginOrigin]:
        """Origins of logins."""
        return set(self.logins.values())

    def at(self, origin: LoginOrigin) -> list[Login]:
        """The logins from an origin."""
        return [login for login, place in self.logins.items() if place == origin]


class LoginQueue(Generic[Login]):
    """The checks that wait.

    :param history: the logins before.
    :param random: chooses.
    :ivar limits: hold for the logins that come from now on.
    """

    def __init__(self, history: LoginHistory, random: Random, limits: LoginLimits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self._history = history
        self._random = random
        self._checks: dict[bytes, SecretCheck[Login]] = {}
        self._repeated: dict[bytes, SecretCheck[Login]] = {}
        self._networks: OrderedDict[
            str, OrderedDict[LoginOrigin, OrderedDict[str, dict[bytes, SecretCheck[Login]]]]
        ] = OrderedDict()
        self._successful: OrderedDict[tuple[LoginOrigin, str], None] = OrderedDict()
        self._blameless: OrderedDict[LoginOrigin, None] = OrderedDict()
        self._logins: dict[LoginOrigin, OrderedDict[Login, SecretCheck[Login]]] = {}
        self._since: OrderedDict[Login, tuple[float, LoginOrigin]] = OrderedDict()
        self._tally: Tally[LoginOrigin] = Tally()
        self._size = 0
        self._ways = cycle((self._of_successful, self._most_asked, self._of_blameless, self._in_turn))

    def __len__(self) -> int:
        """How many logins wait."""
        return self._size

    def put(self, login: Login, origin: LoginOrigin, key: bytes, user: str, secret: bytes, now: float) -> list[Login]:
        """Let a login wait.

        :param key: the same for the same user and secret.
        :returns: the logins that have to go, which may include this one. If too many secrets wait for the pair: those
            with one that was wrong before, or else with one of those that were asked for least. If too many logins
            wait in all: the latest of the address with most.
        """
        check = self._checks.setdefault(key, SecretCheck(key, user, secret))
        check.asked = self._history.ask(key)
        check.logins[login] = origin
        if check.asked > 1:
            self._repeated[key] = check
        self._logins.setdefault(origin, OrderedDict())[login] = check
        self._since[login] = now, origin
        self._size += 1
        self._tally.add(origin)
        of_pair = self._take_turn(check, origin, now)
        place, displaced = origin, list[Login]()
        if len(of_pair) > self.limits.secrets:
            displaced = self._least_asked(of_pair).at(origin)
        elif self._size > self.limits.logins:
            place = self._fullest(origin)
            displaced = [next(reversed(self._logins[place]))]
        for each in displaced:
            self.leave(each, place)
        return displaced

    def leave(self, login: Login, origin: LoginOrigin) -> None:
        """A login waits no longer."""
        waiting = self._logins.get(origin)
        check = None if waiting is None else waiting.get(login)
        if check is None:
            return
        self._forget_login(login, origin)
        del check.logins[login]
        if not check.logins:
            self._forget_check(check)
        if origin not in check.logins.values():
            self._forget_turn(check, origin)

    def take(self, now: float) -> SecretCheck[Login] | None:
        """The next check, taken out; ``None`` if none may begin ``now``."""
        for _ in range(4):
            check = next(self._ways)(now)
            if check is not None:
                self._forget_check(check)
                for origin in check.origins():
                    self._forget_turn(check, origin)
                for login, origin in check.logins.items():
                    self._forget_login(login, origin)
                return check
        return None

    def overdue(self, now: float) -> list[Login]:
        """Take out logins that have waited too long beside other secrets of their pair, a hundred at most."""
        gone: list[Login] = []
        while self._since and len(gone) < MOST_OVERDUE:
            login, (since, origin) = next(iter(self._since.items()))
            if now - since < self.limits.seconds:
                break
            if self._is_alone(login, origin):
                self._since[login] = now, origin
                self._since.move_to_end(login)
            else:
                self.leave(login, origin)
                gone.append(login)
        return gone

    def _is_alone(self, login: Login, origin: LoginOrigin) -> bool:
        """Whether no other secret of its pair waits."""
        return len(self._networks[origin.network][origin][self._logins[origin][login].user]) == 1

    def next_due(self) -> float | None:
        """When the next check may begin; ``None`` if none waits."""
        pairs = (
            (origin, user) for origins in self._networks.values() for origin, users in origins.items() for user in users
        )
        return min((self._history.due(*pair) for pair in pairs), default=None)

    # The four ways.

    def _of_successful(self, now: float) -> SecretCheck[Login] | None:
        for origin, user in self._successful:
            if self._history.due(origin, user) <= now:
                self._successful.move_to_end((origin, user))
                return self._one_of(self._networks[origin.network][origin][user])
        return None

    def _most_asked(self, now: float) -> SecretCheck[Login] | None:
        ready = (
            check
            for check in self._repeated.values()
            if any(self._history.due(origin, check.user) <= now for origin in check.origins())
        )
        return max(ready, key=lambda check: check.asked, default=None)

    def _of_blameless(self, now: float) -> SecretCheck[Login] | None:
        while self._blameless:
            origin = next(reversed(self._blameless))
            if self._history.is_blameless(origin, now):
                return self._of_origin(origin, now)
            del self._blameless[origin]
        return None

    def _in_turn(self, now: float) -> SecretCheck[Login] | None:
        for network, origins in self._networks.items():
            for origin in origins:
                check = self._of_origin(origin, now)
                if check is not None:
                    self._networks.move_to_end(network)
                    origins.move_to_end(origin)
                    return check
        return None

    def _of_origin(self, origin: LoginOrigin, now: float) -> SecretCheck[Login] | None:
        if self._history.origin_due(origin) > now:
            return None
        users = self._networks[origin.network][origin]
        for user, checks in users.items():
            if self._history.due(origin, user) <= now:
                users.move_to_end(user)
                return self._one_of(checks)
        return None

    def _one_of(self, of_pair: dict[bytes, SecretCheck[Login]]) -> SecretCheck[Login]:
        checks = [check for check in of_pair.values() if check.asked != WRONG] or list(of_pair.values())
        if self._random.getrandbits(1):
            most = max(check.asked for check in checks)
            checks = [check for check in checks if check.asked == most]
        return self._random.choice(checks)

    # Dropping, if too many wait.

    def _least_asked(self, checks: dict[bytes, SecretCheck[Login]]) -> SecretCheck[Login]:
        least = min(check.asked for check in checks.values())
        return self._random.choice([check for check in checks.values() if check.asked == least])

    def _fullest(self, origin: LoginOrigin) -> LoginOrigin:
        fullest = self._tally.fullest()
        return origin if self._tally.count(origin) == self._tally.count(fullest) else fullest

    # Notes of what waits.

    def _take_turn(self, check: SecretCheck[Login], origin: LoginOrigin, now: float) -> dict[bytes, SecretCheck[Login]]:
        """A check waits for a pair, too. :returns: all that wait for it."""
        users = self._networks.setdefault(origin.network, OrderedDict()).setdefault(origin, OrderedDict())
        of_pair = users.setdefault(check.user, {})
        of_pair[check.key] = check
        if self._history.has_succeeded(origin, check.user):
            self._successful.setdefault((origin, check.user))
        if self._history.is_blameless(origin, now):
            self._blameless.setdefault(origin)
        return of_pair

    def _forget_turn(self, check: SecretCheck[Login], origin: LoginOrigin) -> None:
        origins = self._networks[origin.network]
        users = origins[origin]
        del users[check.user][check.key]
        if not users[check.user]:
            del users[check.user]
            self._successful.pop((origin, check.user), None)
        if not users:
            del origins[origin]
            self._blameless.pop(origin, None)
        if not origins:
            del self._networks[origin.network]

    def _forget_check(self, check: SecretCheck[Login]) -> None:
        del self._checks[check.key]
        self._repeated.pop(check.key, None)

    def _forget_login(self, login: Login, origin: LoginOrigin) -> None:
        self._size -= 1
        self._tally.remove(origin)
        del self._since[login], self._logins[origin][login]
        if not self._logins[origin]:
            del self._logins[origin]
