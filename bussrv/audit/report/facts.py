"""The facts of a report, from the tables of an audit; and the last step of every audit, which writes it.

Each table is aggregated where it is, so the facts are few however large the journals are. The same tables always give
the same facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bussrv.audit.arguments import DEFAULT_OUT
from bussrv.audit.output import CSV, REPORT
from bussrv.audit.report import activity_facts, incidents, journal_facts, page
from bussrv.audit.report.evidence import Evidence
from bussrv.audit.report.model import Facts
from bussrv.audit.report.questions import Question, Tables, ask
from bussrv.audit.report.summary import summarize


def facts(
    tables: Tables, summary: Mapping[str, Any], period: journal_facts.Bounds, out: str = str(DEFAULT_OUT)
) -> Facts:
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
        "protocols": activity_facts.protocols(axis, scope.servers),
        "remote_sessions": activity_facts.remote_sessions(),
        "churn": activity_facts.churn(axis),
        "durations": activity_facts.durations(),
        "closings": activity_facts.closings(),
        "traffic": activity_facts.traffic(),
        "traffic_bytes": activity_facts.traffic_bytes(),
        "service_totals": activity_facts.service_totals(),
        "uptimes": activity_facts.uptimes(axis),
        "flapping": activity_facts.flapping(),
        "orphans": activity_facts.orphans(),
        "unused": activity_facts.unused(),
        "refusals": activity_facts.refusals(),
        "refused": activity_facts.refused(),
        "attacked": activity_facts.attacked(),
        "storms": activity_facts.storms(),
        "identities": activity_facts.identities(),
        "links": activity_facts.links(),
        "leases": activity_facts.leases(),
        "events": activity_facts.events(),
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


def finish(tables: Tables, place: Path, period: journal_facts.Bounds, made: Evidence, *, csv: bool) -> dict[str, Any]:
    """Write the report, and CSV if wanted.

    :param tables: those of the audit, for questions.
    :param place: the directory that holds a directory with the Parquet files of each table, on this machine.
    :param period: what the tables are about.
    :returns: the content of ``summary.json``.
    :raises OSError: if it cannot be written.
    """
    totals = summarize(tables, made)
    page.write(place / REPORT, facts(tables, totals, period, made.out))
    if csv:
        from bussrv.audit.query import write_csv

        write_csv(place, place / CSV)
    return totals
