r"""Signed notes (c2sp.org/signed-note@v1): a text, and the signatures under it.

::

    example.com/log\n                                 the text: its last line ends with a newline, too
    20852163\n
    CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n
    \n                                                the last empty line ends the text
    — example.com/log <base64>\n                      a key name, and base64(key id, 4 bytes || signature)

A key is known by its name and its id, ``SHA-256(name || 0x0A || type || key)[:4]``. Keys are passed on as *verifier
keys*: ``<name>+<id, 8 hexadecimal digits>+<base64(type || key)>``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Sequence
from hashlib import sha256

from msgspec import Struct

ED25519 = 0x01
"""The type of a key that signs the text of a note."""

COSIGNATURE = 0x04
"""The type of an Ed25519 key that cosigns checkpoints."""

ML_DSA_44 = 0x06
"""The type of an ML-DSA-44 key that cosigns checkpoints."""

KEY_BYTES = {ED25519: 32, COSIGNATURE: 32, ML_DSA_44: 1312}
"""The types that are known, and the size of a key of each."""

ID_BYTES = 4

MOST_BYTES = 1 << 20
"""No larger note is read."""

MOST_SIGNATURES = 64
"""No note with more signatures is read. Each may be one of ML-DSA."""

_DASH = "\N{EM DASH} "
_VKEY = re.compile(r"([^+\s]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+=*)")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")


class NoteError(ValueError):
    """Something is not what its format says. The message is a sentence without its end."""


class KeyId(Struct, frozen=True):
    """How a key is known: its name, and four bytes."""

    name: str
    id: bytes


class VerifierKey(Struct, frozen=True):
    """The public half of a key, with its name.

    :ivar type: one of ``KEY_BYTES``.
    :ivar key: the bytes of the public key.
    """

    name: str
    type: int
    key: bytes

    @property
    def id(self) -> bytes:
        """The four bytes that name it, with its name."""
        return key_id(self.name, self.type, self.key)

    @property
    def text(self) -> str:
        """The verifier key, as it is passed on."""
        return f"{self.name}+{self.id.hex()}+{base64.b64encode(bytes([self.type]) + self.key).decode()}"


class NoteSignature(Struct, frozen=True):
    """A signature of a note.

    :ivar name: of the key; ``id`` has its four bytes.
    :ivar value: what follows the id: a signature, or what its type makes of it.
    """

    name: str
    id: bytes
    value: bytes

    @property
    def line(self) -> str:
        """The line of it, newline included."""
        return f"{_DASH}{self.name} {base64.b64encode(self.id + self.value).decode()}\n"


class Note(Struct, frozen=True):
    """A text that ends with a newline, and the signatures under it, which nobody has checked."""

    text: str
    signatures: tuple[NoteSignature, ...] = ()

    def encode(self) -> str:
        """The note as it is passed on."""
        return "".join([self.text, "\n", *(each.line for each in self.signatures)])

    def signed(self, more: Iterable[NoteSignature]) -> Note:
        """The note with further signatures."""
        return Note(self.text, (*self.signatures, *more))

    def of(self, key: VerifierKey) -> list[NoteSignature]:
        """The signatures that say they were made with a key."""
        return [each for each in self.signatures if (each.name, each.id) == (key.name, key.id)]


def key_id(name: str, type_: int, key: bytes) -> bytes:
    """The four bytes that name a key, with its name."""
    return sha256(name.encode() + b"\n" + bytes([type_]) + key).digest()[:ID_BYTES]


def name_fault(name: str) -> str | None:
    """Why a text cannot be the name of a key; ``None``: it can."""
    if not name or "+" in name or any(each.isspace() for each in name):
        return f"the name of a key is not empty, and has neither blanks nor +: {name!r}"
    return "the name of a key has no control characters" if _CONTROL.search(name) else None


def parse_key(text: str) -> VerifierKey:
    """The key that a verifier key holds.

    :raises NoteError: if it is none, of a type that is not known, or not with the id that belongs to it.
    """
    found = _VKEY.fullmatch(text)
    if found is None:
        raise NoteError(f"not a verifier key, <name>+<8 hexadecimal digits>+<base64>: {text[:100]!r}")
    decoded = decode_base64(found[3], "the key")
    type_, key = decoded[0] if decoded else 0, decoded[1:]
    if (reason := name_fault(found[1])) is not None:
        raise NoteError(reason)
    if type_ not in KEY_BYTES:
        raise NoteError(f"the verifier key of {found[1]} is of type {type_:#04x}, which is not known")
    if len(key) != KEY_BYTES[type_]:
        raise NoteError(f"the verifier key of {found[1]} has {len(key)} bytes, not {KEY_BYTES[type_]}")
    made = VerifierKey(found[1], type_, key)
    if made.id.hex() != found[2]:
        raise NoteError(f"the verifier key of {made.name} says its id is {found[2]}, but it is {made.id.hex()}")
    return made


def parse_note(data: bytes) -> Note:
    """The note that some bytes are.

    :raises NoteError: if they are none, or exceed a limit.
    """
    if len(data) > MOST_BYTES:
        raise NoteError(f"a note has at most {MOST_BYTES} bytes, and this one has {len(data)}")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise NoteError("a note is UTF-8, and this is not") from error
    if _CONTROL.search(text):
        raise NoteError("a note has no control characters but newlines")
    body, blank, lines = text.rpartition("\n\n")
    if not blank or not lines.endswith("\n"):
        raise NoteError("a note has a text, an empty line, and a line for each signature")
    return Note(body + "\n", parse_signatures(lines))


def parse_signatures(text: str) -> tuple[NoteSignature, ...]:
    """The signatures that some lines are, at least one.

    :raises NoteError: if a line is none, or there are too many.
    """
    *lines, rest = text.split("\n")
    if rest or not lines:
        raise NoteError("a line of a signature ends with a newline")
    if len(lines) > MOST_SIGNATURES:
        raise NoteError(f"a note has at most {MOST_SIGNATURES} signatures, and this one has {len(lines)}")
    return tuple(map(_parse_signature, lines))


def _parse_signature(line: str) -> NoteSignature:
    name, blank, encoded = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not blank or name_fault(name) is not None:
        raise NoteError(f"not a line of a signature: {line[:100]!r}")
    decoded = decode_base64(encoded, f"the signature of {name}")
    if len(decoded) <= ID_BYTES:
        raise NoteError(f"the signature of {name} has only {len(decoded)} bytes")
    return NoteSignature(name, decoded[:ID_BYTES], decoded[ID_BYTES:])


def decode_base64(text: str, what: str) -> bytes:
    """The bytes that base64 holds, written in the one way in which it is.

    :raises NoteError: if it is none.
    """
    try:
        decoded = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise NoteError(f"{what} is not base64") from error
    if base64.b64encode(decoded).decode() != text:
        raise NoteError(f"{what} is not base64 as it is written")
    return decoded


def decimal(text: str, what: str) -> int:
    """The number that decimal digits are, without leading zeroes.

    :raises NoteError: if they are none, or the number has more than 63 bits.
    """
    if re.fullmatch(r"0|[1-9][0-9]{0,18}", text) is None or int(text) >= 1 << 63:
        raise NoteError(f"{what} is not a number: {text[:40]!r}")
    return int(text)


def without_duplicates(keys: Sequence[VerifierKey]) -> None:
    """See that no two keys are known by the same name and id.

    :raises NoteError: if two are.
    """
    seen = {(each.name, each.id) for each in keys}
    if len(seen) != len(keys):
        raise NoteError("two verifier keys have the same name and the same id")
