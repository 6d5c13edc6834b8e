"""Facts that are kept from one audit to the next, so that closed segments are read once.

::

    DIR/
        .bussrv-audit-checkpoint   marks the directory as a checkpoint; locked while it is used
        ledger.json                what is kept: the journals, and each stripe with what its segments are like
        stripes/KEY/               the facts of a stripe
        borders/KEY/0/  1/  …      the facts of the sessions at the borders of stripes
        sessions/KEY/              the sessions of some stripes, as an audit publishes them

Kept are stripes of segments that are what their closing seals say. The key of a stripe is made of the digests of its
segments and of the version of the fold. A stripe is used again if the journal has the same segments in a row, and their
files are what they were. A file that is another one by now, for it was compressed, or somebody wrote to it, is read
again; if its digest is the same, so are the facts. The borders of stripes are joined once: what came of it is kept
if all of them are, until there are other stripes. The table of sessions is the largest, so it is kept in portions: each
audit adds one, with the sessions of the stripes that are new.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bussrv.audit import fold
from bussrv.audit.fold.segments import SegmentFacts, SegmentSource
from bussrv.audit.fold.stripe import Period
from bussrv.audit.fold.tasks import Done, Stripe
from bussrv.audit.output import Ownership
from bussrv.errors import BussrvError
from bussrv.journal.evidence.segments import is_verified
from bussrv.journal.versions import SCHEMA_VERSION
from bussrv.version import VERSION

MARKER = ".bussrv-audit-checkpoint"

FORMAT = 8
"""The version of what is in the directory; with another one, everything is read again."""

MOST_PORTIONS = 16
"""The most directories of sessions that an audit publishes together. If there would be more, it writes them anew, as
one, so that there are not more and more small files."""

Write = Callable[[Sequence[Path], Path], None]
"""Writes the sessions of some files of facts to a directory, which is there and empty."""


class CheckpointRefused(BussrvError):
    """The directory cannot be used. The message says why."""


_DIRECTORIES = ("stripes", "borders", "sessions")

_OURS = Ownership(
    MARKER,
    CheckpointRefused,
    not_ours="is neither empty nor a checkpoint of the audit: name another directory",
    in_use="another audit uses",
)


class KeptStripe(Struct, frozen=True):
    """A stripe whose facts are kept.

    :ivar segments: the names of its segments, and ``stamps`` those of their files when they were read.
    :ivar first: those of the segments that are the first ones of their servers.
    :ivar done: how its task went.
    """

    segments: list[str]
    stamps: list[str]
    first: frozenset[str]
    done: Done

    def is_doubtful(self, source: SegmentSource) -> bool:
        """Whether a segment has to be looked at: its file is another one, or more has to be known of it."""
        place = self.segments.index(source.taken)
        found = self.done.segments[place]
        assert found.digests is not None
        sizes = {each for each in source.sizes if each <= found.digests.size}
        is_known = (source.to_the_byte is None or found.judged is not None) and sizes <= {*found.digests.beginnings}
        if source.trees is not None:
            is_known &= found.trees is not None and {*source.trees} <= {*found.heads}
        return self.stamps[place] != source.stamp or not is_known


class _Version(Struct):
    format: tuple[int, str]


class _Ledger(Struct):
    """
    :ivar format: ``FORMAT``, and the version of the fold.
    :ivar journals: the locations of the journals; the index of each is part of the names of its segments.
    :ivar stripes: by key.
    :ivar borders: the key of the borders, and in how many parts they are.
    :ivar sessions: the stripes whose sessions are in a directory, by its key.
    """

    format: tuple[int, str]
    journals: list[str] = []
    stripes: dict[str, KeptStripe] = {}
    borders: tuple[str, int] | None = None
    sessions: dict[str, list[str]] = {}


@cache
def version() -> str:
    """The version of the fold: another one may make other facts."""
    sources = sorted(Path(fold.__file__).parent.glob("*.py"))
    text = b"".join(path.read_bytes() for path in sources)
    return f"{VERSION} {SCHEMA_VERSION} {sha256(text).hexdigest()[:16]}"


class Checkpoint:
    """The directory while it is used; made by :func:`opened`."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "ledger.json"
        self._directory = directory
        self._stripes, self._borders, self._sessions = (directory / name for name in _DIRECTORIES)
        self._ledger = self._read()
        self._saved = _names(self._ledger)
        for name in _DIRECTORIES:
            (directory / name).mkdir(exist_ok=True)
        self.clean()

    def clean(self) -> None:
        """Remove what is not kept: an audit was interrupted, or the stripe is not what its seals say."""
        for name in _DIRECTORIES:
            for each in (self._directory / name).iterdir():
                if each.name not in self._saved:
                    shutil.rmtree(each)

    def _read(self) -> _Ledger:
        try:
            text = self._path.read_bytes()
            # Another version may have written any other form.
            if msgspec.json.decode(text, type=_Version).format == (FORMAT, version()):
                ledger = msgspec.json.decode(text, type=_Ledger)
                self._check(ledger)
                return ledger
        except FileNotFoundError:
            pass
        except msgspec.DecodeError as error:
            raise self._damaged(str(error)) from error
        # The others are what versions before this one kept.
        for name in (*_DIRECTORIES, "lines", "inbox", "stream", "seams"):
            shutil.rmtree(self._directory / name, ignore_errors=True)
        return _Ledger((FORMAT, version()))

    def _check(self, ledger: _Ledger) -> None:
        for key in ledger.stripes:
            if not (self._stripes / key).is_dir():
                raise self._damaged(f"there are no facts in {key}")
        if ledger.borders is not None and not (self._borders / ledger.borders[0]).is_dir():
            raise self._damaged("there are no facts of borders")
        for key, stripes in ledger.sessions.items():
            if not (self._sessions / key).is_dir() or not ledger.stripes.keys() >= {*stripes}:
                raise self._damaged(f"there are no sessions in {key}")

    def _damaged(self, why: str) -> CheckpointRefused:
        return CheckpointRefused(f"{self._path} is damaged ({why}): remove {self._directory}, or name another")

    def index_of(self, location: str) -> int:
        """The index of a journal, the same each time."""
        journals = self._ledger.journals
        if location not in journals:
            journals.append(location)
        return journals.index(location)

    def known(
        self, sources: Sequence[SegmentSource], first: frozenset[str], period: Period
    ) -> tuple[str, KeptStripe] | None:
        """The longest stripe with which a journal goes on whose facts are kept, and its key.

        :param sources: the segments of the rest of the journal.
        :param first: the segments that are the first ones of their servers.
        """
        names = [source.taken for source in sources]
        found = [
            (key, kept)
            for key, kept in self._ledger.stripes.items()
            if kept.segments == names[: len(kept.segments)]
            and kept.first == first & {*kept.segments}
            and is_uncut(kept.done.segments, kept.first, period)
        ]
        return max(found, key=lambda each: len(each[1].segments), default=None)

    def kept(self, key: str) -> KeptStripe:
        """A stripe that is kept."""
        return self._ledger.stripes[key]

    def place(self, key: str) -> Path:
        """The facts of a stripe."""
        return self._stripes / key

    def update(self, key: str, found: Mapping[str, SegmentFacts], sources: Sequence[SegmentSource]) -> bool:
        """Take in what segments of a stripe are like by now.

        :returns: whether they are the same. If not, nothing is kept of the stripe any more.
        """
        kept = self._ledger.stripes[key]
        segments = [found.get(each.taken, each) for each in kept.done.segments]
        if _key(segments, kept.first) != key:
            del self._ledger.stripes[key]
            sessions = self._ledger.sessions
            self._ledger.sessions = {name: stripes for name, stripes in sessions.items() if key not in stripes}
            return False
        done, stamps = replace(kept.done, segments=segments), [each.stamp for each in sources]
        self._ledger.stripes[key] = replace(kept, done=done, stamps=stamps)
        return True

    def new_place(self, number: int) -> Path:
        """A directory for the facts of a task that may be kept."""
        return self._stripes / f"new-{number}"

    def keep(self, stripe: Stripe, done: Done) -> str | None:
        """Keep the facts of a stripe, unless its segments are not what their seals say, or only a part of it is in the
        period.

        :returns: its key.
        """
        seals = {source.taken: source.seal for source in stripe.sources}
        for each in done.segments:
            seal = seals[each.taken]
            if seal is None or each.digests is None or not is_verified(each.digests, seal):
                return None
        if not is_uncut(done.segments, stripe.first, stripe.period):
            return None
        key = _key(done.segments, stripe.first)
        names, stamps = ([getattr(each, name) for each in stripe.sources] for name in ("taken", "stamp"))
        self._ledger.stripes[key] = KeptStripe(names, stamps, stripe.first, done)
        shutil.rmtree(self.place(key), ignore_errors=True)
        Path(stripe.place).rename(self.place(key))
        return key

    def borders(self, stripes: Iterable[str]) -> list[Path]:
        """The directories with the facts of the sessions at the borders of stripes; none if they are not kept.

        :param stripes: the keys of all stripes.
        """
        key, parts = self._ledger.borders or ("", 0)
        return [self._borders / key / str(part) for part in range(parts)] if key == _key_of(stripes) else []

    def keep_borders(self, stripes: Iterable[str], parts: Sequence[Path]) -> list[Path]:
        """Keep the facts of the sessions at the borders of stripes, instead of those that were kept before.

        :param stripes: the keys of all stripes.
        :param parts: the directories with the facts: those of :meth:`borders`, or new ones.
        :returns: where they are now.
        """
        key = _key_of(stripes)
        place = self._borders / key
        if self._ledger.borders == (key, len(parts)):
            return [*parts]
        self._ledger.borders = key, len(parts)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        return [path.rename(place / str(part)) for part, path in enumerate(parts)]

    def write_sessions(self, facts: Path, place: Path, write: Write) -> None:
        """Write the table of sessions for an audit. The portions that are kept are copied.

        :param facts: the directory of :mod:`bussrv.audit.reading.stripes`.
        :param place: the directory of the table.
        """
        stripes = self._stripes.resolve()
        kept, others = {}, []
        for place_of_facts in map(Path.resolve, facts.iterdir()):
            file = place_of_facts / "sessions.parquet"
            if place_of_facts.parent == stripes and place_of_facts.name in self._ledger.stripes:
                kept[place_of_facts.name] = file
            elif file.exists():
                others.append(file)
        write(others, place)
        for portion in self._portions(kept, write):
            for path in (self._sessions / portion).glob("*/*/*.parquet"):
                copy = place / path.relative_to(self._sessions / portion).with_name(f"{portion}-{path.name}")
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)

    def _portions(self, kept: Mapping[str, Path], write: Write) -> list[str]:
        """The keys of the directories that together hold the sessions of these stripes. One is added if need be.

        :param kept: the file of the facts of sessions of each stripe, by its key.
        """
        sessions, left = self._ledger.sessions, {*kept}
        found = []
        for key in sorted(sessions, key=lambda each: len(sessions[each]), reverse=True):
            if left.issuperset(sessions[key]):
                found.append(key)
                left.difference_update(sessions[key])
        if left and len(found) >= MOST_PORTIONS:
            self._ledger.sessions = {key: stripes for key, stripes in sessions.items() if key not in found}
            found, left = [], {*kept}
        if left:
            key = _key_of(left)
            new = self._sessions / key
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            write([kept[each] for each in sorted(left) if kept[each].exists()], new)
            self._ledger.sessions[key] = sorted(left)
            found.append(key)
            self.save()
        return found

    def save(self) -> None:
        """Keep what was added."""
        new = self._path.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(self._ledger))
        new.rename(self._path)
        self._saved = _names(self._ledger)


def _names(ledger: _Ledger) -> set[str]:
    """The names of the directories of facts."""
    return {*ledger.stripes, *ledger.sessions, *(() if ledger.borders is None else ledger.borders[:1])}


def is_uncut(segments: Sequence[SegmentFacts], first: frozenset[str], period: Period) -> bool:
    """Whether a stripe is in the period as a whole, so that its facts are the same without a period."""
    if first and period.until is not None:
        # Of what was there before the first record, a part may be after the period.
        return False
    moments = [(each.first_moment, each.last_moment) for each in segments]
    return all(
        begin is None or end is None or (period.holds(begin) and not period.is_over(end)) for begin, end in moments
    )


def _key(segments: Sequence[SegmentFacts], first: frozenset[str]) -> str:
    digests = [(None if each.digests is None else each.digests.digest, each.taken in first) for each in segments]
    names = [each.taken for each in segments]
    return sha256(msgspec.json.encode([version(), names, digests])).hexdigest()[:32]


def _key_of(stripes: Iterable[str]) -> str:
    return sha256(msgspec.json.encode(sorted(stripes))).hexdigest()[:32]


@contextmanager
def opened(directory: Path) -> Iterator[Checkpoint]:
    """Use a directory, which is made if need be.

    :raises CheckpointRefused: if it is not ours, another audit uses it, or it is damaged.
    """
    with _OURS.held(directory):
        checkpoint = Checkpoint(directory)
        try:
            yield checkpoint
        finally:
            checkpoint.clean()
