"""The journal of a server whose disk failed twice, and worked again each time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bussrv import events as ev
from tests.end_to_end.journals import records
from tests.end_to_end.linked import assert_journal_is_closed


def assert_failed_twice(journal: Path, kept: Sequence[str], why: str, refused: int) -> None:
    """Check that the journal has every change that was answered, both gaps, and the end of each session.

    :param kept: the services whose registration was answered, in order.
    :param why: the error of the disk.
    :param refused: the least changes that were refused in each gap.
    """
    found = records(journal)
    events = [record.event for record in found]
    assert [record.seq for record in found] == list(range(1, len(found) + 1))
    assert [event.service for event in events if isinstance(event, ev.ServiceRegistered)] == kept
    degraded = [event for event in events if isinstance(event, ev.JournalDegraded)]
    restored = [event for event in events if isinstance(event, ev.JournalRestored)]
    gaps = [type(event) for event in events if isinstance(event, (ev.JournalDegraded, ev.JournalRestored))]
    assert gaps == [ev.JournalDegraded, ev.JournalRestored] * 2
    assert all(why in event.message for event in degraded)
    assert all(event.refused >= refused for event in restored)
    assert_journal_is_closed(events)
