"""Journals to audit, written as the server writes them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bussrv import events as ev
from bussrv.journal import record
from bussrv.journal.record import Record
from bussrv.journal.segment import segment_name

START = 1_800_000_000_000_000
STEP = 1_250_000
"""From one record to the next, in microseconds."""


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


def lines(records: Iterable[Record]) -> list[bytes]:
    return [record.encode(each) for each in records]


def write_journal(directory: Path, *segments: Iterable[bytes], first_seqs: Iterable[int] | None = None) -> Path:
    """A journal directory of these segments: lines, newlines included. By default they are named in a row."""
    directory.mkdir(parents=True)
    (directory / "lock").touch()
    seq = 1
    names = iter(first_seqs or ())
    for segment in segments:
        content = list(segment)
        seq = next(names, seq)
        (directory / segment_name(seq)).write_bytes(b"".join(content))
        seq += len(content)
    return directory


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
    writer.close(other)
    writer.register(one, "tv")
    writer.write(ev.ServiceRefused(session=one, protocol="objects", service="bus/x", reason="reserved-name"))
    writer.write(ev.LimitReached(limit="sessions", value=3, suppressed=7))
    writer.start()
    writer.close(one, reason="server-crashed")
    writer.open(writer.id(1), protocol="inbus", persistent=True)
    writer.register(writer.id(1), "radio")
    writer.write(ev.ConfigReloaded())
    return writer
