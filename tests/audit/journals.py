"""Journals to audit, written as the server writes them."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from bussrv import events as ev
from bussrv.journal import chain, record
from bussrv.journal.header import Damage, Header, Part, Previous, encode_header, encode_part
from bussrv.journal.record import Record
from bussrv.journal.segment import segment_name
from bussrv.registry.state.fold import RegistryFold

START = 1_800_000_000_000_000
STEP = 1_250_000
"""From one record to the next, in microseconds."""

NO_RECORD = Record(1, START, 1, "hall", "hall-0", ev.ConfigReloaded())
"""What the header of a segment without records is like."""


class Writer:
    """The records of one server, each ``STEP`` after the one before. Its boots are ``SERVER-1``, ``SERVER-2``…"""

    def __init__(self, server: str = "hall", seq: int = 1) -> None:
        self.server = server
        self.boots = 0
        self.boot = f"{server}-0"
        self.seq = seq
        self.records: list[Record] = []

    def write(self, event: ev.Event) -> None:
        time = START + STEP * self.seq
        self.records.append(Record(self.seq, time, STEP * self.seq, self.server, self.boot, event))
        self.seq += 1

    def start(self) -> None:
        """A new boot."""
        self.boots += 1
        self.boot = f"{self.server}-{self.boots}"
        self.write(ev.ServerStarted(version="0.1.0", formats={"objects": "tcp 127.0.0.1:7890"}))

    def id(self, number: int) -> str:
        """The id of a session of the present boot."""
        return f"{self.boot}.{number}"

    def stop(self) -> None:
        self.write(ev.ServerStopped())

    def open(self, session: str, **fields: Any) -> None:
        about = {"protocol": "objects", "routing_id": f"r-{session}", "peer": "192.0.2.1:4711", **fields}
        self.write(ev.SessionOpened(session=session, **about))

    def close(self, session: str, **fields: Any) -> None:
        about = {"protocol": "objects", "reason": "client-closed", "duration": 2_500_000, **fields}
        self.write(ev.SessionClosed(session=session, **about))

    def register(self, session: str, service: str) -> None:
        self.write(ev.ServiceRegistered(session=session, service=service, protocol="objects"))

    def unregister(self, session: str, service: str) -> None:
        self.write(ev.ServiceUnregistered(session=session, service=service, protocol="objects"))


Line = Record | bytes
"""What stands in a segment: a record, or what is there instead of one, newline included."""


def first_seqs_of(segments: Iterable[Sequence[Line]]) -> list[int]:
    """The numbers of segments that are named in a row."""
    return list(accumulate(map(len, segments), initial=1))[:-1]


def chained(
    segments: Sequence[Sequence[Line]],
    first_seqs: Iterable[int] | None = None,
    salvaged: Damage | None = None,
    were_others: bool = True,
) -> list[list[bytes]]:
    """The lines of segments, each with a header and a snapshot, and each line with the hash of the one before: as a
    server writes them, but whatever the records are, and with other lines among them.

    :param salvaged: begin the last segment with a new chain, since this was found.
    :param were_others: before a first segment that does not begin with record 1; they are gone.
    """
    fold, last, written = RegistryFold(), chain.START, []
    previous: Previous | None = None
    numbers = [*(first_seqs or first_seqs_of(segments))]
    if were_others and numbers[:1] > [1]:
        last, previous = chain.line_hash(b"gone"), Previous(1, 1000, chain.line_hash(b"gone, too"))
    for number, segment in zip(numbers, segments, strict=True):
        states = fold.states()
        damage = salvaged if segment is segments[-1] else None
        first = next((each for each in segment if isinstance(each, Record)), NO_RECORD)
        header = Header(
            prev=chain.START if damage else last,
            segment=number,
            parts=len(states),
            time=first.time,
            server=first.server,
            boot=first.boot,
            previous=previous,
            salvaged=damage,
        )
        text = [encode_header(header)]
        for part, state in enumerate(states, 1):
            text.append(encode_part(Part(chain.line_hash(text[-1]), number, part, Raw(state))))
        for each in segment:
            if isinstance(each, bytes):
                text.append(each)
                continue
            fold.apply(each.event, each.time)
            text.append(record.encode(replace(each, prev=chain.line_hash(text[-1]))))
        whole = [line for line in text if line.endswith(b"\n")]
        last, content = chain.line_hash(whole[-1]), b"".join(whole)
        previous = Previous(number, len(content), sha256(content).hexdigest())
        written.append(text)
    return written


def write_lines(directory: Path, segments: Iterable[Iterable[bytes]], first_seqs: Iterable[int]) -> Path:
    """A journal directory of these lines."""
    directory.mkdir(parents=True)
    (directory / "lock").touch()
    for number, segment in zip(first_seqs, segments, strict=True):
        (directory / segment_name(number)).write_bytes(b"".join(segment))
    return directory


def write_journal(
    directory: Path,
    *segments: Sequence[Line],
    first_seqs: Sequence[int] | None = None,
    salvaged: Damage | None = None,
    were_others: bool = True,
) -> Path:
    """A journal directory of these segments, chained. By default they are named in a row."""
    return write_lines(
        directory, chained(segments, first_seqs, salvaged, were_others), first_seqs or first_seqs_of(segments)
    )


def compress(path: Path) -> Path:
    """Put a compressed segment in the place of a segment."""
    target = path.with_name(f"{path.name}.gz")
    target.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return target


def change_line(path: Path, number: int, change: Callable[[bytes], bytes]) -> None:
    """Put something else in the place of a line of a segment; newlines belong to both."""
    text = path.read_bytes().splitlines(keepends=True)
    text[number - 1] = change(text[number - 1])
    path.write_bytes(b"".join(text))


def day(server: str = "hall") -> Writer:
    """A sound journal: a session that provided a service came and went, another was there too, the server stopped."""
    writer = Writer(server)
    writer.start()
    writer.open(writer.id(1), actor="ann")
    writer.register(writer.id(1), "tv")
    writer.open(writer.id(2), protocol="spp", peer="192.0.2.2:5000")
    writer.write(ev.SubscriptionAdded(session=writer.id(2), protocol="spp", service="tv"))
    writer.unregister(writer.id(1), "tv")
    writer.close(writer.id(1), objects_in=3, bytes_in=120)
    writer.close(writer.id(2), protocol="spp", reason="server-stopped")
    writer.stop()
    return writer


def barn() -> Writer:
    """Another server, which crashed once: services that several sessions provide, at once and in turn."""
    writer = Writer("barn", seq=11)
    writer.start()
    one, other = writer.id(1), writer.id(2)
    writer.open(one)
    writer.open(other)
    writer.register(one, "tv")
    writer.register(other, "tv")
    writer.unregister(one, "tv")
    writer.unregister(other, "tv")
    writer.close(other)
    writer.register(one, "tv")
    writer.write(ev.ServiceRefused(session=one, protocol="objects", service="bus/x", reason="reserved-name"))
    writer.write(ev.LimitReached(limit="sessions", value=3, suppressed=7))
    writer.start()
    writer.write(ev.ServerRecovered(sessions_closed=1))
    writer.write(ev.ServiceUnregistered(session=one, service="tv", protocol="objects", reason="server-crashed"))
    writer.close(one, reason="server-crashed")
    writer.open(writer.id(1), protocol="inbus", persistent=True)
    writer.register(writer.id(1), "radio")
    writer.write(ev.ConfigReloaded())
    return writer
