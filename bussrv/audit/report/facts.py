"""The facts of a report, from the tables of an audit.

Spark aggregates each table, so the facts are few however large the journals are. The same tables always give the same
facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bussrv.audit.report import journal_facts, service_facts, session_facts, trouble_facts
from bussrv.audit.report.model import Facts
from bussrv.audit.report.questions import Question, Tables, ask
from bussrv.audit.tables.period import Period


def facts(tables: Tables, summary: Mapping[str, Any], period: Period) -> Facts:
    """The facts of a report.

    :param tables: all tables of the audit, by name.
    :param summary: the content of ``summary.json``. Only ``version``, ``seals`` and ``audited`` (a time in UTC, which
        may be missing) are read.
    :param period: the time that the audit is about.
    """
    scope = ask({"scope": journal_facts.scope(tables, period)})["scope"]
    axis = scope.axis
    keys, trusted = journal_facts.keys(summary)
    questions: dict[str, Question[Any]] = {
        "servers": journal_facts.servers(tables, axis),
        "boots": journal_facts.boots(tables),
        "kinds": journal_facts.kinds(tables),
        "findings": journal_facts.findings(tables),
        "sealing": journal_facts.sealing(tables),
        "all_seals": journal_facts.all_seals(tables),
        "unverified": journal_facts.unverified(tables),
        "protocols": session_facts.protocols(tables, axis, scope.servers),
        "remote_sessions": session_facts.remote_sessions(tables),
        "churn": session_facts.churn(tables, axis),
        "durations": session_facts.durations(tables),
        "closings": session_facts.closings(tables),
        "traffic": session_facts.traffic(tables),
        "traffic_bytes": session_facts.traffic_bytes(tables),
        "service_totals": service_facts.totals(tables),
        "uptimes": service_facts.uptimes(tables, axis),
        "flapping": service_facts.flapping(tables),
        "orphans": service_facts.orphans(tables),
        "unused": service_facts.unused(tables),
        "refusals": trouble_facts.refusals(tables),
        "refused": trouble_facts.refused(tables),
        "attacked": trouble_facts.attacked(tables),
        "storms": trouble_facts.storms(tables),
        "identities": trouble_facts.identities(tables),
        "links": trouble_facts.links(tables),
        "leases": trouble_facts.leases(tables),
        "events": trouble_facts.events(tables),
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
        **ask(questions),
    )
