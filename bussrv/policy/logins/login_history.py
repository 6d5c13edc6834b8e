"""The memory of logins: which users failed and succeeded at which addresses, and how often a secret was given. Pure.

Times are in seconds of a clock that never goes back. No secret is kept: only the hashes that
:meth:`bussrv.policy.logins.verified_secrets.VerifiedSecrets.key` makes of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

from bussrv.policy.logins.login_delays import MAX_KEYS, OF_ADDRESS, OF_USER_AT_ADDRESS, Failures

WRONG = 0
"""In the place of how often a secret was asked about: it was checked, and is wrong."""


class Origin(NamedTuple):
    """The origin of a login.

    :ivar key: the part of the address that limits count by.
    :ivar network: the wider network of it, such as a /24.
    :ivar is_exempt: whether it has no limits for one address.
    """

    key: str
    network: str
    is_exempt: bool = False


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Newest(Generic[Key, Value]):
    """Values by key: those that were put last, so that strangers cannot fill the memory."""

    def __init__(self) -> None:
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def __contains__(self, key: Key) -> bool:
        return key in self._values

    def get(self, key: Key, default: Value) -> Value:
        """The value of a key."""
        return self._values.get(key, default)

    def put(self, key: Key, value: Value) -> None:
        """Remember a value as the last one."""
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > MAX_KEYS:
            self._values.popitem(last=False)

    def clear(self) -> None:
        """Forget all of them."""
        self._values.clear()


class LoginHistory:
    """The last logins of each origin, user and secret; the oldest are forgotten when there are too many."""

    def __init__(self) -> None:
        self._of_origin = Failures(OF_ADDRESS)
        self._of_user = Failures(OF_USER_AT_ADDRESS)
        self._succeeded: Newest[tuple[Origin, str], None] = Newest()
        self._asked: Newest[bytes, int] = Newest()

    def origin_due(self, origin: Origin) -> float:
        """When the next login from an origin may be checked."""
        return 0.0 if origin.is_exempt else self._of_origin.due(origin)

    def due(self, origin: Origin, user: str) -> float:
        """When the next login of a user at an origin may be checked."""
        return max(self.origin_due(origin), self._of_user.due((origin, user)))

    def is_blameless(self, origin: Origin, now: float) -> bool:
        """Whether no login from an origin failed lately."""
        return not self._of_origin.has_failed(origin, now)

    def has_succeeded(self, origin: Origin, user: str) -> bool:
        """Whether a login of a user at an origin succeeded before."""
        return (origin, user) in self._succeeded

    def ask(self, key: bytes) -> int:
        """A client wants a user and a secret checked. :returns: how often that was so by now, or :data:`WRONG`."""
        asked = WRONG if self._asked.get(key, 1) == WRONG else self._asked.get(key, 0) + 1
        self._asked.put(key, asked)
        return asked

    def succeeded(self, origins: Iterable[Origin], user: str) -> None:
        """A login succeeded at each of some origins."""
        for origin in origins:
            self._of_user.forget((origin, user))
            self._succeeded.put((origin, user), None)

    def failed(self, origins: Iterable[Origin], user: str, key: bytes, now: float) -> None:
        """A secret is wrong. It came from each of some origins."""
        self._asked.put(key, WRONG)
        for origin in origins:
            self._of_user.failed((origin, user), now)
            self._of_origin.failed(origin, now)

    def forget_secrets(self) -> None:
        """The users are other ones now: a secret that was wrong may be right."""
        self._asked.clear()
