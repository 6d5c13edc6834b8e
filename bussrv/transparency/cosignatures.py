r"""The message that a key of each type signs, and whether a signature is right.

| type | signs | its value |
|---|---|---|
| 0x01 Ed25519 | the text of the note | 64 bytes |
| 0x04 Ed25519 | ``cosignature/v1\ntime <seconds>\n`` and the text of the checkpoint | the time in 8 bytes, 64 bytes |
| 0x06 ML-DSA-44 | ``subtree/v1\n\0``, names, time, size and root | the time in 8 bytes, 2420 bytes |

The last two are cosignatures (c2sp.org/tlog-cosignature@v1): at that time no larger tree of the log had been seen by
who cosigned it, and it holds all trees that were seen before. Times are seconds since 1970. An ML-DSA-44 cosignature
does not cover the extension lines of a checkpoint.

The library that computes is imported where it is used.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from bussrv.transparency.checkpoints import parse_checkpoint
from bussrv.transparency.notes import (
    COSIGNATURE,
    ED25519,
    ML_DSA_44,
    Note,
    NoteError,
    NoteSignature,
    VerifierKey,
    name_fault,
)

SEED_BYTES = 32
"""The size of a private key, of any type."""

MOST_TIME = (1 << 63) - 1

_NUMBER_BYTES = 8
_ED25519_BYTES = 64
_ML_DSA_44_BYTES = 2420
_MOST_NAME = 255


class SigningKey(Struct, frozen=True):
    """The private half of a key, with its name.

    :ivar type: see the table of this module.
    :ivar seed: the 32 secret bytes.
    """

    name: str
    type: int
    seed: bytes

    def __repr__(self) -> str:
        return f"SigningKey({self.name!r}, {self.type:#04x})"

    @property
    def verifier(self) -> VerifierKey:
        """The half that may be shown."""
        if (wrong := name_fault(self.name)) is not None:
            raise NoteError(wrong)
        return VerifierKey(self.name, self.type, _public(self.type, self.seed))

    def sign(self, text: str, time: int | None = None) -> NoteSignature:
        """The signature of the text of a note.

        :param time: of a cosignature, in seconds since 1970; ``None`` for a key that does not cosign.
        :raises NoteError: if the key cannot sign it.
        """
        if (time is None) != (self.type == ED25519) or not 0 <= (time or 0) <= MOST_TIME:
            raise NoteError(f"a key of type {self.type:#04x} does not sign at the time {time}")
        verifier = self.verifier
        message = _message(verifier, text, time or 0)
        made = _sign(self.type, self.seed, message)
        stamp = b"" if time is None else time.to_bytes(_NUMBER_BYTES, "big")
        return NoteSignature(self.name, verifier.id, stamp + made)


class Cosignature(Struct, frozen=True):
    """A signature that is right.

    :ivar key: that made it.
    :ivar time: that it says, in seconds since 1970; ``None``: its type says none.
    """

    key: VerifierKey
    time: int | None


def check_signature(text: str, signature: NoteSignature, key: VerifierKey) -> Cosignature:
    """See that a signature of the text of a note is right.

    :raises NoteError: if it is not, or not of that key.
    """
    if (signature.name, signature.id) != (key.name, key.id):
        raise NoteError(f"the signature is not of the key {key.name}+{key.id.hex()}")
    value, time = signature.value, None
    if key.type != ED25519:
        time, value = int.from_bytes(value[:_NUMBER_BYTES], "big"), value[_NUMBER_BYTES:]
    expected = _ML_DSA_44_BYTES if key.type == ML_DSA_44 else _ED25519_BYTES
    if len(value) != expected or (time or 0) > MOST_TIME:
        raise NoteError(
            f"the signature of {key.name} has {len(value)} bytes and not {expected}, or a time that is none"
        )
    if not _verifies(key, _message(key, text, time or 0), value):
        raise NoteError(f"the signature of {key.name} is wrong: the text was changed, or it was made with another key")
    return Cosignature(key, time)


def signed_by(note: Note, key: VerifierKey) -> Cosignature | None:
    """The signature of a note by a key; ``None``: it has none by that key.

    :raises NoteError: if it has one that is wrong.
    """
    found = [check_signature(note.text, each, key) for each in note.of(key)]
    return max(found, key=lambda each: each.time or 0, default=None)


def _message(key: VerifierKey, text: str, time: int) -> bytes:
    if key.type == ED25519:
        return text.encode()
    if key.type == COSIGNATURE:
        return f"cosignature/v1\ntime {time}\n{text}".encode()
    found = parse_checkpoint(text)
    return subtree_message(key.name, time, found.origin, begin=0, end=found.size, root=found.root)


def subtree_message(name: str, time: int, origin: str, *, begin: int, end: int, root: bytes) -> bytes:
    """The message that an ML-DSA-44 key signs of some leaves: its ``cosigned_message``.

    :param begin: the first of them, and ``end`` the one after the last.
    :param name: of the key.
    :raises NoteError: if a name is too long.
    """
    numbers = [each.to_bytes(_NUMBER_BYTES, "big") for each in (time, begin, end)]
    return b"".join([b"subtree/v1\n\0", _counted(name), numbers[0], _counted(origin), *numbers[1:], root])


def _counted(name: str) -> bytes:
    encoded = name.encode()
    if not 1 <= len(encoded) <= _MOST_NAME:
        raise NoteError(f"ML-DSA signs names of 1 to {_MOST_NAME} bytes, not one of {len(encoded)}")
    return bytes([len(encoded)]) + encoded


def _public(type_: int, seed: bytes) -> bytes:
    if type_ == ML_DSA_44:
        return bytes(_ml_dsa().MLDSA44PrivateKey.from_seed_bytes(seed).public_key().public_bytes_raw())
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def _sign(type_: int, seed: bytes, message: bytes) -> bytes:
    if type_ == ML_DSA_44:
        return bytes(_ml_dsa().MLDSA44PrivateKey.from_seed_bytes(seed).sign(message))
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(seed).sign(message)


def _verifies(key: VerifierKey, message: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        if key.type == ML_DSA_44:
            _ml_dsa().MLDSA44PublicKey.from_public_bytes(key.key).verify(signature, message)
        else:
            Ed25519PublicKey.from_public_bytes(key.key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def has_ml_dsa() -> bool:
    """Whether ML-DSA-44 can be computed here."""
    try:
        _ml_dsa()
    except NoteError:
        return False
    return True


def _ml_dsa() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import mldsa
    except ImportError as error:
        raise NoteError("the installed version of cryptography has no ML-DSA") from error
    return mldsa
