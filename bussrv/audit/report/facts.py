"""The facts of a report, from the tables of an audit.

Each table is aggregated where it is, so the facts are few however large the journals are. The same tables always give
the same facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bussrv.audit.report import incidents, journal_facts, service_facts, session_facts, trouble_facts
from bussrv.audit.report.commands import TABLES
from bussrv.audit.report.model import Facts
from bussrv.audit.report.questions import Question, Tables, ask


def facts(tables: Tables, summary: Mapping[str, Any], period: journal_facts.Bounds, out: str = TABLES) -> Facts:
    """The facts of a report.

    :param tables: all tables of the audit.
    :param summary: the content of ``summary.json``. Only ``version``, ``command``, ``seals``, ``last_seals`` and
        ``audited`` (a time in UTC) are read. Each may be missing.
    :param period: the time that the audit is about.
    :param out: the directory of the audit, for commands that ask it.
    """
    scope = ask(tables, {"scope": journal_facts.scope(period)})["scope"]
    axis = scope.axis
    keys, trusted = journal_facts.keys(summary)
    questions: dict[str, Question[Any]] = {
        "servers": journal_facts.servers(axis),
        "boots": journal_facts.boots(),
        "kinds": journal_facts.kinds(),
        "findings": journal_facts.findings(),
        "incidents": incidents.incidents(),
        "happenings": incidents.happenings(),
        "sealing": journal_facts.sealing(),
        "all_seals": journal_facts.all_seals(),
        "unverified": journal_facts.unverified(),
        "protocols": session_facts.protocols(axis, scope.servers),
        "remote_sessions": session_facts.remote_sessions(),
        "churn": session_facts.churn(axis),
        "durations": session_facts.durations(),
        "closings": session_facts.closings(),
        "traffic": session_facts.traffic(),
        "traffic_bytes": session_facts.traffic_bytes(),
        "service_totals": service_facts.totals(),
        "uptimes": service_facts.uptimes(axis),
        "flapping": service_facts.flapping(),
        "orphans": service_facts.orphans(),
        "unused": service_facts.unused(),
        "refusals": trouble_facts.refusals(),
        "refused": trouble_facts.refused(),
        "attacked": trouble_facts.attacked(),
        "storms": trouble_facts.storms(),
        "identities": trouble_facts.identities(),
        "links": trouble_facts.links(),
        "leases": trouble_facts.leases(),
        "events": trouble_facts.events(),
    }
    return Facts(
        version=str(summary.get("version", "")),
        audited=summary.get("audited"),
        since=period.since,
        until=period.until,
        axis=axis,
        records=scope.records,
        boot_count=scope.boots,
        crashes=scope.crashes,
        keys=keys,
        trusted=trusted,
        command=summary.get("command"),
        out=out,
        last_seals=journal_facts.last_seals(summary),
        **ask(tables, questions),
    )
