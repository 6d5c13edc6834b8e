"""Takes what a report says from the tables of an audit.

Each table is aggregated by Spark; what comes back is small, whatever the journals hold. The same tables always give the
same facts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bussrv.audit.html import of_journals, of_services, of_sessions, of_trouble
from bussrv.audit.html.asking import Tables
from bussrv.audit.html.model import Facts
from bussrv.audit.period import Period

AT_ONCE = 4
"""How many questions Spark is asked at the same time: planning each takes longer than answering it."""


def facts(tables: Tables, summary: Mapping[str, Any], period: Period) -> Facts:
    """What a report says.

    :param tables: all tables of the audit, by name.
    :param summary: what ``summary.json`` holds. ``version`` and ``seals`` are read, and ``audited``, which says in
        UTC when that was, if it is there.
    :param period: what the audit is about.
    """
    scope = of_journals.scope(tables, period)
    axis = scope.axis
    keys, trusted = of_journals.keys(summary)
    questions: dict[str, Callable[[], Any]] = {
        "servers": lambda: of_journals.servers(tables, axis),
        "boots": lambda: of_journals.boots(tables),
        "kinds": lambda: of_journals.kinds(tables),
        "findings": lambda: of_journals.findings(tables),
        "vouching": lambda: of_journals.vouching(tables),
        "vouched": lambda: of_journals.vouched(tables),
        "unvouched": lambda: of_journals.unvouched(tables),
        "protocols": lambda: of_sessions.protocols(tables, axis, scope.servers),
        "far_sessions": lambda: of_sessions.far_sessions(tables),
        "churn": lambda: of_sessions.churn(tables, axis),
        "durations": lambda: of_sessions.durations(tables),
        "closings": lambda: of_sessions.closings(tables),
        "talkers": lambda: of_sessions.talkers(tables),
        "talked_bytes": lambda: of_sessions.talked_bytes(tables),
        "service_totals": lambda: of_services.totals(tables),
        "uptimes": lambda: of_services.uptimes(tables, axis),
        "flapping": lambda: of_services.flapping(tables),
        "orphans": lambda: of_services.orphans(tables),
        "unused": lambda: of_services.unused(tables),
        "refusals": lambda: of_trouble.refusals(tables),
        "refused": lambda: of_trouble.refused(tables),
        "storms": lambda: of_trouble.storms(tables),
        "identities": lambda: of_trouble.identities(tables),
        "links": lambda: of_trouble.links(tables),
        "leases": lambda: of_trouble.leases(tables),
        "events": lambda: of_trouble.events(tables),
    }
    with ThreadPoolExecutor(AT_ONCE) as asking:
        asked = {name: asking.submit(question) for name, question in questions.items()}
        answers = {name: answer.result() for name, answer in asked.items()}
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
        **answers,
    )
