"""The Merkle tree of the records of a journal, beside the chain: RFC 6962, with the lines of records as its leaves.

A leaf is the line of a record WITHOUT its newline, as it is in the chain. Headers and snapshots are no leaves: every
record has one, across segments and boots. Leaf 0 is the record ``begin``: record 1 in a new journal; in a journal that
an older program began, and after damage, the first record of the first segment that has a tree in its header. Records
before that are not in the tree, yet the first leaf holds the hash of the line before it.

Each header has the right edge of the tree of the records before it, so the tree goes on from any segment.
"""

from __future__ import annotations

from hashlib import sha256

from msgspec import Struct

from bussrv.transparency.tree import HASH_BYTES, Edge

_TOGETHER = 1 << 17
"""When so many bytes of lines wait, they are hashed."""


class TreeHead(Struct, frozen=True):
    """The tree up to some record.

    :ivar begin: the number of the record that is leaf 0.
    :ivar size: how many leaves there are.
    :ivar root: the root hash, 32 bytes.
    """

    begin: int
    size: int
    root: bytes


class HeaderTree(Struct, frozen=True):
    """The tree of all records before a segment, as its header says it.

    :ivar begin: the number of the record that is leaf 0; of the first record of the segment, if it begins there.
    :ivar edge: the right edge: hashes in hexadecimal digits, of the largest complete subtree first.
    """

    begin: int
    edge: tuple[str, ...] = ()


class RecordTree:
    """The tree of the records of a journal, which grows with them.

    Lines are hashed many at a time, which takes half the time of one after the other.

    :ivar begin: the number of the record that is leaf 0.
    :param edge: the right edge; by default the tree has no leaf yet.
    """

    def __init__(self, begin: int, edge: Edge | None = None) -> None:
        self.begin = begin
        self._grown = Edge() if edge is None else edge
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordTree) and (self.begin, self._edge()) == (other.begin, other._edge())

    __hash__ = None  # type: ignore[assignment] # it grows

    @classmethod
    def of_header(cls, tree: HeaderTree, segment: int) -> RecordTree:
        """The tree that the header of a segment says.

        :raises ValueError: if it cannot be a tree of so many records.
        """
        hashes = [bytes.fromhex(each) for each in tree.edge]
        if any(each.hex() != text for each, text in zip(hashes, tree.edge, strict=True)):
            raise ValueError("the hashes of a tree are written in lower case")
        return cls(tree.begin, Edge(segment - tree.begin, hashes))

    def as_header(self) -> HeaderTree:
        """The tree, as the header of the next segment says it."""
        return HeaderTree(self.begin, tuple(each.hex() for each in self._edge().hashes))

    def copy(self) -> RecordTree:
        """The same tree, which grows on its own."""
        return RecordTree(self.begin, self._edge().copy())

    def add(self, lines: bytes) -> None:
        """Add records.

        :param lines: whole lines, each with its newline.
        """
        self._waiting.append(lines)
        self._waiting_bytes += len(lines)
        if self._waiting_bytes > _TOGETHER:
            self._edge()

    def add_hashes(self, hashes: bytes) -> None:
        """Add records, given the hashes of their leaves, one after the other."""
        self._edge().extend([hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES)])

    def head(self) -> TreeHead:
        """The tree as it is now."""
        edge = self._edge()
        return TreeHead(self.begin, edge.size, edge.root())

    def _edge(self) -> Edge:
        """The right edge, with what waits."""
        if self._waiting:
            self._grown.extend(leaf_hashes(b"".join(self._waiting)))
            self._waiting, self._waiting_bytes = [], 0
        return self._grown


def leaf_hashes(lines: bytes) -> list[bytes]:
    """The hashes of the leaves that some whole lines are, each with its newline."""
    return [sha256(b"\0" + line).digest() for line in lines.split(b"\n")[:-1]]


def tree_after(tree: RecordTree | None, next_seq: int) -> RecordTree:
    """The tree that a new segment goes on with; a new one, if there is none."""
    return RecordTree(next_seq) if tree is None else tree.copy()


def origin_of(name: str, begin: int) -> str:
    """The origin of the checkpoints of a tree. A tree that does not begin with record 1 is a log of its own."""
    return name if begin == 1 else f"{name}/{begin}"
