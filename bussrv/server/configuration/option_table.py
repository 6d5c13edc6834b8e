"""The one table of options, for the command line, environment variables, the configuration file and the documentation.

Its rows (:class:`bussrv.options.Option`) come from three places:

1. :class:`ServerOptions` declares the options of the server as a whole, as fields.
2. :class:`bussrv.settings.Settings` declares limits and other settings in the same way.
3. Each wire format that is installed has one option: where it listens. Wire formats and hosted services are plugins, so
   these rows, and the names that ``--services`` takes, are known only when the server starts.

A *kind* (:class:`bussrv.options.ValueKind`, :mod:`bussrv.server.configuration.option_kinds`) checks a value from any of
these sources, and makes the *setting* of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from bussrv.interfaces import IHostedService, IWireFormat
from bussrv.journal.batch import Rotation, SyncMode
from bussrv.journal.bounds import LONGEST_ROTATION
from bussrv.journal.upkeep import UpkeepPolicy
from bussrv.options import (
    BYTES,
    FILE,
    FLAG,
    SECONDS,
    Choice,
    ListOf,
    Network,
    Option,
    OptionGroup,
    ServerId,
    Text,
    Whole,
    rows,
)
from bussrv.server.configuration.option_kinds import (
    AdminUrl,
    CheckerDescription,
    CommandWords,
    Endpoint,
    JournalDirectory,
    JournalOrigin,
    LogKey,
    ServiceNames,
    Url,
    UserOfNetwork,
    WitnessUrl,
)
from bussrv.server.log.levels import PARTS, Levels, LogLevelsKind
from bussrv.settings import Settings

ADMIN_ENDPOINT = "tcp:7280:interface=127.0.0.1"
WITNESS_ENDPOINT = "tcp:7281:interface=127.0.0.1"
LogFormat = Literal["text", "json"]

ENDPOINTS = OptionGroup("endpoints", "Endpoints of wire formats")
ADMIN = OptionGroup("admin", "The admin interface")
SERVER = OptionGroup("server", "The server")
USERS = OptionGroup("users", "Who clients are")
JOURNAL = OptionGroup("journal", "The journal", reloadable=False)


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
    log_level: Levels = SERVER.option(
        LogLevelsKind(),
        Levels(),
        "The least level of the lines in the log. `warn` leaves out everything except warnings and errors. Parts of "
        f"the server may have others, such as `info,journal=debug`. The parts: {', '.join(PARTS)}. At `info`, lines of "
        "Twisted begin at `warn`.",
    )
    log_format: LogFormat = SERVER.option(
        Choice(get_args(LogFormat)),
        "text",
        "The form of the lines in the log: `text` for people, or `json`, one object a line, for programs.",
        reloadable=False,
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
        "A network and the user of all Inbus clients in it, such as 192.168.7.0/24=cameras. Inbus has no secrets: a "
        "sender that forges a source address becomes that user. Of several networks the first one counts. May be "
        "repeated.",
        example=["192.168.7.0/24=cameras"],
    )
    link_user: tuple[tuple[Network, str], ...] = USERS.option(
        ListOf(UserOfNetwork(), "networks and users"),
        (),
        "A network and the user of linked servers in it that prove nothing, such as 10.0.0.5/32=attic. For servers "
        "that know neither tokens nor TLS: every machine with such an address becomes that user. Of several networks "
        "the first one counts. May be repeated.",
        example=["10.0.0.5/32=attic"],
    )
    admin: str | None = ADMIN.option(
        Endpoint(ADMIN_ENDPOINT),
        ADMIN_ENDPOINT,
        "The address of the admin interface, an HTTP server: an endpoint description of Twisted, a port of the "
        "loopback interface, or `off`. If nothing sets it and the port is busy, the server starts without the "
        "interface.",
        reloadable=False,
    )
    admin_host: tuple[str, ...] = ADMIN.option(
        ListOf(Text(), "names"),
        (),
        "A name of this server in the `Host` header of requests to the admin interface, such as hall.example. Its "
        "address and `localhost` are always allowed. Requests with another name are refused, `bad-host`. May be "
        "repeated.",
        example=["hall.example"],
    )
    admin_token_file: Path | None = ADMIN.option(
        FILE,
        None,
        "A file with the token that writing through the admin interface takes if there is neither `--auth` nor "
        "`--policy`. The server makes it, with mode 0600. Without a journal and without this option nobody may write.",
        unset="beside the journal, named after it with `.admin-token` at the end",
        example="/etc/bussrv/hall.admin-token",
    )
    admin_peer: tuple[str, ...] = ADMIN.option(
        ListOf(AdminUrl(), "URLs"),
        (),
        "The admin interface of another server, such as https://attic.example:7280, that is asked for its state every "
        "five seconds: the dashboard and `bussrv servers` show all of them together. May be repeated. All servers may "
        "have the same list: none shows itself twice.",
        example=["https://attic.example:7280"],
    )
    admin_peer_token_file: Path | None = ADMIN.option(
        FILE,
        None,
        "A file with the token that this server shows to the servers of `--admin-peer`, over TLS or on this machine. "
        'Its user needs `admin = "read"` there.',
        unset="nothing is shown",
        example="/etc/bussrv/peers.token",
    )
    admin_peer_ca: Path | None = ADMIN.option(
        FILE,
        None,
        "A file with the authorities that may sign the certificates of the servers of `--admin-peer`, in PEM.",
        unset="those that the system trusts",
        example="/etc/bussrv/ca.pem",
    )
    audit_summary: Path | None = ADMIN.option(
        FILE,
        None,
        "The file `summary.json` of an audit that runs beside the server. The dashboard shows what it says of the "
        "journal. The file need not be there at the start.",
        unset="the dashboard shows no audit",
        example="/var/lib/bussrv/bussrv-audit/summary.json",
    )
    incident_webhook: str | None = ADMIN.option(
        Url(),
        None,
        "A URL that the server posts each incident to, as JSON, when it begins and when it is over. Of `https`, the "
        "certificate is checked. The URL may hold a secret: the log has its host only.",
        unset="none",
        example="https://alerts.example/bussrv",
    )
    on_incident: tuple[str, ...] | None = ADMIN.option(
        CommandWords(),
        None,
        "A command that the server runs when an incident begins, and when it is over. No shell is involved. The "
        "incident is in the variable `BUSSRV_INCIDENT` of its environment, as JSON.",
        unset="none",
        example=["/usr/local/bin/page-somebody"],
    )
    journal: Path | None = JOURNAL.option(
        JournalDirectory(),
        Path("bussrv-journal"),
        "The directory of the journal. With `off` nothing is written, and the other options of the journal have no "
        "effect.",
    )
    journal_sync: SyncMode = JOURNAL.option(
        Choice(get_args(SyncMode)),
        "always",
        "The moment at which a change is durable, so that its client is answered. `always`: when it is on the disk. "
        "`interval`: when it is written; it is on the disk at most a second later. `off`: when it is written.",
    )
    journal_segment_bytes: int = JOURNAL.option(
        Whole("bytes", most=LONGEST_ROTATION),
        Rotation().bytes,
        "Bytes of a segment. A segment that has reached this size ends, and the next record begins another one.",
    )
    journal_segment_age: float = JOURNAL.time(
        Rotation().age,
        "Seconds after which a segment that has records ends. The next record begins another one.",
    )
    journal_seal_interval: float = JOURNAL.time(
        UpkeepPolicy().seal_interval,
        "Seconds between two seals of a growing segment. Records after the last seal are not sealed yet.",
    )
    journal_key: Path | None = JOURNAL.option(
        FILE,
        None,
        "The file of the private key that seals are signed with. `bussrv journal keygen` makes it.",
        unset="seals are not signed",
        example="/etc/bussrv/hall.key",
    )
    journal_origin: str | None = JOURNAL.option(
        JournalOrigin(),
        None,
        "The name of the journal in its checkpoints, like `example.com/hall`. Witnesses know the journal by it: no "
        "other journal may ever have it.",
        unset="the one in the journal, or `bussrv.local/` and the server id",
        example="example.com/hall",
    )
    witness: tuple[str, ...] = JOURNAL.option(
        ListOf(WitnessUrl(), "witnesses"),
        (),
        "A witness that is asked to cosign the checkpoints of the journal: its URL, a blank, and its verifier key, "
        "which `bussrv witness` prints. May be repeated. It is asked after seals, at most once a minute, and when a "
        "segment ends. It needs `--journal-key`.",
        example=["https://attic.example:7281 attic.example/w1+73e1f334+BDtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"],
        reloadable=True,
    )
    witness_for: tuple[str, ...] = JOURNAL.option(
        ListOf(LogKey(), "verifier keys"),
        (),
        "The verifier key of the journal of another server, such as one that is linked with this one, which "
        "`bussrv journal checkpoint` prints there. This server is a witness for it: it cosigns a "
        "checkpoint only if everything is still there that it cosigned before. May be repeated. It needs "
        "`--witness-key` and `--witness-name`.",
        reloadable=True,
        example=["hall.example/journal+69eec8f3+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"],
    )
    witness_key: Path | None = JOURNAL.option(
        FILE,
        None,
        "The file of the private key that this server cosigns with, as a witness. `bussrv journal keygen` makes it. It "
        "is not the one of `--journal-key`.",
        unset="this server is no witness",
        example="/etc/bussrv/witness.key",
    )
    witness_name: str | None = JOURNAL.option(
        JournalOrigin("a witness"),
        None,
        "The name of this server as a witness, like `attic.example/w1`. It stays for ever.",
        unset="none",
        example="attic.example/w1",
    )
    witness_listen: str | None = JOURNAL.option(
        Endpoint(WITNESS_ENDPOINT),
        WITNESS_ENDPOINT,
        "The address at which this server is a witness, if `--witness-key` is set: an endpoint description of Twisted, "
        "a port of the loopback interface, or `off`. Nobody logs in there: a request needs the signature of a journal.",
    )
    journal_min_free: int | None = JOURNAL.option(
        Whole("bytes", least=0),
        None,
        "Bytes that stay free on the volume of the journal. With less, changes are refused, `journal-unavailable`, "
        "until there is room again. 0: none stay free.",
        unset="the smaller of 1 GiB and 5 %",
        example=1 << 30,
    )
    journal_compress: bool = JOURNAL.option(
        FLAG,
        UpkeepPolicy().compress,
        "Compress closed segments.",
    )
    journal_retain_age: float | None = JOURNAL.option(
        SECONDS,
        UpkeepPolicy().retain_age,
        "Seconds after its last record at which a closed segment is removed.",
        unset="never",
        example=31_536_000.0,
    )
    journal_retain_bytes: int | None = JOURNAL.option(
        BYTES,
        UpkeepPolicy().retain_bytes,
        "Bytes that all segments together may take on the disk. Beyond it the oldest closed segments are removed.",
        unset="never",
        example=10 << 30,
    )
    journal_retain_shipped: bool = JOURNAL.option(
        FLAG,
        UpkeepPolicy().retain_shipped,
        "Remove a closed segment only once `bussrv journal ship` has read it back from an object store.",
    )
    journal_ship_within: float = JOURNAL.time(
        UpkeepPolicy().ship_within,
        "Seconds after its end within which a closed segment is to be shipped to an object store, if this journal is "
        "shipped at all. Later than that, the check `shipping` is degraded.",
    )
    journal_pseudonyms: Path | None = JOURNAL.option(
        FILE,
        None,
        "A file of keys. With it, users and addresses are journaled as pseudonyms. The server makes the file.",
        unset="no pseudonyms",
        example="/etc/bussrv/pseudonyms",
    )
    journal_salvage: bool = JOURNAL.option(
        FLAG,
        False,
        "Start even if the journal is damaged, and begin a new chain after the damage. Use it for one start only.",
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
        help=f"The address of {wire_format.name} ({wire_format.summary}): an endpoint description of Twisted, a "
        "port of the loopback interface, or `off`.",
        group=ENDPOINTS,
        default=wire_format.default_endpoint,
        reloadable=False,
    )
