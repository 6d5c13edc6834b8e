"""Lines of a segment: is each what it should be, and does it follow the line before it? Pure."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from msgspec.structs import replace

from bussrv.errors import JournalError
from bussrv.events import (
    ServiceRegistered,
    ServiceUnregistered,
    SessionClosed,
    SessionIdentified,
    SessionLeft,
    SessionOpened,
    SessionResumed,
)
from bussrv.journal import bounds
from bussrv.journal.chain import line_hash
from bussrv.journal.evidence.findings import UNCHAINED, Finding
from bussrv.journal.evidence.numbers import Numbers, out_of_order
from bussrv.journal.header import Header, Part, decode_header, decode_part, encode_header, encode_part
from bussrv.journal.record import Record, decode, rewritten, version_of

Line = Header | Part | Record

MOST_QUOTED = 1000
"""How many bytes of a bad line are kept with the finding."""

_ABOUT_SERVICES = (ServiceRegistered, ServiceUnregistered)
_ABOUT_SESSIONS = (SessionOpened, SessionIdentified, SessionLeft, SessionResumed, SessionClosed, *_ABOUT_SERVICES)


class LineJudge:
    """Judge the lines of one segment, in order.

    :param to_the_byte: whether each line has to be, byte for byte, what a server of its schema version writes. A
        closing seal says the same of a whole segment. So this is asked only of segments that have none.
    :param most: of so many findings at most each is listed, of the others the number; by default ``bounds.FINDINGS``.
    :ivar version: the schema version of the header.
    :ivar findings: those made so far, in the order of lines. Those about numbers are made by ``numbers``.
    :ivar wrong: the first finding about a line or a number, as far as it is known before the next line comes.
    :ivar next_seq: the number of the record that should come next; of the first wrong one, if there is one.
    :ivar header: the first line, if it is the header of this segment.
    :ivar lines: how many lines were judged; ``parts``: how many of them are parts of the snapshot.
    :ivar last_record: the last of the lines that are records.
    :ivar hash: the hash of the last line, if that is known.
    :ivar numbers: those of the records, once the last line was judged.
    :ivar _server: the server of the record before; ``None`` after any other line, and after a wrong one.
    :ivar _origin: the server of the last line that names one.
    :ivar _unjudged: the first line after too many bad ones. It is not judged, nor are those after it.
    """

    def __init__(self, number: int, *, to_the_byte: bool = False, most: int | None = None) -> None:
        self.findings: list[Finding] = []
        self.version: int | None = None
        self.wrong: Finding | None = None
        self.next_seq = number
        self.header: Header | None = None
        self.lines = self.parts = 0
        self.last_record: Record | None = None
        self.hash: str | None = None
        self.numbers = Numbers()
        self._number = number
        self.to_the_byte = to_the_byte
        self._server: str | None = None
        self._origin: str | None = None
        self._before: Line | None = None
        self._is_headless = True
        self._doubt: Finding | None = None
        self._is_second = False
        self._unlisted: Counter[str] = Counter()
        self._most = bounds.FINDINGS if most is None else min(most, bounds.FINDINGS)
        self._left = bounds.BAD_LINES
        self._unjudged: int | None = None

    def pass_line(self, text: bytes) -> Line | None:
        """Judge the next line.

        :param text: with or without its newline.
        :returns: the line, or ``None`` if it is no line of a journal that belongs there.
        """
        self.lines += 1
        if self._server is not None:
            # Most lines are records that follow a record, and nothing is wrong before them.
            try:
                record = decode_record(text)
            except JournalError:
                pass
            else:
                if (
                    record.prev == self.hash
                    and record.seq == self.next_seq
                    and record.server == self._server
                    and (not self.to_the_byte or is_as_written(text, record, self.version))
                ):
                    self.next_seq += 1
                    self.hash = line_hash(text)
                    self.last_record = record
                    return record
            self._leave_order()
        return self._judge(text)

    def pass_unreadable(self, problem: str) -> None:
        """The next line cannot be read as a whole, for such a reason."""
        self.lines += 1
        self._leave_order()
        self._pass_bad(problem, None, None)

    def reject(self, problem: str) -> None:
        """The last line is a bad one for another reason, which only the reader knows."""
        self._add(self._bad(problem))
        self._stop()

    def unfinished(self) -> Finding:
        """The header is missing, or is a record; or the snapshot has another number of parts than the header says."""
        if self.header is None:
            return self._finding("broken-link", "the segment does not begin with a header", 1)
        message = f"the header says that its snapshot has {self.header.parts} parts, and {self.parts} are there"
        return self._finding("bad-line", message, 1, of=self.header)

    def end(self) -> list[Finding]:
        """No more lines follow. :returns: all findings."""
        self._leave_order()
        self._settle(None)
        if self._is_headless:
            self.findings.insert(0, self.unfinished())
        for code, count in self._unlisted.items():
            message = f"and {count} more in this segment, which are not listed"
            self.findings.append(Finding(code=code, message=message, segment=self._number))
        if self._unjudged is not None:
            message = "this line and all after it are not judged: too much is wrong before it"
            self.findings.append(self._finding("bad-line", message, self._unjudged))
        elif self.header is not None and self.header.parts != self.parts:
            self.findings.append(self.unfinished())
        self._stop()
        return self.findings

    def give_up(self, finding: Finding) -> None:
        """The segment cannot be read to its end. Nothing else is said of its lines."""
        self.findings, self.wrong, self.numbers = [finding], finding, Numbers()

    @property
    def is_over(self) -> bool:
        """Whether too much was wrong, so that lines were left that are not judged."""
        return self._unjudged is not None

    @property
    def first(self) -> Finding | None:
        """The first finding. Later lines may tell more of it than ``wrong``."""
        if self.wrong is None:
            return None
        is_about_numbers = self.wrong.code in ("seq-gap", "seq-duplicate")
        of_numbers = list(self.numbers.findings()) if is_about_numbers else []
        return [*of_numbers, *self.findings, self.wrong][0]

    def _judge(self, text: bytes) -> Line | None:
        if self._left <= 0:
            self._unjudged, self.hash = self._unjudged or self.lines, line_hash(text)
            return None
        try:
            found = self._in_place(self._decode(text))
        except JournalError as error:
            self._pass_bad(str(error), line_hash(text), text[:MOST_QUOTED].removesuffix(b"\n"))
            return None
        is_broken = self.hash is not None and found.prev != self.hash
        self._settle(found if is_broken else None)
        if isinstance(found, Record):
            self._check_number(found, is_broken)
        elif isinstance(found, Header):
            self.header, self.version = found, version_of(text)
        else:
            self.parts += 1
        if self.to_the_byte and not is_as_written(text, found, self.version):
            self._add_bad(found, f"{_name(found)} is not written as a server writes it", text)
        self._check_origin(found, text)
        if self.lines == 1:
            self._is_headless = isinstance(found, Record)
        self.hash, self._before = line_hash(text), found
        self._go_on(found)
        return found

    def _check_origin(self, found: Line, text: bytes) -> None:
        """All lines of a segment are of one server."""
        if not isinstance(found, Part):
            if self._origin not in (None, found.server):
                self._add_bad(found, f"{_name(found)} is of another server than the lines before it", text)
            self._origin = found.server

    def _add_bad(self, found: Line, message: str, text: bytes) -> None:
        seq = found.seq if isinstance(found, Record) else None
        finding = self._finding("bad-line", message, self.lines, seq, seq)
        self._add(replace(finding, quote=text[:MOST_QUOTED].removesuffix(b"\n")))

    def _leave_order(self) -> None:
        """The next line is not the record that should follow, or may not be."""
        if self._server is not None:
            self.numbers.reach(self.next_seq - 1)
            self._before, self._server = self.last_record, None

    def _go_on(self, found: Line) -> None:
        if self.wrong is None and not self._stop():
            self.wrong = self._misplaced(found)
        if self.wrong is None and isinstance(found, Record):
            self._server, self.next_seq = found.server, found.seq + 1

    def _stop(self) -> bool:
        """Keep the first finding about a line. :returns: whether there is one."""
        if self.wrong is None:
            self.wrong = self.findings[0] if self.findings else self._doubt
        return self.wrong is not None

    def _misplaced(self, found: Line) -> Finding | None:
        """The finding about a line that fits the hash of the line before, but is in the wrong place, if it is."""
        is_record, parts = isinstance(found, Record), 0 if self.header is None else self.header.parts
        if self.header is None or self.parts > parts or (is_record and self.parts < parts):
            return self.unfinished()
        if isinstance(found, Record) and found.seq != self.next_seq:
            return replace(out_of_order(found.server, self.next_seq, found.seq, self._number), line=self.lines)
        return None

    def _decode(self, text: bytes) -> Line:
        is_in_snapshot = self.header is not None and self.lines <= 1 + self.header.parts
        expected = decode_header if self.lines == 1 else decode_snapshot if is_in_snapshot else decode_record
        try:
            return expected(text)
        except JournalError:
            for other in (decode_record, decode_header, decode_snapshot):
                with suppress(JournalError):
                    return other(text)
            raise

    def _in_place(self, found: Line) -> Line:
        if isinstance(found, Record):
            return found
        if isinstance(found, Header) and (self.lines, found.segment) != (1, self._number):
            raise JournalError(f"the header of segment {found.segment} does not belong here")
        if isinstance(found, Part):
            is_here = self.header is not None and (found.part, found.snapshot) == (self.lines - 1, self._number)
            if not is_here:
                raise JournalError(
                    f"part {found.part} of the snapshot of segment {found.snapshot} does not belong here"
                )
        return found

    def _pass_bad(self, problem: str, hashed: str | None, quote: bytes | None) -> None:
        self._settle(None)
        self._add(replace(self._bad(problem), quote=quote))
        if self.lines == 1:
            self._is_headless = False
        self.hash, self._before = hashed, None
        self._stop()

    def _bad(self, problem: str) -> Finding:
        first = self._before.seq + 1 if isinstance(self._before, Record) else None
        return self._finding("bad-line", problem, self.lines, first)

    def _settle(self, broken: Line | None) -> None:
        """Judge the line before, now that the next one is known.

        A line that does not fit the lines on both sides was changed. Where two lines do not fit each other, and both
        fit the rest, either may have been.

        :param broken: the next line, if it does not hold the hash of the line before.
        """
        doubt = self._doubt
        if doubt is not None and broken is not None:
            what = f"{_name(self._before)} was changed, or put in: it does not fit the lines before and after it"
            self._add(replace(doubt, message=what, first_seq=doubt.last_seq))
        elif doubt is not None and not self._is_second:
            self._add(doubt)
        self._is_second = doubt is not None
        self._doubt = None if broken is None else self._in_doubt(broken)

    def _in_doubt(self, broken: Line) -> Finding:
        seq = broken.seq if isinstance(broken, Record) else None
        before = self._before.seq if isinstance(self._before, Record) else None
        first = before if before is not None and seq is not None and before < seq else seq
        return self._finding("broken-chain", f"{_name(broken)} {UNCHAINED}", self.lines, first, seq, of=broken)

    def _check_number(self, found: Record, is_broken: bool) -> None:
        last, server, seq = self.last_record, found.server, found.seq
        is_earlier = last is not None and last.server == server and seq < last.seq
        if is_earlier and not is_broken and not self.numbers.contains(server, seq):
            assert last is not None
            what = f"record {seq} stands after record {last.seq}"
            self._add(self._finding("broken-chain", what, self.lines, seq, seq, of=found))
        self.numbers.add(server, seq, seq, self._number)
        self.last_record = found

    def _add(self, finding: Finding) -> None:
        self._left -= 1
        if len(self.findings) < self._most:
            self.findings.append(finding)
        else:
            self._unlisted[finding.code] += 1

    def _finding(
        self,
        code: str,
        message: str,
        line: int,
        first: int | None = None,
        last: int | None = None,
        *,
        of: Line | None = None,
    ) -> Finding:
        server, boot = (None, None) if of is None or isinstance(of, Part) else (of.server, of.boot)
        return Finding(
            code=code, message=message, segment=self._number, line=line, first_seq=first, last_seq=last,
            server=server, boot=boot,
        )  # fmt: skip


def _name(line: Line | None) -> str:
    if isinstance(line, Record):
        return f"record {line.seq}"
    if isinstance(line, Header):
        return "the header"
    return f"part {line.part} of the snapshot" if isinstance(line, Part) else "it"


def decode_record(text: bytes) -> Record:
    """The record that a line holds, if it says all that its event needs.

    :raises JournalError: if it is none.
    """
    found = decode(text)
    event = found.event
    if event.session is None and isinstance(event, _ABOUT_SESSIONS):
        raise JournalError("not a journal record: it names no session")
    if event.service is None and isinstance(event, _ABOUT_SERVICES):
        raise JournalError("not a journal record: it names no service")
    return found


def decode_snapshot(text: bytes) -> Part:
    """The part of a snapshot that a line holds, if its state is an object.

    :raises JournalError: if it is none.
    """
    found = decode_part(text)
    if not bytes(found.state).startswith(b"{"):
        raise JournalError("not a part of a snapshot: its state is no object")
    return found


def is_as_written(text: bytes, found: Header | Part | Record, version: int | None) -> bool:
    """Whether a line is, byte for byte, what a server of a schema version writes.

    JSON can say the same in many ways: with a member twice, with white space, with an escape that is not needed.
    Programs that read such a line may disagree about it. A server writes each line in one way only. So a line that is
    encoded again has to be the same line.

    The ``state`` of a part is left as it is: only the registry knows its form.

    :param text: with or without its newline.
    :param found: what the line says.
    :param version: of the segment, since a server begins a segment of its own; ``None``: that of the line.
    """
    try:
        written = _written(text, found, version_of(text) if version is None else version)
    except (ValueError, TypeError):
        return False
    return text == written or text == written[:-1]


def _written(text: bytes, found: Header | Part | Record, version: int) -> bytes:
    if isinstance(found, Record):
        return rewritten(text, found, version)
    if isinstance(found, Header):
        return encode_header(found, version)
    return encode_part(found if found.version == version else replace(found, version=version))
