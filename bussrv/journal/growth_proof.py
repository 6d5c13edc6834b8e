"""Proves that a journal has only grown: consistency proofs of its tree, from the header of a segment and what follows.

Reads the files, also while the server writes them: only lines up to a record that is sealed are wanted.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from bussrv.errors import JournalError
from bussrv.journal.header import Header, decode_header
from bussrv.journal.segment import first_seq, list_segments, open_segment
from bussrv.transparency.tree import Edge, consistency_from, leaf_hash


def growth_proof(directory: Path, begin: int, old: int, size: int) -> list[bytes]:
    """The consistency proof between two sizes of the tree of a journal.

    :param begin: the number of the record that is leaf 0.
    :raises JournalError: if the journal does not have the records after the first ``old`` any more, or they cannot be
        read.
    """
    paths = list_segments(directory)
    before = [each for each in paths if first_seq(each) <= begin + old]
    if not before:
        raise JournalError(f"the journal does not have record {begin + old} any more")
    try:
        edge = _edge(before[-1], begin)
        leaves = _leaves(paths[len(before) - 1 :], begin)
        return consistency_from(edge, leaves, old, size)
    except (OSError, EOFError, ValueError) as error:
        raise JournalError(f"the journal cannot prove that it has only grown: {error}") from error


def _edge(path: Path, begin: int) -> Edge:
    with open_segment(path) as file:
        header = _header(file.readline(), path, begin)
    assert header.tree is not None
    return Edge(header.segment - begin, map(bytes.fromhex, header.tree.edge))


def _leaves(paths: list[Path], begin: int) -> Iterator[bytes]:
    """The hashes of the records in some segments."""
    for path in paths:
        with open_segment(path) as file:
            header = _header(file.readline(), path, begin)
            for line in islice(file, header.parts, None):
                # A line without an end is being written.
                if line.endswith(b"\n"):
                    yield leaf_hash(line[:-1])


def _header(line: bytes, path: Path, begin: int) -> Header:
    header = decode_header(line.removesuffix(b"\n"))
    if header.tree is None or header.tree.begin != begin:
        raise JournalError(f"{path.name} does not belong to the tree that begins with record {begin}")
    return header
