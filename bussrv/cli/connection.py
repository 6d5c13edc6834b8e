"""The server that a command uses, and the user: from the command line, the environment or a profile."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from bussrv.cli.command import ConnectionOption
from bussrv.cli.parameters import exclude, seconds
from bussrv.errors import ConfigError, os_errors_as

if TYPE_CHECKING:
    from bussrv.client.tls import Tls
    from bussrv.profiles import Profile, ServerAddress

SERVER, PROFILE = "BUSSRV_SERVER", "BUSSRV_PROFILE"
TIMEOUT = 10.0
MAX_SECRET = 4096


@dataclass(frozen=True)
class Credentials:
    """The credentials that a command shows: a user with or without a secret, a token, or nothing."""

    user: str | None = None
    secret: str | None = None
    token: str | None = None

    def given(self) -> dict[str, str]:
        """The credentials that were given, as attributes of an object that logs in."""
        found = {"user": self.user, "secret": self.secret, "token": self.token}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class ServerAndUser:
    """A server and a user.

    :ivar timeout: the limit in seconds for connecting, and for each answer.
    """

    address: ServerAddress
    credentials: Credentials
    tls: Tls | None
    timeout: float


@dataclass(frozen=True)
class ConnectionOptions:
    """The options that name the server and the user."""

    server: str | None
    profile: str | None
    tls: bool
    ca: Path | None
    certificate: Path | None
    key: Path | None
    user: str | None
    secret_file: Path | None
    token_file: Path | None
    insecure: bool
    timeout: float

    def place(self, kind: str) -> ServerAndUser:
        """The server and the credentials for it.

        :param kind: one of :data:`~bussrv.profiles.PORTS`.
        :raises click.UsageError: options do not go together.
        :raises ConfigError: a file cannot be used, or a secret would cross the network in the clear.
        """
        profile = self._profile()
        address = self._address(kind, profile)
        # Inbus has no login.
        credentials = Credentials() if kind == "inbus" else self._credentials(profile)
        tls = self._tls(profile, address)
        if credentials.given().keys() & {"secret", "token"} and not (tls or address.is_local or self.insecure):
            raise ConfigError(
                f"{address} is on another machine, and not reached over TLS: the credentials would be readable on the "
                "way (--tls, or --insecure if you accept that)"
            )
        return ServerAndUser(address, credentials, tls, self.timeout)

    def _profile(self) -> Profile | None:
        """The profile to use; ``None``: none. It is never used for another server, which would see its secrets."""
        from bussrv import profiles

        exclude(server=self.server, profile=self.profile)
        if self.server is not None:
            return None
        name = self.profile
        if name is None:
            server, name = os.environ.get(SERVER) or None, os.environ.get(PROFILE) or None
            if server and name:
                raise ConfigError(f"{SERVER} and {PROFILE} are both set: unset one of them")
            if server:
                return None
        return profiles.read(name)

    def _address(self, kind: str, profile: Profile | None) -> ServerAddress:
        from bussrv.profiles import ServerAddress

        if profile is not None:
            return profile.address(kind)
        try:
            if self.server is not None:
                return ServerAddress.parse(self.server, kind)
            return ServerAddress.of_server(os.environ.get(SERVER) or "127.0.0.1", kind)
        except ValueError as error:
            raise ConfigError(str(error)) from error

    def _credentials(self, profile: Profile | None) -> Credentials:
        exclude(secret_file=self.secret_file, token_file=self.token_file)
        exclude(user=self.user, token_file=self.token_file)
        if self.token_file is not None:
            return Credentials(token=secret_in(self.token_file))
        if self.secret_file is not None:
            if self.user is None:
                raise click.UsageError("--secret-file needs --user")
            return Credentials(self.user, secret_in(self.secret_file))
        if self.user is not None:
            return Credentials(self.user)
        return Credentials(**(profile.credentials if profile is not None else {}))

    def _tls(self, profile: Profile | None, address: ServerAddress) -> Tls | None:
        from bussrv.client.tls import Tls

        files = {} if profile is None else profile.files
        given = (self.ca or files.get("ca"), self.certificate or files.get("certificate"), self.key or files.get("key"))
        if address.tls is False:
            files_asked = self.ca or self.certificate or self.key
            asked = "--tls" if self.tls else "--ca, --certificate or --key" if files_asked else ""
            if asked:
                raise ConfigError(f"{address} is an address without TLS, and {asked} needs TLS: write tls: or https://")
            return None
        wanted = self.tls or address.tls or (any(given) and not address.is_unix)
        return Tls(*given) if wanted else None


def secret_in(file: Path) -> str:
    """The secret in a file: its only line.

    :raises ConfigError: the file cannot be used. The message never quotes its content.
    """
    from bussrv.journal.regular import read_regular

    with os_errors_as(ConfigError, f"{file}: cannot be read"), read_regular(file) as stream:
        data, mode = stream.read(MAX_SECRET + 1), os.fstat(stream.fileno()).st_mode
    if mode & 0o077:
        raise ConfigError(f"{file}: others may read the secret in it: chmod 600 {file}")
    lines = data.decode(errors="replace").splitlines()
    if len(lines) != 1 or len(data) > MAX_SECRET:
        raise ConfigError(f"{file}: it has more than one line, or none")
    return lines[0]


def _profile_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from bussrv import profiles

    return [CompletionItem(name) for name in profiles.names() if name.startswith(incomplete)]


_option = functools.partial(click.option, cls=ConnectionOption)
_file = functools.partial(_option, metavar="FILE", type=click.Path(path_type=Path))


def connects(function: Callable[..., int]) -> Callable[..., int]:
    """Declare the options of a connection. The function gets :class:`ConnectionOptions` before its other arguments."""

    @_option("--server", metavar="ADDRESS", help="The server: a host, with a port or without; tls: before it is TLS.")
    @_option("--profile", metavar="NAME", shell_complete=_profile_names, help="A server of the file of profiles.")
    @_option("--tls", is_flag=True, help="Connect over TLS.")
    @_file("--ca", help="The authorities that may sign the server's certificate.")
    @_file("--certificate", help="The certificate to show.")
    @_file("--key", help="Its private key.")
    @_option("--user", metavar="NAME", help="The user to log in as.")
    @_file("--secret-file", help="The file with the secret of the user.")
    @_file("--token-file", help="The file with a token, in place of a user.")
    @_option("--insecure", is_flag=True, help="Let credentials cross the network without TLS.")
    @_option(
        "--timeout",
        metavar="S",
        type=seconds(0.1, 86400.0),
        default=TIMEOUT,
        help=f"Seconds to wait for the server.  [default: {TIMEOUT:g}]",
    )
    @functools.wraps(function)
    def with_connection(**given: Any) -> int:
        from bussrv.cli.failure import explained

        connection = ConnectionOptions(**{each.name: given.pop(each.name) for each in fields(ConnectionOptions)})
        with explained():
            return function(connection, **given)

    return with_connection
