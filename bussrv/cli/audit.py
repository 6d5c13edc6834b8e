"""``bussrv audit``: check journals and report sessions, services and events."""

from __future__ import annotations

from typing import Any

from bussrv.audit.arguments import PARAMETERS
from bussrv.cli.command import Command

DESCRIPTION = """
Check journals for records that are damaged, missing, repeated or contradictory, and report sessions, services and
events. JOURNAL is a journal directory, or its URL. The last line of the output is the path of summary.json. Needs
PySpark (pip install 'bussrv[audit]', in a checkout: pip install -e '.[audit]') and Java 17 or newer.
"""


def _audit(**given: Any) -> int:
    from bussrv.audit.job import Asked, run

    return run(Asked(**given))


command = Command(
    name="audit",
    help=DESCRIPTION,
    params=list(PARAMETERS),
    callback=_audit,
    examples=("bussrv audit bussrv-journal",),
    statuses={0: "clean", 1: "findings", 2: "the journals could not be judged"},
)
