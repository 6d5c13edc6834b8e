"""The facts of a report: plain values, few however large the journals are.

Moments are UTC microseconds since 1970; ``..._seconds`` are seconds; shares are 0 to 1. ``None``: does not apply, or is
not known. Names of servers, services, users and clients are any text: strangers choose them.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from msgspec import Struct

from bussrv.audit.arguments import DEFAULT_OUT
from bussrv.audit.report.axis import Axis
from bussrv.audit.report.evidence import LastSeal, Sealing, Segment
from bussrv.audit.report.incidents import Incident
from bussrv.audit.report.questions import Listing

BANDS = (1, 10, 60, 600, 3600, 6 * 3600, 86400)
"""Upper bounds of the durations by which sessions are counted, in seconds. Longer ones are counted as well."""


class Finding(Struct, frozen=True, kw_only=True):
    """A row of the table of findings, with the client of its session.

    :ivar moment: of a record that it is about; otherwise its segment has records from ``seg_begin`` to ``seg_end``.
    """

    severity: str
    kind: str
    message: str
    server: str | None = None
    boot: str | None = None
    segment: int | None = None
    first_seq: int | None = None
    last_seq: int | None = None
    session: str | None = None
    service: str | None = None
    file: str | None = None
    line: int | None = None
    moment: int | None = None
    journal: str | None = None
    seg_begin: int | None = None
    seg_end: int | None = None
    address: str | None = None
    actor: str | None = None
    claimed: str | None = None

    @property
    def file_name(self) -> str | None:
        """The name of the file, without its directory."""
        return PurePosixPath(self.file).name if self.file else None

    @property
    def directory(self) -> str | None:
        """The journal that it is about."""
        return self.journal or (str(PurePosixPath(self.file).parent) if self.file else None)


class Kind(Struct, frozen=True):
    """The number of findings of one kind."""

    severity: str
    kind: str
    number: int


class Server(Struct, frozen=True, kw_only=True):
    """A server, and the share of each step in which it ran."""

    server: str
    records: int
    first_seq: int
    last_seq: int
    first_moment: int
    last_moment: int
    boots: int
    crashes: int
    ran: tuple[float | None, ...] = ()
    crashed_in: dict[int, int] = {}


class Boot(Struct, frozen=True, kw_only=True):
    """A boot of a server."""

    server: str
    boot: str
    first_moment: int
    last_moment: int
    records: int
    crashed: bool
    ended: bool
    down_seconds: float | None = None
    version: str | None = None


class Protocol(Struct, frozen=True, kw_only=True):
    """The sessions of one wire format, with the most that were open in each step, and the number at its end."""

    protocol: str
    sessions: int
    closed: int
    open: int
    persistent: int
    objects_in: int
    objects_out: int
    bytes_in: int
    bytes_out: int
    most: tuple[int, ...] = ()
    last: tuple[int, ...] = ()

    @property
    def peak(self) -> int:
        """The most sessions that were open at once."""
        return max(self.most, default=0)


class Churn(Struct, frozen=True):
    """The sessions opened and closed in each step."""

    opened: tuple[int, ...] = ()
    closed: tuple[int, ...] = ()


class Named(Struct, frozen=True):
    """A name with a number."""

    name: str | None
    number: int


class Service(Struct, frozen=True, kw_only=True):
    """A service, and the share of each step in which it was provided."""

    service: str
    server: str
    providers: int
    registrations: int
    provided_seconds: float
    provided: bool
    outages: int
    subscribers: int
    unprovided_seconds: float
    availability: float | None = None
    longest_outage_seconds: float | None = None
    mtbf_seconds: float | None = None
    mttr_seconds: float | None = None
    uptime: tuple[float | None, ...] = ()


class ServiceTotals(Struct, frozen=True):
    """All services taken together."""

    known: int = 0
    provided: int = 0
    interrupted: int = 0
    outages: int = 0
    unused: int = 0


class Orphan(Struct, frozen=True, kw_only=True):
    """A subscription to a service that no client provided while it lasted."""

    server: str
    session: str
    service: str
    begin: int
    end: int
    ended: bool
    waited_seconds: float
    protocol: str | None = None
    routing_id: str | None = None


class Traffic(Struct, frozen=True, kw_only=True):
    """The traffic of one client."""

    server: str
    sessions: int
    connected_seconds: float
    objects_in: int
    objects_out: int
    bytes_in: int
    bytes_out: int
    protocol: str | None = None
    routing_id: str | None = None
    actor: str | None = None
    claimed: str | None = None
    address: str | None = None

    @property
    def known_by(self) -> list[str]:
        """Its names, the most telling first."""
        names = (self.routing_id, self.actor, self.claimed, self.address)
        return [each for each in names if each is not None]

    @property
    def bytes(self) -> int:
        """Bytes sent and received."""
        return self.bytes_in + self.bytes_out

    @property
    def objects(self) -> int:
        """Messages sent and received."""
        return self.objects_in + self.objects_out


class Refusal(Struct, frozen=True, kw_only=True):
    """Refusals, failed logins or limits with one event and reason."""

    event: str
    number: int
    suppressed: int
    first_moment: int
    last_moment: int
    reason: str | None = None
    limit: str | None = None

    @property
    def cause(self) -> str | None:
        """The reason, or else the limit."""
        return self.reason or self.limit


class Refused(Struct, frozen=True, kw_only=True):
    """The same of one address."""

    number: int
    suppressed: int
    first_moment: int
    last_moment: int
    address: str | None = None
    actors: int = 0


class Attacked(Struct, frozen=True, kw_only=True):
    """A user with failed logins.

    :ivar sources: the number of addresses; ``addresses`` are some of them.
    """

    number: int
    suppressed: int
    first_moment: int
    last_moment: int
    claimed: str | None = None
    sources: int = 0
    addresses: tuple[str, ...] = ()


class Storm(Struct, frozen=True, kw_only=True):
    """An address that reconnected too often."""

    server: str
    begin: int
    end: int
    openings: int
    peak: int
    protocol: str | None = None
    address: str | None = None


class Identity(Struct, frozen=True, kw_only=True):
    """A routing id that several sessions had at the same time."""

    server: str
    routing_id: str
    sessions: int
    overlaps: int
    first_moment: int
    last_moment: int
    addresses: tuple[str, ...] = ()
    actors: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()


class Link(Struct, frozen=True, kw_only=True):
    """A link between two servers."""

    server: str
    neighbour: str | None
    ups: int
    downs: int
    up_seconds: float
    up: bool
    availability: float | None = None
    mtbf_seconds: float | None = None
    last_reason: str | None = None


class Lease(Struct, frozen=True, kw_only=True):
    """A lease that ran out.

    :ivar kind: ``subscription`` or ``service``.
    """

    server: str
    session: str
    added: int | None
    expired: int
    renewals: int
    kind: str | None = None
    renewed: int | None = None
    routing_id: str | None = None
    address: str | None = None
    service: str | None = None

    @property
    def holder(self) -> str:
        """The routing id of the session, or else its own id."""
        return self.routing_id or self.session


class Recorded(Struct, frozen=True):
    """The number of records of an event, and of those left out because one address caused too many."""

    event: str
    outcome: str
    records: int
    suppressed: int


class Facts(Struct, frozen=True, kw_only=True):
    """All facts of a report. The defaults are those of an empty period.

    :ivar axis: ``None`` if there is no record in the period.
    :ivar keys: the fingerprints of the keys that signed the seals; ``None`` if signatures were not checked.
    :ivar trusted: the fingerprint of the key that was given to the audit.
    :ivar audited: the time of the audit, as text.
    :ivar command: the command line that made it; ``None``: a program did.
    :ivar out: the directory of the audit.
    :ivar remote_sessions: not counted anywhere else.
    :ivar traffic_bytes: those of all clients.
    """

    version: str = ""
    audited: str | None = None
    since: int | None = None
    until: int | None = None
    axis: Axis | None = None
    kinds: tuple[Kind, ...] = ()
    findings: tuple[Finding, ...] = ()
    incidents: Listing[Incident] = Listing()
    happenings: tuple[Incident, ...] = ()

    records: int = 0
    boot_count: int = 0
    crashes: int = 0
    servers: Listing[Server] = Listing()
    boots: Listing[Boot] = Listing()
    sealing: Listing[Sealing] = Listing()
    all_seals: Sealing | None = None
    unverified: Listing[Segment] = Listing()
    keys: tuple[str, ...] | None = None
    trusted: str | None = None
    command: str | None = None
    out: str = str(DEFAULT_OUT)
    last_seals: tuple[LastSeal, ...] = ()

    protocols: Listing[Protocol] = Listing()
    remote_sessions: int = 0
    churn: Churn = Churn()
    durations: tuple[int, ...] = ()
    closings: Listing[Named] = Listing()

    service_totals: ServiceTotals = ServiceTotals()
    uptimes: tuple[Service, ...] = ()
    flapping: Listing[Service] = Listing()
    orphans: Listing[Orphan] = Listing()
    unused: Listing[Service] = Listing()

    traffic: Listing[Traffic] = Listing()
    traffic_bytes: int = 0
    refusals: Listing[Refusal] = Listing()
    refused: Listing[Refused] = Listing()
    attacked: Listing[Attacked] = Listing()
    storms: Listing[Storm] = Listing()
    identities: Listing[Identity] = Listing()
    links: Listing[Link] = Listing()
    leases: Listing[Lease] = Listing()
    events: Listing[Recorded] = Listing()
