"""Secrets that were right a short time ago, so that a thousand clients that come back do not cost a slow check each.

A secret is kept as a hash with a key that only this boot knows. In a dump of another boot it is of no use.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from bussrv.policy.logins.credentials import Proof

KEPT = 600.0
"""Seconds that a secret is remembered after it was checked."""

MAX_KEPT = 10_000


class VerifiedSecrets:
    """Remembers pairs of a user and a secret by their :meth:`key`.

    :param boot_key: 16 to 64 random bytes.
    """

    def __init__(self, boot_key: bytes) -> None:
        self._boot_key = boot_key
        self._proofs: OrderedDict[bytes, tuple[Proof, float]] = OrderedDict()

    def key(self, user: str, secret: bytes) -> bytes:
        """The hash of a user and a secret. Nobody can make it, or find them by it, without the key of this boot."""
        name = user.encode("utf-8", "surrogatepass")
        text = len(name).to_bytes(8, "big") + name + secret
        return hashlib.blake2b(text, key=self._boot_key, digest_size=32).digest()

    def add(self, key: bytes, proof: Proof, now: float) -> None:
        """A secret was right, and that was proved by it."""
        self._proofs.pop(key, None)
        self._proofs[key] = proof, now + KEPT
        if len(self._proofs) > MAX_KEPT:
            self._proofs.popitem(last=False)

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
