"""The last summary of an audit that runs beside the server: ``bussrv audit --every``."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from bussrv.journal.record import parse_time
from bussrv.journal.regular import read_regular

LARGEST = 4 << 20
"""The largest summary that is read, in bytes. It lists at most 100 findings and a few incidents of each kind."""

MOST_SHOWN = 20
"""The most findings, and the most incidents, that are shown."""

LATE = 60.0
"""Seconds that a summary may be late, besides two pauses between audits."""


class AuditFinding(Struct, frozen=True):
    """A finding about the journal. ``first_seq`` is the first record that it is about."""

    severity: str
    kind: str
    message: str
    server: str | None = None
    first_seq: int | None = None


class AuditIncident(Struct, frozen=True):
    """Something that somebody should look at, with the time of its beginning."""

    kind: str
    message: str
    time: str | None = None
    server: str | None = None
    address: str | None = None
    user: str | None = None
    subject: str | None = None


class AuditSummary(Struct, frozen=True, kw_only=True):
    """The last summary. Its keys are those of ``summary.json``.

    :ivar every: the seconds from one audit to the next; ``None``: the audit is not repeated.
    :ivar records: the number of records in the journals.
    """

    audited: str
    every: int | None = None
    integrity: str
    security: str
    severities: dict[str, int]
    incident_kinds: dict[str, int]
    records: int
    findings: list[AuditFinding]
    incidents: list[AuditIncident]


class AuditView(Struct, frozen=True):
    """The findings of an audit that runs beside the server.

    :ivar file: the file of its summary.
    :ivar trouble: the reason why the file cannot be read; ``None``: it can.
    :ivar stale: whether there should be a newer summary. The audit has ended, or fails.
    :ivar summary: the last summary that could be read; ``None``: there was none.
    """

    file: str
    trouble: str | None
    stale: bool
    summary: AuditSummary | None


_decode = msgspec.json.Decoder(AuditSummary).decode


class AuditReader:
    """Reads the summary of an audit.

    :ivar file: the file; ``None``: no audit runs beside the server.
    """

    def __init__(self) -> None:
        self.file: Path | None = None
        self._last: tuple[Path, AuditSummary | None] | None = None

    def view(self, now: int) -> AuditView | None:
        """The findings of the audit, read from a file. This blocks the thread.

        While an audit replaces its results, the file is missing for a moment. The last summary is shown then.

        :param now: UTC microseconds.
        """
        file, trouble = self.file, None
        if file is None:
            return None
        if self._last is None or self._last[0] != file:
            self._last = file, None
        try:
            self._last = file, _read(file)
        except FileNotFoundError as error:
            trouble = error.strerror if self._last[1] is None else None
        except (OSError, ValueError, RecursionError) as error:
            trouble = getattr(error, "strerror", None) or str(error)
        summary = self._last[1]
        return AuditView(str(file), trouble, summary is not None and _is_stale(summary, now), summary)


def _read(file: Path) -> AuditSummary:
    """:raises ValueError: it is not the summary of an audit."""
    with read_regular(file) as opened:
        text = opened.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise ValueError(f"it has more than {LARGEST} bytes, which no summary has")
    found = _decode(text)
    parse_time(found.audited)
    return msgspec.structs.replace(found, findings=found.findings[:MOST_SHOWN], incidents=found.incidents[:MOST_SHOWN])


def _is_stale(summary: AuditSummary, now: int) -> bool:
    age = (now - parse_time(summary.audited)) / 1_000_000
    return summary.every is not None and age > 2 * summary.every + LATE
