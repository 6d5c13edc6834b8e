"""Logins that wait for their secret to be checked, which is slow by design. Pure.

Whoever has many connections must not keep out others. So addresses take turns, and in an address the users that are
tried. Logins with the same user and secret are one *check*, wherever they come from. Checks are taken in three ways,
each in its turn, so that no flood of others can hold one back for long:

1. the check that most logins wait for: guesses differ, the right secret does not;
2. the latest check of the address and user whose turn it is;
3. the oldest one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from itertools import cycle
from typing import Generic, TypeVar

from bussrv.tally import Tally

Login = TypeVar("Login")
Address = TypeVar("Address", bound=Hashable)


class Check(Generic[Login, Address]):
    """A user and a secret, and the logins that wait for it: each with its address."""

    def __init__(self, key: bytes, user: str, secret: bytes) -> None:
        self.key = key
        self.user = user
        self.secret = secret
        self.logins: dict[Login, Address] = {}

    def addresses(self) -> set[Address]:
        """Origins of logins."""
        return set(self.logins.values())


class LoginQueue(Generic[Login, Address]):
    """The checks that wait.

    :param most: how many logins may wait.
    :param due: says of an address when its next check may begin, in seconds.
    :param user_due: the same of a user at an address.
    """

    def __init__(self, most: int, due: Callable[[Address], float], user_due: Callable[[Address, str], float]) -> None:
        self._most = most
        self._address_due = due
        self._user_due = user_due
        self._checks: dict[bytes, Check[Login, Address]] = {}
        self._crowds: dict[bytes, Check[Login, Address]] = {}
        self._turns: OrderedDict[Address, OrderedDict[str, OrderedDict[bytes, Check[Login, Address]]]] = OrderedDict()
        self._logins: dict[Address, OrderedDict[Login, Check[Login, Address]]] = {}
        self._tally: Tally[Address] = Tally()
        self._size = 0
        self._ways = cycle((self._crowded, self._latest, self._oldest))

    def __len__(self) -> int:
        """How many logins wait."""
        return self._size

    def put(self, login: Login, address: Address, key: bytes, user: str, secret: bytes) -> Login | None:
        """Let a login wait.

        :param key: the same for the same user and secret.
        :returns: the login that has to go: the latest of the address with most, which may be this one.
        """
        check = self._checks.setdefault(key, Check(key, user, secret))
        check.logins[login] = address
        self._logins.setdefault(address, OrderedDict())[login] = check
        self._size += 1
        self._tally.add(address)
        users = self._turns.setdefault(address, OrderedDict())
        users.setdefault(user, OrderedDict())[key] = check
        if len(check.logins) > 1:
            self._crowds[key] = check
        if self._size <= self._most:
            return None
        fullest = self._tally.fullest()
        if self._tally.count(address) == self._tally.count(fullest):
            fullest = address
        displaced = next(reversed(self._logins[fullest]))
        self.leave(displaced, fullest)
        return displaced

    def leave(self, login: Login, address: Address) -> None:
        """A login waits no longer."""
        logins = self._logins.get(address)
        check = None if logins is None else logins.get(login)
        if check is None:
            return
        self._forget_login(login, address)
        del check.logins[login]
        if not check.logins:
            del self._checks[check.key]
        if len(check.logins) < 2:
            self._crowds.pop(check.key, None)
        if address not in check.logins.values():
            self._forget_turn(check, address)

    def take(self, now: float) -> Check[Login, Address] | None:
        """The next check, taken out; ``None`` if none may begin ``now``."""
        for _ in range(3):
            check = next(self._ways)(now)
            if check is not None:
                self._remove(check)
                return check
        return None

    def next_due(self) -> float | None:
        """When the next check may begin; ``None`` if none waits."""
        return min((self._next_due_of(address) for address in self._turns), default=None)

    def _next_due_of(self, address: Address) -> float:
        users_due = min(self._user_due(address, user) for user in self._turns[address])
        return max(self._address_due(address), users_due)

    def due(self, address: Address, user: str) -> float:
        """When the next check of a user at an address may begin."""
        return max(self._address_due(address), self._user_due(address, user))

    def _crowded(self, now: float) -> Check[Login, Address] | None:
        ready = (
            check
            for check in self._crowds.values()
            if any(self.due(address, check.user) <= now for address in check.addresses())
        )
        return max(ready, key=lambda check: len(check.logins), default=None)

    def _latest(self, now: float) -> Check[Login, Address] | None:
        return self._in_turn(now, last=True)

    def _oldest(self, now: float) -> Check[Login, Address] | None:
        return self._in_turn(now, last=False)

    def _in_turn(self, now: float, *, last: bool) -> Check[Login, Address] | None:
        for address, users in self._turns.items():
            if self._address_due(address) > now:
                continue
            for user, checks in users.items():
                if self._user_due(address, user) <= now:
                    self._turns.move_to_end(address)
                    users.move_to_end(user)
                    return next(reversed(checks.values()) if last else iter(checks.values()))
        return None

    def _remove(self, check: Check[Login, Address]) -> None:
        del self._checks[check.key]
        self._crowds.pop(check.key, None)
        for address in check.addresses():
            self._forget_turn(check, address)
        for login, address in check.logins.items():
            self._forget_login(login, address)

    def _forget_login(self, login: Login, address: Address) -> None:
        self._size -= 1
        self._tally.remove(address)
        del self._logins[address][login]
        if not self._logins[address]:
            del self._logins[address]

    def _forget_turn(self, check: Check[Login, Address], address: Address) -> None:
        users = self._turns[address]
        del users[check.user][check.key]
        if not users[check.user]:
            del users[check.user]
        if not users:
            del self._turns[address]
