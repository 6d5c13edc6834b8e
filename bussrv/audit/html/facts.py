"""Takes what a report says from the tables of an audit.

Each table is aggregated by Spark; what comes back is small, whatever the journals hold. The same tables always give the
same facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bussrv.audit.html import of_journals, of_services, of_sessions, of_trouble
from bussrv.audit.html.asking import Tables
from bussrv.audit.html.model import Facts
from bussrv.audit.period import Period
from bussrv.audit.questions import Question, ask


def facts(tables: Tables, summary: Mapping[str, Any], period: Period) -> Facts:
    """What a report says.

    :param tables: all tables of the audit, by name.
    :param summary: what ``summary.json`` holds. ``version`` and ``seals`` are read, and ``audited``, which says in
        UTC when that was, if it is there.
    :param period: what the audit is about.
    """
    scope = ask({"scope": of_journals.scope(tables, period)})["scope"]
    axis = scope.axis
    keys, trusted = of_journals.keys(summary)
    questions: dict[str, Question[Any]] = {
        "servers": of_journals.servers(tables, axis),
        "boots": of_journals.boots(tables),
        "kinds": of_journals.kinds(tables),
        "findings": of_journals.findings(tables),
        "vouching": of_journals.vouching(tables),
        "vouched": of_journals.vouched(tables),
        "unvouched": of_journals.unvouched(tables),
        "protocols": of_sessions.protocols(tables, axis, scope.servers),
        "far_sessions": of_sessions.far_sessions(tables),
        "churn": of_sessions.churn(tables, axis),
        "durations": of_sessions.durations(tables),
        "closings": of_sessions.closings(tables),
        "talkers": of_sessions.talkers(tables),
        "talked_bytes": of_sessions.talked_bytes(tables),
        "service_totals": of_services.totals(tables),
        "uptimes": of_services.uptimes(tables, axis),
        "flapping": of_services.flapping(tables),
        "orphans": of_services.orphans(tables),
        "unused": of_services.unused(tables),
        "refusals": of_trouble.refusals(tables),
        "refused": of_trouble.refused(tables),
        "storms": of_trouble.storms(tables),
        "identities": of_trouble.identities(tables),
        "links": of_trouble.links(tables),
        "leases": of_trouble.leases(tables),
        "events": of_trouble.events(tables),
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
