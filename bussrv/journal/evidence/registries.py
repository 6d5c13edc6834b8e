"""Registries of segments: what a segment begins with, and what it adds up to. Pure.

A segment begins with a snapshot of the registry. With the records of the segment it adds up to the registry that the
next segment has to begin with. So a snapshot that somebody changed shows, even if the chain was made to fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Raw, Struct

from bussrv.events import Event
from bussrv.journal.evidence.lines import Line, LineJudge
from bussrv.journal.header import Part
from bussrv.journal.record import Record
from bussrv.journal.versions import FIRST_WITH_CLAIMS, SCHEMA_VERSION


class RegistryReader(Protocol):
    """The registry, which the journal does not know: its reader provides it."""

    def apply(self, event: Event, time: int) -> None:
        """Take in a record; ``time`` is UTC microseconds."""

    def take(self, state: Raw, version: int = SCHEMA_VERSION) -> None:
        """Take in a part of a snapshot.

        :raises ValueError: if it is none.
        """

    def is_as_written(self, state: Raw, version: int = SCHEMA_VERSION) -> bool:
        """Whether a part of a snapshot is, byte for byte, what a server of that schema version writes."""

    def digest(self, *, persons: bool = True) -> str:
        """The digest of everything that was taken in; the order does not matter.

        :param persons: whether actors and claimed names count.
        """


NewRegistry = Callable[[], RegistryReader]
"""Makes an empty one."""


class Registries(Struct, frozen=True):
    """Digests of the registry of a segment.

    :ivar begins: at its first record.
    :ivar ends: after its last one. The next segment begins with one of these: before schema version 3, snapshots did
        not say who had proved to be whom.
    """

    begins: str
    ends: frozenset[str]


class RegistryJudge:
    """Follow the registry through the lines of one segment, up to the first wrong line.

    :param judge: has judged each line before it is given to :meth:`pass_line`.
    """

    def __init__(self, judge: LineJudge, registry: RegistryReader) -> None:
        self._judge = judge
        self._registry = registry
        self._begins: str | None = None
        self._is_lost = False

    def pass_line(self, found: Line | None) -> None:
        """Take in the next line."""
        if self._judge.wrong is not None or self._is_lost:
            return
        if isinstance(found, Record):
            if self._begins is None:
                self._begins = self._begun()
            self._registry.apply(found.event, found.time)
        elif isinstance(found, Part):
            self._take(found)

    def registries(self) -> Registries | None:
        """The registries; ``None`` if a line is wrong. No more lines follow."""
        if self._judge.findings or self._judge.wrong is not None or self._is_lost:
            return None
        registry = self._registry
        begins = self._begun() if self._begins is None else self._begins
        ends = {registry.digest()} if self._has_persons() else {registry.digest(), registry.digest(persons=False)}
        return Registries(begins, frozenset(ends))

    def _begun(self) -> str:
        return self._registry.digest(persons=self._has_persons())

    def _has_persons(self) -> bool:
        return self._judge.version is None or self._judge.version >= FIRST_WITH_CLAIMS

    def _take(self, part: Part) -> None:
        problem = None
        try:
            self._registry.take(part.state, part.version)
            if not self._registry.is_as_written(part.state, part.version):
                problem = f"part {part.part} of the snapshot is not written as a server writes it"
        except ValueError as error:
            problem = f"not a part of a snapshot: {error}"
        if problem is not None and self._judge.to_the_byte:
            self._judge.reject(problem)
        self._is_lost = problem is not None
