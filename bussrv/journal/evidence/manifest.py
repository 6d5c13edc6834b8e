"""Lines of a manifest: is each what it should be, and does it fit those before it? Pure."""

from __future__ import annotations

from collections.abc import Iterator

from bussrv.errors import JournalError
from bussrv.journal import bounds
from bussrv.journal.chain import line_hash
from bussrv.journal.checkpoints import checkpoint_fault
from bussrv.journal.evidence.findings import UNCHAINED, Finding
from bussrv.journal.keys import PublicKey, Succession
from bussrv.journal.manifest import (
    Body,
    Cosigned,
    KeyEntry,
    Manifest,
    ManifestEntry,
    Pruned,
    Seal,
    beginning,
    decode,
    last_seq,
)
from bussrv.transparency.notes import NoteError, parse_signatures


class EntryJudge:
    """Judge the lines of a manifest, in order.

    :ivar found: all that they say, and the findings.
    :ivar lines: how many lines were judged, and ``faults`` how many faults they have.
    :param trusted: a key that must have been in force, and have signed something.
    """

    def __init__(self, trusted: PublicKey | None = None) -> None:
        self.found = Manifest()
        self._keys = Succession(trusted)
        self._last: Seal | None = None
        self._unlisted = self.faults = 0
        self.lines = 0

    def pass_line(self, line: bytes) -> None:
        """Judge the next line.

        :param line: without its newline.
        """
        found = self.found
        try:
            entry = decode(line)
        except JournalError as error:
            self._pass_bad(str(error), line_hash(line))
            return
        self.lines += 1
        if entry.prev == found.last_hash:
            # The same text, once in memory.
            entry = ManifestEntry(entry.number, found.last_hash, entry.hash, entry.body, entry.key)
        found.entries.append(entry)
        for text in self._check(line, entry):
            self._add(_finding(text, self.lines, entry.body))
        found.next_number = entry.number + 1
        found.last_hash = entry.hash
        found.lines.setdefault(found.last_hash, self.lines)

    def pass_long(self, hashed: str) -> None:
        """The next line has more bytes than an entry may have.

        :param hashed: its hash.
        """
        self._pass_bad(f"the line is longer than {bounds.MANIFEST_LINE} bytes", hashed)

    def pass_rest(self, begin: bytes, size: int) -> None:
        """Judge what follows the last line. A crash leaves the beginning of the next one, and zeros after that.

        :param begin: its first bytes: all of them, unless there are more than an entry may have.
        :param size: how many bytes there are.
        """
        found = self.found
        found.torn, expected, written = size, beginning(found.next_number, found.last_hash), begin.rstrip(b"\0")
        if size > len(begin) or written[: len(expected)] != expected[: len(written)]:
            found.is_torn = False
            self._add(_finding(f"{size} bytes follow the last entry, and begin no other one", self.lines + 1))

    def pass_too_large(self, what: str) -> None:
        """The manifest exceeds a bound, and is read no further."""
        self._add(_finding(f"the manifest is read no further: it has more than {what}", self.lines + 1))

    def end(self) -> Manifest:
        """No more lines follow."""
        findings = self.found.findings
        self.found.in_force = self._keys.in_force
        if self._unlisted:
            findings.append(_finding(f"and {self._unlisted} more in the manifest, which are not listed", None))
        if wrong := self._keys.end_fault():
            findings.append(_finding(wrong, None))
        return self.found

    def _pass_bad(self, problem: str, hashed: str) -> None:
        found = self.found
        self.lines += 1
        self._add(_finding(problem, self.lines))
        found.next_number += 1
        found.last_hash = hashed
        found.lines.setdefault(hashed, self.lines)

    def _add(self, finding: Finding) -> None:
        self.faults += 1
        if len(self.found.findings) < bounds.FINDINGS:
            self.found.findings.append(finding)
        else:
            self._unlisted += 1

    def _check(self, line: bytes, entry: ManifestEntry) -> Iterator[str]:
        found, body = self.found, entry.body
        if entry.prev != found.last_hash:
            yield f"it {UNCHAINED}"
        if entry.number != found.next_number:
            yield f"it is entry {entry.number}, but should be entry {found.next_number}"
        introduced = body.public if isinstance(body, KeyEntry) else None
        if wrong := self._keys.fault(line, entry.key, introduced):
            yield wrong
            return
        self._keys.pass_line(introduced)
        if wrong := self._body_fault(body):
            yield wrong
        elif isinstance(body, Seal):
            found.seals[body.segment] = self._last = body
            found.all_seals.setdefault(body.segment, []).append(body)
            if body.checkpoint is not None:
                found.checkpoints[entry.hash] = body
        elif isinstance(body, Pruned):
            found.pruned[body.segment] = body
        elif isinstance(body, Cosigned):
            found.cosigned.setdefault(body.seal, []).append(body)

    def _body_fault(self, body: Body) -> str | None:
        if isinstance(body, Seal):
            return _shape_fault(body) or self._order_fault(body) or _checkpoint_fault(body)
        if isinstance(body, Cosigned):
            return self._cosigned_fault(body)
        return self._pruned_fault(body) if isinstance(body, Pruned) else None

    def _order_fault(self, seal: Seal) -> str | None:
        before, last = self.found.seals.get(seal.segment), self._last
        if before is not None and before.closed:
            return f"segment {seal.segment} is sealed again after it was closed"
        if last is not None and seal.segment != last.segment and seal.segment <= last_seq(last):
            return f"segment {seal.segment} is sealed after segment {last.segment}, which goes to seq {last_seq(last)}"
        return None if before is None else _growth_fault(before, seal)

    def _cosigned_fault(self, cosigned: Cosigned) -> str | None:
        if cosigned.seal not in self.found.checkpoints:
            return f"it cosigns {cosigned.seal}, which is no seal with a checkpoint"
        try:
            parse_signatures(cosigned.signatures)
        except NoteError as error:
            return f"its cosignatures are wrong: {error}"
        return None

    def _pruned_fault(self, pruned: Pruned) -> str | None:
        seal = self.found.seals.get(pruned.segment)
        if pruned.segment in self.found.pruned:
            return f"segment {pruned.segment} is pruned again"
        if seal is None or not seal.closed:
            return f"segment {pruned.segment} is pruned, but was not sealed as closed"
        if (pruned.digest, pruned.bytes, pruned.last_seq) != (seal.digest, seal.bytes, last_seq(seal)):
            return f"segment {pruned.segment} is pruned, but its digest, bytes or last seq are not those of its seal"
        return None


def _finding(message: str, line: int | None, body: Body | None = None) -> Finding:
    seal = body if isinstance(body, Seal) else None
    return Finding(
        code="bad-manifest",
        message=message,
        segment=body.segment if isinstance(body, (Seal, Pruned)) else None,
        line=line,
        first_seq=None if seal is None else seal.first_seq,
        last_seq=None if seal is None else seal.last_seq,
    )


def _shape_fault(seal: Seal) -> str | None:
    ends = (seal.first_seq, seal.last_seq, seal.first_time, seal.last_time)
    if not seal.records or None in ends:
        return "a seal is of records, and names the first and the last of them"
    if seal.first_seq != seal.segment or last_seq(seal) != seal.segment + seal.records - 1:
        return f"segment {seal.segment} cannot have {seal.records} records from {seal.first_seq} to {seal.last_seq}"
    return None


def _checkpoint_fault(seal: Seal) -> str | None:
    return None if seal.checkpoint is None else checkpoint_fault(seal.checkpoint, seal.time, last_seq(seal))


def _growth_fault(before: Seal, seal: Seal) -> str | None:
    if seal.bytes < before.bytes or seal.records < before.records:
        return f"segment {seal.segment} has fewer bytes or records than in the seal before"
    if seal.bytes == before.bytes and (seal.digest, seal.records) != (before.digest, before.records):
        return f"segment {seal.segment} has as many bytes as in the seal before, but other ones"
    return None
