"""The audit once more, without Spark: slow, simple, one record after the other. What Spark says must be the same."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from bussrv import events as ev
from bussrv.errors import JournalError
from bussrv.journal.header import Header, Part, Previous, decode_header, decode_part
from bussrv.journal.record import Record, decode

Finding = tuple[Any, ...]
"""``(kind, server, boot, first_seq, last_seq, session, service, file, line)``."""

SERVICE_EVENTS = (ev.ServiceRegistered, ev.ServiceUnregistered)


@dataclass
class Answer:
    findings: Counter[Finding] = field(default_factory=Counter)
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    services: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    events: Counter[tuple[str, str, str | None, str]] = field(default_factory=Counter)

    def find(self, kind: str, **place: Any) -> None:
        names = ("server", "boot", "first_seq", "last_seq", "session", "service", "file", "line")
        self.findings[(kind, *[place.get(name) for name in names])] += 1


def audit(journals: Sequence[Path]) -> Answer:
    answer = Answer()
    first_of_segment: dict[int, int] = {}
    records: dict[str, list[Record]] = defaultdict(list)
    for journal in journals:
        for record, segment_first in read(journal, answer):
            records[record.server].append(record)
            first_of_segment[id(record)] = segment_first
    for each in records.values():
        each.sort(key=lambda record: (record.seq, record.time, record.mono))
        answer.events += Counter(
            (each.server, str(each.event.__struct_config__.tag), each.event.protocol, each.event.OUTCOME)
            for each in each
        )
    for server, each in records.items():
        check_numbers(server, each, first_of_segment[id(each[0])], answer)
        check_sessions(each, answer)
        check_services(each, answer)
    return answer


@dataclass
class Segment:
    """What is left of a segment: its lines, and what each of them is; nothing of one that cannot be decompressed."""

    path: Path
    number: int
    content: bytes | None
    lines: list[bytes] = field(default_factory=list)
    meant: list[Record | Header | Part | None] = field(default_factory=list)

    @property
    def header(self) -> Header | None:
        return self.meant[0] if self.meant and isinstance(self.meant[0], Header) else None


def read(journal: Path, answer: Answer) -> Iterator[tuple[Record, int]]:
    segments = [open_segment(path) for path in paths_of(journal)]
    for segment in segments:
        if segment.content is None:
            answer.find("unreadable-segment", file=str(segment.path))
            continue
        *segment.lines, tail = segment.content.split(b"\n")
        if tail:
            kind = "torn-tail" if segment is segments[-1] else "bad-line"
            answer.find(kind, file=str(segment.path), line=len(segment.lines) + 1)
        for number, text in enumerate(segment.lines, 1):
            segment.meant.append(in_place(meaning(text), segment, number))
        check_chain(segment, answer)
        yield from ((each, segment.number) for each in segment.meant if isinstance(each, Record))
    for before, segment in zip([None, *segments], segments, strict=False):
        check_header(before, segment, answer)


def paths_of(journal: Path) -> list[Path]:
    names = sorted({path.name.removesuffix(".gz") for path in journal.glob("*.jsonl*")} - {"manifest.jsonl"})
    return [journal / (name if (journal / name).exists() else f"{name}.gz") for name in names]


def open_segment(path: Path) -> Segment:
    number, content = int(path.name.partition(".")[0]), path.read_bytes()
    try:
        return Segment(path, number, gzip.decompress(content) if path.suffix == ".gz" else content)
    except (OSError, EOFError, zlib.error):
        return Segment(path, number, None)


def in_place(meant: Record | Header | Part | None, segment: Segment, number: int) -> Record | Header | Part | None:
    """The same, unless it is a header or part that does not belong there."""
    if isinstance(meant, Header):
        return meant if (number, meant.segment) == (1, segment.number) else None
    if isinstance(meant, Part):
        return meant if segment.header and (meant.part + 1, meant.snapshot) == (number, segment.number) else None
    return meant


def check_chain(segment: Segment, answer: Answer) -> None:
    before = None
    for number, (text, meant) in enumerate(zip(segment.lines, segment.meant, strict=True), 1):
        place = {"file": str(segment.path), "line": number}
        if meant is None:
            answer.find("bad-line", **place)
        elif before is not None and meant.prev != before:
            said = json.loads(text)
            about = {"first_seq": said.get("seq"), "last_seq": said.get("seq")}
            answer.find("broken-chain", server=said.get("server"), boot=said.get("boot"), **about, **place)
        before = sha256(text).hexdigest()


def check_header(before: Segment | None, segment: Segment, answer: Answer) -> None:
    header, place = segment.header, {"file": str(segment.path), "line": 1}
    if header is None:
        if segment.content is not None and (not segment.meant or segment.meant[0] is not None):
            answer.find("broken-link", **place)
        return
    place |= {"server": header.server, "boot": header.boot}
    if sum(isinstance(each, Part) for each in segment.meant) != header.parts:
        answer.find("bad-line", **place)
    if header.salvaged is not None:
        answer.find("journal-salvaged", first_seq=header.salvaged.seq, last_seq=header.salvaged.seq, **place)
    elif before is not None and not follows(header, before):
        answer.find("broken-link", **place)


def follows(header: Header, before: Segment) -> bool:
    if header.previous is None or header.previous.segment != before.number:
        return False
    if before.content is None:
        return True
    extent = Previous(before.number, len(before.content), sha256(before.content).hexdigest())
    return header.previous == extent and header.prev == sha256(before.lines[-1]).hexdigest()


def meaning(text: bytes) -> Record | Header | Part | None:
    for decoded in (as_record, decode_header, decode_part):
        with suppress(JournalError):
            return decoded(text)
    return None


def as_record(text: bytes) -> Record:
    """:raises JournalError: if it is none, or says too little."""
    record = decode(text)
    name = type(record.event).__name__
    if record.event.session is None and name.startswith(("Session", "ServiceR", "ServiceU")):
        raise JournalError("about no session")
    if json.loads(text)["outcome"] not in ("ok", "refused", "failed"):
        raise JournalError("an unknown outcome")
    return record


def check_numbers(server: str, records: list[Record], named: int, answer: Answer) -> None:
    numbers = [record.seq for record in records]
    for before, seq in pairwise([named - 1, *numbers]):
        if seq > before + 1:
            answer.find("seq-gap", server=server, first_seq=before + 1, last_seq=seq - 1)
    repeated = sorted(seq for seq, times in Counter(numbers).items() if times > 1)
    for seq in repeated:
        if seq - 1 not in repeated:
            last = seq
            while last + 1 in repeated:
                last += 1
            answer.find("seq-duplicate", server=server, first_seq=seq, last_seq=last)


def known_from_the_start(records: list[Record]) -> set[str]:
    """The boots of which everything must be in the journal."""
    return {record.boot for record in records if isinstance(record.event, ev.ServerStarted)}


def is_judged(records: list[Record], session: str) -> bool:
    return records[0].seq == 1 or session.rpartition(".")[0] in known_from_the_start(records)


def check_sessions(records: list[Record], answer: Answer) -> None:
    newest = max({record.boot for record in records}, key=lambda boot: first_seq(records, boot))
    stopped = {record.boot for record in records if isinstance(record.event, ev.ServerStopped)}
    for session in {record.event.session for record in records if record.event.session}:
        mine = [record for record in records if record.event.session == session]
        opened = [record for record in mine if isinstance(record.event, ev.SessionOpened)]
        closed = [record for record in mine if isinstance(record.event, ev.SessionClosed)]
        answer.sessions[session] = describe(mine, opened, closed)
        place = {"server": mine[0].server, "session": session, "boot": opened[0].boot if opened else None}
        for kind, some in (("session-opened-twice", opened), ("session-closed-twice", closed)):
            if len(some) > 1:
                answer.find(kind, first_seq=some[0].seq, last_seq=some[-1].seq, **place)
        if closed and not opened and is_judged(records, session):
            answer.find("session-closed-unopened", first_seq=closed[0].seq, last_seq=closed[0].seq, **place)
        is_over = opened and (opened[0].boot in stopped or opened[0].boot != newest)
        if is_over and not closed and not any(record.event.persistent for record in opened):
            answer.find("session-never-closed", first_seq=opened[0].seq, last_seq=opened[0].seq, **place)


def first_seq(records: list[Record], boot: str) -> int:
    return min(record.seq for record in records if record.boot == boot)


def describe(mine: list[Record], opened: list[Record], closed: list[Record]) -> dict[str, Any]:
    said: dict[str, list[Any]] = defaultdict(list)
    for record in mine:
        for name in ("protocol", "routing_id", "actor", "peer"):
            if getattr(record.event, name) is not None:
                said[name].append(getattr(record.event, name))
    end = closed[0].event if closed else None
    return {
        "server": mine[0].server,
        "protocol": said["protocol"][0] if said["protocol"] else None,
        "routing_id": said["routing_id"][-1] if said["routing_id"] else None,
        "actor": said["actor"][-1] if said["actor"] else None,
        "peer": said["peer"][0] if said["peer"] else None,
        "state": "closed" if closed else "open",
        "opened": opened[0].time if opened else None,
        "closed": closed[0].time if closed else None,
        "duration": end.duration / 1_000_000 if end else None,
        "reason": end.reason if end else None,
        **{
            name: getattr(end, name) if end else None for name in ("objects_in", "objects_out", "bytes_in", "bytes_out")
        },
        "persistent": any(record.event.persistent for record in opened) if opened else None,
        "home": next((record.event.home for record in opened if record.event.home is not None), None),
    }


def check_services(records: list[Record], answer: Answer) -> None:
    """Replay who provides what, and add up for how long somebody does."""
    ever = {(each.event.session, each.event.service) for each in records if isinstance(each.event, SERVICE_EVENTS)}
    end = max(record.time for record in records)
    for service in {service for _, service in ever}:
        registrations = [
            each for each in records if isinstance(each.event, ev.ServiceRegistered) and each.event.service == service
        ]
        times = [each.time for each in registrations]
        providers: set[str] = set()
        provided, since, is_kept = 0, 0, False
        for record in records:
            event, session = record.event, record.event.session or ""
            was_provided = bool(providers)
            if isinstance(event, ev.JournalDegraded | ev.JournalRestored | ev.ServerStarted):
                is_kept = isinstance(event, ev.JournalDegraded)
            if isinstance(event, ev.ServiceRegistered) and event.service == service:
                providers.add(session)
            elif isinstance(event, ev.ServiceUnregistered) and event.service == service:
                if session not in providers and not is_kept and is_judged(records, session):
                    place = {"first_seq": record.seq, "last_seq": record.seq, "session": session, "service": service}
                    answer.find("service-not-registered", server=record.server, boot=record.boot, **place)
                providers.discard(session)
            elif isinstance(event, ev.SessionClosed):
                providers.discard(session)
            if providers and not was_provided:
                since = record.time
            elif was_provided and not providers:
                provided += record.time - since
        answer.services[service, records[0].server] = {
            "providers": len({each.event.session for each in registrations}),
            "registrations": len(registrations),
            "first_registered": min(times, default=None),
            "last_registered": max(times, default=None),
            "provided_seconds": (provided + (end - since if providers else 0)) / 1_000_000,
            "provided": bool(providers),
        }
