from pathlib import Path

from bussrv.events import Event
from bussrv.journal.record import Record
from bussrv.journal.segment import list_segments, read_segment


def records(journal: Path) -> list[Record]:
    return [record for path in list_segments(journal) for record in read_segment(path)]


def events_of(journal: Path, kind: type[Event]) -> list[Event]:
    return [record.event for record in records(journal) if isinstance(record.event, kind)]
