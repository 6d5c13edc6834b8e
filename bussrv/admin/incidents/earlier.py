"""The incidents that the journal has of before the start of this boot. They are over.

The last records are judged as a running server judged them: an incident ends when nothing more of it happened for
a while. So an incident has the same id as before the restart, and whoever took note of it need not do so again.
"""

from __future__ import annotations

from pathlib import Path

from bussrv import events as ev
from bussrv.admin.incidents.known import KnownIncidents
from bussrv.events import event_name
from bussrv.incidents.judging import is_incident
from bussrv.incidents.sums import JUDGED, Sums
from bussrv.incidents.tally import QUIET
from bussrv.journal.lines import LinesAfter
from bussrv.journal.record import decode

MOST_RECORDS = 20_000
"""The most records that are read."""

PACE = 60_000_000
"""Microseconds of the journal between two looks."""

_WANTED = frozenset([*map(event_name, JUDGED), event_name(ev.IncidentAcknowledged)])


def read_earlier(directory: Path, server: str, after: int, until: int) -> KnownIncidents:
    """The incidents in some records. This blocks the thread.

    :param server: its id.
    :param after: the number of the record before the first one; ``until``: of the last one.
    :raises JournalError: the records cannot be read.
    """
    known = KnownIncidents()
    sums = Sums(server, known.over)
    lines, now, looked = LinesAfter(directory, after), 0, 0
    try:
        while lines.seq < until:
            page = lines.page(until)
            if not page:
                break
            for line in page:
                if line.event not in _WANTED:
                    continue
                record = decode(line.text)
                now = record.time
                if now - looked >= PACE:
                    looked = now
                    _look(sums, known, now)
                sums.take([record])
                if isinstance(record.event, ev.IncidentAcknowledged):
                    known.note(record)
    finally:
        lines.close()
    _look(sums, known, now)
    return known


def _look(sums: Sums, known: KnownIncidents, now: int) -> None:
    sums.forget(now - QUIET * 1_000_000)
    known.go_on([row for row in sums.rows(now) if is_incident(row)])
