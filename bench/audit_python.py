"""A plain pass over the lines, one after the other, in one process: no more than a script that somebody wrote for it.

Every line is decoded by msgspec, with the few fields that are asked for, and hashed.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path

import msgspec
from audit_answers import Answers, key_of
from audit_journals import segments_of

from bussrv.journal.chain import START

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class _Line(msgspec.Struct):
    """A record, or what a segment begins with, which has no ``seq``."""

    prev: str
    seq: int | None = None
    time: str = ""
    server: str = ""
    event: str = ""
    outcome: str = ""
    protocol: str | None = None
    session: str | None = None
    service: str | None = None
    reason: str | None = None
    suppressed: int = 0
    home: str | None = None
    objects_in: int = 0
    objects_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


def micros(time: str) -> int:
    """Microseconds since 1970 of a time of the journal."""
    since = datetime.fromisoformat(f"{time[:-1]}+00:00") - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


class _Peak:
    """How many there are at a time; what comes and goes at the same moment is not seen."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._time = ""

    def step(self, time: str, by: int) -> None:
        if time != self._time:
            self.most, self._time = max(self.most, self.now), time
        self.now += by


class _Pass:
    """The state after some of the lines of one server."""

    def __init__(self) -> None:
        self.answers: Answers = {
            "records": defaultdict(lambda: [0, 0]),
            "refusals": defaultdict(lambda: [0, 0]),
            "sessions": defaultdict(lambda: [0, 0, 0]),
            "traffic": defaultdict(lambda: [0, 0, 0, 0]),
            "peak": {},
            "provided": defaultdict(lambda: [0]),
            "numbers": defaultdict(lambda: [0]),
            "chain": defaultdict(lambda: [0]),
        }
        self._peaks: dict[str, _Peak] = defaultdict(_Peak)
        self._far: set[str] = set()
        self._providers: dict[str, int] = defaultdict(int)
        self._since: dict[str, int] = {}
        self._last_time = ""

    def journal(self, paths: list[Path]) -> None:
        decode, before, expected = msgspec.json.Decoder(_Line).decode, START, 1
        for path in paths:
            with path.open("rb") as file:
                for text in file:
                    line = decode(text)
                    if line.prev != before:
                        self.answers["chain"][key_of()][0] += 1
                    before = sha256(text[:-1]).hexdigest()
                    if line.seq is None:
                        continue
                    if line.seq != expected:
                        self.answers["numbers"][line.server][0] += 1
                    expected = line.seq + 1
                    self._record(line)
        self._end(line.server)

    def _record(self, line: _Line) -> None:
        event = line.event
        self._last_time = line.time
        self._count("records", key_of(line.server, event, line.protocol, line.outcome), line.suppressed)
        if event == "session.opened" or event == "session.closed":
            self._session(line, event == "session.opened")
        elif event == "service.registered":
            self._provide(line, 1)
        elif event == "service.unregistered":
            self._provide(line, -1)
        elif event.endswith(".refused") or event == "auth.failed" or event == "limit.reached":
            self._count("refusals", key_of(line.server, event, line.reason), line.suppressed)

    def _count(self, name: str, key: str, suppressed: int) -> None:
        numbers = self.answers[name][key]
        numbers[0] += 1
        numbers[1] += suppressed

    def _session(self, line: _Line, opens: bool) -> None:
        assert line.session is not None
        key = key_of(line.server, line.protocol)
        traffic = self.answers["traffic"][key]
        traffic[0] += line.objects_in
        traffic[1] += line.objects_out
        traffic[2] += line.bytes_in
        traffic[3] += line.bytes_out
        if line.home is not None:
            self._far.add(line.session)
        elif line.session in self._far:
            self._far.discard(line.session)
        else:
            numbers = self.answers["sessions"][key]
            numbers[0 if opens else 1] += 1
            numbers[2] += 1 if opens else -1
            self._peaks[key].step(line.time, 1 if opens else -1)

    def _provide(self, line: _Line, step: int) -> None:
        assert line.service is not None
        key = key_of(line.server, line.service)
        self._providers[key] += step
        if self._providers[key] == 1 and step == 1:
            self._since[key] = micros(line.time)
        elif self._providers[key] == 0:
            self.answers["provided"][key][0] += micros(line.time) - self._since.pop(key)

    def _end(self, server: str) -> None:
        for key, since in self._since.items():
            self.answers["provided"][key][0] += micros(self._last_time) - since
        for key, peak in self._peaks.items():
            self.answers["peak"][key] = [max(peak.most, peak.now)]


def run(directories: list[Path]) -> Answers:
    """The answers."""
    answers: Answers = {}
    for directory in directories:
        one = _Pass()
        one.journal(segments_of([directory]))
        for name, answer in one.answers.items():
            for key, numbers in answer.items():
                before = answers.setdefault(name, {}).get(key, [0] * len(numbers))
                answers[name][key] = [sum(both) for both in zip(before, numbers, strict=True)]
            answers.setdefault(name, {})
    return answers
