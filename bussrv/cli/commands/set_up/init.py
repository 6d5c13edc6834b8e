"""``bussrv init``: make the files of a server that other machines may reach."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import socket
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import click

from bussrv.cli.command import command
from bussrv.cli.show import output

LOCAL = ("localhost", "127.0.0.1", "::1")
USERS = ("ann", "ben")
SYSTEM_USER = "bussrv"
HIDDEN = tuple(map(Path, ("/home", "/root", "/run/user", "/tmp", "/var/tmp")))
"""Directories that the unit of systemd hides from the server: ProtectHome=, PrivateTmp=."""


@command(
    examples=("bussrv init hall --name hall.example --user ann",),
    statuses={0: "done", 1: "it could not be done, and nothing was made"},
)
@click.argument("place", metavar="DIR")
@click.option(
    "--name",
    "names",
    metavar="NAME",
    multiple=True,
    help="A host name or an IP address by which clients reach the server, for its certificate; may be repeated. "
    "It is also made for the name of this host, and for localhost.",
)
@click.option(
    "--user", "users", metavar="USER", multiple=True, help=f"A user; may be repeated.  [default: {' and '.join(USERS)}]"
)
@click.option("--interface", metavar="ADDRESS", default="", help="The IP address to listen on.  [default: all of IPv4]")
@click.option("--json", "as_json", is_flag=True, help="Print the users and their secrets as JSON.")
def init(place: str, names: tuple[str, ...], users: tuple[str, ...], interface: str, as_json: bool) -> int:
    """Make a directory with the files of a server that other machines may reach. It gets a configuration with TLS and
    logins, users with random secrets, and a policy. It also gets an authority with a certificate of this server, a key
    for the journal, a unit of systemd, and a profile for each user. Existing files are never overwritten. The secrets
    are printed once, and stored nowhere.
    """
    from bussrv.errors import ConfigError
    from bussrv.starter.directory import NewServer, make

    directory = Path(place).resolve()
    is_root = os.geteuid() == 0
    wanted = NewServer(
        names=_names(names),
        users=list(dict.fromkeys(users)) or list(USERS),
        interface=interface,
        programs=_programs(),
        system_user=_system_user(is_root),
    )

    def show(issued: dict[str, str]) -> None:
        if as_json:
            output.json_line({"directory": str(directory), "names": wanted.names, "secrets": issued})
        else:
            print("\n".join([*_report(directory, wanted.names, issued, is_root), *_hidden(directory, wanted.programs)]))
        output.flush()

    try:
        make(directory, wanted, datetime.now(timezone.utc), show)
    except ConfigError as error:
        print(f"bussrv init: {error}", file=sys.stderr)
        return 1
    return 0


def _names(given: Sequence[str]) -> list[str]:
    """The names in the certificate. The first one names the server."""
    from bussrv.starter.certificates import check_name

    try:
        own = [check_name(socket.gethostname())]
    except ValueError:
        own = []
    return list(dict.fromkeys([*given, *own, *LOCAL]))


def _programs() -> Path:
    """The directory of twistd: beside this program, or else on the PATH."""
    own = Path(sys.executable).parent
    return Path(shutil.which("twistd", path=f"{own}{os.pathsep}{os.environ.get('PATH', '')}") or own / "twistd").parent


def _system_user(is_root: bool) -> str:
    if is_root:
        return SYSTEM_USER
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A user without a name, as in a container.
        return str(os.geteuid())


def _report(directory: Path, names: Sequence[str], issued: dict[str, str], is_root: bool) -> list[str]:
    """The text that is printed: the files that were made, and the next commands."""
    from bussrv.starter import texts

    here = shlex.quote(str(directory))
    wide = max(map(len, issued))
    install = [f"cp {here}/{texts.UNIT} /etc/systemd/system/", "systemctl enable --now bussrv"]
    if is_root:
        install = [f"useradd --system --no-create-home {SYSTEM_USER}", f"chown -R {SYSTEM_USER}: {here}", *install]
    return [
        f"Made in {directory}:",
        f"  {texts.CONFIGURATION:14} the configuration: Object System and SPP, over TLS",
        f"  {texts.USERS:14} the users, each with a hash of its secret",
        f"  {texts.POLICY:14} the permissions of the users; {texts.OPERATOR} sees and steers the server",
        f"  {texts.AUTHORITY:14} the certificate of the authority: copy it to every client",
        f"  {texts.AUTHORITY_KEY:14} its private key. The server does not need it: keep it on another machine",
        f"  {texts.SERVER:14} the certificate of the server, for {', '.join(names)}",
        f"  {texts.SERVER_KEY:14} its private key",
        f"  {texts.JOURNAL_KEY:14} the private key that seals of the journal are signed with: keep a copy elsewhere",
        f"  {texts.UNIT:14} the unit of systemd",
        f"  {texts.PROFILES:14} a profile of the bussrv command for each user, without the secret",
        "",
        "The users and their secrets, which are stored nowhere else:",
        *(f"  {user:{wide}} {secret}" for user, secret in issued.items()),
        "",
        "Check the configuration, and start the server:",
        f"  bussrv check {here}/{texts.CONFIGURATION}",
        f"  twistd -n bussrv --config {here}/{texts.CONFIGURATION}",
        "",
        "Or run it under systemd, as root:",
        *(f"  {each}" for each in install),
    ]


def _hidden(*places: Path) -> list[str]:
    """Advice if the unit of systemd hides the files or the programs from the server."""
    found = [str(place) for place in places if any(place.is_relative_to(each) for each in HIDDEN)]
    if not found:
        return []
    return [
        f"This unit does not let the server see {' and '.join(found)}. For systemd, install bussrv in a place such as",
        "/opt/bussrv, and make the files in one such as /etc/bussrv.",
    ]
