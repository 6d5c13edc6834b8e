"""The one table of options, for the command line, environment variables, the configuration file and the documentation.

Its rows (:class:`bussrv.options.Option`) come from three places:

1. :class:`ServerOptions` declares the options of the server as a whole, as fields.
2. :class:`bussrv.settings.Settings` declares limits and other settings in the same way.
3. Each wire format that is installed has one option: where it listens. Wire formats and hosted services are plugins, so
   these rows, and the names that ``--services`` takes, are known only when the server starts.

A *kind* (:class:`bussrv.options.Kind`) checks a value from any of these sources, and makes the *setting* of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Literal, get_args

from bussrv.errors import BadValue
from bussrv.interfaces import IHostedService, IWireFormat
from bussrv.journal.batch import Rotation, SyncMode
from bussrv.journal.upkeep import UpkeepPolicy
from bussrv.options import (
    BYTES,
    FILE,
    FLAG,
    SECONDS,
    Choice,
    Group,
    Kind,
    ListOf,
    Network,
    Option,
    Text,
    Whole,
    rows,
)
from bussrv.policy.users import check_user
from bussrv.settings import Settings
from bussrv.values import shown

OFF = "off"
"""The value that switches off a wire format, the journal, or the services of the server."""

ALL = "all"
"""The value for all installed services."""

MAX_SERVER_ID = 255
"""The most bytes of the routing id of a server."""

MAX_PORT = 0xFFFF

LogLevelName = Literal["debug", "info", "warn", "error"]

_MAX_DIGITS = 20
"""Text of more digits is not converted: Python raises an exception for very long numbers."""


class Endpoint(Kind["str | None"]):
    """The endpoint of a wire format. The setting is an endpoint description of Twisted; ``None``: off.

    :param default: the default of the option. A port alone gets the transport (``tcp`` or ``udp``) of this one.
    """

    takes = "an endpoint description, a port or `off`"

    def __init__(self, default: str) -> None:
        self._default = default

    def check(self, value: object) -> str | None:
        """The endpoint description. A port alone means that port on the loopback interface."""
        if isinstance(value, int) and not isinstance(value, bool):
            return self._of_port(value)
        text = Text().check(value)
        if text == OFF:
            return None
        if text.isdecimal():
            return self._of_port(int(text) if len(text) <= _MAX_DIGITS else MAX_PORT + 1, text)
        if ":" not in text:
            raise BadValue(f"{shown(text)} is no endpoint, such as {self._default}")
        return text

    def _of_port(self, port: int, text: str = "") -> str:
        if not 0 <= port <= MAX_PORT:
            raise BadValue(f"{shown(text or port, str)} is no port: ports are 0 to {MAX_PORT}")
        transport = self._default.partition(":")[0]
        return f"{'tcp' if transport == OFF else transport}:{port}:interface=127.0.0.1"

    def plain(self, setting: Any) -> Any:
        """The endpoint description, or ``off``."""
        return OFF if setting is None else setting


class JournalDirectory(Kind["Path | None"]):
    """The directory of the journal. The setting is a path; ``None``: off."""

    takes = "a directory, or `off`"

    def check(self, value: object) -> Path | None:
        """The absolute path."""
        return None if value == OFF else FILE.check(value)

    def plain(self, setting: Any) -> Any:
        """The path, or ``off``."""
        return OFF if setting is None else str(setting)


class ServiceNames(Kind["tuple[str, ...] | None"]):
    """The services that the server itself provides. The setting has their names; ``None``: all that are installed.

    :param installed: the names of all installed services.
    """

    takes = "`all`, `off`, or names with commas between them"

    def __init__(self, installed: Iterable[str] = ()) -> None:
        self._installed = sorted(installed)

    def check(self, value: object) -> tuple[str, ...] | None:
        """The names, each once."""
        names = value.split(",") if isinstance(value, str) else value
        if names in ([ALL], [OFF]):
            return None if names == [ALL] else ()
        for name in names if isinstance(names, list) else [value]:
            if name not in self._installed:
                raise BadValue(f"{shown(name)} is none of {', '.join([ALL, OFF, *self._installed])}")
        return tuple(dict.fromkeys(names)) if isinstance(names, list) else ()

    def plain(self, setting: Any) -> Any:
        """A list of names, ``all`` or ``off``."""
        return ALL if setting is None else list(setting) or OFF


class ServerId(Kind[str]):
    """A routing id of a server."""

    takes = f"text, at most {MAX_SERVER_ID} bytes"

    def check(self, value: object) -> str:
        """The text."""
        text = Text().check(value)
        if not text.isprintable():
            raise BadValue(f"{shown(text)} has characters that cannot be printed")
        size = len(text.encode())
        if size > MAX_SERVER_ID:
            raise BadValue(f"{shown(text)} has {size} bytes, the most is {MAX_SERVER_ID}")
        return text


class CheckerDescription(Kind[str]):
    """A checker of who clients are: its name, and after a colon what it takes. It may hold secrets.

    The setting has absolute paths: a server may change its working directory.
    """

    takes = "a checker"

    def check(self, value: object) -> str:
        """The description. Nothing is looked up."""
        try:
            text = Text().check(value)
        except BadValue:
            # Without the value.
            raise BadValue("a checker is a text, such as users:/etc/bussrv/users") from None
        kind, colon, argument = text.partition(":")
        return f"{kind}:{FILE.check(argument)}" if kind in FILE_CHECKERS and colon else text


class UserOfNetwork(Kind["tuple[Network, str]"]):
    """A network, and the user that clients in it are."""

    takes = "a network and a user"

    def check(self, value: object) -> tuple[Network, str]:
        """The network, and the name of the user."""
        network, equals, user = Text().check(value).partition("=")
        if not equals:
            raise BadValue(f"{shown(value)} is not of the form NETWORK=USER")
        try:
            return ip_network(network), check_user(user)
        except ValueError as error:
            raise BadValue(f"{shown(value)}: {error}") from error

    def plain(self, setting: Any) -> Any:
        """Both as one text."""
        return f"{setting[0]}={setting[1]}"


FILE_CHECKERS = ("users", "tokens")
"""The checkers that take a file."""

ENDPOINTS = Group("endpoints", "Endpoints of wire formats")
SERVER = Group("server", "The server")
USERS = Group("users", "Who clients are")
JOURNAL = Group("journal", "The journal")


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """The settings of the server as a whole, each declared as a row of the table of options."""

    config: Path | None = SERVER.option(
        FILE,
        None,
        "A TOML file of options. Environment variables override it, and the command line overrides both.",
        unset="none",
        reloadable=False,
        in_file=False,
    )
    server_id: str | None = SERVER.option(
        ServerId(),
        None,
        "The routing id of this server. No other server of the network may have it.",
        unset="the one in the journal, or a new one",
        example="hall",
        reloadable=False,
    )
    services: tuple[str, ...] | None = SERVER.option(
        ServiceNames(),
        None,
        "The services that the server itself provides.",
        reloadable=False,
    )
    link: tuple[str, ...] = SERVER.option(
        ListOf(Text(), "client endpoint descriptions"),
        (),
        "The endpoint of another server, such as tcp:hall.example:7890. This server dials it, and keeps a link to it. "
        "With `:tokenFile=FILE` it shows the other server the token in that file. May be repeated.",
        unset="none",
    )
    link_token: Path | None = SERVER.option(
        FILE,
        None,
        "A file with the token that this server shows to servers that dial it, when these have proved who they are, "
        "over TLS or from this machine. A `tokenFile=` in `--link` is for servers that this one dials.",
        unset="none",
        example="/etc/bussrv/hall.token",
    )
    insecure: bool = SERVER.option(
        FLAG,
        False,
        "Open ports that other machines can reach although nobody has to prove who they are there. Without it, such a "
        "port of a TCP format needs `--auth`, and one of Inbus `--inbus-user`, too.",
        reloadable=False,
    )
    log_level: LogLevelName = SERVER.option(
        Choice(get_args(LogLevelName)),
        "info",
        "The least level of the lines in the log. `warn` leaves out everything except warnings and errors.",
    )
    policy: Path | None = SERVER.option(
        FILE,
        None,
        "A TOML file of rules: what each user may do, receive and see. Everything that no rule allows is denied.",
        unset="every client that need not, or did, prove who it is may do everything",
        example="/etc/bussrv/policy.toml",
    )
    auth: tuple[str, ...] = USERS.option(
        ListOf(CheckerDescription(), "checkers"),
        (),
        "A checker of who clients are: `users:FILE` (users with hashes of their secrets; `bussrv passwd` makes it), "
        "`tokens:FILE` (hashes of bearer tokens; `bussrv token` makes it), `certificates:FIELD` (TLS client "
        "certificates, whose FIELD is the user: `cn`, `dns`, `email` or `uri`), or another checker for twisted.cred "
        "that is installed. May be repeated; they are asked in their order. With it, a client that does not prove who "
        "it is may do nothing, unless the policy says otherwise.",
        unset="none: every client may do everything",
        example=["users:/etc/bussrv/users"],
    )
    inbus_user: tuple[tuple[Network, str], ...] = USERS.option(
        ListOf(UserOfNetwork(), "networks and users"),
        (),
        "A network and the user that Inbus clients in it are, such as 192.168.7.0/24=cameras. Inbus knows no secrets: "
        "whoever forges a source address is that user. Of several networks the first one counts. May be repeated.",
        unset="none",
        example=["192.168.7.0/24=cameras"],
    )
    link_user: tuple[tuple[Network, str], ...] = USERS.option(
        ListOf(UserOfNetwork(), "networks and users"),
        (),
        "A network and the user that linked servers in it are if they prove nothing, such as 10.0.0.5/32=attic. For "
        "servers that know neither tokens nor TLS: whoever gets such an address is that user. Of several networks the "
        "first one counts. May be repeated.",
        unset="none",
        example=["10.0.0.5/32=attic"],
    )
    journal: Path | None = JOURNAL.option(
        JournalDirectory(),
        Path("bussrv-journal"),
        "The directory of the journal. With `off` nothing is written, and the other options of the journal have no "
        "effect.",
        reloadable=False,
    )
    journal_sync: SyncMode = JOURNAL.option(
        Choice(get_args(SyncMode)),
        "always",
        "The moment at which a change is durable, so that its client is answered. `always`: when it is on the disk. "
        "`interval`: when it is written; it is on the disk at most a second later. `off`: when it is written.",
        reloadable=False,
    )
    journal_segment_bytes: int = JOURNAL.size(
        Rotation().bytes,
        "Bytes of a segment. A segment that has reached this size ends, and the next record begins another one.",
        reloadable=False,
    )
    journal_segment_age: float = JOURNAL.time(
        Rotation().age,
        "Seconds after which a segment that has records ends. The next record begins another one.",
        reloadable=False,
    )
    journal_seal_interval: float = JOURNAL.time(
        UpkeepPolicy().seal_interval,
        "Seconds between two seals of a growing segment. Records after the last seal are not sealed yet.",
        reloadable=False,
    )
    journal_key: Path | None = JOURNAL.option(
        FILE,
        None,
        "The file of the private key that seals are signed with. `bussrv journal keygen` makes it.",
        unset="seals are not signed",
        example="/etc/bussrv/hall.key",
        reloadable=False,
    )
    journal_min_free: int | None = JOURNAL.option(
        Whole("bytes", least=0),
        None,
        "Bytes that stay free on the volume of the journal. With less, changes are refused, `journal-unavailable`, "
        "until there is room again. 0: none stay free.",
        unset="the smaller of 1 GiB and 5 %",
        example=1 << 30,
        reloadable=False,
    )
    journal_compress: bool = JOURNAL.option(
        FLAG,
        UpkeepPolicy().compress,
        "Compress closed segments.",
        reloadable=False,
    )
    journal_retain_age: float | None = JOURNAL.option(
        SECONDS,
        UpkeepPolicy().retain_age,
        "Seconds after its last record at which a closed segment is removed.",
        unset="never",
        example=31_536_000.0,
        reloadable=False,
    )
    journal_retain_bytes: int | None = JOURNAL.option(
        BYTES,
        UpkeepPolicy().retain_bytes,
        "Bytes that all segments together may take on the disk. Beyond it the oldest closed segments are removed.",
        unset="never",
        example=10 << 30,
        reloadable=False,
    )
    journal_pseudonyms: Path | None = JOURNAL.option(
        FILE,
        None,
        "A file of keys. With it, users and addresses are journaled as pseudonyms. The server makes the file.",
        unset="no pseudonyms",
        example="/etc/bussrv/pseudonyms",
        reloadable=False,
    )
    journal_salvage: bool = JOURNAL.option(
        FLAG,
        False,
        "Start even if the journal is damaged, and begin a new chain after the damage. Use it for one start only.",
        reloadable=False,
    )


BUILT_IN = (*rows(ServerOptions), *rows(Settings))
"""The rows that do not depend on plugins."""


def table(formats: Iterable[IWireFormat], services: Iterable[IHostedService]) -> tuple[Option, ...]:
    """Every row, those of the installed plugins included."""
    names = ServiceNames(each.name for each in services)
    own = (replace(each, kind=names) if each.sets == "services" else each for each in BUILT_IN)
    return (*map(_format_row, formats), *own)


def _format_row(wire_format: IWireFormat) -> Option:
    return Option(
        name=wire_format.name,
        sets=wire_format.name,
        kind=Endpoint(wire_format.default_endpoint),
        help=f"Where {wire_format.name} listens ({wire_format.summary}): an endpoint description of Twisted, a "
        "port of the loopback interface, or `off`.",
        group=ENDPOINTS,
        default=wire_format.default_endpoint,
        reloadable=False,
    )
