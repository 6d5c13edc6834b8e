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
from typing import TYPE_CHECKING, Any

import click

from bussrv.cli.command import command
from bussrv.cli.show import output

if TYPE_CHECKING:
    from bussrv.starter.directory import NewServer
    from bussrv.starter.uplink import NewUplink

LOCAL = ("localhost", "127.0.0.1", "::1")
USERS = ("ann", "ben")
SYSTEM_USER = "bussrv"
NET = "bussrv"
"""The net that `bussrv uplink` joins if it is not told another one."""

HIDDEN = tuple(map(Path, ("/home", "/root", "/run/user", "/tmp", "/var/tmp")))
"""Directories that the unit of systemd hides from the server: ProtectHome=, PrivateTmp=."""


@command(
    examples=(
        "bussrv init hall --name hall.example --user ann",
        "bussrv init hall --name hall.example --uplink nats://nats.example:4222",
    ),
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
@click.option("--uplink", "url", metavar="URL", help="Make an uplink, too: NATS, as `bussrv uplink` takes it.")
@click.option("--net", metavar="NAME", help=f"The net of the uplink.  [default: {NET}]")
@click.option("--keep", metavar="SERVICE", multiple=True, help="As of `bussrv uplink`; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print the users and their secrets as JSON.")
def init(
    place: str,
    names: tuple[str, ...],
    users: tuple[str, ...],
    interface: str,
    as_json: bool,
    **uplink: Any,
) -> int:
    """Make a directory with the files of a server that other machines may reach. It gets a configuration with TLS and
    logins, users with random secrets, and a policy. It also gets an authority with a certificate of this server, a key
    for the journal, a unit of systemd, and a profile for each user. Existing files are never overwritten. The secrets
    are printed once, and stored nowhere. With --uplink, it also gets a unit for `bussrv uplink`, its token, its rule in
    the policy, and a socket for it alone.
    """
    from bussrv.errors import ConfigError
    from bussrv.starter.directory import NewServer, make

    directory = Path(place).resolve()
    is_root = os.geteuid() == 0
    try:
        wanted = NewServer(
            names=_names(names),
            users=list(dict.fromkeys(users)) or list(USERS),
            interface=interface,
            programs=_programs(),
            system_user=_system_user(is_root),
            uplink=_uplink(**uplink),
        )

        def show(issued: dict[str, str]) -> None:
            if as_json:
                output.json_line({"directory": str(directory), "names": wanted.names, "secrets": issued})
            else:
                print("\n".join([*_report(directory, wanted, issued, is_root), *_hidden(directory, wanted.programs)]))
            output.flush()

        make(directory, wanted, datetime.now(timezone.utc), show)
    except ConfigError as error:
        print(f"bussrv init: {error}", file=sys.stderr)
        return 1
    return 0


def _uplink(url: str | None, net: str | None, keep: tuple[str, ...]) -> NewUplink | None:
    """:raises ConfigError: an option cannot be used."""
    if url is None:
        if net is not None or keep:
            raise click.UsageError("--net and --keep go with --uplink")
        return None
    from bussrv.starter.uplink import NewUplink
    from bussrv.uplink.nats.settings import check_net

    net = NET if net is None else net
    check_net(url, net, keep)
    return NewUplink(url=url, net=net, keep=list(dict.fromkeys(keep)))


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


def _report(directory: Path, made: NewServer, issued: dict[str, str], is_root: bool) -> list[str]:
    """The text that is printed: the files that were made, and the next commands."""
    from bussrv.starter import texts, uplink

    here = shlex.quote(str(directory))
    files = _files(made)
    by_hand = [f"twistd -n bussrv --config {here}/{texts.CONFIGURATION}"]
    if made.uplink is not None:
        state = directory / uplink.STATE.name
        by_hand.append(shlex.join(uplink.command(made.uplink, directory, socket=directory, state=state)))
    units = [each for each in files if each.endswith(".service")]
    install = [
        f"cp {' '.join(f'{here}/{each}' for each in units)} /etc/systemd/system/",
        f"systemctl enable --now {' '.join(each.removesuffix('.service') for each in units)}",
    ]
    if is_root:
        install = [f"useradd --system --no-create-home {SYSTEM_USER}", f"chown -R {SYSTEM_USER}: {here}", *install]
    wide, widest = max(map(len, issued)), max(map(len, files))
    return [
        f"Made in {directory}:",
        *(f"  {name:{widest}} {about}" for name, about in files.items()),
        "",
        "The users and their secrets, which are stored nowhere else:",
        *(f"  {user:{wide}} {secret}" for user, secret in issued.items()),
        "",
        f"Check the configuration, and start the server{'' if made.uplink is None else ' and its uplink'}:",
        f"  bussrv check {here}/{texts.CONFIGURATION}",
        *(f"  {each}" for each in by_hand),
        "",
        "Or run it under systemd, as root:",
        *(f"  {each}" for each in install),
    ]


def _files(made: NewServer) -> dict[str, str]:
    """What each file is for."""
    from bussrv.starter import texts, uplink

    files = {
        texts.CONFIGURATION: "the configuration: Object System and SPP, over TLS",
        texts.USERS: "the users, each with a hash of its secret",
        texts.POLICY: f"the permissions of the users; {texts.OPERATOR} sees and steers the server",
        texts.AUTHORITY: "the certificate of the authority: copy it to every client",
        texts.AUTHORITY_KEY: "its private key. The server does not need it: keep it on another machine",
        texts.SERVER: f"the certificate of the server, for {', '.join(made.names)}",
        texts.SERVER_KEY: "its private key",
        texts.JOURNAL_KEY: "the private key that seals of the journal are signed with: keep a copy elsewhere",
        texts.UNIT: "the unit of systemd",
        texts.PROFILES: "a profile of the bussrv command for each user, without the secret",
    }
    theirs = {
        uplink.UNIT: "the unit of the uplink",
        uplink.TOKEN: "the token that the uplink shows to the server",
        uplink.TOKENS: "the hash of that token, for the server",
    }
    return files if made.uplink is None else {**files, **theirs}


def _hidden(*places: Path) -> list[str]:
    """Advice if the unit of systemd hides the files or the programs from the server."""
    found = [str(place) for place in places if any(place.is_relative_to(each) for each in HIDDEN)]
    if not found:
        return []
    return [
        f"This unit does not let the server see {' and '.join(found)}. For systemd, install bussrv in a place such as",
        "/opt/bussrv, and make the files in one such as /etc/bussrv.",
    ]
