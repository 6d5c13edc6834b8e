"""Places in a journal, how far it can be read, and its parts for workers of Spark.

A place is a segment and a byte in it, as it is uncompressed. So it stays what it is when the segment is closed and
compressed. It also names the last record and the hash of the last line before it. So it shows if records were removed,
or taken back: a server does so with those that its disk did not take.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bussrv.audit.reading.stripes import COMPRESSED
from bussrv.audit.source.options import EARLIEST, LATEST, ReadOptions
from bussrv.errors import JournalError
from bussrv.journal.bounded import lines_in
from bussrv.journal.bounds import MAX_LINE
from bussrv.journal.chain import line_hash
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.reading import read_header, segments
from bussrv.journal.segment import CORRUPT, begin_of_line, compressed_path, first_seq, is_compressed, open_segment

ALL = 1 << 63
"""More bytes than a journal has."""

REMEDY = "start anew with another checkpoint, or set failOnDataLoss to false to go on with what is there"


class Position(Struct, frozen=True):
    """A place in a journal: everything before it was read.

    :ivar segment: the number of a segment, and ``byte`` how many bytes of it stand before the place.
    :ivar seq: the number of the last record before it, or of the one before the segment.
    :ivar hash: the hash of the last line before it; empty: not known.
    """

    segment: int
    byte: int = 0
    seq: int = 0
    hash: str = ""


class Slice(Struct, frozen=True):
    """A part of a segment for a worker.

    :ivar journal: the directory.
    :ivar begin: the byte that it begins with, and ``end`` the one after it; ``None``: it has all lines that are there.
    :ivar hash: the hash of the line before it; empty: not known.
    :ivar following: the next segment, if that is read as well.
    """

    journal: str
    path: str
    begin: int
    end: int | None
    hash: str
    following: str | None


class _Rest(NamedTuple):
    """A segment that is not read to its end."""

    path: Path
    begin: Position


class JournalReading:
    """A journal that is read in parts.

    :param directory: of the journal.
    :raises JournalError: every method, if the journal cannot be read, has no segment, or has lost records.
    """

    def __init__(self, directory: str, options: ReadOptions) -> None:
        self._directory = directory
        self._path = Path(directory)
        self._options = options

    def start(self) -> Position:
        """The place to start at."""
        start = self._options.start
        if start == EARLIEST:
            return self.oldest()
        return self.advance(self.oldest(), ALL) if start == LATEST else self._before(int(start))

    def oldest(self) -> Position:
        """The place before everything that is there."""
        return _begin_of(segments(self._path)[0])

    def advance(self, begin: Position, most: int, until: Position | None = None) -> Position:
        """The place after the next whole lines.

        :param most: about how many bytes to pass; at least one line is passed.
        :param until: a place not to pass.
        """
        bounds, left = self._bounds(until), most
        passed: list[tuple[_Rest, int]] = []
        for rest in self._rest(begin):
            bound = ALL if bounds is None else bounds.get(first_seq(rest.path), 0)
            if bound <= rest.begin.byte:
                break
            size = _size(rest.path) - rest.begin.byte
            if size < left:
                passed.append((rest, bound))
                left -= size
            elif (end := self._end(rest, bound, left)) != rest.begin:
                return end
        ends = (self._end(rest, bound, ALL) for rest, bound in reversed(passed))
        # A segment of a copy may have no whole line yet.
        return next((end for end in ends if end.byte), begin)

    def slices(self, begin: Position, end: Position) -> Iterator[Slice]:
        """The lines between two places, by segment."""
        rests = [each for each in self._rest(begin) if first_seq(each.path) <= end.segment]
        for rest, following in zip(rests, [*rests[1:], None], strict=True):
            last = end.byte if first_seq(rest.path) == end.segment else None
            if last is None or last > rest.begin.byte:
                yield Slice(
                    self._directory,
                    str(rest.path),
                    rest.begin.byte,
                    last,
                    rest.begin.hash,
                    None if following is None else str(following.path),
                )

    def _rest(self, begin: Position) -> list[_Rest]:
        """The segments from a place on."""
        paths = segments(self._path)
        later = [path for path in paths if first_seq(path) >= begin.segment]
        if later and first_seq(later[0]) == begin.segment:
            return [_Rest(later[0], begin), *(_Rest(path, _begin_of(path)) for path in later[1:])]
        self._check_lost(begin, later)
        rests = [_Rest(path, _begin_of(path)) for path in later or paths]
        first = rests[0].begin
        follows = first.seq == begin.seq
        return [_Rest(rests[0].path, replace(first, hash=begin.hash) if follows else first), *rests[1:]]

    def _check_lost(self, begin: Position, later: list[Path]) -> None:
        """Check that the next segment goes on where an earlier one ended that is not there any more."""
        if not self._options.fail_on_loss:
            return
        if not later or first_seq(later[0]) <= begin.seq:
            raise JournalError(f"{self._directory} does not go on after record {begin.seq}, which was read: {REMEDY}")
        if first_seq(later[0]) > begin.seq + 1 and read_header(later[0]).salvaged is None:
            raise JournalError(
                f"records {begin.seq + 1} to {first_seq(later[0]) - 1} of {self._directory} are not there any more: "
                f"{REMEDY}"
            )

    def _bounds(self, until: Position | None) -> dict[int, int] | None:
        """How many bytes of each segment are read, at most; ``None``: there is no such bound."""
        bounds = None
        if self._options.sealed:
            seals = read_manifest(self._path / MANIFEST_NAME).seals
            bounds = {number: seal.bytes for number, seal in seals.items()}
        if until is None:
            return bounds
        if bounds is None:
            bounds = dict.fromkeys(map(first_seq, segments(self._path)), ALL)
        bounds = {number: size for number, size in bounds.items() if number <= until.segment}
        return bounds | {until.segment: min(until.byte, bounds.get(until.segment, 0))}

    def _end(self, rest: _Rest, bound: int, most: int) -> Position:
        """The place after some lines of a segment."""
        begin, number = rest.begin, first_seq(rest.path)
        try:
            with open_segment(rest.path, counts_lines=False) as file:
                # A compressed segment can only be read from its beginning.
                text = file if file.seekable() else io.BytesIO(file.read())
                size = min(text.seek(0, os.SEEK_END), bound)
                if size < begin.byte and self._options.fail_on_loss:
                    raise JournalError(f"{rest.path} has lost its end, which was read before: {REMEDY}")
                end = begin_of_line(text, min(size, begin.byte + most))
                if begin.byte < size and end <= begin.byte:
                    text.seek(begin.byte)
                    line = text.readline(MAX_LINE)
                    end = begin.byte + len(line) if line.endswith(b"\n") else begin.byte
                if end == begin.byte:
                    return begin
                text.seek(begin_of_line(text, end - 1))
                line = text.readline(MAX_LINE)
        except (OSError, *CORRUPT) as error:
            raise unreadable(rest.path, error) from error
        return Position(number, end, max(begin.seq, _seq_in(line)), line_hash(line))

    def _before(self, number: int) -> Position:
        """The place before a record."""
        paths = segments(self._path)
        earlier = [path for path in paths if first_seq(path) <= number]
        if not earlier:
            self._check_lost(Position(number, 0, number - 1), paths)
            return _begin_of(paths[0])
        at, found = 0, _begin_of(earlier[-1])
        try:
            with open_segment(earlier[-1]) as file:
                for line in lines_in(file):
                    seq = _seq_in(line)
                    if seq >= number:
                        return found
                    at += len(line)
                    found = Position(found.segment, at, max(found.seq, seq), line_hash(line))
        except (OSError, *CORRUPT) as error:
            raise unreadable(earlier[-1], error) from error
        raise JournalError(f"{self._directory} has no record {number} yet: it ends with record {found.seq}")


class _Numbered(Struct):
    seq: int = 0


def _seq_in(line: bytes) -> int:
    """The number of the record in a line; 0 if it holds none."""
    try:
        return msgspec.json.decode(line, type=_Numbered).seq
    except (msgspec.DecodeError, RecursionError):
        return 0


def _begin_of(path: Path) -> Position:
    return Position(first_seq(path), 0, first_seq(path) - 1)


def _size(path: Path) -> int:
    """About how many bytes are in a segment."""
    try:
        if not is_compressed(path):
            with suppress(FileNotFoundError):
                return path.stat().st_size
            path = compressed_path(path)
        return path.stat().st_size * COMPRESSED
    except FileNotFoundError:
        return 0  # Whoever reads it finds out which records are gone.
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> JournalError:
    """The failure to read a segment."""
    return JournalError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}")
