"""The texts of the first files of a server. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from string import Template
from urllib.parse import quote

from bussrv.server.configuration.option_texts import toml_value

CONFIGURATION = "bussrv.toml"
POLICY = "policy.toml"
USERS = "users"
AUTHORITY = "ca.pem"
AUTHORITY_KEY = "ca.key"
SERVER = "server.pem"
SERVER_KEY = "server.key"
JOURNAL = "journal"
JOURNAL_KEY = "journal.key"
UNIT = "bussrv.service"
PROFILES = "profiles"
"""The directory of the profiles: a file for each user, without the secret."""

SOCKET = "servers.sock"
"""The socket for the uplink. Under systemd it is in the directory of the server in /run."""

OPERATOR = "operator"
"""The user who may see and steer the server."""

PORTS = {"objects": 7890, "spp": 3002}
"""The ports of the wire formats that are on."""

_CONFIGURATION = Template("""\
# The configuration of a server: TLS, a login for everybody, and a policy. Made by bussrv init.
# `twistd bussrv --sample-config` prints all options. Check this file after each change: bussrv check $here

# Clients of Object System and SPP connect over TLS and log in.
objects = $objects
spp = $spp

# Inbus has neither TLS nor logins, and Business Object is for older clients. To switch Business Object on, use an
# endpoint like those above.
business = "off"
inbus = "off"

# For web pages, use an endpoint like those above, and name their origins, such as https://hall.example, in
# websocket-origin.
websocket = "off"

# The users and their permissions. Add a user: bussrv passwd $users_file NAME. A reload (SIGHUP) reads both files
# again.
auth = [$auth]
policy = $policy

# Every change is journaled, and the journal is sealed with this key. Keep a copy of the key on another machine.
journal = $journal
journal-key = $journal_key
""")

_SERVERS = Template("""
# For linked servers and uplinks alone. Only the user that the server runs as may open this socket.
servers = $servers
""")

_POLICY = Template("""\
# The permissions of users. The rules apply in the order of this file, and the first pattern that matches decides. If no
# pattern matches, the action is denied. Ask for a decision and its reason:
# bussrv policy test --policy $here --user $user publish tv

[groups]
people = [$users]
operators = ["$operator"]

# People may do everything, except read bus/registry, the list of sessions: "*" does not match names like bus/clock.
[[rule]]
groups = ["people"]
provide = ["*"]
publish = ["*"]
watch = ["*", "bus/clock", "bus/statistics"]
request = ["*", "bus/clock", "bus/statistics"]
send = ["*"]
observe = ["*"]
address = ["*"]

# Operators may read everything in the admin interface, and use it to steer the server. It listens on this machine only,
# unless the option admin has another address.
[[rule]]
groups = ["operators"]
admin = "write"
""")

_UNIT = Template("""\
[Unit]
Description=bussrv message bus
After=network.target

[Service]
Type=notify
User=$user
ExecStart=$command
ExecReload=/bin/kill -HUP $$MAINPID
WatchdogSec=30
Restart=on-failure
LimitNOFILE=65536
StateDirectory=bussrv
StateDirectoryMode=0700
${runtime}${hardening}
[Install]
WantedBy=multi-user.target
""")

_RUNTIME = """\
RuntimeDirectory=bussrv
RuntimeDirectoryMode=0700
"""

_HARDENING = Template("""\
UMask=0077
ProtectSystem=strict
ProtectHome=$home
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
NoNewPrivileges=yes
CapabilityBoundingSet=
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
""")

RUNTIME = Path("/run/bussrv")
"""The directory of the server that is there while it runs, under systemd."""

_HOMES = ("/home", "/root", "/run/user")


def configuration(directory: Path, interface: str, *, tokens: Path | None = None) -> str:
    """The configuration file.

    :param directory: the absolute path of the directory of all files.
    :param interface: the address to listen on; empty: all IPv4 addresses of the machine.
    :param tokens: the file with the hash of the token of an uplink; ``None``: there is no uplink.
    """
    listens = f":interface={_escaped(interface)}" if interface else ""
    files = f"privateKey={_escaped(str(directory / SERVER_KEY))}:certKey={_escaped(str(directory / SERVER))}"
    endpoints = {name: toml_value(f"ssl:{port}{listens}:{files}") for name, port in PORTS.items()}
    logins = [f"users:{directory / USERS}", *([] if tokens is None else [f"tokens:{tokens}"])]
    text = _CONFIGURATION.substitute(
        endpoints,
        here=directory / CONFIGURATION,
        auth=", ".join(map(toml_value, logins)),
        users_file=directory / USERS,
        policy=toml_value(str(directory / POLICY)),
        journal=toml_value(str(directory / JOURNAL)),
        journal_key=toml_value(str(directory / JOURNAL_KEY)),
    )
    return text if tokens is None else text + _SERVERS.substitute(servers=toml_value(private_socket(directory)))


def private_socket(directory: Path) -> str:
    """The endpoint of the socket for an uplink."""
    return f"unix:{_escaped(str(directory / SOCKET))}:mode=600"


def policy(directory: Path, users: Iterable[str]) -> str:
    """The policy file: every user may do everything, except read the list of sessions. The operator may read it."""
    users = list(users)
    names = ", ".join(map(toml_value, users))
    return _POLICY.substitute(here=directory / POLICY, user=users[0], users=names, operator=OPERATOR)


def profile_name(user: str) -> str:
    """The name of the file of a user's profile: users may have any character in their names."""
    return f"{quote(user, safe='')}.toml"


def profile(host: str, user: str) -> str:
    """The profile of a user, for the ``bussrv`` command on the machine of that user.

    :param host: the name of the server.
    """
    host = f"[{host}]" if ":" in host else host
    admin = ['admin = "http://127.0.0.1:7280"  # on the machine of the server'] if user == OPERATOR else []
    lines = [
        f"# The profile of one user of the bussrv command: ~/.config/bussrv/profiles.toml, with {AUTHORITY} beside it.",
        "# Write the secret in place of the dots, and keep the file to yourself: chmod 600.",
        f"[{toml_value(user)}]",
        *(f"{name} = {toml_value(f'tls:{host}:{port}')}" for name, port in PORTS.items()),
        *admin,
        f"ca = {toml_value(AUTHORITY)}",
        f"user = {toml_value(user)}",
        'secret = "…"',
    ]
    return "".join(f"{line}\n" for line in lines)


def unit(directory: Path, programs: Path, user: str, *, has_uplink: bool = False) -> str:
    """The unit of systemd.

    :param programs: the directory of ``twistd``.
    :param user: the user of the system that the server runs as.
    """
    twistd, file = programs / "twistd", directory / CONFIGURATION
    words = [str(twistd), "-n", "--pidfile=", "--logfile=-", "bussrv", "--config", str(file)]
    words += ["--journal", "/var/lib/bussrv/journal"]
    words += ["--servers", private_socket(RUNTIME)] if has_uplink else []
    return _UNIT.substitute(
        user=user,
        command=unit_command(words),
        runtime=_RUNTIME if has_uplink else "",
        hardening=hardening(twistd, file),
    )


def hardening(*needed: Path) -> str:
    """The lines of a unit that restrict a service.

    :param needed: files that it has to see.
    """
    is_at_home = any(str(each).startswith(_HOMES) for each in needed)
    return _HARDENING.substitute(home="read-only" if is_at_home else "yes")


def unit_command(words: Iterable[str]) -> str:
    """A command in a unit. Source: systemd.service(5), Command lines."""
    return " ".join(map(_unit_word, words))


def _escaped(text: str) -> str:
    """A part of an endpoint description."""
    return re.sub(r"([\\:=])", r"\\\1", text)


def _unit_word(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return text if re.fullmatch(r"[\w./%$@+,=:-]+", text) else f'"{text}"'
