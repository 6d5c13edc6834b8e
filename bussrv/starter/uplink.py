"""The texts of an uplink to NATS, for a new server. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import Template

from msgspec import Struct

from bussrv.server.configuration.option_texts import toml_value
from bussrv.starter import texts

UNIT = "bussrv-uplink.service"
TOKEN = "uplink.token"
TOKENS = "tokens"
"""The file with the hash of the token, for the server."""

USER = "uplink"
"""The user that the uplink is, to the server."""

STATE = Path("/var/lib/bussrv-uplink")

_POLICY = Template("""
# The uplink is a linked server: it tells of the sessions and services of all other servers of its net, and forwards
# what they send. To restrict it, name the services here, such as "garden/*".
[[rule]]
users = [$user]
link = [$node]
tell = ["*"]
provide = ["*"]
publish = ["*"]
send = ["*"]
request = ["*"]
address = ["*"]
observe = ["*"]
watch = ["*"]
""")

# Wanted by the server: so it starts again with it, also after a crash of the server, which stops it. With status 6,
# another uplink has taken its place: started again, it would take that of the other one.
_UNIT = Template("""\
[Unit]
Description=bussrv uplink to NATS
After=bussrv.service
BindsTo=bussrv.service
StartLimitIntervalSec=0

[Service]
Type=exec
User=$user
ExecStart=$command
Restart=always
RestartSec=5
RestartPreventExitStatus=6
StateDirectory=bussrv-uplink
StateDirectoryMode=0700
${hardening}
[Install]
WantedBy=bussrv.service
""")


class NewUplink(Struct, frozen=True, kw_only=True):
    """The choices for an uplink.

    :ivar url: of NATS, as ``bussrv uplink`` takes it.
    :ivar net: the name of the net.
    :ivar keep: the services of which NATS keeps publications.
    """

    url: str
    net: str
    keep: Sequence[str] = ()


def policy(wanted: NewUplink) -> str:
    """The rule for it, which follows those of the users."""
    return _POLICY.substitute(user=toml_value(USER), node=toml_value(f"uplink/{wanted.net}"))


def command(wanted: NewUplink, directory: Path, *, socket: Path, state: Path) -> list[str]:
    """The words of its command.

    :param directory: that of the files of the server.
    :param socket: the directory of the socket.
    :param state: the directory that says how far it is in what is kept.
    """
    words = ["bussrv", "uplink", wanted.url, "--net", wanted.net, "--bus", f"unix:{socket / texts.SOCKET}"]
    words += ["--bus-token-file", str(directory / TOKEN), "--state", str(state)]
    return [*words, *(word for service in wanted.keep for word in ("--keep", service))]


def unit(wanted: NewUplink, directory: Path, programs: Path, user: str) -> str:
    """The unit of systemd.

    :param programs: the directory of ``bussrv``.
    :param user: the user of the system that the server runs as; nobody else may open the socket.
    """
    name, *words = command(wanted, directory, socket=texts.RUNTIME, state=STATE)
    return _UNIT.substitute(
        user=user,
        command=texts.unit_command([str(programs / name), *words]),
        hardening=texts.hardening(programs / name, directory / TOKEN),
    )
