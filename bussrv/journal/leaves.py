r"""The leaves of the tree of a journal, read from its segments, for proofs.

The hashes of the leaves of a segment that retention removed stay, in a file beside the others: ``<number>.leaves``, 32
bytes for each record. So records that are there can be proved although others are not. Nothing is trusted: what is read
here leads to the root hash of a checkpoint, or the proof is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from bussrv.errors import JournalError
from bussrv.journal.bounded import lines_in
from bussrv.journal.bounds import SEGMENT
from bussrv.journal.files import FILES, Files
from bussrv.journal.reading import read_header
from bussrv.journal.record_tree import HeaderTree, RecordTree, leaf_hashes
from bussrv.journal.regular import read_regular
from bussrv.journal.segment import (
    CORRUPT,
    DIGITS,
    NEW_SUFFIX,
    first_seq,
    list_segments,
    open_segment,
    write_file,
)
from bussrv.transparency.tree import HASH_BYTES, Tree

SUFFIX = ".leaves"


def leaves_path(directory: Path, number: int) -> Path:
    """The path of the hashes of the leaves of a segment that was removed."""
    return directory / f"{number:0{DIGITS}d}{SUFFIX}"


def is_leaves_name(name: str) -> bool:
    """Whether a file of that name has the hashes of the leaves of a segment."""
    return re.fullmatch(rf"[0-9]{{{DIGITS}}}{re.escape(SUFFIX)}", name) is not None


def list_leaves(directory: Path) -> list[Path]:
    """The files with the hashes of leaves of removed segments, oldest first.

    :raises OSError: if the directory cannot be read.
    """
    return sorted(path for path in directory.iterdir() if is_leaves_name(path.name))


def keep_leaves(directory: Path, path: Path, files: Files = FILES) -> None:
    """Keep the hashes of the leaves of a segment that is about to be removed, if it has a tree.

    :raises OSError: if the disk fails.
    """
    target = leaves_path(directory, first_seq(path))
    with suppress(JournalError):
        if read_header(path).tree is None or target.exists():
            return
        new = target.with_name(target.name + NEW_SUFFIX)
        write_file(new, [b"".join(leaf_hashes(b"".join(_record_lines(path))))], files)
        files.rename(new, target)
        files.sync_directory(directory)


class JournalTree:
    """The tree of a journal, made of its segments and of what was kept of removed ones.

    :ivar begin: the number of the record that is leaf 0.
    :param begin: which tree, if the journal has had several; by default the last one.
    :param known: the trees in headers that were read before, by segment. Those that are read now are added, and those
        of segments that are gone are removed.
    :raises JournalError: if the journal has no such tree, or cannot be read.
    """

    def __init__(
        self, directory: Path, begin: int | None = None, known: dict[int, HeaderTree | None] | None = None
    ) -> None:
        self._directory = directory
        self._paths = {first_seq(path): path for path in list_segments(directory)}
        known = {} if known is None else known
        for number, path in self._paths.items():
            if number not in known:
                known[number] = read_header(path).tree
        for gone in known.keys() - self._paths.keys():
            known.pop(gone, None)
        trees = {number: tree for number in self._paths if (tree := known[number]) is not None}
        self.begin = next((tree.begin for tree in reversed(trees.values())), 0) if begin is None else begin
        self._headers = {number: tree for number, tree in trees.items() if tree.begin == self.begin}
        if not self._headers:
            raise JournalError(
                f"{directory} has no tree that begins with record {begin or 'any'}: nothing can be proved"
            )
        self._numbers = sorted({*self._headers, *map(first_seq, list_leaves(directory))})
        self._last: tuple[int, bytes] = (0, b"")

    def tree(self, size: int) -> Tree:
        """The tree when it had so many leaves. Its methods raise :class:`JournalError` if leaves cannot be read."""
        known: dict[tuple[int, int], bytes] = {}
        for number, header in self._headers.items():
            known |= _known(header, number)
        return Tree(size, self._read, known)

    def lines(self, seqs: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        """The lines of some records, in order, without their newlines.

        :raises JournalError: if one is not there.
        """
        wanted = sorted(set(seqs))
        while wanted:
            number = max((each for each in self._headers if each <= wanted[0]), default=None)
            if number is None:
                raise JournalError(f"record {wanted[0]} is not in {self._directory}, or not in its tree")
            following = min((each for each in self._headers if each > number), default=None)
            here = [seq for seq in wanted if following is None or seq < following]
            wanted = wanted[len(here) :]
            lines = list(_record_lines(self._paths[number]))
            for seq in here:
                if seq - number >= len(lines):
                    raise JournalError(f"record {seq} is not in {self._directory}")
                yield seq, lines[seq - number][:-1]

    def _read(self, begin: int, end: int) -> bytes:
        """The hashes of the leaves from index ``begin`` up to, but without, ``end``."""
        found = []
        at, stop = self.begin + begin, self.begin + end
        while at < stop:
            number = max((each for each in self._numbers if each <= at), default=None)
            hashes = b"" if number is None else self._leaves(number)
            some = hashes[(at - (number or 0)) * HASH_BYTES : (stop - (number or 0)) * HASH_BYTES]
            if not some:
                raise JournalError(f"nothing is known of record {at}: it was removed, or it is missing")
            found.append(some)
            at += len(some) // HASH_BYTES
        return b"".join(found)

    def _leaves(self, number: int) -> bytes:
        """The hashes of the leaves of a segment. Proofs ask for those of one several times."""
        if self._last[0] != number:
            path = self._paths.get(number)
            if path is not None and number in self._headers:
                self._last = number, b"".join(leaf_hashes(b"".join(_record_lines(path))))
            else:
                with read_regular(leaves_path(self._directory, number)) as file:
                    self._last = number, file.read(SEGMENT)
        return self._last[1]


def _known(tree: HeaderTree, number: int) -> dict[tuple[int, int], bytes]:
    """The complete subtrees whose roots the header of a segment says."""
    found, begin = {}, 0
    size = number - tree.begin
    for text, bit in zip(tree.edge, (b for b in reversed(range(size.bit_length())) if size >> b & 1), strict=True):
        found[begin, begin + (1 << bit)] = bytes.fromhex(text)
        begin += 1 << bit
    return found


def _record_lines(path: Path) -> Iterator[bytes]:
    """The lines of the records of a segment, each with its newline; an unfinished one is none.

    :raises JournalError: if it cannot be read.
    """
    try:
        with open_segment(path) as file:
            parts = read_header(path).parts
            for index, line in enumerate(lines_in(file)):
                if index > parts and line.endswith(b"\n"):
                    yield line
    except (OSError, *CORRUPT) as error:
        raise JournalError(f"cannot read {path}: {error}") from error


def root_at(directory: Path, begin: int, size: int) -> bytes:
    """The root hash of a tree of a journal at a size.

    :raises JournalError: if leaves of it cannot be read.
    """
    path = max((p for p in list_segments(directory) if first_seq(p) < begin + size), key=first_seq, default=None)
    header = None if path is None else read_header(path)
    if path is None or header is None or header.tree is None or header.tree.begin != begin:
        return JournalTree(directory, begin).tree(size).root()
    tree = RecordTree.of_header(header.tree, header.segment)
    lines = list(_record_lines(path))[: begin + size - header.segment]
    tree.add(b"".join(lines))
    head = tree.head()
    if head.size != size:
        raise JournalError(f"record {begin + size - 1} is not in {directory}")
    return head.root
