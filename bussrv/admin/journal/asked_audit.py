"""``/api/v1/audit``: an audit of the journal that somebody asks for, and its report."""

from __future__ import annotations

from pathlib import Path

from bussrv.admin.http.answers import Answer, Problem
from bussrv.admin.http.routes import Call
from bussrv.admin.journal.audit_runner import AskedAudit
from bussrv.admin.registry.writes import journal
from bussrv.journal.regular import read_regular

MOST_REPORT = 32 << 20
"""The largest report that is sent, in bytes. Reports have a few megabytes."""


async def show(call: Call) -> AskedAudit:
    """The last audit of the journal that was asked for here."""
    return call.shared.audits.last


async def ask(call: Call) -> AskedAudit:
    """Audit the journal now, in a process of its own with the least priority. Answers when it has begun.

    :raises Problem: ``no-journal``.
    """
    directory = call.journal.directory
    await journal(call, "audit")
    call.shared.audits.start(directory)
    return call.shared.audits.last


async def report(call: Call) -> Answer:
    """The report of the last audit that was asked for here: a page to be saved, which loads nothing.

    :raises Problem: ``no-report``.
    """
    out = call.shared.audits.out
    if out is None:
        raise Problem("no-report")
    try:
        text = await call.shared.reading.do(_read, out / "report.html")
    except OSError as error:
        raise Problem("no-report", error.strerror or str(error)) from error
    headers = {
        "Content-Disposition": 'attachment; filename="bussrv-audit.html"',
        "Content-Security-Policy": "sandbox",
        "Cache-Control": "no-store",
    }
    return Answer(text, "text/html; charset=utf-8", headers=headers)


def _read(path: Path) -> bytes:
    with read_regular(path) as file:
        return file.read(MOST_REPORT)
