"""Journals that no sound server would write, and rare events."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from bussrv import events as ev
from bussrv.journal.record import Record
from bussrv.journal.segment import list_segments
from tests.audit.journals import Writer, write_journal
from tests.audit.wild_records import wild


def wild_journal(directory: Path, seed: int, size: int = 37) -> Path:
    """Records in no sensible order; the sessions are of this server alone, and maybe the first segments are gone.

    :param size: of a segment, in records.
    """
    server = directory.name

    def own(record: Record) -> Record:
        event = record.event
        return record if event.session is None else replace(record, event=_of(event, f"{server}-1.{event.session}"))

    records = [own(each) for each in wild(server, seed, 150, steady=seed % 2 == 0)]
    some = [records[begin : begin + size] for begin in range(0, len(records), size)]
    write_journal(directory, *some, first_seqs=[*range(1, len(records) + 1, size)])
    for path in list_segments(directory)[: seed % 3]:
        path.unlink()
    return directory


def _of(event: ev.Event, session: str) -> ev.Event:
    return replace(event, session=session)


def stormy(directory: Path) -> Path:
    """Somebody connects again and again with one name; a link that was up before the first segment, and whose clock was
    found to differ, goes down; a witness refuses.
    """
    writer = Writer(directory.name)
    writer.start()
    writer.open(writer.id(1))
    writer.write(ev.SessionIdentified(session=writer.id(1), role="server", routing_id="barn"))
    writer.write(ev.LinkUp(session=writer.id(1), routing_id="barn"))
    writer.open(writer.id(2), protocol="inbus", persistent=True)
    leased = {"session": writer.id(2), "service": "tv", "protocol": "inbus", "peer": "192.0.2.7:5"}
    writer.write(ev.SubscriptionAdded(**leased))
    for _ in range(3):
        writer.write(ev.SubscriptionRenewed(**leased))
    writer.write(ev.SubscriptionRemoved(**leased, reason="lease-expired"))
    writer.open(writer.id(30), protocol="mqtt", persistent=True, expiry=9)
    for until in (8, 9):
        writer.write(ev.SessionLeft(session=writer.id(30), until=until, reason="connection-lost"))
    writer.write(ev.LinkClock(session=writer.id(1), routing_id="barn", ahead=3_000_000, doubt=2_000))
    writer.write(ev.SealWitnessed(witness="w/1", size=6))
    writer.write(ev.SealRefused(witness="w/2", size=6, message="422"))
    for number in range(3, 30):
        writer.open(writer.id(number), routing_id="same", peer=f"192.0.2.1:{number}", suppressed=number % 2 or None)
    writer.write(ev.LinkDown(session=writer.id(1), routing_id="barn", reason="connection-lost"))
    some = [writer.records[:6], writer.records[6:20], writer.records[20:]]
    write_journal(directory, *some, first_seqs=[1, 7, 21])
    list_segments(directory)[0].unlink()
    return directory
