"""The memory of logins: who failed and succeeded at which addresses, and which secrets were right or wrong. Pure.

Times are in seconds of a clock that never goes back. Three things follow from what is remembered:

1. The next login waits after failed ones: of one address, and of one address for one user. It never waits for a user
   alone: then anybody could lock another one out.
2. Secrets that were given most often are checked earlier; see :mod:`bussrv.policy.logins.login_queue`.
3. A secret that was right a short time ago is not checked again, so that a thousand clients that come back do not cost
   a slow check each.

No secret is kept: only hashes, with a key that only this boot knows. In a dump of another boot they are of no use.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import NamedTuple, TypeVar

from msgspec import Struct

from bussrv.policy.logins.credentials import Proof

MAX_KEYS = 10_000
"""The most keys of each kind that are remembered."""

KEPT = 600.0
"""Seconds that a secret is remembered after it was checked."""

WRONG = 0
"""In the place of how often a secret was asked about: it was checked, and is wrong."""


class LoginOrigin(NamedTuple):
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


class Newest(OrderedDict[Key, Value]):
    """Values by key: those that were put last, so that strangers cannot fill the memory."""

    def put(self, key: Key, value: Value) -> None:
        """Remember a value as the last one."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > MAX_KEYS:
            self.popitem(last=False)


class Delays(Struct, frozen=True):
    """How delays grow.

    :ivar free: failures that cost nothing.
    :ivar first: the delay after the next one; it doubles with each.
    :ivar most: the longest delay.
    :ivar forgotten: after so long without a failure all is forgotten.
    """

    free: int
    first: float
    most: float
    forgotten: float = 60.0

    def after(self, failures: int) -> float:
        """The delay after so many failures."""
        steps = failures - self.free - 1
        return 0.0 if steps < 0 else min(self.most, self.first * 2.0 ** min(steps, 64))


OF_ADDRESS = Delays(free=10, first=0.05, most=0.25)
"""Many users may share an address."""

OF_USER_AT_ADDRESS = Delays(free=3, first=0.1, most=0.25)
"""No longer: while others guess at the same address, the right secret waits for one of the checks that are left."""


class Failures:
    """Failures by key."""

    def __init__(self, delays: Delays) -> None:
        self._delays = delays
        self._failed: Newest[Hashable, tuple[int, float]] = Newest()

    def due(self, key: Hashable) -> float:
        """When the next login of ``key`` may be checked."""
        failures, last = self._failed.get(key, (0, 0.0))
        return last + self._delays.after(failures) if failures else 0.0

    def has_failed(self, key: Hashable, now: float) -> bool:
        """Whether a login of ``key`` failed so lately that it is not forgotten."""
        return key in self._failed and now - self._failed[key][1] < self._delays.forgotten

    def failed(self, key: Hashable, now: float) -> None:
        """A login of ``key`` failed."""
        failures, last = self._failed.get(key, (0, now))
        self._failed.put(key, (1 if now - last >= self._delays.forgotten else failures + 1, now))

    def forget(self, key: Hashable) -> None:
        """A login of ``key`` succeeded."""
        self._failed.pop(key, None)


class LoginHistory:
    """The last logins of each origin, user and secret; the oldest are forgotten when there are too many."""

    def __init__(self) -> None:
        self._of_origin = Failures(OF_ADDRESS)
        self._of_user = Failures(OF_USER_AT_ADDRESS)
        self._succeeded: Newest[tuple[LoginOrigin, str], None] = Newest()
        self._asked: Newest[bytes, int] = Newest()

    def origin_due(self, origin: LoginOrigin) -> float:
        """When the next login from an origin may be checked."""
        return 0.0 if origin.is_exempt else self._of_origin.due(origin)

    def due(self, origin: LoginOrigin, user: str) -> float:
        """When the next login of a user at an origin may be checked."""
        return max(self.origin_due(origin), self._of_user.due((origin, user)))

    def is_blameless(self, origin: LoginOrigin, now: float) -> bool:
        """Whether no login from an origin failed lately."""
        return not self._of_origin.has_failed(origin, now)

    def has_succeeded(self, origin: LoginOrigin, user: str) -> bool:
        """Whether a login of a user at an origin succeeded before."""
        return (origin, user) in self._succeeded

    def ask(self, key: bytes) -> int:
        """A client wants a user and a secret checked. :returns: how often that was so by now, or :data:`WRONG`."""
        asked = WRONG if self._asked.get(key, 1) == WRONG else self._asked.get(key, 0) + 1
        self._asked.put(key, asked)
        return asked

    def succeeded(self, origins: Iterable[LoginOrigin], user: str) -> None:
        """A login succeeded at each of some origins."""
        for origin in origins:
            self._of_user.forget((origin, user))
            self._succeeded.put((origin, user), None)

    def failed(self, origins: Iterable[LoginOrigin], user: str, key: bytes, now: float) -> None:
        """A secret is wrong. It came from each of some origins."""
        self._asked.put(key, WRONG)
        for origin in origins:
            self._of_user.failed((origin, user), now)
            self._of_origin.failed(origin, now)

    def forget_secrets(self) -> None:
        """The users are other ones now: a secret that was wrong may be right."""
        self._asked.clear()


class VerifiedSecrets:
    """Secrets that were right a short time ago, by the :meth:`key` of a user and a secret.

    :param boot_key: 16 to 64 random bytes.
    """

    def __init__(self, boot_key: bytes) -> None:
        self._boot_key = boot_key
        self._proofs: Newest[bytes, tuple[Proof, float]] = Newest()

    def key(self, user: str, secret: bytes) -> bytes:
        """The hash of a user and a secret. Nobody can make it, or find them by it, without the key of this boot."""
        name = user.encode("utf-8", "surrogatepass")
        text = len(name).to_bytes(8, "big") + name + secret
        return hashlib.blake2b(text, key=self._boot_key, digest_size=32).digest()

    def add(self, key: bytes, proof: Proof, now: float) -> None:
        """A secret was right, and that was proved by it."""
        self._proofs.put(key, (proof, now + KEPT))

    def get(self, key: bytes, now: float) -> Proof | None:
        """The proof, if that secret was right a short time ago."""
        proof, until = self._proofs.get(key, (None, 0.0))
        if proof is not None and until <= now:
            del self._proofs[key]
            return None
        return proof

    def clear(self) -> None:
        """The users are other ones now."""
        self._proofs.clear()
