"""The Ed25519 keys that sign a manifest: in files, under its lines, and one after the other.

The private key is a PKCS#8 PEM file that only its owner may read; the public one lies beside it as ``*.pub``, in PEM
as well (SubjectPublicKeyInfo), and may be given to anybody. The library that computes is imported where it is used: a
server without a key does not load it.

A signature stands last in a line. It is made of :data:`CONTEXT` and the bytes of the line as it would be without it.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import tempfile
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from bussrv.errors import JournalError
from bussrv.journal.files import FILES
from bussrv.journal.regular import read_regular

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

CONTEXT = b"bussrv journal manifest 2\n"
"""Stands before everything that is signed, so that a signature is good for nothing else."""

PUBLIC_SUFFIX = ".pub"
SEED_BYTES = 32

_FINGERPRINT_DIGITS = 32
_PUBLIC_MODE = 0o644
_PRIVATE_MODE = 0o600
_SIGNATURE_TEXT = re.compile(r"[0-9a-f]{128}")
_MOST = 1 << 16
"""The most bytes that are read of the file of a key."""

_SIGNATURE_MEMBER = re.compile(rb',"signature":"([0-9a-f]{128})"}\Z')


@dataclass(frozen=True)
class PublicKey:
    """The half of a key that checks signatures.

    :ivar text: the 32 bytes of the key in 64 hexadecimal digits, as it stands in a manifest.
    """

    text: str

    @property
    def fingerprint(self) -> str:
        """The short name of the key: 32 hexadecimal digits."""
        return sha256(bytes.fromhex(self.text)).hexdigest()[:_FINGERPRINT_DIGITS]

    def verifies(self, text: bytes, signature: str) -> bool:
        """Whether ``signature`` was made of ``text`` with the private half of this key. Raises nothing."""
        from cryptography.exceptions import InvalidSignature

        if _SIGNATURE_TEXT.fullmatch(signature) is None:
            return False
        try:
            _load_public(self.text).verify(bytes.fromhex(signature), text)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class PrivateKey:
    """What signs.

    :ivar seed: the 32 secret bytes.
    """

    seed: bytes = field(repr=False)

    @property
    def public(self) -> PublicKey:
        """The half that may be shown."""
        return PublicKey(self.load().public_key().public_bytes_raw().hex())

    def sign(self, text: bytes) -> str:
        """The signature of ``text``, in 128 hexadecimal digits; always the same for the same text."""
        return self.load().sign(text).hex()

    def load(self) -> Ed25519PrivateKey:
        """The key as the library has it that computes."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self.seed)


@lru_cache(maxsize=16)
def _load_public(text: str) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))


def public_path(path: Path) -> Path:
    """The path of the public key that belongs to the private one at ``path``."""
    return path.with_name(path.name + PUBLIC_SUFFIX)


def generate(path: Path) -> PublicKey:
    """Make a new key: the private half at ``path``, the public one at :func:`public_path` of it.

    Both are on the disk when this returns. Neither is ever half there, or in the place of another file.

    :returns: the public half.
    :raises JournalError: if one of the files is there already, or cannot be made.
    """
    key = PrivateKey(secrets.token_bytes(SEED_BYTES))
    made: list[Path] = []
    try:
        for target, text, mode in (
            (path, _private_pem(key), _PRIVATE_MODE),
            (public_path(path), _public_pem(key.public), _PUBLIC_MODE),
        ):
            _make(target, text, mode)
            made.append(target)
        FILES.sync_directory(path.parent)
    except FileExistsError as error:
        _remove(made)
        raise JournalError(f"there is a file {target} already; keys are never written over, choose another name") from (
            error
        )
    except OSError as error:
        _remove(made)
        raise JournalError(f"cannot make the key {path}: {error.strerror}") from error
    return key.public


def _private_pem(key: PrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.load().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _public_pem(key: PublicKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return _load_public(key.text).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _make(path: Path, text: bytes, mode: int) -> None:
    """A link is made whole or not at all, and unlike a rename not in the place of another file."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(descriptor, mode)
            stream.write(text)
            stream.flush()
            os.fsync(descriptor)
        path.hardlink_to(name)
    finally:
        Path(name).unlink()


def _remove(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def read_private(path: Path) -> PrivateKey:
    """The private key in a file.

    :raises JournalError: if it is missing or cannot be read, if others than its owner may do anything with it, or if
        it is not an Ed25519 key in PEM without a password.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    text, mode = _read(path)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise JournalError(
            f"others than its owner may use the private key {path} (mode {mode:04o}): "
            f"chmod 600 {path}, and make a new key if somebody may have read it"
        )
    try:
        key = load_pem_private_key(text, password=None)
    except TypeError as error:
        raise JournalError(f"the private key {path} is encrypted; a server has nobody to ask for a password") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise JournalError(f"{path} is not an Ed25519 private key in PEM") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise JournalError(f"{path} is not an Ed25519 private key, but of another kind")
    return PrivateKey(key.private_bytes_raw())


def read_public(path: Path) -> PublicKey:
    """The public key in a file.

    :raises JournalError: if it is missing or cannot be read, or if it is not an Ed25519 key in PEM.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    text, _ = _read(path)
    try:
        key = load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise JournalError(f"{path} is not an Ed25519 public key in PEM") from error
    if not isinstance(key, Ed25519PublicKey):
        raise JournalError(f"{path} is not an Ed25519 public key, but of another kind")
    return PublicKey(key.public_bytes_raw().hex())


def _read(path: Path) -> tuple[bytes, int]:
    """:returns: what is in the file, and who may do what with it."""
    try:
        with read_regular(path) as stream:
            return stream.read(_MOST), stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
    except FileNotFoundError as error:
        raise JournalError(f"there is no key {path}; bussrv journal keygen makes one") from error
    except OSError as error:
        raise JournalError(f"cannot read the key {path}: {error.strerror}") from error


def sign_line(line: bytes, key: PrivateKey) -> bytes:
    """A line, signed.

    :param line: a JSON object that is not empty, without a newline.
    """
    return b'%b,"signature":"%b"}' % (line[:-1], key.sign(CONTEXT + line).encode())


def split_signature(line: bytes) -> tuple[bytes, str | None]:
    """The line as it was before it was signed, and the signature; ``None`` when the line does not end with one.

    :param line: without its newline.
    """
    found = _SIGNATURE_MEMBER.search(line)
    return (line, None) if found is None else (line[: found.start()] + b"}", found[1].decode())


class Succession:
    """Which key is in force at each line of a manifest.

    A line may *introduce* a key: the lines after it are signed with that. The first key signs the line that introduces
    it itself; each later one is introduced by a line signed with the key that was in force before, which so hands over.

    A key that is *trusted*, because it is known from elsewhere, must come into force, as the first one or by a
    handover, and a line must be signed with it. That line proves all lines before it, whoever signed them, because it
    signs the chain. Later lines are signed with the same key, or with one that it handed over to. Without a
    trusted key a manifest only proves that it is the work of one owner, who may be anybody.

    :ivar in_force: the key that the next line has to be signed with.
    """

    def __init__(self, trusted: PublicKey | None = None) -> None:
        self.in_force: PublicKey | None = None
        self._trusted = trusted
        self._has_vouched = False

    def fault(self, line: bytes, key: str | None, introduced: str | None) -> str | None:
        """The fault in the signature of the next line, if there is one.

        :param line: without its newline.
        :param key: the fingerprint of the key that it says it is signed with.
        :param introduced: the public key that it introduces.
        """
        signer = self._signer(introduced)
        if signer is None:
            return None if key is None else f"it is signed with the key {key}, which was not introduced"
        if key is None:
            return f"it is not signed, but has to be, with the key {signer.fingerprint}"
        if key != signer.fingerprint:
            return f"it is signed with the key {key}, but has to be with the key {signer.fingerprint}"
        text, signature = split_signature(line)
        if signature is None or not signer.verifies(CONTEXT + text, signature):
            return f"its signature is wrong: it was changed, or not signed with the key {key}"
        return None

    def pass_line(self, introduced: str | None) -> None:
        """Go on after a line that has no fault."""
        signer = self._signer(introduced)
        self._has_vouched = self._has_vouched or (signer is not None and signer == self._trusted)
        if introduced is not None:
            self.in_force = PublicKey(introduced)

    def end_fault(self) -> str | None:
        """The fault when there are no more lines, if there is one."""
        if self._trusted is None or self._has_vouched:
            return None
        return f"no entry is signed with the trusted key {self._trusted.fingerprint} while that was in force"

    def _signer(self, introduced: str | None) -> PublicKey | None:
        if self.in_force is None and introduced is not None:
            return PublicKey(introduced)
        return self.in_force
