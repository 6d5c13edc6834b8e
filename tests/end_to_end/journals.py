from pathlib import Path

from bussrv.events import Event
from bussrv.journal.reading import read_journal
from bussrv.journal.record import Record
from bussrv.journal.segment import list_segments


def records(journal: Path) -> list[Record]:
    return list(read_journal(journal)) if list_segments(journal) else []


def events_of(journal: Path, kind: type[Event]) -> list[Event]:
    return [record.event for record in records(journal) if isinstance(record.event, kind)]
