"""The directory of a new server. All of its files are made, or none is. Existing files are never overwritten."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path

from msgspec import Struct

from bussrv.errors import ConfigError, JournalError
from bussrv.journal.keys import generate, public_path
from bussrv.policy.logins.tokens import new_token, token_line
from bussrv.policy.logins.users import user_line
from bussrv.starter import certificates, texts, uplink
from bussrv.starter.uplink import NewUplink

PUBLIC = 0o644
PRIVATE = 0o600

SECRET_BYTES = 16
"""The random bytes of a secret of a user."""

MAX_SOCKET = 107
"""The most bytes of the path of a UNIX socket."""


class NewServer(Struct, frozen=True, kw_only=True):
    """The choices for a server to start with.

    :ivar names: the host names and addresses that its certificate is for.
    :ivar users: the names of its users; at least one. The operator is another one.
    :ivar interface: the address that it listens on; empty: all IPv4 addresses of the machine.
    :ivar programs: the directory of ``twistd``.
    :ivar system_user: the user of the system that it runs as.
    :ivar uplink: its uplink; ``None``: it has none.
    """

    names: Sequence[str]
    users: Sequence[str]
    interface: str
    programs: Path
    system_user: str
    uplink: NewUplink | None = None


def make(
    directory: Path, wanted: NewServer, now: datetime, show: Callable[[dict[str, str]], object] = lambda _: None
) -> dict[str, str]:
    """Make the files of a server, and its directory if there is none.

    :param directory: an absolute path.
    :param show: shows the secret of each user. If it raises, there is none of the files, because nobody could log in.
    :returns: the secret of each user. The secrets are stored nowhere.
    :raises ConfigError: a file cannot be made; then there is none of them.
    """
    if not str(directory).isprintable():
        raise ConfigError(f"{str(directory)!r} has characters that cannot be printed: choose another directory")
    issued = {user: secrets.token_hex(SECRET_BYTES) for user in (*wanted.users, texts.OPERATOR)}
    try:
        files = _files(directory, wanted, issued, now)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    names = [*(name for name, _, _ in files), texts.JOURNAL_KEY, public_path(Path(texts.JOURNAL_KEY)).name]
    there = [name for name in (*names, texts.PROFILES, texts.JOURNAL) if os.path.lexists(directory / name)]
    if there:
        raise ConfigError(
            f"{directory} has {', '.join(there)} already, which would be overwritten: choose a new directory"
        )
    made: list[Path] = []
    try:
        if not directory.exists():
            directory.mkdir(0o755)
            made.append(directory)
        (directory / texts.PROFILES).mkdir(0o755)
        made.append(directory / texts.PROFILES)
        for name, text, mode in files:
            _write(directory / name, text, mode, made)
        generate(directory / texts.JOURNAL_KEY)
        made += (directory / texts.JOURNAL_KEY, public_path(directory / texts.JOURNAL_KEY))
        show(issued)
    except BaseException as error:
        _remove(made)
        if not isinstance(error, (OSError, JournalError)):
            raise
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"cannot make the files in {directory}: {why}") from error
    return issued


def renew_certificate(
    certificate: Path, authority: Path, authority_key: Path, now: datetime, names: Sequence[str] = ()
) -> datetime:
    """Put a new certificate in the place of one, with the same private key. A reader has either the old or the new one.

    :param names: see :func:`bussrv.starter.certificates.renew_certificate`.
    :returns: when the new one ends.
    :raises ConfigError: it cannot be done; then nothing is changed.
    """
    try:
        old, issuer, key = (path.read_bytes() for path in (certificate, authority, authority_key))
        text, end = certificates.renew_certificate(old, issuer, key, now, names)
    except OSError as error:
        raise ConfigError(f"cannot read {error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{certificate}: {error}") from error
    new = certificate.with_name(f"{certificate.name}.new")
    made: list[Path] = []
    try:
        _write(new, text, certificate.stat().st_mode & 0o777, made)
        new.replace(certificate)
    except OSError as error:
        _remove(made)
        raise ConfigError(f"cannot write {new}: {error.strerror}") from error
    return end


def _files(directory: Path, wanted: NewServer, issued: dict[str, str], now: datetime) -> list[tuple[str, bytes, int]]:
    """The name, the text and the mode of each file, except the key of the journal.

    :raises ValueError: a name, a user or the interface is malformed.
    """
    made = certificates.make_certificates(wanted.names, now)
    if wanted.interface:
        ip_address(wanted.interface)
    users = "".join(f"{user_line(user, secret.encode())}\n" for user, secret in issued.items())
    new = wanted.uplink
    unit = texts.unit(directory, wanted.programs, wanted.system_user, has_uplink=new is not None)
    policy = texts.policy(directory, wanted.users) + ("" if new is None else uplink.policy(new))
    tokens = None if new is None else directory / uplink.TOKENS
    names = {user: f"{texts.PROFILES}/{texts.profile_name(user)}" for user in issued}
    profiles = [(name, texts.profile(wanted.names[0], user).encode(), PRIVATE) for user, name in names.items()]
    return [
        (texts.AUTHORITY, made.authority, PUBLIC),
        (texts.AUTHORITY_KEY, made.authority_key, PRIVATE),
        (texts.SERVER, made.server, PUBLIC),
        (texts.SERVER_KEY, made.server_key, PRIVATE),
        (texts.USERS, users.encode(), PRIVATE),
        (texts.POLICY, policy.encode(), PUBLIC),
        (texts.UNIT, unit.encode(), PUBLIC),
        *profiles,
        (texts.CONFIGURATION, texts.configuration(directory, wanted.interface, tokens=tokens).encode(), PUBLIC),
        *([] if new is None else _uplink_files(directory, wanted, new)),
    ]


def _uplink_files(directory: Path, wanted: NewServer, new: NewUplink) -> list[tuple[str, bytes, int]]:
    """:raises ValueError: a user has the name of the uplink, or the path of its socket is too long."""
    if uplink.USER in wanted.users:
        raise ValueError(f"{uplink.USER} is the user that the uplink is: choose another name")
    socket = directory / texts.SOCKET
    if len(os.fsencode(socket)) > MAX_SOCKET:
        raise ValueError(f"{socket} is too long for a socket, at most {MAX_SOCKET} bytes: choose a shorter directory")
    token = new_token()
    unit = uplink.unit(new, directory, wanted.programs, wanted.system_user)
    return [
        (uplink.TOKENS, f"{token_line(uplink.USER, token, None)}\n".encode(), PRIVATE),
        (uplink.TOKEN, f"{token}\n".encode(), PRIVATE),
        (uplink.UNIT, unit.encode(), PUBLIC),
    ]


def _write(path: Path, text: bytes, mode: int, made: list[Path]) -> None:
    """Make a file. A secret is never readable by others, not even for a moment."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE)
    made.append(path)
    with os.fdopen(descriptor, "wb") as stream:
        os.fchmod(descriptor, mode)
        stream.write(text)
        stream.flush()
        os.fsync(descriptor)


def _remove(made: Iterable[Path]) -> None:
    for path in reversed(list(made)):
        if path.is_dir():
            # Files that another program put there meanwhile stay.
            with suppress(OSError):
                path.rmdir()
        else:
            path.unlink(missing_ok=True)
