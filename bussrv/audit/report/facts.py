"""The facts of a report: plain values, few however large the journals are. The same tables always give the same facts.

Moments are UTC microseconds since 1970; ``..._seconds`` are seconds; shares are 0 to 1. ``None``: does not apply, or is
not known. Names of servers, services, users and clients are any text: strangers choose them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from bussrv.audit.arguments import DEFAULT_OUT
from bussrv.audit.report import activity, incidents, journals, trouble
from bussrv.audit.report.charts import Axis
from bussrv.audit.report.questions import Listing, Tables
from bussrv.incidents.judging import Happened, Incident

if TYPE_CHECKING:
    from bussrv.audit.fold.stripe import Period

AT_ONCE = 2
"""The most questions asked at the same time. Most are too small for DuckDB to use several processors."""

_QUESTIONS: dict[str, Callable[[Tables], Any]] = {
    "incidents": incidents.incidents,
    "boots": journals.boots,
    "kinds": journals.kinds,
    "findings": journals.findings,
    "sealing": journals.sealing,
    "all_seals": journals.all_seals,
    "unverified": journals.unverified,
    "remote_sessions": activity.remote_sessions,
    "durations": activity.durations,
    "closings": activity.closings,
    "absences": activity.absences,
    "traffic": activity.traffic,
    "traffic_bytes": activity.traffic_bytes,
    "service_totals": activity.service_totals,
    "flapping": activity.flapping,
    "orphans": activity.orphans,
    "unused": activity.unused,
    "refusals": trouble.refusals,
    "refused": trouble.refused,
    "attacked": trouble.attacked,
    "storms": trouble.storms,
    "identities": trouble.identities,
    "links": trouble.links,
    "leases": trouble.leases,
    "events": trouble.events,
}
"""The questions about tables alone, by the fact that answers them."""


class Evidence(Struct, frozen=True):
    """How an audit was made.

    :ivar seals: the last one of each journal that has one.
    :ivar keys: the fingerprints of the keys in force.
    :ivar trusted: the fingerprint of the key that was given to the audit.
    :ivar public_key: the file of that key.
    :ivar command: the command line; ``None``: a program made it.
    :ivar out: the directory of the audit.
    :ivar every: seconds from this audit to the next one; ``None``: there is none.
    :ivar witnessed: the records that witnesses cosigned, if any were named.
    """

    seals: tuple[journals.LastSeal, ...] = ()
    keys: tuple[str, ...] = ()
    trusted: str | None = None
    public_key: str | None = None
    command: str | None = None
    out: str = str(DEFAULT_OUT)
    every: int | None = None
    witnessed: tuple[journals.CoveredRecords, ...] = ()


class Facts(Struct, frozen=True, kw_only=True):
    """All facts of a report. The defaults are those of an empty period.

    :ivar axis: ``None`` if there is no record in the period.
    :ivar keys: the fingerprints of the keys that signed the seals; ``None`` if signatures were not checked.
    :ivar trusted: the fingerprint of the key that was given to the audit.
    :ivar public_key: the file of that key, for commands.
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
    kinds: tuple[journals.KindCount, ...] = ()
    findings: tuple[journals.FindingRow, ...] = ()
    incidents: Listing[Incident] = Listing()
    happenings: Happened = Happened()

    records: int = 0
    boot_count: int = 0
    crashes: int = 0
    servers: Listing[journals.Server] = Listing()
    boots: Listing[journals.Boot] = Listing()
    sealing: Listing[journals.Sealing] = Listing()
    all_seals: journals.Sealing | None = None
    unverified: Listing[journals.UnverifiedSegment] = Listing()
    keys: tuple[str, ...] | None = None
    trusted: str | None = None
    public_key: str | None = None
    command: str | None = None
    out: str = str(DEFAULT_OUT)
    every: int | None = None
    last_seals: tuple[journals.LastSeal, ...] = ()
    witnessed: tuple[journals.CoveredRecords, ...] = ()

    protocols: Listing[activity.Protocol] = Listing()
    remote_sessions: int = 0
    churn: activity.Churn = activity.Churn()
    durations: tuple[int, ...] = ()
    closings: Listing[activity.Named] = Listing()
    absences: Listing[activity.AbsenceRow] = Listing()

    service_totals: activity.ServiceTotals = activity.ServiceTotals()
    uptimes: tuple[activity.ServiceUse, ...] = ()
    flapping: Listing[activity.ServiceUse] = Listing()
    orphans: Listing[activity.Orphan] = Listing()
    unused: Listing[activity.ServiceUse] = Listing()

    traffic: Listing[activity.ClientTraffic] = Listing()
    traffic_bytes: int = 0
    refusals: Listing[trouble.RefusalRow] = Listing()
    refused: Listing[trouble.RefusedAddress] = Listing()
    attacked: Listing[trouble.Attacked] = Listing()
    storms: Listing[trouble.Storm] = Listing()
    identities: Listing[trouble.ContestedId] = Listing()
    links: Listing[trouble.LinkUse] = Listing()
    leases: Listing[trouble.Lease] = Listing()
    events: Listing[trouble.Recorded] = Listing()


def facts(
    tables: Tables,
    summary: Mapping[str, Any],
    period: Period,
    made: Evidence | None = None,
    happened: Happened | None = None,
) -> Facts:
    """The facts of a report.

    :param tables: all tables of the audit.
    :param summary: the content of ``summary.json``. Only ``version``, ``command``, ``seals``, ``last_seals``,
        ``witnessed`` and ``audited`` (a time in UTC) are read. Each may be missing.
    :param period: the time that the audit is about.
    :param made: has the directory of the audit and the file of the key, for commands.
    :param happened: the incidents that are about no finding, if they are known.
    """
    made = made or Evidence()
    scope = journals.scope(tables, period)
    keys, trusted = journals.keys(summary)
    return Facts(
        version=str(summary.get("version", "")),
        audited=summary.get("audited"),
        since=period.since,
        until=period.until,
        axis=scope.axis,
        records=scope.records,
        boot_count=scope.boots,
        crashes=scope.crashes,
        keys=keys,
        trusted=trusted,
        public_key=made.public_key,
        command=summary.get("command"),
        out=made.out,
        last_seals=journals.last_seals(summary),
        witnessed=journals.witnessed(summary),
        happenings=incidents.happenings(tables) if happened is None else happened,
        **_answers(tables, scope),
    )


def _answers(tables: Tables, scope: journals.Scope) -> dict[str, Any]:
    """The facts that questions find, by name. The dearest question comes first."""
    axis = scope.axis
    questions: Mapping[str, Callable[[], Any]] = {
        "protocols": lambda: activity.protocols(tables, axis, scope.servers),
        "servers": lambda: journals.servers(tables, axis),
        "churn": lambda: activity.churn(tables, axis),
        "uptimes": lambda: activity.uptimes(tables, axis),
        **{name: partial(ask, tables) for name, ask in _QUESTIONS.items()},
    }
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(questions, pool.map(lambda ask: ask(), questions.values()), strict=True))
