"""The Merkle tree of RFC 6962, section 2.1, with SHA-256.

The hash of a leaf is ``SHA-256(0x00 || leaf)``, that of a node ``SHA-256(0x01 || left || right)``. The left half of a
tree of ``n`` leaves has as many leaves as the largest power of two below ``n``. The *right edge* of a tree are the
roots of the complete subtrees that it consists of, the largest one first: nothing else is needed to append to it.

- :func:`leaf_hash`, :func:`node_hash`, :class:`Edge`: make a tree grow
- :class:`Tree`: makes proofs of a tree whose leaf hashes are kept
- :func:`is_included`, :func:`is_consistent`: check proofs, with nothing but the hashes in them
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256

HASH_BYTES = 32

EMPTY_ROOT = sha256().digest()
"""The root hash of a tree without leaves."""

MOST_HASHES = 63
"""No proof has more hashes: that is enough for 2^63 leaves."""

_KEPT_FROM = 256
"""A :class:`Tree` keeps the roots of complete subtrees that have at least so many leaves; an :class:`Edge` hashes at
most so many together."""


def leaf_hash(leaf: bytes) -> bytes:
    """The hash of a leaf with this content."""
    return sha256(b"\0" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of the node above two others."""
    return sha256(b"\1" + left + right).digest()


class Edge:
    """The right edge of a tree that grows.

    :param size: how many leaves the tree has.
    :param hashes: the roots of its complete subtrees, the largest one first: one for each bit of ``size`` that is 1.
    :raises ValueError: if there are more or fewer hashes, or one is none.
    """

    __slots__ = ("_hashes", "size")

    def __init__(self, size: int = 0, hashes: Iterable[bytes] = ()) -> None:
        self.size = size
        self._hashes = list(hashes)
        if size < 0 or len(self._hashes) != size.bit_count() or any(len(each) != HASH_BYTES for each in self._hashes):
            raise ValueError(f"not the right edge of a tree of {size} leaves: {len(self._hashes)} hashes")

    @property
    def hashes(self) -> tuple[bytes, ...]:
        """The roots of the complete subtrees, the largest one first."""
        return tuple(self._hashes)

    def copy(self) -> Edge:
        """The same edge, which grows on its own."""
        return Edge(self.size, self._hashes)

    def extend(self, hashed: Sequence[bytes]) -> None:
        """Add leaves, given the :func:`leaf_hash` of each."""
        at, count = 0, len(hashed)
        while at < count:
            # The largest complete subtree that may begin here.
            width = min(self.size & -self.size or _KEPT_FROM, _KEPT_FROM, 1 << ((count - at).bit_length() - 1))
            self._push(_complete(hashed[at : at + width]), width)
            at += width

    def _push(self, root: bytes, width: int) -> None:
        """Add a complete subtree."""
        carry = self.size // width
        while carry & 1:
            root = sha256(b"\1" + self._hashes.pop() + root).digest()
            carry >>= 1
        self._hashes.append(root)
        self.size += width

    def root(self) -> bytes:
        """The root hash of the tree."""
        if not self._hashes:
            return EMPTY_ROOT
        *others, root = self._hashes
        for each in reversed(others):
            root = node_hash(each, root)
        return root

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Edge) and (self.size, self._hashes) == (other.size, other._hashes)

    __hash__ = None  # type: ignore[assignment] # it grows


class Tree:
    """A tree whose leaf hashes are kept, so that it makes proofs.

    :param size: how many leaves it has.
    :param read: gives the hashes of the leaves from one index up to, but without, another, one after the other in one
        text. Its errors come out of the methods.
    :param known: roots of complete subtrees that are known, by the leaves from one index up to, but without, another.
    """

    def __init__(
        self,
        size: int,
        read: Callable[[int, int], bytes],
        known: Mapping[tuple[int, int], bytes] | None = None,
    ) -> None:
        self.size = size
        self._read = read
        self._kept = dict(known or {})

    def root(self, size: int | None = None) -> bytes:
        """The root hash of the tree when it had so many leaves, by default all of them."""
        size = self._checked(self.size if size is None else size)
        return self._hash(0, size) if size else EMPTY_ROOT

    def edge(self, size: int | None = None) -> Edge:
        """The right edge of the tree when it had so many leaves, by default all of them."""
        size = self._checked(self.size if size is None else size)
        hashes, begin = [], 0
        for bit in reversed(range(size.bit_length())):
            if size >> bit & 1:
                hashes.append(self._hash(begin, begin + (1 << bit)))
                begin += 1 << bit
        return Edge(size, hashes)

    def inclusion(self, index: int, size: int | None = None) -> list[bytes]:
        """The hashes from the sibling of a leaf up to the child of the root, of the tree when it had ``size`` leaves.

        :param index: of the leaf, from 0.
        :raises ValueError: if there is no such leaf.
        """
        size = self._checked(self.size if size is None else size)
        if not 0 <= index < size:
            raise ValueError(f"leaf {index} is not in a tree of {size} leaves")
        begin, end, path = 0, size, []
        while end - begin > 1:
            middle = begin + _left(end - begin)
            if index < middle:
                path.append((middle, end))
                end = middle
            else:
                path.append((begin, middle))
                begin = middle
        return [self._hash(*each) for each in reversed(path)]

    def consistency(self, old: int, size: int | None = None) -> list[bytes]:
        """The proof that a tree of ``old`` leaves is the beginning of the tree when it had ``size`` leaves.

        :raises ValueError: if it cannot be.
        """
        size = self._checked(self.size if size is None else size)
        if not 0 <= old <= size:
            raise ValueError(f"a tree of {old} leaves is not the beginning of a tree of {size} leaves")
        if old in (0, size):
            return []
        begin, end, path = 0, size, []
        while old < end:
            middle = begin + _left(end - begin)
            if old <= middle:
                path.append((middle, end))
                end = middle
            else:
                path.append((begin, middle))
                begin = middle
        own = [(begin, end)] if begin else []
        return [self._hash(*each) for each in [*own, *reversed(path)]]

    def _checked(self, size: int) -> int:
        if not 0 <= size <= self.size:
            raise ValueError(f"the tree has {self.size} leaves, not {size}")
        return size

    def _hash(self, begin: int, end: int) -> bytes:
        """The root of the subtree over some leaves, at least one."""
        width, kept = end - begin, self._kept.get((begin, end))
        if kept is not None:
            return kept
        if width < _KEPT_FROM:
            text = self._read(begin, end)
            if len(text) != width * HASH_BYTES:
                raise ValueError(f"the hashes of the leaves {begin} to {end - 1} are {len(text)} bytes")
            edge = Edge()
            edge.extend([text[at : at + HASH_BYTES] for at in range(0, len(text), HASH_BYTES)])
            return edge.root()
        middle = begin + _left(width)
        root = node_hash(self._hash(begin, middle), self._hash(middle, end))
        if width & (width - 1) == 0:
            self._kept[begin, end] = root
        return root


def _complete(hashed: Sequence[bytes]) -> bytes:
    """The root of a complete subtree, given the hashes of its leaves."""
    while len(hashed) > 1:
        hashed = [sha256(b"\1" + left + right).digest() for left, right in zip(hashed[::2], hashed[1::2], strict=True)]
    return hashed[0]


def _left(width: int) -> int:
    """How many leaves the left half of a tree of at least two leaves has."""
    return 1 << ((width - 1).bit_length() - 1)


def is_included(hashed: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether a proof leads from a leaf to the root of a tree. The algorithm of RFC 9162, section 2.1.3.2.

    :param hashed: the :func:`leaf_hash`; ``index`` counts from 0.
    :param proof: see :meth:`Tree.inclusion`.
    """
    if not 0 <= index < size:
        return False
    number, last, found = index, size - 1, hashed
    for each in proof:
        if last == 0:
            return False
        if number & 1 or number == last:
            found = node_hash(each, found)
            while not number & 1 and number:
                number >>= 1
                last >>= 1
        else:
            found = node_hash(found, each)
        number >>= 1
        last >>= 1
    return last == 0 and found == root


def is_consistent(old: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether a proof shows that a tree is the beginning of another one. The algorithm of RFC 9162, section 2.1.4.2.

    :param old: the size of the tree that may be the beginning, and ``old_root`` its root hash.
    :param proof: see :meth:`Tree.consistency`.
    """
    if not 0 <= old <= size:
        return False
    if old == 0:
        return not proof and old_root == EMPTY_ROOT and (size > 0 or root == EMPTY_ROOT)
    if old == size:
        return not proof and old_root == root
    hashes = list(proof) if old & (old - 1) else [old_root, *proof]
    if not proof:
        return False
    number, last = old - 1, size - 1
    while number & 1:
        number >>= 1
        last >>= 1
    first = second = hashes[0]
    for each in hashes[1:]:
        if last == 0:
            return False
        if number & 1 or number == last:
            first, second = node_hash(each, first), node_hash(each, second)
            while not number & 1 and number:
                number >>= 1
                last >>= 1
        else:
            second = node_hash(second, each)
        number >>= 1
        last >>= 1
    return last == 0 and first == old_root and second == root
