"""What a report says. Plain values, few of them however much the journals hold.

Moments are UTC microseconds since 1970; ``..._seconds`` are seconds; shares are 0 to 1. ``None``: it does not apply, or
the journal does not say. A server, session, service, address, actor or routing id is what somebody called it: any text.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from bussrv.audit.html.axis import Axis

T = TypeVar("T")

BANDS = (1, 10, 60, 600, 3600, 6 * 3600, 86400)
"""Sessions are counted by how long they lasted, in seconds: less than the first, less than the second and so on."""


class Listing(Struct, Generic[T], frozen=True):
    """The first rows of a table, and how many it has."""

    rows: tuple[T, ...] = ()
    total: int = 0


class Finding(Struct, frozen=True, kw_only=True):
    """A row of the table of findings."""

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


class Kind(Struct, frozen=True):
    """How many findings of one kind there are."""

    severity: str
    kind: str
    number: int


class Server(Struct, frozen=True, kw_only=True):
    """A server, and in which share of each step of the axis it ran."""

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
    """A run of a server."""

    server: str
    boot: str
    first_moment: int
    last_moment: int
    records: int
    crashed: bool
    ended: bool
    down_seconds: float | None = None
    version: str | None = None


class Vouching(Struct, frozen=True, kw_only=True):
    """The segments of one journal, and how many of them are vouched for by a seal."""

    journal: str
    server: str | None
    segments: int
    records: int
    bytes: int
    closed: int
    open: int
    unsealed: int
    vouched: int


class Segment(Struct, frozen=True, kw_only=True):
    """A segment that no seal vouches for."""

    segment: int
    file: str
    sealed: str
    server: str | None = None
    first_seq: int | None = None
    last_seq: int | None = None


class Protocol(Struct, frozen=True, kw_only=True):
    """The sessions of one wire format, and how many were open at the same time, step by step."""

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


class Churn(Struct, frozen=True):
    """How many sessions were opened and closed in each step."""

    opened: tuple[int, ...] = ()
    closed: tuple[int, ...] = ()


class Named(Struct, frozen=True):
    """A number of something."""

    name: str | None
    number: int


class Service(Struct, frozen=True, kw_only=True):
    """A service, and which share of each step of the axis it was provided."""

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
    """Somebody who waited for a service that nobody provided."""

    server: str
    session: str
    service: str
    begin: int
    end: int
    ended: bool
    waited_seconds: float
    protocol: str | None = None
    routing_id: str | None = None


class Talker(Struct, frozen=True, kw_only=True):
    """Who sent and received, and how much."""

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
    address: str | None = None


class Refusal(Struct, frozen=True, kw_only=True):
    """What was refused or failed, for one reason."""

    event: str
    number: int
    suppressed: int
    first_moment: int
    last_moment: int
    reason: str | None = None
    limit: str | None = None


class Refused(Struct, frozen=True, kw_only=True):
    """An address that was refused something."""

    number: int
    suppressed: int
    first_moment: int
    last_moment: int
    address: str | None = None
    actors: int = 0


class Storm(Struct, frozen=True, kw_only=True):
    """One address that connected again and again."""

    server: str
    begin: int
    end: int
    openings: int
    peak: int
    protocol: str | None = None
    address: str | None = None


class Identity(Struct, frozen=True, kw_only=True):
    """A routing id that several sessions held at the same time."""

    server: str
    routing_id: str
    sessions: int
    overlaps: int
    first_moment: int
    last_moment: int
    addresses: tuple[str, ...] = ()
    actors: tuple[str, ...] = ()


class Link(Struct, frozen=True, kw_only=True):
    """The link of a server to another one."""

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
    """An Inbus client that did not renew.

    :ivar kind: ``subscription``, or ``service``: it provided one.
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


class Recorded(Struct, frozen=True):
    """How many records of an event there are, and how many more were left out because one address caused too many."""

    event: str
    outcome: str
    records: int
    suppressed: int


class Facts(Struct, frozen=True, kw_only=True):
    """Everything that a report says. With nothing but defaults: a report about nothing.

    :ivar axis: ``None``: nothing happened in the period.
    :ivar keys: the fingerprints of those that signed the seals; ``None``: signatures were not looked at.
    :ivar trusted: the fingerprint of the key that was given to the audit.
    :ivar audited: when, as text, if the summary says so.
    :ivar far_sessions: sessions of other servers, known over links; they are counted nowhere else.
    :ivar talked_bytes: of all talkers.
    """

    version: str = ""
    audited: str | None = None
    since: int | None = None
    until: int | None = None
    axis: Axis | None = None
    kinds: tuple[Kind, ...] = ()
    findings: tuple[Finding, ...] = ()

    records: int = 0
    boot_count: int = 0
    crashes: int = 0
    servers: Listing[Server] = Listing()
    boots: Listing[Boot] = Listing()
    vouching: Listing[Vouching] = Listing()
    vouched: Vouching | None = None
    unvouched: Listing[Segment] = Listing()
    keys: tuple[str, ...] | None = None
    trusted: str | None = None

    protocols: Listing[Protocol] = Listing()
    far_sessions: int = 0
    churn: Churn = Churn()
    durations: tuple[int, ...] = ()
    closings: Listing[Named] = Listing()

    service_totals: ServiceTotals = ServiceTotals()
    uptimes: tuple[Service, ...] = ()
    flapping: Listing[Service] = Listing()
    orphans: Listing[Orphan] = Listing()
    unused: Listing[Service] = Listing()

    talkers: Listing[Talker] = Listing()
    talked_bytes: int = 0
    refusals: Listing[Refusal] = Listing()
    refused: Listing[Refused] = Listing()
    storms: Listing[Storm] = Listing()
    identities: Listing[Identity] = Listing()
    links: Listing[Link] = Listing()
    leases: Listing[Lease] = Listing()
    events: Listing[Recorded] = Listing()
