"""Stripes: runs of successive segments of one journal that are folded at once, in this process or in several."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from msgspec import Struct

from bussrv.audit.fold.facts import Tables
from bussrv.audit.fold.join import clashes, join
from bussrv.audit.fold.lines import Read, header_of, read_lines
from bussrv.audit.fold.proof import Proved, prove
from bussrv.audit.fold.stripe import Folded, Period, fold_stripe
from bussrv.journal.digests import Digests, digests_in
from bussrv.journal.evidence.segments import is_verified
from bussrv.journal.header import Header
from bussrv.journal.manifest import Seal
from bussrv.journal.segment import CORRUPT, open_segment

STRIPE = 48 << 20
"""About how large a stripe is, in bytes, as its segments are stored."""

COMPRESSED = 8
"""How many times larger a compressed segment is inside, about."""


class Source(Struct, frozen=True):
    """A segment to read.

    :ivar taken: its name, unlike all others.
    :ivar number: the number in the name of its file.
    :ivar size: in bytes, uncompressed, about.
    :ivar sizes: of the beginnings whose digests are wanted.
    :ivar seal: its last seal.
    :ivar to_the_byte: whether it is judged to the byte; ``None``: only its records are asked for.
    """

    taken: str
    path: str
    number: int
    size: int
    sizes: tuple[int, ...] = ()
    seal: Seal | None = None
    to_the_byte: bool | None = None


class Found(Struct, frozen=True):
    """What a segment is like. Times are UTC microseconds.

    :ivar digests: ``None`` if it cannot be decompressed, which leaves it out.
    :ivar is_sound: whether every line is what it should be, and nothing is missing, repeated or out of order.
    :ivar proved: what the judge of lines says, if it was asked.
    """

    taken: str
    digests: Digests | None = None
    header: Header | None = None
    records: int = 0
    first_seq: int | None = None
    last_seq: int | None = None
    first_moment: int | None = None
    last_moment: int | None = None
    is_sound: bool = False
    proved: Proved | None = None


Part = tuple[list[Found], Folded]
"""What the segments of a stripe are like, and their facts."""


class Facts(Struct):
    """The facts of journals.

    :ivar segments: what each is like, by its name.
    :ivar stripes: how many there were.
    """

    tables: Tables
    segments: dict[str, Found]
    stripes: int


def facts(
    journals: Iterable[Sequence[Source]],
    period: Period | None = None,
    *,
    size: int = STRIPE,
    workers: int | None = None,
) -> Facts:
    """Fold journals.

    :param journals: the segments of each, in order.
    :param size: of a stripe.
    :param workers: how many processes fold stripes; by default one for each processor, but none for small journals.
    :raises OSError: if a segment cannot be read.
    """
    period = period or Period()
    stripes = [stripe for journal in journals for stripe in divided(journal, size)]
    first = _first(header for stripe in stripes for header in map(_header, stripe))
    if workers is None:
        # To start a process takes longer than to fold a few megabytes.
        total = sum(source.size for stripe in stripes for source in stripe)
        workers = min(1 + total // STRIPE, os.cpu_count() or 1)
    parts = _folded(stripes, first, period, workers)
    # A segment that cannot be decompressed may have a header nevertheless.
    really = _first((each.taken, each.header) for found, _ in parts for each in found)
    if really != first:
        parts = _folded(stripes, really, period, workers)
    stripes, parts = _apart(stripes, parts, lambda stripe: fold(stripe, really, period))
    segments = {each.taken: each for found, _ in parts for each in found}
    return Facts(join([folded for _, folded in parts]), segments, len(stripes))


def divided(journal: Sequence[Source], size: int) -> list[list[Source]]:
    """The stripes of a journal: at most ``size`` bytes each, but at least one segment."""
    stripes: list[list[Source]] = []
    room = 0
    for source in journal:
        if not stripes or source.size > room:
            stripes.append([])
            room = size
        stripes[-1].append(source)
        room -= source.size
    return stripes


def fold(stripe: Sequence[Source], first: Mapping[str, str], period: Period) -> Part:
    """Read and fold a stripe.

    :param first: the server of each segment that is the first one of a server, by the name of the segment.
    """
    found: list[Found] = []
    segments: list[tuple[int, Read]] = []
    begins = {}
    with _without_collection():
        for source in stripe:
            like, read = _read(source)
            found.append(like)
            if read is not None:
                if source.taken in first:
                    begins[len(segments)] = first[source.taken]
                segments.append((source.number, read))
        return found, fold_stripe(segments, begins, period)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Keep Python from looking for cycles among millions of objects: there are none, and it takes half of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _folded(stripes: Sequence[Sequence[Source]], first: Mapping[str, str], period: Period, workers: int) -> list[Part]:
    if workers < 2:
        return [fold(stripe, first, period) for stripe in stripes]
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        return [*pool.map(fold, stripes, [first] * len(stripes), [period] * len(stripes))]


def _apart(
    stripes: list[list[Source]], parts: list[Part], refold: Callable[[Sequence[Source]], Part]
) -> tuple[list[list[Source]], list[Part]]:
    """Stripes without clashes: those that clash become one."""
    while groups := clashes([folded for _, folded in parts]):
        merged = {index for group in groups for index in group}
        others = [index for index in range(len(stripes)) if index not in merged]
        joined = [[source for index in sorted(group) for source in stripes[index]] for group in groups]
        parts = [*(parts[index] for index in others), *map(refold, joined)]
        stripes = [*(stripes[index] for index in others), *joined]
    return stripes, parts


def _header(source: Source) -> tuple[str, Header | None]:
    try:
        with open_segment(Path(source.path)) as file:
            return source.taken, header_of(file.readline(1 << 16), source.number)
    except CORRUPT:
        return source.taken, None


def _first(headers: Iterable[tuple[str, Header | None]]) -> dict[str, str]:
    """The segments that hold the first record of a server, and the servers."""
    found: dict[str, tuple[str, Header]] = {}
    for taken, header in headers:
        if header is not None and (header.server not in found or header.segment < found[header.server][1].segment):
            found[header.server] = taken, header
    return {taken: header.server for taken, header in found.values()}


def _read(source: Source) -> tuple[Found, Read | None]:
    try:
        with open_segment(Path(source.path)) as file:
            content = file.read()
    except CORRUPT:
        return Found(source.taken), None
    digests = digests_in(BytesIO(content), source.sizes)
    verified = source.seal is not None and is_verified(digests, source.seal)
    asked = source.to_the_byte
    proved = None if asked is None else prove(source.number, content, to_the_byte=asked)
    is_chained = verified or (proved is not None and proved.is_sound)
    read = read_lines(content, source.number, is_chained=is_chained)
    seqs = [record.seq for record in read.records]
    return Found(
        source.taken,
        digests,
        read.header,
        len(seqs),
        seqs[0] if seqs else None,
        seqs[-1] if seqs else None,
        int(read.moments.min()) if seqs else None,
        int(read.moments.max()) if seqs else None,
        read.is_sound,
        proved,
    ), read
