r"""The key file: what leads from pseudonyms to identities. Outside the journal, a line for each identity.

::

    {"kind":"actor","identity":"ann","key":"<64 hex>"}\n
    {"kind":"peer","identity":"192.168.7.20","key":"<64 hex>"}\n

A pseudonym is ``~`` and the first 24 hexadecimal digits of HMAC-SHA256(key, kind NUL identity). Each identity has a
random key of its own: without its line nobody can tell whose pseudonym it is, not even by trying all addresses. So
:func:`forget` only has to destroy a line, and the journal stays as it is.

The file belongs to who holds an exclusive ``flock`` on it *while it has its name*: :func:`forget` puts another file in
its place. A last line without its end is what a crash left. Nothing with its pseudonym was written, because a key is
on the disk before its pseudonym is; it is cut off, and not kept aside, where nobody would forget it.
"""

from __future__ import annotations

import fcntl
import hmac
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bussrv.addresses import plain_ip
from bussrv.errors import JournalError, os_errors_as
from bussrv.events import ConfigReloaded, ServerStarted
from bussrv.journal.bounds import MAX_LINE
from bussrv.journal.files import FILES, Files
from bussrv.journal.regular import open_regular, read_regular
from bussrv.journal.segment import torn_size
from bussrv.values import InEffect, with_names

Kind = Literal["actor", "peer"]

PERSONAL: dict[str, Kind] = {"actor": "actor", "claimed": "actor", "peer": "peer"}
"""The fields of an event or a session that tell of a person, and the kind of each.

A name has the same pseudonym whether it was proved or claimed.
"""

AStruct = TypeVar("AStruct", bound=Struct)

KEY_FILE_MODE = 0o600
KEY_BYTES = 32
DIGITS = 24
"""Of a pseudonym: 96 bits, so that no two identities get the same."""

_OTHERS = 0o077
_WITH_PORT = re.compile(r"(?:\[([^\[\]]*:[^\[\]]*)\]|([^:]+)):([0-9]{1,5})")


class HiddenIdentity(Struct, frozen=True):
    """The pseudonyms of identities. The identity of a peer is its host."""

    kind: Kind
    identity: str
    pseudonym: str


class _Line(Struct, frozen=True, forbid_unknown_fields=True):
    kind: Kind
    identity: str
    key: str

    def read(self) -> HiddenIdentity:
        """:raises ValueError: the key is none, or the identity cannot be written as UTF-8."""
        key = bytes.fromhex(self.key)
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key has {len(key)} bytes, not {KEY_BYTES}")
        digest = hmac.digest(key, f"{self.kind}\0{self.identity}".encode(), "sha256")
        return HiddenIdentity(self.kind, self.identity, "~" + digest.hex()[:DIGITS])


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode


def new_key(kind: Kind, identity: str) -> tuple[HiddenIdentity, bytes]:
    """A new pseudonym, and its line in the key file.

    :raises ValueError: if the identity cannot be written as UTF-8.
    """
    line = _Line(kind, identity, secrets.token_hex(KEY_BYTES))
    return line.read(), _encode(line) + b"\n"


def split(kind: Kind, text: str) -> tuple[str, str | None]:
    """The identity in an actor or a peer, and the port after it; see :func:`join`."""
    if kind == "peer":
        found = _WITH_PORT.fullmatch(text)
        if found is not None:
            return found[1] or found[2], found[3]
    return text, None


def renamed(shown: AStruct, name: Callable[[Kind, str], str]) -> AStruct:
    """An event or a session with other texts in its ``PERSONAL`` fields, and in the rules in effect. An empty text is
    nobody and stays.
    """
    told = {field: (kind, getattr(shown, field)) for field, kind in PERSONAL.items()}
    changed: dict[str, Any] = {field: name(kind, text) for field, (kind, text) in told.items() if text}
    if isinstance(shown, (ServerStarted, ConfigReloaded)) and shown.in_effect is not None:
        changed["in_effect"] = renamed_rules(shown.in_effect, name)
    return replace(shown, **changed) if changed else shown


def renamed_rules(rules: InEffect, name: Callable[[Kind, str], str]) -> InEffect:
    """The rules in effect with other names of users, and other addresses of single hosts."""
    return with_names(rules, partial(name, "actor"), partial(name, "peer"))


def join(identity: str, port: str | None) -> str:
    """The inverse of :func:`split`."""
    if port is None:
        return identity
    return f"[{identity}]:{port}" if ":" in identity else f"{identity}:{port}"


def check_key_file(path: Path, directory: Path) -> None:
    """See whether a file, which may be missing, can be the key file of the journal in ``directory``.

    :raises JournalError: if it lies in that directory, others than its owner may use it, or it is no file.
    """
    if path.resolve().is_relative_to(directory.resolve()):
        raise JournalError(
            f"the key file {path} lies in the journal directory {directory}: whoever gets a copy of the journal would "
            "get the keys with it. Put it elsewhere."
        )
    try:
        _check_mode(path, path.stat())
    except FileNotFoundError:
        return
    except OSError as error:
        raise JournalError(f"cannot use the key file {path}: {error.strerror}") from error


def _check_mode(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise JournalError(f"{path} is no file, and so not a key file")
    if status.st_mode & _OTHERS:
        raise JournalError(f"others than its owner may use the key file {path}; do: chmod 600 {path}")


def open_key_file(path: Path, files: Files) -> int:
    """Open and lock a key file to append to it, and cut off a line without its end.

    :returns: a descriptor; :func:`is_at` says later whether it still is that of the file of that name.
    :raises OSError: if it cannot be read and written.
    :raises JournalError: if others than its owner may use it.
    """
    descriptor = _open_locked(path, os.O_APPEND)
    try:
        _check_mode(path, os.fstat(descriptor))
        cut_torn_line(descriptor, path, files)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open_locked(path: Path, flags: int = 0) -> int:
    while True:
        descriptor = open_regular(path, os.O_RDWR | flags)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is the one that has that name.

    :raises OSError: if none has.
    """
    # While it is open no other file gets its number, so that none can be mistaken for it.
    return os.path.samestat(os.fstat(descriptor), path.stat())


def cut_torn_line(descriptor: int, path: Path, files: Files) -> None:
    """Cut off a last line of a locked file that has no end.

    :raises OSError: if that cannot be done.
    """
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        files.truncate(descriptor, size - torn_size(path))


def read_lines(path: Path) -> Iterator[tuple[bytes, HiddenIdentity]]:
    """The lines of a locked file and what they say; a last line without its end is left out.

    :raises OSError: if it cannot be read.
    :raises JournalError: if one of them is damaged.
    """
    with read_regular(path) as file:
        for number, line in enumerate(iter(partial(file.readline, MAX_LINE), b""), 1):
            if not line.endswith(b"\n") and len(line) < MAX_LINE:
                return
            try:
                yield line, _decode(line).read()
            except (msgspec.DecodeError, ValueError) as error:
                raise JournalError(
                    f"{path}, line {number}: not the key of a pseudonym: {error}. Restore the file from a copy, or "
                    "delete the line: whom it named is forgotten then."
                ) from error


def identities(path: Path) -> list[HiddenIdentity]:
    """Everybody in a key file, in the order in which they came; also while a server uses it.

    :raises JournalError: if it cannot be read or is damaged.
    """
    path = path.resolve()
    with os_errors_as(JournalError, f"cannot read the key file {path}"):
        descriptor = _open_locked(path)
        try:
            return [each for _, each in read_lines(path)]
        finally:
            os.close(descriptor)


def forget(path: Path, kind: Kind, identity: str, files: Files = FILES) -> int:
    """Destroy the keys of an identity, also while a server uses the file.

    :param identity: of a peer its host, in any of the ways to write it; a port is ignored.
    :returns: how many identities were removed: a host may have been there as an IPv4 and as an IPv6 address.
    :raises JournalError: if the file cannot be read or replaced, or is damaged.
    """
    path = path.resolve()
    with os_errors_as(JournalError, f"cannot forget anybody in the key file {path}"):
        descriptor = _open_locked(path)
        try:
            return _forget(path, descriptor, (kind, _canonical(kind, identity)), files)
        finally:
            os.close(descriptor)


def _canonical(kind: Kind, identity: str) -> str:
    if kind == "actor":
        return identity
    host = split(kind, identity)[0].removeprefix("[").removesuffix("]")
    try:
        return str(plain_ip(host.partition("%")[0]))
    except ValueError:
        return host


def _forget(path: Path, descriptor: int, unwanted: tuple[Kind, str], files: Files) -> int:
    removed: set[str] = set()
    kept: list[bytes] = []
    for line, each in read_lines(path):
        if (each.kind, _canonical(each.kind, each.identity)) == unwanted:
            removed.add(each.identity)
        else:
            kept.append(line)
    before = os.fstat(descriptor)
    text = b"".join(kept)
    # It also differs when there is a line without its end, and who is in that one may be meant.
    if len(text) != before.st_size:
        _put_in_place(path, text, before.st_uid, files)
        _overwrite(path, descriptor, before.st_size, files)
    return len(removed)


def _put_in_place(path: Path, text: bytes, owner: int, files: Files) -> None:
    fresh = path.with_name(f"{path.name}.new")
    files.remove(fresh)
    try:
        descriptor = files.create(fresh, KEY_FILE_MODE)
        try:
            if os.fstat(descriptor).st_uid != owner:
                # It stays the file of the server when root forgets.
                os.fchown(descriptor, owner, -1)
            files.write(descriptor, text)
            files.sync(descriptor)
        finally:
            files.close(descriptor)
        files.rename(fresh, path)
    except OSError:
        with suppress(OSError):
            files.remove(fresh)
        raise
    files.sync_directory(path.parent)


def _overwrite(path: Path, descriptor: int, size: int, files: Files) -> None:
    """Write zeros over the file that was replaced, for disks on which that is the same place."""
    try:
        files.write(descriptor, bytes(size))
        files.sync(descriptor)
    except OSError as error:
        raise JournalError(
            f"{path}: forgotten, but the old keys could not be overwritten and may still be found on the disk: "
            f"{error.strerror}"
        ) from error
